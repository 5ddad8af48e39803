"""Numbers by what they are of: the table that a figure finds, from which rows, charts and claims are made."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, product
from statistics import fmean, geometric_mean
from typing import Any

from antiphon.errors import AntiphonError
from antiphon.repro.data import Series, rounding

Entry = dict[str, Any]
"""A case, such as ``{"series": ..., "side": 8}``, with the numbers found for it."""

CLOSE = 0.05
"""A number, or each end of a range, holds within this share of what is published, or within ``rounding``."""


def allowance(printed: str) -> float:
    """By how much ours may differ from a printed number: 5 % or its rounding, whichever is wider."""
    return max(CLOSE * abs(float(printed)), rounding(printed)) + FIRM


def close(ours: float, printed: str) -> bool:
    """Whether a number holds.

    >>> close(2.4, "2"), close(2.4, "2.0"), close(1.04, "1")
    (True, False, True)
    """
    return abs(ours - float(printed)) <= allowance(printed)


FIRM = 1e-9
"""Numbers that differ by no more are the same."""


COMPARED: dict[str, Callable[[float, float], bool]] = {
    "~": lambda ours, published: abs(ours - published) <= CLOSE * abs(published) + FIRM,
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
HOW: dict[str, Callable[[float, float], float]] = {"": operator.truediv, "fall": lambda more, less: less - more}
"""How two numbers are held against each other: the ratio, or how much less the first is."""
CONDITION = re.compile(rf"([\w.]+) *({'|'.join(COMPARED)}) *(.+)")


def conditions_of(text: str) -> list[tuple[str, str, str]]:
    """What is compared how with what, of a text such as ``side=8|9; bytes>=4194304``."""
    found = []
    for condition in filter(None, map(str.strip, text.split(";"))):
        if not (match := CONDITION.fullmatch(condition)):
            raise AntiphonError(f"'{condition}' is no condition such as side=8", "bad-file")
        found.append((match[1], match[2], match[3]))
    return found


def is_one_of(value: object, wanted: Iterable[object]) -> bool:
    """Whether a value, or a series by one of its names, is wanted; numbers may be given as text."""
    names = {value, value.name, *value.roles} if isinstance(value, Series) else {value, str(value)}
    return not names.isdisjoint(wanted)


def meets(entry: Entry, conditions: str) -> bool:
    """Whether an entry is meant by a text such as ``side=8|9; bytes>=4194304``; the empty text means all.

    >>> meets({"side": 9, "bytes": 100}, "side=8|9; bytes<=64"), meets({"side": 9}, "")
    (False, True)
    """
    for name, how, text in conditions_of(conditions):
        value = entry[name]
        if how in ("=", "!="):
            met = is_one_of(value, text.split("|")) == (how == "=")
        else:
            met = COMPARED[how](value, float(text))
        if not met:
            return False
    return True


def grid(**axes: Iterable[Any]) -> list[Entry]:
    """Every combination, the last axis fastest."""
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


class Values(list[tuple[str, float]]):
    """Numbers with the cases they are of, in words.

    As text they stand one after the other; ``@`` is the case.

    >>> f"{Values([('8x8', 1.5), ('9x9', 2)]):@ takes .2f×}"
    '8x8 takes 1.50×, 9x9 takes 2.00×'
    """

    def __format__(self, spec: str) -> str:
        before, how, after = re.split(r"(\+?\.?\d*[fg])", spec, maxsplit=1)
        return ", ".join(f"{before}{value:{how}}{after}".replace("@", where) for where, value in self)

    @property
    def numbers(self) -> list[float]:
        """Without the words."""
        return [value for _, value in self]

    off = property(lambda self: 100 * max(abs(value - 1) for value in self.numbers))
    """Of ratios: how far the farthest is from one, in percent."""
    gaining = property(lambda self: sum(value > 1 for value in self.numbers))
    count: Any = property(len)  # not how often a value is there
    mean = property(lambda self: fmean(self.numbers))
    geometric = property(lambda self: geometric_mean(self.numbers))
    first = property(lambda self: self[0][1])
    last = property(lambda self: self[-1][1])
    least = property(lambda self: min(self.numbers))
    most = property(lambda self: max(self.numbers))
    farthest = property(lambda self: max(self.numbers, key=abs))
    spread = property(lambda self: self.most - self.least)
    gained = property(lambda self: 100 * (self.mean - 1))
    saved = property(lambda self: 100 * fmean(1 - 1 / value for value in self.numbers))
    """Of speedups: the mean share of time that is saved, in percent."""
    where_least = property(lambda self: min(self, key=lambda found: found[1])[0])
    where_most = property(lambda self: max(self, key=lambda found: found[1])[0])
    fall = property(lambda self: self.numbers[0] - self.numbers[-1])
    """From the first to the last; ``fallen`` is it in percent of the first."""
    fallen = property(lambda self: 100 * self.fall / self.first)
    total = property(lambda self: sum(self.numbers))
    same = property(lambda self: ", ".join(where for where, value in self if abs(value - 1) < 1e-9))
    rising = property(lambda self: Values(sorted(self, key=lambda found: found[1])))
    losing = property(lambda self: ", ".join(where for where, value in self if value < 1) or "none")
    near = property(lambda self: ", ".join(where for where, value in self if value >= 0.99 * self.most))
    alike = property(lambda self: sum(abs(value - 1) <= 0.005 for value in self.numbers))


class Table(list[Entry]):
    """Entries in the order in which they are shown; ``what`` is the case of each in words."""

    def where(self, conditions: str = "", /, **axes: object) -> Table:
        """Those with a value on every axis, or one of a tuple, list or range of values."""
        sets = {axis: value if isinstance(value, tuple | list | range) else (value,) for axis, value in axes.items()}
        return Table(
            entry
            for entry in self
            if meets(entry, conditions) and all(is_one_of(entry[axis], wanted) for axis, wanted in sets.items())
        )

    def axis(self, name: str) -> list[Any]:
        """Every value on an axis once."""
        return list(dict.fromkeys(entry[name] for entry in self))

    def column(self, name: str) -> list[Any]:
        """A number of every entry."""
        return [entry[name] for entry in self]

    def one(self, column: str, **axes: object) -> Any:
        """The number of the only entry there."""
        (entry,) = self.where("", **axes)
        return entry[column]

    def grouped(self, key: Callable[[Entry], Any]) -> dict[Any, Table]:
        """The entries that are alike in something."""
        found: dict[Any, Table] = {}
        for entry in self:
            found.setdefault(key(entry), Table()).append(entry)
        return found

    def by(self, axis: str) -> Iterable[tuple[Any, Table]]:
        """The entries of every value on an axis."""
        return self.grouped(operator.itemgetter(axis)).items()

    def split(self, *axes: str) -> list[Table]:
        """The entries of every combination of values on some axes."""
        parts = [Table(self)]
        for axis in axes:
            parts = [of for part in parts for _, of in part.by(axis)]
        return parts

    def values(self, column: str) -> Values:
        """Of all entries."""
        return Values((entry["what"], entry[column]) for entry in self)

    def over(self, column: str, others: Iterable[Entry], how: str = "") -> Values:
        """How many times a number of others the one here is, or another of ``HOW``, wherever both are."""
        below = {entry["what"]: entry[column] for entry in others}
        both = [(entry["what"], entry[column]) for entry in self if entry["what"] in below]
        return Values((what, HOW[how](number, below[what])) for what, number in both)

    def ratios(self, column: str, of: str, over: str, how: str = "") -> Values:
        """One series over another, wherever both are."""
        return self.where(series=of).over(column, self.where(series=over), how)

    def steps(self, column: str, axes: Sequence[str], how: str = "", point: str = "") -> Values:
        """Along an axis, what else is named by ``axes`` being equal: every number over the one before it, or another of
        ``HOW``; ``point`` says what a step is called, ``{before}`` being where it began."""
        along, *others = axes
        rising = Table(sorted(self, key=operator.itemgetter(along)))
        found = Values()
        for key, entries in rising.grouped(lambda entry: tuple(entry[axis] for axis in others)).items():
            for less, more in pairwise(entries):
                name = point.format_map(more | {"before": less[along]}) if point else " on ".join(map(str, key))
                found.append((name, HOW[how](more[column], less[column])))
        return found
