"""Which checks an image gets: what its turn changed, what earlier turns stated, the rule, what a correction overruled.

What earlier turns stated is preferred where the last reference image doesn't show it: a system that copies that image
for ever must not pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from yanami_dataset.mini import probes
from yanami_dataset.mini.changes import VIEWS, Change
from yanami_dataset.mini.draft import DraftCheck
from yanami_dataset.mini.ledger import Ledger
from yanami_dataset.mini.picture import Topic, statement
from yanami_dataset.mini.probes import Probe, holds
from yanami_dataset.mini.rules import Rule
from yanami_dataset.mini.scene import Item

_NEW, _CARRIED = 3, 3  # most checks on one change, and on earlier turns
_FEW = 3  # with fewer atomic checks than this, one more is added
Corrections = dict[int, Change]  # by the ordinal of a change: the change that it overrules


def choose(
    ledger: Ledger,
    rng: Random,
    changes: list[Change],
    overruled: Corrections,
    rule: Rule,
    capability: str | None = None,
) -> tuple[DraftCheck, ...]:
    """Choose the checks on the picture as it is now.

    Args:
        ledger: with the changes of the slot already applied.
        rng: the source of chance.
        changes: what distinguishes the picture from the one before.
        overruled: for changes that correct another one, that other one.
        rule: the rule of the dialogue, checked as `constraint_keeping` as soon as it applies.
        capability: that of the new checks, where they need a certain one.
    """
    checks: list[DraftCheck] = []
    for n, change in enumerate(changes):
        fresh = news(ledger, rng, change)
        if n in overruled:
            checks += _correction(ledger, change, overruled[n], fresh[:_NEW])
        else:
            most = _NEW if len(changes) == 1 else _NEW - 1
            checks += [DraftCheck(probe, "atomic", capability or _spatial(probe)) for probe in fresh[:most]]
    touched = {change.who for change in changes}
    if any(change.verb in VIEWS for change in changes):
        touched = set(ledger.picture.ids)
    kept = rule.probe(ledger.picture, ledger.anchor(rng))
    if kept is not None:
        checks.append(DraftCheck(kept, "capability", "constraint_keeping"))
        ledger.maintain(Topic("rule"))
    chosen = _distinct([*checks, *_earlier(ledger, rng, touched)])
    if sum(check.kind == "atomic" for check in chosen) < _FEW or rng.random() < 0.5:
        chosen = _distinct([*chosen, *_unchanged(ledger, rng, touched)])
    return chosen


def _distinct(checks: Sequence[DraftCheck]) -> tuple[DraftCheck, ...]:
    """Each probe once; the first kind of check that asks it stays."""
    first: dict[str, DraftCheck] = {}
    for check in checks:
        first.setdefault(probes.dumps(check.probe), check)
    return tuple(first.values())


def _spatial(probe: Probe) -> str | None:
    return "spatial_physical_consistency" if probe["predicate"] in ("in_front", "relation") else None


def news(ledger: Ledger, rng: Random, change: Change) -> list[Probe]:
    """What a change made true, the main thing first: false before the change, true of the picture now.

    What the last reference shows as well (after an undo, say) is left out if something else remains.
    """
    stated = [statement(ledger.picture, topic, ledger.anchor(rng)) for topic in change.asserts]
    found = [probe for probe in stated if probe is not None and probe["predicate"] != "present"]
    main = [probe for probe in stated if probe is not None and probe["predicate"] == "present"]
    if change.verb in VIEWS:
        depth = [probe for probe in found if probe["predicate"] == "in_front"]
        found = depth + _shuffled(rng, found[len(depth) :])
    elif change.verb in ("add", "bring", "undo") and found:
        main = []  # where the object is says that it is there
    more = _shuffled(rng, [probe for probe in _consequences(ledger, rng, change) if probe is not None])
    now, before = ledger.picture.scene, change.before.scene
    true = [probe for probe in main + found + more if holds(now, probe) and not holds(before, probe)]
    return [probe for probe in true if ledger.is_news(probe)] or true


def _consequences(ledger: Ledger, rng: Random, change: Change) -> list[Probe | None]:
    """What else is true now: an old kind or place is gone, the number is another, sides have changed."""
    before, after = change.before, ledger.picture
    if change.verb in VIEWS:
        pairs = [(one, other) for one in after.ids for other in after.ids if one < other]
        return [
            _relation(after.item(one), after.item(other), rng) for one, other in rng.sample(pairs, min(4, len(pairs)))
        ]
    item, old = after.find(change.who), before.find(change.who)
    if item is None or old is None:
        return [probes.count(len(after.ids))] if len(after.ids) != len(before.ids) and len(before.ids) else []
    if item.kind != old.kind:
        return [probes.absent(item, colour=old.colour, shape=old.shape)]
    if item.cell != old.cell:
        other = rng.choice([who for who in after.ids if who != change.who] or [change.who])
        return [probes.empty(old.cell, item), _relation(item, after.item(other), rng)]
    return []


def _relation(item: Item, other: Item, rng: Random) -> Probe | None:
    """How two objects stand to each other, as far as their cells tell: no text says where in its cell one lies."""
    (row, column), (other_row, other_column) = item.cell.split(" "), other.cell.split(" ")
    differs = {"left of": column != other_column, "right of": column != other_column}
    words = [word for word in probes.relations(item, other) if differs.get(word, row != other_row)]
    return probes.relation(item, other, rng.choice(words)) if words else None


def _correction(ledger: Ledger, change: Change, wrong: Change, fresh: list[Probe]) -> list[DraftCheck]:
    """The corrected value as atomic checks; as a capability check that the overruled one has left nothing behind."""
    item = ledger.picture.item(change.who)
    if change.verb == "recolour":
        shade = wrong.value if wrong.verb == "recolour" else change.old
        left = probes.absent(item, colour=shade, shape=item.shape)
    else:
        left = probes.empty(wrong.value, item)
    checks = [DraftCheck(probe, "atomic", "correction_updating") for probe in fresh if probe != left]
    if holds(ledger.picture.scene, left):
        return [*checks, DraftCheck(left, "capability", "correction_updating")]
    return [DraftCheck(fresh[0], "capability", "correction_updating"), *checks[1:]]


def _earlier(ledger: Ledger, rng: Random, touched: set[str]) -> list[DraftCheck]:
    """Facts of earlier turns that the last reference doesn't show, the newest correction among them as a capability.

    Where there are few, an object that looks new is also checked for what nobody mentioned: its size, its place.
    """
    news = [(topic, probe) for topic, probe in ledger.carried(rng) if ledger.is_news(probe)]
    fixed = [pair for pair in news if ledger.facts[pair[0]].corrected]
    last = max(fixed, key=lambda pair: ledger.facts[pair[0]].since, default=None)
    checks = []
    if last is not None:
        ledger.maintain(last[0])
        checks.append(DraftCheck(last[1], "capability", "correction_updating"))
    stated = [pair for pair in news if pair != last][:_CARRIED]
    for topic, _ in stated:
        ledger.maintain(topic)
    carried = [probe for _, probe in stated] + _unmentioned(ledger, rng, touched)
    checks += [
        DraftCheck(probe, "atomic", _spatial(probe) or "consistency_maintenance") for probe in carried[:_CARRIED]
    ]
    return checks


def _shuffled(rng: Random, found: list[Probe]) -> list[Probe]:
    return rng.sample(found, len(found))


def _unmentioned(ledger: Ledger, rng: Random, touched: set[str]) -> list[Probe]:
    items = [ledger.picture.item(who) for who in ledger.picture.ids if who not in touched]
    found = [statement(item) for item in items for statement in (probes.cell, probes.size)]
    return _shuffled(rng, [probe for probe in found if ledger.is_news(probe)])


def _unchanged(ledger: Ledger, rng: Random, touched: set[str]) -> list[DraftCheck]:
    """How many objects there are, or how two stand to each other that weren't touched."""
    picture = ledger.picture
    still = [picture.item(who) for who in picture.ids if who not in touched]
    found = [_relation(one, other, rng) for one in still for other in still if one != other]
    known = [probe for probe in [probes.count(len(picture.ids)), *found] if probe is not None]
    news = [probe for probe in known if ledger.is_news(probe)]
    probe = rng.choice(news if news and rng.random() < 0.7 else known)
    return [DraftCheck(probe, "atomic", _spatial(probe) or "consistency_maintenance")]
