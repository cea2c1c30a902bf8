"""The pixel judge on intact and minimally broken scenes of random kinds: pass the one, fail the other.

Run with `-s` to see the figures; `benchmarks/pixel_judge.py` has more scenes and a table by predicate, size and codec.
"""

import pytest

from benchmarks.pairs import CODECS, PREDICATES, SIZES, make_group, run
from yanami_dataset.mini.probes import holds
from yanami_dataset.mini.scene import is_valid

FIRST_SEED = 10_000_000  # the judge was tuned on seeds below


@pytest.mark.timeout(600)
def test_intact_images_pass_and_broken_ones_fail():
    tally = run(range(FIRST_SEED, FIRST_SEED + 240), sizes=(128, 256, 512, 128, 256, 512, 1024))
    print()
    for line in [*tally.lines(), *tally.errors]:
        print(line)
    assert tally.agreement()[0] >= 2000
    assert tally.unbreakable == 0
    assert tally.misread <= 0.02 * tally.groups
    for predicate in PREDICATES:
        pairs, passed, failed = tally.agreement(predicate=predicate)
        assert pairs >= 150
        assert passed >= 0.99 and failed >= 0.99, (predicate, passed, failed, tally.errors)
    for size in SIZES:
        for codec in CODECS:
            pairs, passed, failed = tally.agreement(size=size, codec=codec)
            assert pairs >= 50
            assert passed >= 0.98 and failed >= 0.98, (size, codec, passed, failed, tally.errors)


def test_pairs_differ_in_the_truth_of_their_probe():
    for seed in range(20):
        group = make_group(seed)
        assert is_valid(group.scene)
        for probe, broken in group.broken.values():
            assert is_valid(broken)
            assert holds(group.scene, probe) and not holds(broken, probe)
