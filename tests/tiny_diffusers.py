"""Tiny pipelines of the real diffusers classes with random weights, saved as folders that `from_pretrained` loads.

Weights are drawn from N(0, 0.3): with the default initialisation a model ignores what it is given.
"""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any

from tests.tiny_transformers import tokenizer

CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
KLEIN_CALL = {"num_inference_steps": 2, "text_encoder_out_layers": (1, 2), "max_sequence_length": 256}
KONTEXT_CALL = {"num_inference_steps": 2, "max_area": 64 * 64, "_auto_resize": False, "max_sequence_length": 256}
PIX2PIX_CALL = {"num_inference_steps": 2}
OMNIGEN_CALL = {"num_inference_steps": 2, "max_input_image_size": 64}
_T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "is_encoder_decoder": False}


def save(folder: Path, pipeline: Any, seed: int, width: float = 0.3) -> Path:
    """Draw the weights and write the pipeline."""
    import torch

    torch.manual_seed(seed)
    with torch.no_grad():
        for _, component in sorted(pipeline.components.items()):
            for parameter in component.parameters() if isinstance(component, torch.nn.Module) else ():
                parameter.normal_(0, width)
    pipeline.save_pretrained(folder)
    return folder


def klein(folder: Path, seed: int = 0) -> Path:
    """A Flux2Klein: several reference images for one prompt; call it with KLEIN_CALL."""
    from diffusers import AutoencoderKLFlux2, Flux2KleinPipeline, Flux2Transformer2DModel
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokens = tokenizer({})
    tokens.chat_template = CHAT
    text = Qwen3Config(vocab_size=len(tokens), head_dim=8, **_text(tokens))
    transformer = Flux2Transformer2DModel(
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=2 * text.hidden_size,
        timestep_guidance_channels=16,
        axes_dims_rope=(4, 4, 4, 4),
        guidance_embeds=False,
    )
    vae = AutoencoderKLFlux2(latent_channels=4, sample_size=64, **_blocks(3))
    pipeline = Flux2KleinPipeline(_euler(), vae, Qwen3ForCausalLM(text), tokens, transformer, is_distilled=False)
    return save(folder, pipeline, seed)


def kontext(folder: Path, seed: int = 0) -> Path:
    """A FluxKontext: one image for each prompt of a batch; call it with KONTEXT_CALL."""
    from diffusers import FluxKontextPipeline, FluxTransformer2DModel
    from transformers import T5Config, T5EncoderModel

    tokens, second = tokenizer({}), tokenizer({})
    tokens.model_max_length = 77
    transformer = FluxTransformer2DModel(
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=16,
        pooled_projection_dim=16,
        axes_dims_rope=(4, 4, 8),
        guidance_embeds=True,
    )
    text = T5EncoderModel(T5Config(vocab_size=len(second), **_T5))
    pipeline = FluxKontextPipeline(_euler(), _vae(3), _clip(tokens), tokens, text, second, transformer)
    return save(folder, pipeline, seed)


def pix2pix(folder: Path, seed: int = 0) -> Path:
    """An InstructPix2Pix: one image for each prompt of a batch, none drawn without; call it with PIX2PIX_CALL."""
    from diffusers import StableDiffusionInstructPix2PixPipeline

    return save(folder, _stable_diffusion(StableDiffusionInstructPix2PixPipeline, channels=8), seed)


def stable_diffusion(folder: Path, seed: int = 0) -> Path:
    """A StableDiffusion: takes no image; call it with PIX2PIX_CALL."""
    from diffusers import StableDiffusionPipeline

    return save(
        folder,
        _stable_diffusion(StableDiffusionPipeline, channels=4),
        seed,
    )


def omnigen(folder: Path, seed: int = 0) -> Path:
    """An OmniGen: a list of images for each prompt, at placeholders; call it with OMNIGEN_CALL, after `stand_in`."""
    from diffusers import OmniGenPipeline, OmniGenTransformer2DModel

    tokens = tokenizer({})
    transformer = OmniGenTransformer2DModel(
        in_channels=4,
        hidden_size=16,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=32,
        num_layers=1,
        pad_token_id=tokens.pad_token_id,
        vocab_size=len(tokens),
        rope_scaling={"long_factor": [1.0] * 4, "short_factor": [1.0] * 4},
        time_step_dim=16,
    )
    return save(folder, OmniGenPipeline(transformer, _euler(), _vae(4), tokens), seed, width=0.6)


def safety_checker(threshold: float) -> dict[str, Any]:
    """Stable Diffusion's checker with what it needs, for `register_modules`; -2 flags every image and 2 none."""
    from diffusers.pipelines.stable_diffusion import StableDiffusionSafetyChecker
    from transformers import CLIPConfig, CLIPImageProcessorPil

    vision = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 32,
        "patch_size": 16,
    }
    checker = StableDiffusionSafetyChecker(CLIPConfig(vision_config=vision, projection_dim=8))
    checker.concept_embeds_weights.fill_(threshold)
    checker.special_care_embeds_weights.fill_(2)
    size = {"height": 32, "width": 32}
    return {
        "safety_checker": checker,
        "feature_extractor": CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=size),
    }


def load(folder: Path) -> Any:
    """The pipeline itself, as a user would have it in a notebook."""
    from diffusers import DiffusionPipeline

    return DiffusionPipeline.from_pretrained(folder)


def _text(tokens: Any) -> dict[str, Any]:
    return {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "pad_token_id": tokens.pad_token_id,
    }


def _euler() -> Any:
    from diffusers import FlowMatchEulerDiscreteScheduler

    return FlowMatchEulerDiscreteScheduler()


def _vae(levels: int = 2, **more: Any) -> Any:
    from diffusers import AutoencoderKL

    return AutoencoderKL(latent_channels=4, shift_factor=0.0, scaling_factor=1.0, **_blocks(levels), **more)


def _blocks(levels: int) -> dict[str, Any]:
    return {
        "block_out_channels": (8,) * levels,
        "down_block_types": ("DownEncoderBlock2D",) * levels,
        "up_block_types": ("UpDecoderBlock2D",) * levels,
        "norm_num_groups": 4,
        "layers_per_block": 1,
    }


def _clip(tokens: Any) -> Any:
    from transformers import CLIPTextConfig, CLIPTextModel

    config = CLIPTextConfig(
        vocab_size=len(tokens),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=tokens.model_max_length,
        pad_token_id=tokens.pad_token_id,
        bos_token_id=tokens.bos_token_id,
        eos_token_id=tokens.eos_token_id,
    )
    return CLIPTextModel(config)


def _stable_diffusion(kind: Any, channels: int) -> Any:
    from diffusers import DDIMScheduler, UNet2DConditionModel

    tokens = tokenizer({})
    tokens.model_max_length = 600  # CLIP's is 77, of words; a byte-level tokenizer needs more
    unet = UNet2DConditionModel(
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        in_channels=channels,
        out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=4,
    )
    scheduler = DDIMScheduler(steps_offset=1, clip_sample=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*requires_safety_checker.*")
        return kind(_vae(4), _clip(tokens), tokens, unet, scheduler, None, None, requires_safety_checker=False)


class _Transforms:
    """The four functions of torchvision.transforms that OmniGen's processor uses, where torchvision isn't installed."""

    @staticmethod
    def Compose(steps: Any) -> Any:
        return lambda image: functools.reduce(lambda value, step: step(value), steps, image)

    @staticmethod
    def Lambda(function: Any) -> Any:
        return function

    @staticmethod
    def ToTensor() -> Any:
        import numpy as np
        import torch

        return lambda image: torch.from_numpy(np.asarray(image).transpose(2, 0, 1).astype(np.float32) / 255)

    @staticmethod
    def Normalize(mean: Any, std: Any, inplace: bool) -> Any:
        return lambda tensor: (tensor - mean[0]) / std[0]


def stand_in() -> None:
    """Let diffusers' OmniGen run without torchvision, which can't be installed beside a CPU build of torch 2.13.

    Everything else of the pipeline is the real thing.
    """
    from diffusers.pipelines.omnigen import pipeline_omnigen, processor_omnigen

    if not hasattr(pipeline_omnigen, "OmniGenMultiModalProcessor"):
        processor_omnigen.transforms = _Transforms
        pipeline_omnigen.OmniGenMultiModalProcessor = processor_omnigen.OmniGenMultiModalProcessor
