"""Tiny models of the real transformers classes with random weights, saved as folders that `from_pretrained` loads.

Weights are drawn from N(0, 0.3): with the default initialisation a model ignores what it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: "
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
)
JANUS_TEMPLATE = TEMPLATE.replace("<image>", "<image_placeholder>")

POSITIONS = 2048
# tokens that are no printable ASCII: the others start with those, and </s> is 257
UNPRINTABLE = [token for token in range(94, 400) if token != 257]
SIDE, PATCH = 8, 4  # of what LLaVA and Janus see: 4 image tokens
_TEXT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": POSITIONS,
}


def tokenizer(special: dict[str, str], more: Sequence[str] = ()) -> Any:
    """A byte-level tokenizer: 256 bytes, <s> </s> <pad>, the special tokens by their attribute's name, and more."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    model = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    ends = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    made = PreTrainedTokenizerFast(tokenizer_object=model, extra_special_tokens=special, **ends)
    made.add_tokens(list(more))
    return made


def widen(model: Any, seed: int) -> None:
    """Draw all weights from N(0, 0.3), so that what goes in matters."""
    import torch

    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)


def llava(folder: Path, seed: int = 0, template: str | None = TEMPLATE, positions: int = POSITIONS) -> Path:
    """A LLaVA: CLIP with four patches, a two-layer Llama that looks at so many tokens."""
    from transformers import (
        CLIPImageProcessorPil,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    tokens = tokenizer({"image_token": "<image>"})
    vision = CLIPVisionConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=SIDE,
        patch_size=PATCH,
    )
    text = LlamaConfig(
        vocab_size=len(tokens),
        pad_token_id=tokens.pad_token_id,
        **_ids(tokens),
        **{**_TEXT, "max_position_embeddings": positions},
    )
    config = LlavaConfig(vision_config=vision, text_config=text, image_token_index=tokens.image_token_id)
    model = LlavaForConditionalGeneration(config)
    size = {"height": SIDE, "width": SIDE}
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=size),
        tokenizer=tokens,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template,
    )
    return _save(folder, model, processor, seed)


def janus(folder: Path, seed: int = 0) -> Path:
    """A Janus: sees 16 x 16 pixels as 16 tokens, and draws as many from a vocabulary of 64."""
    from transformers import (
        JanusConfig,
        JanusForConditionalGeneration,
        JanusImageProcessorPil,
        JanusProcessor,
        JanusVisionConfig,
        JanusVQVAEConfig,
        LlamaConfig,
    )

    names = {"image_token": "<image_placeholder>", "boi_token": "<begin_of_image>", "eoi_token": "<end_of_image>"}
    tokens, half = tokenizer(names), [0.5] * 3
    text = LlamaConfig(vocab_size=len(tokens), pad_token_id=tokens.pad_token_id, **_ids(tokens), **_TEXT)
    vision = JanusVisionConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=16,
        patch_size=4,
        num_image_tokens=16,
        projection_dim=32,
        mlp_ratio=2.0,
    )
    pixels = JanusVQVAEConfig(
        num_embeddings=64,
        latent_channels=8,
        base_channels=32,
        channel_multiplier=(1, 1, 2),
        num_res_blocks=1,
        projection_dim=32,
        image_token_embed_dim=32,
    )
    config = JanusConfig(
        text_config=text,
        vision_config=vision,
        vq_config=pixels,
        image_token_id=tokens.image_token_id,
        tie_word_embeddings=False,
    )
    images = JanusImageProcessorPil(size={"height": 16, "width": 16}, min_size=2, image_mean=half, image_std=half)
    processor = JanusProcessor(images, tokens, chat_template=JANUS_TEMPLATE, num_image_tokens=16)
    return _save(folder, JanusForConditionalGeneration(config), processor, seed)


def emu3(folder: Path, seed: int = 0) -> Path:
    """An Emu3: 8 x 8 pixels are one of 64 visual tokens."""
    from transformers import (
        Emu3Config,
        Emu3ForConditionalGeneration,
        Emu3ImageProcessor,
        Emu3Processor,
        Emu3TextConfig,
        Emu3VQVAEConfig,
    )

    names = {
        "image_token": "<image>",
        "boi_token": "<|image start|>",
        "eoi_token": "<|image end|>",
        "image_wrapper_token": "<|image token|>",
        "eof_token": "<|extra_201|>",
    }
    tokens = tokenizer(names, [*(f"<|visual token {i:06d}|>" for i in range(64)), "<|extra_200|>"])
    text = Emu3TextConfig(vocab_size=len(tokens), pad_token_id=tokens.pad_token_id, **_ids(tokens), **_TEXT)
    pixels = Emu3VQVAEConfig(
        codebook_size=64, base_channels=32, channel_multiplier=(1, 1, 1, 1), num_res_blocks=1, hidden_size=32
    )
    config = Emu3Config(vq_config=pixels, text_config=text, vocabulary_map=tokens.get_vocab())
    processor = Emu3Processor(Emu3ImageProcessor(min_pixels=256, max_pixels=1024), tokens, chat_template=TEMPLATE)
    return _save(folder, Emu3ForConditionalGeneration(config), processor, seed)


def _ids(tokens: Any) -> dict[str, int]:
    return {"bos_token_id": tokens.bos_token_id, "eos_token_id": tokens.eos_token_id}


def _save(folder: Path, model: Any, processor: Any, seed: int) -> Path:
    widen(model, seed)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
