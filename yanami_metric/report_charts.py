"""Charts as inline SVG: `finding.Chart` as a picture that needs neither scripts nor files.

What is told by colour is also told by shape, dash or hatch, and by labels: the colours (Okabe and Ito's) come from
the page's style sheet by the classes `s0` to `s6`, so that they suit light and dark. It knows no scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from yanami_metric.analysis.finding import Chart, Series

if TYPE_CHECKING:
    from markupsafe import Markup

WIDTH, HEIGHT = 460, 240  # of the picture, in its own units
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 10, 12, 40
_COLOURS = 7
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 2", "10 4", "4 2")
_MARKS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-4.8l4.4 8h-8.8z",
    "M0-5l4.6 5l-4.6 5l-4.6-5z",
    "M0 4.8l4.4-8h-8.8z",
    "M-4.5-1.5h3v-3h3v3h3v3h-3v3h-3v-3h-3z",
    "M0-5l5 3.6l-1.9 5.8h-6.2l-1.9-5.8z",
)
_HATCHES = ("", "M0 6L6 0", "M0 3H6", "M0 0L6 6", "M3 0V6", "M0 6L6 0M0 0L6 6", "M0 3H6M3 0V6")


def svg(chart: Chart) -> Markup:
    """A chart as an SVG element with its legend, "" where it has no point.

    Args:
        chart: `lines` over numbers, with bands as intervals, or `bars` over names, with whiskers.

    The drawing, and a small one that is the key of its line:

    >>> one = Series("gt", (1.0, 2.0), (80.0, 60.0), (75.0, 50.0), (85.0, 70.0))
    >>> drawn = svg(Chart("VR by turn", "lines", "turn", "VR", (one,), (0, 100)))
    >>> drawn.startswith('<figure class="chart"'), drawn.count("<svg"), drawn.count("<polygon")
    (True, 2, 1)
    """
    from markupsafe import Markup, escape

    values = [y for one in chart.series for y in (*one.y, *one.low, *one.high) if y is not None]
    if not values:
        return Markup("")
    low, high = chart.limits or (min(0.0, *values), max(0.0, *values) or 1.0)
    drawn = [
        *_frame(chart, low, high),
        *(_bars(chart, low, high) if chart.kind == "bars" else _lines(chart, low, high)),
    ]
    legend = "".join(
        f'<span><svg class="key s{n % _COLOURS}" viewBox="-8 -8 16 16" aria-hidden="true">{_key(chart.kind, n)}</svg>'
        f"<bdi>{escape(one.label)}</bdi></span>"
        for n, one in enumerate(chart.series)
    )
    label = escape(f"{chart.title}: {'; '.join(_told(one) for one in chart.series)}")
    return Markup(  # noqa: S704 - every text in it is escaped above
        f'<figure class="chart"><figcaption>{escape(chart.title)}</figcaption><div class="plot" tabindex="0" '
        f'role="region" aria-label="{escape(chart.title)}"><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{label}">{_patterns(chart)}{"".join(drawn)}</svg></div>'
        f'<p class="legend">{legend}</p></figure>'
    )


def _told(one: Series) -> str:
    """A series as text, for those who don't see it."""
    points = ", ".join(f"{_name(x)} {y:.1f}" for x, y in zip(one.x, one.y, strict=True) if y is not None)
    return f"{one.label} {points or 'has no value'}"


def _name(x: str | float) -> str:
    return f"{x:g}" if isinstance(x, float) else str(x).replace("_", " ")


def _y(value: float, low: float, high: float) -> float:
    return round(HEIGHT - _BOTTOM - (value - low) / (high - low) * (HEIGHT - _TOP - _BOTTOM), 1)


def _frame(chart: Chart, low: float, high: float) -> list[str]:
    from markupsafe import escape

    found = []
    for step in range(5):
        value = low + (high - low) * step / 4
        y = _y(value, low, high)
        found.append(f'<path class="grid" d="M{_LEFT} {y}H{WIDTH - _RIGHT}"/>')
        found.append(f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{value:g}</text>')
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    found.append(f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(chart.x_label)}</text>')
    return found


def _lines(chart: Chart, low: float, high: float) -> list[str]:
    xs = sorted({float(x) for one in chart.series for x in one.x})
    span = (xs[-1] - xs[0]) or 1.0
    wide = WIDTH - _RIGHT - _LEFT - 40

    def place(x: float) -> float:
        return round(_LEFT + 20 + ((x - xs[0]) / span if len(xs) > 1 else 0.5) * wide, 1)

    found = [
        f'<text x="{place(x)}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">{_name(x)}</text>'
        for x in xs[:: max(1, len(xs) // 12)]
    ]
    bands, curves = [], []
    for n, one in enumerate(chart.series):
        points = [(place(float(x)), _y(y, low, high)) for x, y in zip(one.x, one.y, strict=True) if y is not None]
        bands += _band(n, one, place, low, high)
        dash = _DASHES[n % len(_DASHES)]
        line = " ".join(f"{x},{y}" for x, y in points)
        curves.append(f'<polyline class="line s{n % _COLOURS}" stroke-dasharray="{dash}" points="{line}"/>')
        curves += [
            f'<path class="dot s{n % _COLOURS}" transform="translate({x} {y})" d="{_mark(n)}"/>' for x, y in points
        ]
    return found + bands + curves


def _band(n: int, one: Series, place: object, low: float, high: float) -> list[str]:
    assert callable(place)  # noqa: S101 - a local function of `_lines`
    ends = [
        (place(float(x)), _y(a, low, high), _y(b, low, high))
        for x, a, b in zip(one.x, one.low, one.high, strict=False)
        if a is not None and b is not None
    ]
    if len(ends) < 2:
        return [f'<path class="whisker s{n % _COLOURS}" d="M{x} {a}V{b}"/>' for x, a, b in ends]
    outline = [f"{x},{b}" for x, _, b in ends] + [f"{x},{a}" for x, a, _ in reversed(ends)]
    return [f'<polygon class="band s{n % _COLOURS}" points="{" ".join(outline)}"/>']


def _bars(chart: Chart, low: float, high: float) -> list[str]:
    from markupsafe import escape

    names = list(dict.fromkeys(str(x) for one in chart.series for x in one.x))
    group = (WIDTH - _LEFT - _RIGHT) / max(1, len(names))
    width = round(min(44.0, 0.82 * group / max(1, len(chart.series))), 1)
    found = []
    for place, name in enumerate(names):
        x = _LEFT + (place + 0.5) * group
        found.append(f'<text x="{x:.1f}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">{escape(_name(name))}</text>')
    for n, one in enumerate(chart.series):
        for i, (name_, y) in enumerate(zip(one.x, one.y, strict=True)):
            if y is not None:
                left = _LEFT + (names.index(str(name_)) + 0.5) * group + (n - len(chart.series) / 2) * width
                found += _bar(n, round(left, 1), width, y, _ends(one, i), (low, high))
    return found


def _ends(one: Series, i: int) -> tuple[float | None, float | None]:
    return (one.low[i], one.high[i]) if one.low and one.high else (None, None)


def _bar(
    n: int, left: float, width: float, y: float, ends: tuple[float | None, float | None], axis: tuple[float, float]
) -> list[str]:
    top, zero = _y(y, *axis), _y(max(axis[0], min(axis[1], 0.0)), *axis)
    box = f'x="{left}" y="{min(top, zero)}" width="{width - 2:.1f}" height="{abs(zero - top):.1f}"'
    middle = left + width / 2 - 1
    found = [f'<rect class="bar s{n % _COLOURS}" {box}/>', f'<rect fill="url(#hatch{n % len(_HATCHES)})" {box}/>']
    reach = top
    if ends[0] is not None and ends[1] is not None:
        found.append(f'<path class="whisker" d="M{middle:.1f} {_y(ends[0], *axis)}V{_y(ends[1], *axis)}"/>')
        reach = min(top, _y(ends[1], *axis))
    if width >= 18:
        found.append(f'<text class="value" x="{middle:.1f}" y="{reach - 3:.1f}" text-anchor="middle">{y:.0f}</text>')
    return found


def _patterns(chart: Chart) -> str:
    if chart.kind != "bars":
        return ""
    used: Sequence[str] = _HATCHES[: len(chart.series)]
    return "<defs>" + "".join(_pattern(n, d) for n, d in enumerate(used)) + "</defs>"


def _pattern(n: int, d: str) -> str:
    return (
        f'<pattern id="hatch{n}" width="6" height="6" patternUnits="userSpaceOnUse"><path class="hatch" d="{d}"/>'
        "</pattern>"
    )


def _mark(n: int) -> str:
    return _MARKS[n % len(_MARKS)]


def _key(kind: str, n: int) -> str:
    if kind == "bars":
        box = 'd="M-7-7h14v14h-14z"'
        return f'<path class="bar" {box}/><path fill="url(#hatch{n % len(_HATCHES)})" {box}/>'
    dash = _DASHES[n % len(_DASHES)]
    return f'<path class="line" stroke-dasharray="{dash}" d="M-8 0H8"/><path class="dot" d="{_mark(n)}"/>'
