"""The pool of a dialogue, image by image, as an importer meets them. Knows the schema's roles, no source format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from yanami_dataset.errors import SourceError
from yanami_dataset.images import inspect, sha256
from yanami_dataset.importers.fields import text
from yanami_dataset.importers.sources import ImageSources, shown
from yanami_dataset.schema import ImageInfo

AssistantImages = Literal["target", "observed"]


class Pool:
    """Images in order of appearance. Every method gives the pool index of its image.

    `assistant_images` says what an assistant image is where it isn't said of the image itself. The mapping `said` is
    what the source says of one image: `role`, `source` and `license`, all optional.
    """

    def __init__(self, sources: ImageSources, assistant_images: str | None = None) -> None:
        self.images: list[bytes] = []
        self.info: list[ImageInfo] = []
        self._sources, self._assistant_images = sources, assistant_images

    def mention(self, source: Any, turn: int, said: Mapping[str, Any]) -> int:
        """An image that the user shows: the latest one with these bytes, else a new reference.

        Raises:
            SourceError: no source, an unreadable one, a role that isn't "reference".
            ImageError: what is there isn't an image that can be read safely.
        """
        if source is None:
            raise SourceError("expected the image that the user shows, got none: name it in the part or in images")
        if said.get("role") not in (None, "reference"):
            raise SourceError(f"expected a user image to be a reference, got role {shown(said['role'])}")
        data, name = self._sources.read(source)
        digest = sha256(data)
        known = [i for i, info in enumerate(self.info) if info.sha256 == digest]
        return known[-1] if known else self._add("reference", turn, data, name, said)

    def draw(self, source: Any, turn: int, said: Mapping[str, Any]) -> int:
        """What a slot holds, a target or an observed image: always a new entry, an undo repeats bytes.

        Raises:
            SourceError: nobody said which of the two it is, or an unreadable source.
            ImageError: what is there isn't an image that can be read safely.
        """
        role = said.get("role") or self._assistant_images
        if role not in ("target", "observed"):
            raise SourceError(
                f"expected to be told what an assistant image is, got role {shown(role)}: say "
                '"role": "target" (ground truth) or "role": "observed" (what some system drew) on the image, '
                "or --assistant-images target|observed for all"
            )
        data, name = self._sources.read(source)
        return self._add(role, turn, data, name, said)

    def _add(self, role: str, turn: int, data: bytes, name: str, said: Mapping[str, Any]) -> int:
        facts = inspect(data)
        source, license = text("source", said.get("source") or name), text("license", said.get("license") or "")
        self.images.append(data)
        self.info.append(ImageInfo(role, turn, sha256(data), facts.width, facts.height, source, license))
        return len(self.images) - 1
