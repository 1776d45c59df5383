"""Charts as SVG, drawn by ourselves: lines over time with a scale that fits, and what each point says as its title."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from eventhub.pipeline.report.markup import Markup, tag

__all__ = ["Series", "bar", "line_chart", "short"]

WIDTH, HEIGHT = 920, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 10, 26
COLOURS: Final = 8
MOST_TICKS: Final = 5
MOST_LABELS: Final = 10
_UNITS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_SECOND, _MINUTE, _HOUR, _DAY = 1e3, 6e4, 3.6e6, 8.64e7
DURATIONS: Final = (
    *(1.0, 10.0, 100.0, _SECOND, 10 * _SECOND, _MINUTE, 10 * _MINUTE),
    *(_HOUR, 10 * _HOUR, 4 * _DAY, 40 * _DAY, 400 * _DAY, 4000 * _DAY),
)
"""Milliseconds that people have words for, each about ten times the one before."""

Told = Callable[[float], str]


class Series(msgspec.Struct, frozen=True):
    """A line: its name, and its value at each time, or none."""

    name: str
    values: Sequence[float | None]


def short(value: float) -> str:
    """A number in few letters."""
    for unit, letter in _UNITS:
        if abs(value) >= unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:.3g}"


def line_chart(
    title: str, times: Sequence[datetime], series: Sequence[Series], *, told: Told = short, durations: bool = False
) -> Markup:
    """Lines over time, each in a colour of its own, with a legend; None is a gap.

    ``durations`` are milliseconds, which are drawn on a logarithmic scale.
    """
    known = [value for one in series for value in one.values if value is not None]
    if not times or not known:
        return tag("p", "Nothing to show.", class_="none")
    scale = _Scale(known, durations=durations)
    across = _Across(times)
    drawn = [
        *(_grid(scale.at(tick), told(tick)) for tick in scale.ticks),
        *(_label(across.at(place), text) for place, text in across.labels()),
        *(_line(number, one, across, scale) for number, one in enumerate(series)),
        *(_hover(place, times, series, across, told) for place in range(len(times))),
    ]
    legend = [
        tag("span", tag("i", class_=f"c{number % COLOURS}"), one.name, class_="key")
        for number, one in enumerate(series)
    ]
    picture = tag("svg", drawn, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=title)
    return tag("figure", tag("figcaption", tag("b", title), legend), picture)


def bar(share: float) -> Markup:
    """A bar as long as a share of 1."""
    width = round(100 * min(max(share, 0.0), 1.0), 1)
    picture = tag("rect", x=0, y=0, width=width, height=8, class_="bar")
    return tag("svg", picture, viewBox="0 0 100 8", class_="share", preserveAspectRatio="none", aria_hidden="true")


class _Scale:
    """From values to heights."""

    def __init__(self, known: Sequence[float], *, durations: bool) -> None:
        self._logarithmic = durations
        highest = max(known)
        if durations:
            least = min((value for value in known if value > 0), default=1.0)
            low = max((place for place, tick in enumerate(DURATIONS) if tick <= least), default=0)
            high = next((place for place, tick in enumerate(DURATIONS) if tick >= highest), len(DURATIONS) - 1)
            ticks = DURATIONS[low : max(high, low + 1) + 1]
            self.ticks = list(ticks[:: math.ceil((len(ticks) - 1) / MOST_TICKS)])
            self._low, self._high = math.log10(ticks[0]), math.log10(ticks[-1])
        else:
            step = _nice(highest / MOST_TICKS) if highest > 0 else 1.0
            if all(float(value).is_integer() for value in known):
                step = max(step, 1.0)
            self.ticks = [step * count for count in range(math.ceil(highest / step - 1e-9) + 1 if highest > 0 else 2)]
            self._low, self._high = 0.0, self.ticks[-1]

    def at(self, value: float) -> float:
        placed = math.log10(max(value, 10.0**self._low)) if self._logarithmic else value
        share = (placed - self._low) / (self._high - self._low)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP), 1)


class _Across:
    """From times to places."""

    def __init__(self, times: Sequence[datetime]) -> None:
        self._times = times
        self._span = max((times[-1] - times[0]).total_seconds(), 1.0)

    def at(self, place: int) -> float:
        share = (self._times[place] - self._times[0]).total_seconds() / self._span
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    @property
    def width(self) -> float:
        return (WIDTH - LEFT - RIGHT) / max(len(self._times) - 1, 1)

    def labels(self) -> list[tuple[int, str]]:
        """Midnights, or hours when there is hardly more than a day."""
        days = self._span > timedelta(days=2).total_seconds()
        starts = [place for place, time in enumerate(self._times) if not days or time.hour == 0]
        every = max(math.ceil(len(starts) / MOST_LABELS), 1)
        return [
            (place, f"{self._times[place]:%d %b}" if days else f"{self._times[place]:%H:%M}")
            for place in starts[::every]
        ]


def _nice(step: float) -> float:
    """The next of 1, 2, 5, 10 … that is not smaller."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * first for first in (1, 2, 5, 10) if power * first >= step * (1 - 1e-9))


def _grid(height: float, text: str) -> Markup:
    line = tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=height, y2=height, class_="grid")
    return tag("g", line, tag("text", text, x=LEFT - 8, y=height + 4, class_="scale"))


def _label(across: float, text: str) -> Markup:
    return tag("text", text, x=across, y=HEIGHT - 8, class_="time")


def _line(number: int, series: Series, across: _Across, scale: _Scale) -> Markup:
    steps: list[str] = []
    draws = False
    for place, value in enumerate(series.values):
        if value is None:
            draws = False
            continue
        steps.append(f"{'L' if draws else 'M'}{across.at(place)} {scale.at(value)}")
        if not draws:
            steps.append("h.01")  # a point that stands alone is seen, too
        draws = True
    return tag("path", d="".join(steps), class_=f"line c{number % COLOURS}")


def _hover(place: int, times: Sequence[datetime], series: Sequence[Series], across: _Across, told: Told) -> Markup:
    said = [f"{one.name}: {told(value)}" for one in series if (value := one.values[place]) is not None]
    text = "\n".join([f"{times[place]:%Y-%m-%d %H:%M} UTC", *said])
    left = round(across.at(place) - across.width / 2, 1)
    return tag(
        "rect",
        tag("title", text),
        x=left,
        y=TOP,
        width=round(across.width, 1),
        height=HEIGHT - TOP - BOTTOM,
        class_="spot",
    )
