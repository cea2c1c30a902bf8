"""Makes the target images of dialogues-with-targets.jsonl from images/coffee.jpg: run it in this folder."""

from pathlib import Path

from PIL import Image, ImageEnhance, ImageOps

FOLDER = Path(__file__).parent / "images"
CROP = (62, 0, 488, 341)  # 426 x 341 pixels, 5:4, with the whole saucer


def main() -> None:
    mirrored = ImageOps.mirror(Image.open(FOLDER / "coffee.jpg"))
    brighter = ImageEnhance.Brightness(mirrored).enhance(1.3)
    targets = {
        "coffee-mirrored": mirrored,
        "coffee-grey": ImageOps.grayscale(mirrored),
        "coffee-brighter": brighter,
        "coffee-cropped": brighter.crop(CROP),
    }
    for name, image in targets.items():
        image.save(FOLDER / f"{name}.jpg", quality=85, optimize=True)


if __name__ == "__main__":
    main()
