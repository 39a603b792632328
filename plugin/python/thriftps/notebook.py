# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Progress and plots, without further modules: text in terminals, pictures in notebooks."""

from __future__ import annotations

import math
import sys
import time
from functools import partial
from html import escape
from itertools import groupby
from typing import (
    Callable,
    Iterable,
    Iterator,
    List,
    Optional,
    Sequence,
    Sized,
    TextIO,
    Tuple,
    TypeVar,
)

from thriftps._native import do_nothing, finalizer

__all__ = ["Plot", "progress"]

T = TypeVar("T")

_WIDTH, _HEIGHT, _MARGIN = 480, 200, 40
_BLOCKS = "▁▂▃▄▅▆▇█"
_COLUMNS = 60


class _Progress(Iterator[T]):
    """Not a generator: its `finally` would lose exceptions of signal handlers, see `finalizer`."""

    __del__ = finalizer

    def __init__(
        self,
        items: Iterable[T],
        to_line: Callable[[int, float], str],
        every: float,
        file: TextIO,
        clock: Callable[[], float],
    ):
        self._items = iter(items)
        self._to_line = to_line
        self._every = every
        self._file = file
        self._clock = clock
        self._n = 0
        self._began = self._written = clock()
        self._free = do_nothing

    def __next__(self) -> T:
        now = self._clock() if self._n > 0 else self._began
        if now - self._written >= self._every:
            self._written = now
            self._write(now, "")
        try:
            item = next(self._items)
        except StopIteration:
            self._free = do_nothing
            self._write(self._clock(), "\n")
            raise
        self._n += 1
        line = self._to_line(self._n, now - self._began)
        self._free = partial(self._file.write, "\r" + line + "\n")
        return item

    def _write(self, now: float, end: str) -> None:
        self._file.write("\r" + self._to_line(self._n, now - self._began) + end)
        self._file.flush()


def progress(
    items: Iterable[T],
    total: Optional[int] = None,
    *,
    name: str = "",
    every: float = 0.5,
    file: Optional[TextIO] = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[T]:
    """Yields the items, and writes their number, their rate, and the remaining time. The last line
    is also written if the loop ends early.

    total  the number of items; None: len(items), if the items have a length
    every  seconds between two lines, which replace each other
    file   None: sys.stderr
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    file = sys.stderr if file is None else file
    return _Progress(items, lambda n, s: _to_line(name, n, total, s), every, file, clock)


def _to_line(name: str, n: int, total: Optional[int], seconds: float) -> str:
    rate = n / seconds if seconds > 0 else 0.0
    line = "%s%d" % (name and name + ": ", n)
    if total:
        line += "/%d (%d %%)" % (total, 100 * n // total)
    line += ", %.3g/s" % rate
    if total and rate and n < total:
        line += ", %d s to go" % ((total - n) / rate)
    return line.ljust(_COLUMNS)


class Plot:
    """Values over their positions, such as losses: an SVG in notebooks, a line of text elsewhere.
    NaN and infinities are gaps.
    """

    def __init__(self, values: Sequence[float], title: str = ""):
        self.values = [float(value) for value in values]
        self.title = title
        if not self.values:
            raise ValueError("there are no values to plot")

    def __repr__(self) -> str:
        low, high = self._get_range()
        scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
        blocks = "".join(
            _BLOCKS[round((each - low) * scale)] if math.isfinite(each) else " "
            for each in self._sample(_COLUMNS)
        )
        return "%s%s %.4g to %.4g" % (self.title and self.title + ": ", blocks, low, high)

    def _repr_svg_(self) -> str:
        low, high = self._get_range()
        sampled = self._sample(_WIDTH)
        across = (_WIDTH - 2 * _MARGIN) / max(len(sampled) - 1, 1)
        up = (_HEIGHT - 2 * _MARGIN) / (high - low) if high > low else 0.0
        points = [
            (_MARGIN + i * across, _HEIGHT - _MARGIN - (each - low) * up)
            for i, each in enumerate(sampled)
        ]
        labels = (
            (_WIDTH / 2, _MARGIN / 2, "middle", escape(self.title)),
            (_MARGIN - 4, _MARGIN, "end", "%.3g" % high),
            (_MARGIN - 4, _HEIGHT - _MARGIN, "end", "%.3g" % low),
            (_WIDTH - _MARGIN, _HEIGHT - _MARGIN / 2, "end", "%d" % len(self.values)),
        )
        texts = "".join(
            '<text x="%g" y="%g" text-anchor="%s" font-size="11">%s</text>' % each
            for each in labels
        )
        return '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d">%s%s</svg>' % (
            _WIDTH,
            _HEIGHT,
            texts,
            _to_lines(points),
        )

    def _get_range(self) -> Tuple[float, float]:
        """Returns the smallest and the largest finite value; NaN if there are none."""
        finite = [each for each in self.values if math.isfinite(each)] or [math.nan]
        return min(finite), max(finite)

    def _sample(self, n: int) -> Sequence[float]:
        """Returns at most `n` values. Each is the mean of the finite values of one of `n` equal
        parts, or NaN if the part has none.
        """
        n = min(n, len(self.values))
        ends = [len(self.values) * i // n for i in range(n + 1)]
        return [_to_mean(self.values[a:b]) for a, b in zip(ends, ends[1:])]


def _to_mean(values: Sequence[float]) -> float:
    finite = [each for each in values if math.isfinite(each)]
    return sum(finite) / len(finite) if finite else math.nan


def _to_ends(line: List[Tuple[float, float]]) -> List[Tuple[float, float]]:
    """Returns the points of a line, at least two."""
    return line * 2 if len(line) == 1 else line


def _to_lines(points: List[Tuple[float, float]]) -> str:
    """SVG lines through the points, with a gap for each point whose value is NaN. The square ends
    of a line make a point between two gaps visible."""
    return "".join(
        '<polyline fill="none" stroke="#06c" stroke-linecap="square" points="%s"/>'
        % " ".join("%.1f,%.1f" % point for point in _to_ends(list(line)))
        for is_finite, line in groupby(points, lambda point: math.isfinite(point[1]))
        if is_finite
    )
