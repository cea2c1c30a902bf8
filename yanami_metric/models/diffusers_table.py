"""What each pipeline class of diffusers takes. The library declares none of it, so it is written down here, by name.

Each entry was read off the class's source in diffusers 0.42.1; `run_here` says whether our tests also run it. A class
that isn't listed is refused until the user declares it. Knows names and numbers only and imports no library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from yanami_dataset.errors import SpecError

ListMeaning = Literal["none", "single", "shared_flat", "one_per_prompt", "nested_equal", "nested_ragged"]
MEANINGS: dict[str, str] = {
    "none": "takes no images",
    "single": "one image, one prompt a call",
    "shared_flat": "a list of images that all prompts of a call share",
    "one_per_prompt": "a list with one image for each prompt",
    "nested_equal": "a list of equally many images for each prompt",
    "nested_ragged": "a list of any number of images for each prompt",
}
ITSELF = "itself"
MAX_PIXELS = 2048 * 2048
BATCH = 8


@dataclass(frozen=True, slots=True)
class PipelineClass:
    """What a pipeline class takes.

    Args:
        list: what a list of images means to it, one of MEANINGS.
        image: the name of the argument that takes images.
        guidance: the names of its guidance arguments.
        no_image: how it draws with no image: "itself", the name of a class made of the same components, "" not at all.
        min_side: pixels; smaller images are enlarged, and nothing smaller is asked for.
        multiple: pixels; width and height asked for are rounded to it.
        max_pixels: a larger size isn't asked for.
        max_aspect: the longer side of an image by the shorter; None: no limit.
        max_images: None: no limit that is known.
        prompt_tokens: what it cuts a prompt at: a number that the call's `max_sequence_length` overrides, "model" for
            the tokenizers' own `model_max_length`, None where it doesn't cut.
        tokenizers: the components that count.
        chat: how it wraps the prompt before counting: "" not, "user" by the chat template, "flux2" with its system
            message too.
        around: what it puts around a prompt, with {} in its place.
        image_tokens: what each image takes away from `prompt_tokens`.
        mention: how its prompts call the k-th image, with {} for k.
        placeholder: what its prompt must have once for each image, with {} for k; "" for none.
        defaults: arguments of the call that we set unless the user does.
        max_batch: prompts a call; 1 where a batch isn't possible, or its noise isn't each sample's own.
        output: the attribute of its result.
        run_here: whether our tests run it.
    """

    list: ListMeaning
    image: str = "image"
    guidance: tuple[str, ...] = ("guidance_scale",)
    no_image: str = ""
    min_side: int = 16
    multiple: int = 16
    max_pixels: int = MAX_PIXELS
    max_aspect: float | None = None
    max_images: int | None = None
    prompt_tokens: int | Literal["model"] | None = None
    tokenizers: tuple[str, ...] = ("tokenizer",)
    chat: Literal["", "user", "flux2"] = ""
    around: str = "{}"
    image_tokens: int = 0
    mention: str = "[Image {}]"
    placeholder: str = ""
    defaults: tuple[tuple[str, Any], ...] = ()
    max_batch: int = 1
    output: str = "images"
    run_here: bool = False

    def __post_init__(self) -> None:
        if self.list not in get_args(ListMeaning):
            raise SpecError(f"declare.list: expected one of {', '.join(MEANINGS)}, got {self.list!r}")

    @property
    def most_images(self) -> int | None:
        """The most images for one prompt, by the meaning of its list too."""
        by_list = {"none": 0, "single": 1, "one_per_prompt": 1}
        return by_list.get(self.list, self.max_images)

    @property
    def summary(self) -> str:
        """One line for `yanami models`."""
        parts = [MEANINGS[self.list]]
        parts += [f"at most {self.max_images}"] if self.max_images else []
        if self.list != "none":
            forms = {"": "needs an image", ITSELF: "draws without too"}
            parts.append(forms.get(self.no_image, f"without: {self.no_image}"))
        if self.prompt_tokens is not None:
            limit = "its tokenizer's" if self.prompt_tokens == "model" else str(self.prompt_tokens)
            parts.append(f"{limit} prompt tokens")
        parts.append(f"batches of {self.max_batch}" if self.max_batch > 1 else "one by one")
        parts += [] if self.run_here else ["not run here"]
        return "; ".join(parts)


_FLUX2 = PipelineClass(
    "shared_flat",
    no_image=ITSELF,
    min_side=64,
    max_aspect=8,
    prompt_tokens=512,
    chat="user",
    max_batch=BATCH,
)
_QWEN_EDIT = PipelineClass(
    "single",
    # guidance is off without a negative prompt; a blank is what the model's card uses
    defaults=(("negative_prompt", " "),),
    guidance=("true_cfg_scale", "guidance_scale"),
    no_image="QwenImagePipeline",
)
_JOY = PipelineClass(
    "single",
    no_image=ITSELF,
    # keeps the last 4096 tokens, images among them: each is scaled to about a megapixel, 1024 tokens and its marks
    prompt_tokens=4096,
    image_tokens=1026,
)
_STABLE_DIFFUSION = PipelineClass(
    "none", image="", no_image=ITSELF, min_side=64, multiple=8, prompt_tokens="model", max_batch=BATCH
)

CLASSES: dict[str, PipelineClass] = {
    # several images
    "Flux2KleinPipeline": replace(_FLUX2, run_here=True),
    "Flux2KleinKVPipeline": replace(_FLUX2, guidance=()),
    "Flux2Pipeline": replace(_FLUX2, chat="flux2"),
    "QwenImageEditPlusPipeline": replace(_QWEN_EDIT, list="shared_flat", mention="Picture {}"),
    "QwenImage21Pipeline": PipelineClass(
        "shared_flat",
        guidance=("true_cfg_scale",),
        no_image=ITSELF,
        multiple=32,
        tokenizers=("processor",),
        mention="<image{}>",
        max_batch=BATCH,
    ),
    "BriaFibo2Pipeline": PipelineClass(
        "shared_flat",
        no_image=ITSELF,
        max_images=5,
        # 4096 tokens, images among them: Qwen3-VL sees at most 768 x 768 pixels of each, 576 tokens and its marks
        prompt_tokens=4096,
        image_tokens=600,
        tokenizers=("processor",),
        mention="<image_{}>",
        max_batch=BATCH,
    ),
    "ZImageOmniPipeline": PipelineClass(
        "shared_flat",
        no_image=ITSELF,
        min_side=64,
        max_aspect=8,
        prompt_tokens=512,
        around="<|vision_end|>{}<|im_end|>\n<|im_start|>assistant\n<|vision_start|>",
    ),
    "OmniGenPipeline": PipelineClass(
        "nested_ragged",
        image="input_images",
        guidance=("guidance_scale", "img_guidance_scale"),
        no_image=ITSELF,
        placeholder="<img><|image_{}|></img>",
        # its VAE draws from torch's global generator, which a batch shares
        max_batch=1,
        run_here=True,
    ),
    "GlmImagePipeline": PipelineClass(
        "nested_equal",
        no_image=ITSELF,
        min_side=32,
        multiple=32,
        # its language model samples from torch's global generator, seeded by the first of a batch. Not run here:
        # diffusers 0.42.1 hands transformers 5.24 its image features in a form that it doesn't take
        max_batch=1,
    ),
    "JoyImageEditPlusPipeline": replace(_JOY, list="nested_ragged", image="images", max_images=3, max_batch=BATCH),
    # one image
    "FluxKontextPipeline": PipelineClass(
        "one_per_prompt",
        guidance=("guidance_scale", "true_cfg_scale"),
        no_image=ITSELF,
        prompt_tokens=512,
        tokenizers=("tokenizer_2",),  # the first tokenizer only makes a pooled vector, cut at 77 by design
        max_batch=BATCH,
        run_here=True,
    ),
    "StableDiffusionInstructPix2PixPipeline": PipelineClass(
        "one_per_prompt",
        guidance=("guidance_scale", "image_guidance_scale"),
        min_side=64,
        multiple=8,
        prompt_tokens="model",
        max_batch=BATCH,
        run_here=True,
    ),
    "StableDiffusionXLInstructPix2PixPipeline": PipelineClass(
        "one_per_prompt",
        guidance=("guidance_scale", "image_guidance_scale"),
        min_side=64,
        multiple=8,
        prompt_tokens="model",
        tokenizers=("tokenizer", "tokenizer_2"),
        max_batch=BATCH,
    ),
    "QwenImageEditPipeline": _QWEN_EDIT,
    "JoyImageEditPipeline": _JOY,
    "LongCatImageEditPipeline": PipelineClass("single", no_image="LongCatImagePipeline", prompt_tokens=512),
    "DreamLitePipeline": PipelineClass(
        "single",
        guidance=("guidance_scale", "image_guidance_scale"),
        no_image=ITSELF,
        # cuts only where there is no image; a dialogue with images isn't left longer than one without
        prompt_tokens=200,
    ),
    "DreamLiteMobilePipeline": PipelineClass("single", guidance=(), no_image=ITSELF, prompt_tokens=200),
    "Kandinsky5I2IPipeline": PipelineClass(
        "single",
        # 1024 tokens, the image among them, which it sees at half its size
        prompt_tokens=1024,
        image_tokens=512,
        output="image",
    ),
    # none: for slots with no image in view, and for what a model makes of the text alone
    "StableDiffusionPipeline": replace(_STABLE_DIFFUSION, run_here=True),
    "StableDiffusionXLPipeline": replace(_STABLE_DIFFUSION, tokenizers=("tokenizer", "tokenizer_2")),
    "StableDiffusion3Pipeline": replace(_STABLE_DIFFUSION, multiple=16, prompt_tokens=256, tokenizers=("tokenizer_3",)),
    "FluxPipeline": replace(
        _STABLE_DIFFUSION,
        guidance=("guidance_scale", "true_cfg_scale"),
        multiple=16,
        prompt_tokens=512,
        tokenizers=("tokenizer_2",),
    ),
    "QwenImagePipeline": replace(
        _STABLE_DIFFUSION,
        guidance=("true_cfg_scale", "guidance_scale"),
        defaults=(("negative_prompt", " "),),
        multiple=16,
        prompt_tokens=512,
    ),
    # its language model rewrites the prompt and may draw from torch's global generator
    "LongCatImagePipeline": replace(_STABLE_DIFFUSION, multiple=16, prompt_tokens=512, max_batch=1),
    "ZImagePipeline": replace(_STABLE_DIFFUSION, multiple=16, prompt_tokens=512, chat="user"),
}

_LISTS = {field.name for field in fields(PipelineClass) if field.name in ("guidance", "tokenizers", "defaults")}


def lookup(name: str, declared: Mapping[str, Any] | None = None) -> PipelineClass:
    """The entry of a class, with what the user declares going before it.

    Raises:
        SpecError: an unknown class, with the list of what to declare; or a declaration that makes no sense.

    >>> lookup("FluxKontextPipeline").list
    'one_per_prompt'
    >>> lookup("MyPipeline", {"list": "shared_flat", "image": "refs"}).image
    'refs'
    """
    declared = {key: _tuple(key, value) for key, value in (declared or {}).items()}
    names = [field.name for field in fields(PipelineClass) if field.name != "run_here"]
    if unknown := set(declared) - set(names):
        raise SpecError(f"declare.{', declare.'.join(sorted(unknown))}: expected names among {', '.join(names)}")
    if name in CLASSES:
        return replace(CLASSES[name], **declared)
    if "list" not in declared:
        raise SpecError(_what_to_declare(name, names))
    return PipelineClass(**declared)


def _tuple(key: str, value: Any) -> Any:
    if key == "defaults" and isinstance(value, Mapping):
        return tuple(value.items())
    if key in _LISTS:
        return tuple([value] if isinstance(value, str) else value)
    return value


def _what_to_declare(name: str, names: list[str]) -> str:
    meanings = "\n".join(f"    declare.list={key:15} {text}" for key, text in MEANINGS.items())
    more = ", ".join(name for name in names if name not in ("list", "image", "no_image"))
    return (
        f"{name}: not in the table of pipeline classes, and what a list of images means differs by class. Look at its "
        f"__call__ and declare it, on the command line with --set:\n{meanings}\n"
        "    declare.image=NAME           the argument that takes images, by default image\n"
        "    declare.no_image=itself      if it draws without an image too\n"
        f"  and where they differ from the defaults: {more}; or write a class of your own around it (module:Class). "
        f"Known are {', '.join(CLASSES)}"
    )
