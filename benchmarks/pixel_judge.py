"""How often the pixel judge passes intact images and fails broken ones, and what it costs.

python benchmarks/pixel_judge.py [SCENES]   about one pair for each scene and predicate; by default 1,400

The seeds are others than those that the judge was tuned on (below 10,000,000).
"""

from __future__ import annotations

import sys

from pairs import CODECS, PREDICATES, SIZES, run

FIRST_SEED = 20_000_000


def main() -> None:
    scenes = int(sys.argv[1]) if len(sys.argv) > 1 else 1400
    tally = run(range(FIRST_SEED, FIRST_SEED + scenes))
    for line in tally.lines():
        print(line)
    print("\nintact passed / broken failed, in %")
    print(f"{'':12}" + "".join(f"{f'{size} {codec}':>16}" for size in SIZES for codec in CODECS))
    for predicate in PREDICATES:
        cells = (tally.agreement(predicate=predicate, size=size, codec=codec) for size in SIZES for codec in CODECS)
        texts = (f"{100 * passed:.1f}/{100 * failed:.1f}" if total else "-" for total, passed, failed in cells)
        print(f"{predicate:12}" + "".join(f"{text:>16}" for text in texts))
    print("\nevery error: seed, size, codec, image, probe, what was seen")
    print("\n".join(tally.errors) or "none")


if __name__ == "__main__":
    main()
