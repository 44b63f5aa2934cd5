"""Draws the curves of ``rootport bench-placement`` as SVG: a row for each workload, allocation beside fragmentation.

Each curve has its name and its last figure at its end, so that nobody has to look colours up. The colours are those of
Okabe and Ito, which people with any colour vision can tell apart (jfly.uni-koeln.de/color).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from driver.placement.policies import POLICIES
from driver.placement.replay.curves import Curve, Curves
from driver.placement.replay.run import DEMANDS

__all__ = ["drawing"]

_WIDTH: Final = 1180
_TOP: Final = 96
_ROW: Final = 350
_PLOT_TOP: Final = 56
_PLOT_HEIGHT: Final = 232
_LABEL_HEIGHT: Final = 13.5
_LABEL_GAP: Final = 26
_LAST: Final = DEMANDS[-1]
_ZOOM: Final = 60
"""Where the curves of allocation begin: below it everything fits, whatever the policy."""

_FONTS: Final = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif"
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_OURS: Final = {policy: _COLOURS[number % len(_COLOURS)] for number, policy in enumerate(POLICIES)}
"""By the policy's name, so that a policy has the same colour in every drawing."""

_BEST: Final = "#000000"
_OTHERS: Final = "#8A8A8A"
_TEXT: Final = "#222222"
_QUIET: Final = "#666666"
_GRID: Final = "#E3E3E3"


@dataclass(frozen=True, slots=True)
class _Plot:
    """A rectangle with axes.

    Attributes:
        left: Of the rectangle.
        top: Of the rectangle.
        width: Of the rectangle.
        first: Demand at the left.
        low: Value at the bottom.
        high: Value at the top.
        each: Between two lines of the grid, in values.
    """

    left: float
    top: float
    width: float
    first: int
    low: float
    high: float
    each: float

    def x(self, demand: float) -> float:
        return self.left + (demand - self.first) / (_LAST - self.first) * self.width

    def y(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return self.top + (self.high - inside) / (self.high - self.low) * _PLOT_HEIGHT


def drawing(rows: Sequence[Curves], subtitle: str) -> str:
    """Return the drawing.

    Args:
        rows: Of each workload its curves.
        subtitle: What was run, on which trace.
    """
    height = _TOP + _ROW * len(rows) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">',
        f'<g role="img" font-family="{_FONTS}">',
        "<title>Allocation and fragmentation of GPUs over arrived demand</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#FFFFFF"/>',
        _text(28, 38, "Allocation and fragmentation of GPUs over arrived demand", size=20, weight=600),
        _text(
            28, 62, f"{subtitle}. Pods arrive one by one, none leaves, one that fits nowhere is dropped.", colour=_QUIET
        ),
        *_legend(rows),
    ]
    for number, curves in enumerate(rows):
        parts.extend(_row(curves, _TOP + number * _ROW))
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _legend(rows: Sequence[Curves]) -> Iterator[str]:
    ours = dict.fromkeys(curve.policy for row in rows for curve in row.allocation if not curve.is_published)
    each = 34 / max(len(ours), 1)
    for number, policy in enumerate(ours):
        yield _line([(28 + number * each, 82), (28 + (number + 1) * each, 82)], _OURS[policy], 2.6)
    yield _text(70, 86, "Rootport's policies (in colour)", colour=_QUIET)
    left = 272
    if any(curve.is_published for row in rows for curve in row.allocation):
        yield _line([(left, 82), (left + 34, 82)], _BEST, 1.8, dashes="6 3")
        yield _text(left + 42, 86, "published, the best", colour=_QUIET)
        yield _line([(left + 172, 82), (left + 206, 82)], _OTHERS, 1.2, dashes="3 3")
        yield _text(left + 214, 86, "published, others", colour=_QUIET)
        left += 338
    yield _line([(left, 82), (left + 34, 82)], _QUIET, 1, dashes="1 3")
    yield _text(left + 42, 86, "all that is asked for", colour=_QUIET)


def _row(curves: Curves, top: float) -> Iterator[str]:
    yield f'<g aria-label="{escape(curves.workload)}">'
    yield _text(28, top + 22, curves.workload, size=15, weight=600)
    seen = [value for curve in curves.allocation for value in curve.values[_ZOOM:] if value is not None]
    low = min(math.floor(min(seen, default=0.0) / 10) * 10, 90)
    allocation = _Plot(78, top + _PLOT_TOP, 376, _ZOOM, low, 100, 10 if low >= 40 else 20)
    yield from _axes(allocation, "allocated, % of all GPUs")
    asked = [(demand, float(min(demand, 100))) for demand in (max(_ZOOM, low), 100, _LAST)]
    yield _line([(allocation.x(demand), allocation.y(value)) for demand, value in asked], _QUIET, 1, dashes="1 3")
    yield from _curves(allocation, curves.allocation)

    highest = max((value for curve in curves.fragmentation for value in curve.values if value is not None), default=1.0)
    each = next((step for step in (1, 2, 5, 10, 20) if highest <= 5 * step), 25)
    high = max(math.ceil(highest / each), 1) * each
    fragmentation = _Plot(672, top + _PLOT_TOP, 376, DEMANDS[0], 0, high, each)
    yield from _axes(fragmentation, "free but of no use to typical pods, % of all GPUs")
    yield from _curves(fragmentation, curves.fragmentation)
    yield "</g>"


def _axes(plot: _Plot, title: str) -> Iterator[str]:
    right, bottom = plot.left + plot.width, plot.top + _PLOT_HEIGHT
    for number in range(round((plot.high - plot.low) / plot.each) + 1):
        value = plot.low + number * plot.each
        y = plot.y(value)
        yield _line([(plot.left, y), (right, y)], _GRID, 1)
        yield _text(plot.left - 8, y + 4, f"{value:g}", anchor="end", colour=_QUIET)
    for demand in range(plot.first, _LAST + 1, 10 if plot.first else 20):
        x = plot.x(demand)
        yield _line([(x, bottom), (x, bottom + 4)], _QUIET, 1)
        yield _text(x, bottom + 18, str(demand), anchor="middle", colour=_QUIET)
    at_full = plot.x(100)
    yield _line([(at_full, plot.top), (at_full, bottom)], _GRID, 1)
    yield _line([(plot.left, bottom), (right, bottom)], _QUIET, 1)
    yield _text((plot.left + right) / 2, bottom + 38, "arrived demand, % of all GPUs", anchor="middle", colour=_TEXT)
    yield _text(plot.left, plot.top - 8, title, colour=_TEXT)


def _curves(plot: _Plot, curves: Sequence[Curve]) -> Iterator[str]:
    styles = _styles(curves)
    ends: list[tuple[float, Curve]] = []
    # The first of ours is drawn last, on top of the others.
    for curve in sorted(curves, key=lambda curve: styles[id(curve)].thickness):
        points = [
            (plot.x(demand), plot.y(value))
            for demand, value in enumerate(curve.values)
            if value is not None and demand >= plot.first
        ]
        if not points:
            continue
        yield styles[id(curve)].line(points)
        ends.append((points[-1][1], curve))
    right = plot.left + plot.width
    for (y, curve), at in zip(sorted(ends, key=lambda end: end[0]), _apart(sorted(y for y, _ in ends)), strict=True):
        style = styles[id(curve)]
        yield _line([(right + 3, y), (right + _LABEL_GAP - 5, at)], style.colour, 0.8)
        last = next(value for value in reversed(curve.values) if value is not None)
        name = f"{curve.policy} {last:.1f}"
        yield _text(right + _LABEL_GAP, at + 4, name, size=11.5, weight=style.weight, colour=style.colour)


@dataclass(frozen=True, slots=True)
class _Style:
    colour: str
    thickness: float
    dashes: str
    weight: int

    def line(self, points: Sequence[tuple[float, float]]) -> str:
        return _line(points, self.colour, self.thickness, dashes=self.dashes)


def _styles(curves: Sequence[Curve]) -> Mapping[int, _Style]:
    """Return the style of each curve, by its identity: the last of the published ones is the best."""
    published = [curve for curve in curves if curve.is_published]
    ours = [curve for curve in curves if not curve.is_published]
    others = _Style(_OTHERS, 1.2, "3 3", 400)
    styles = {id(curve): others for curve in published}
    if published:
        styles[id(published[-1])] = _Style(_BEST, 1.8, "6 3", 600)
    for number, curve in enumerate(ours):
        styles[id(curve)] = _Style(_OURS[curve.policy], 2.6 if number == 0 else 2, "", 600)
    return styles


def _apart(ends: Sequence[float]) -> list[float]:
    """Return where labels can stand without touching each other, as near to these heights as all together can be.

    Args:
        ends: Heights, ascending; the labels stay in this order.
    """
    # Where two groups of labels would touch, they become one around the mean of what each of them wants.
    groups: list[tuple[float, int]] = []
    for number, y in enumerate(ends):
        wanted, count = y - number * _LABEL_HEIGHT, 1
        while groups and groups[-1][0] > wanted:
            other, size = groups.pop()
            wanted, count = (wanted * count + other * size) / (count + size), count + size
        groups.append((wanted, count))
    flat = [wanted for wanted, count in groups for _ in range(count)]
    return [wanted + number * _LABEL_HEIGHT for number, wanted in enumerate(flat)]


def _line(points: Sequence[tuple[float, float]], colour: str, thickness: float, *, dashes: str = "") -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{thickness:g}"'
        f' stroke-linejoin="round"{dashed}/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: float = 12,
    weight: int = 400,
    anchor: str = "start",
    colour: str = _TEXT,
) -> str:
    shown = escape("".join(char if char.isprintable() else "?" for char in text))
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" font-weight="{weight}" text-anchor="{anchor}"'
        f' fill="{colour}">{shown}</text>'
    )
