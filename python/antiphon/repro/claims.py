"""How a paper's claims are held against our numbers.

A row of ``claims.csv`` says which numbers a claim is about, which form it has, and what is shown and said of it:

* ``figure``, ``at``, ``column``: the table, the first of several that are needed, of which entries, and which of its
  numbers (``time`` unless it is named). ``point``: what a point is called, if not as in its rows.
* ``ours``, ``over``: series. With ``over``, the numbers are how many times as fast ours is, at every point where both
  are; of several others, than the fastest; of several of both (``C1|C2`` over ``B|R``: C1 than B, C2 than R), the least
  at every point.
* ``along``: every number over the one before it on an axis, such as ``batch by model, series``.
* ``how``: ``fall`` if not ratios are meant but how much more ours is than ``over``, or less than the one before it.
* ``fitted``: ``yes`` where a fit used what the claim states, or it follows from fitted numbers alone: never counted.
* ``form``, ``statistic``, ``low``, ``high``: a form of ``FORMS``; without one, a function of the paper judges.
* ``holds``, ``partly``: of the form ``conditions``, what is to be so, such as ``mean<1.2; small.most>=5``: comparisons
  of statistics of the numbers or of ``aside`` ones with each other or with numbers, of which ``~`` is ``close``,
  ``or`` others. Of other forms, what must be so as well.
* ``shown``, ``comment``: texts with statistics of the numbers, such as ``{most:.2f}``, or whether conditions are met,
  ``{holds:yes|no}``; a comment that names what is ``{lost}``, or the points or cases, is left out if nothing is.
* ``aside``: further numbers for these texts, such as ``small: at=side=3 + over=Ring`` for ``{small.mean}``: cells that
  differ from the claim's own; several are divided by `` & ``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any, Literal

from antiphon.repro.data import Data
from antiphon.repro.table import COMPARED, FIRM, Table, Values, allowance, close, conditions_of

LITTLE = 0.25
"""What fails at no more than this share of the cases holds in part."""

Verdict = Literal["holds", "holds in part", "does not hold", "fitted"]
Cells = Mapping[str, str]
"""The row of a claim."""
Tables = Mapping[str, Table]
"""By figure."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, with what its own artifact and we say to it, in plain words; or one of our own. It is
    listed with a ``figure``."""

    figure: str
    where: str
    text: str
    paper: str
    artifact: str
    ours: str
    verdict: Verdict
    comment: str = ""

    @property
    def own(self) -> bool:
        """Whether the sentence is ours."""
        return self.where == "ours"

    @property
    def counts(self) -> bool:
        """Whether it is the paper's and no fit used it."""
        return not self.own and self.verdict != "fitted"


Judged = tuple[Verdict, dict[str, Any]]
"""A verdict, and what the texts of the claim may name."""
Check = Callable[[Cells, Tables], Judged]
"""The function of a claim that has no form."""


def verdict(holds: bool, partly: bool = False) -> Verdict:
    """In words."""
    return "holds" if holds else "holds in part" if partly else "does not hold"


def share(failing: int, cases: int) -> Verdict:
    """Of what should be so always."""
    return verdict(not failing, failing <= LITTLE * cases)


def listed(values: Iterable[Any], how: str = "{:.1f}") -> str:
    """Several for a text."""
    return ", ".join(map(how.format, values))


# --- numbers ------------------------------------------------------------------------------------


def numbers(cells: Cells, tables: Tables) -> dict[str, Values]:
    """What a claim is about, by the series it is held against, or by its own."""
    table, column = tables[cells["figure"].split("|")[0]].where(cells["at"]), cells["column"] or "time"
    how, point = cells["how"], cells["point"]
    if point and not cells["along"]:
        table = Table(entry | {"what": point.format_map(entry)} for entry in table)
    wanted = [name for name in cells["ours"].split("|") if name]
    if cells["over"]:
        others = cells["over"].split("|")
        if len(wanted) == 1:
            return {over: table.ratios(column, over, wanted[0], how) for over in others}
        return {f"{over} by {of}": table.ratios(column, over, of, how) for of, over in zip(wanted, others, strict=True)}
    of = table.where(series=wanted) if wanted else table
    if cells["along"]:
        steps = [axis.replace(" by ", ", ").split(", ") for axis in cells["along"].split("|")]
        return {cells["along"]: Values(step for axes in steps for step in of.steps(column, axes, how, point))}
    parts = of.grouped(lambda entry: str(entry.get("series", "")))
    return {series: part.values(column) for series, part in parts.items()}


def merged(found: Mapping[str, Values], cells: Cells) -> Values:
    """All of them; against several others, at every point the least."""
    if not cells["over"]:
        return Values(value for values in found.values() for value in values)
    least: dict[str, float] = {}
    for where, value in (value for values in found.values() for value in values):
        least[where] = min(value, least.get(where, value))
    return Values(least.items())


# --- forms --------------------------------------------------------------------------------------


class Met(int):
    """Whether conditions are met; as text one of two, ``yes|no``."""

    def __format__(self, spec: str) -> str:
        return spec.split("|")[not self]


class Held(dict[str, Any]):
    """The numbers of a claim, held against its bounds; the texts may name what is in here, and statistics."""

    def __init__(self, cells: Cells, values: Values) -> None:
        super().__init__()
        self.cells, self.of = cells, values
        self.low = float(cells["low"] or (1 if not cells["high"] else "-inf"))
        self.high = float(cells["high"] or (self.low if cells["form"] in ("close", "points", "range") else "inf"))
        self.statistics = [getattr(values, name) for name in (cells["statistic"] or "mean").split("|")]
        failing = sum(map(self.fails, values.numbers))
        self |= {"value": self.statistics[0], "failing": failing, "passing": values.count - failing}

    def __missing__(self, name: str) -> Any:
        return getattr(self.of, name)

    def number(self, text: str) -> float:
        """A number, or a statistic."""
        return float(text if text[0].isdigit() else Formatter().get_field(text, (), self)[0])

    def meets(self, column: str) -> bool:
        """Whether numbers compare as the column says, in one of the ways; not if it says nothing."""
        ways = map(conditions_of, filter(None, self.cells[column].split(" or ")))
        return any(all(self.compares(*condition) for condition in way) for way in ways)

    def compares(self, one: str, how: str, other: str) -> bool:
        """Whether a condition is met; a printed number is close by its digits."""
        if how == "~" and other[0].isdigit():
            return close(self.number(one), other)
        return COMPARED[how](self.number(one), self.number(other))

    def fails(self, value: float) -> bool:
        """Whether a single number is out of bounds; of the form ``more``, or at the lower one."""
        strict = self.cells["form"] == "more"
        return not self.low - FIRM <= value <= self.high + FIRM or (strict and value <= self.low)

    @property
    def ends(self) -> tuple[bool, bool]:
        """Whether the numbers reach from one bound to the other."""
        return close(self.of.least, self.cells["low"]), close(self.of.most, self.cells["high"])

    @property
    def near(self) -> bool:
        """Whether the statistics are in the bounds, or close to one."""
        low, high = self.cells["low"], self.cells["high"] or self.cells["low"]
        least, most = float(low) - allowance(low), float(high) + allowance(high)
        return all(least <= each <= most for each in self.statistics)


SOME_POINTS = "at {passing} of {count} points"
FORMS: dict[str, tuple[str, Callable[[Held], Verdict]]] = {
    # A statistic is in the bounds, or close to one; the same of a percentage; it is in the bounds.
    "close": ("{value:.2f}×", lambda held: verdict(held.near)),
    "points": ("{value:.2f} %", lambda held: verdict(held.near)),
    "within": ("{value:.2f}×", lambda held: verdict(not held.fails(held.statistics[0]))),
    # The numbers reach from one bound to the other; in part if one end does.
    "range": ("{least:.2f}–{most:.2f}×", lambda held: verdict(all(held.ends), any(held.ends))),
    # Every number is in the bounds (by default at least 1), or more than the bound; in part if few are not.
    "always": (SOME_POINTS, lambda held: share(held["failing"], held.of.count)),
    "more": (SOME_POINTS, lambda held: share(held["failing"], held.of.count)),
    # Every number is in the bounds; some number is not, as the paper says.
    "every": (SOME_POINTS, lambda held: verdict(not held["failing"])),
    "some": ("in {failing} of {count} cases", lambda held: verdict(held["failing"] > 0)),
    # All that is to be so is; in part if what suffices for that is.
    "conditions": ("{mean:.2f}×", lambda held: verdict(held["holds"], held["partly"])),
}
"""What is shown of every form unless the claim says otherwise, and how it is judged."""


def by_form(cells: Cells, tables: Tables) -> Judged:
    """The verdict on a claim that has a form, and what its texts may name."""
    found = numbers(cells, tables)
    held = Held(cells, merged(found, cells))
    lost = {name: [where.replace(", ", " ") for where, value in of if held.fails(value)] for name, of in found.items()}
    held["lost_points"] = ", ".join(where for of in lost.values() for where in of)
    held["lost_cases"] = "; ".join(where for where, value in held.of if held.fails(value))
    said = "to {} at {}" if cells["over"] else "{} on {}"
    held["lost"] = "; ".join(said.format(name, ", ".join(where)) for name, where in lost.items() if where)
    for aside in filter(None, cells["aside"].split(" & ")):
        name, _, changes = aside.partition(": ")
        other = dict(cells) | dict(change.split("=", 1) for change in changes.split(" + "))
        held[name] = merged(numbers(other, tables), other)
    held |= {column: Met(held.meets(column)) for column in ("holds", "partly")}
    result = FORMS[cells["form"]][1](held)
    if cells["holds"] and cells["form"] != "conditions" and not held["holds"]:
        result = "does not hold"
    if cells["form"] == "close" and result != "holds":
        held["prefix"] = "More than claimed. " if held["value"] > held.high else "Less than claimed. "
    return result, held


def judge(cells: Cells, checks: Mapping[str, Check], tables: Tables) -> Claim:
    """A claim, by its form or its function."""
    result, names = (by_form if cells["form"] else checks[cells["id"]])(cells, tables)
    shown, comment = cells["shown"] or FORMS[cells["form"]][0], cells["comment"]
    if cells["form"] == "always" and not cells["shown"] and not names["failing"]:
        shown = "at all {count} points"
    if "{lost" in comment and not names["lost"]:
        comment = ""
    comment = (names.get("prefix", "") + comment.format_map(names)).strip()
    if cells.get("fitted"):
        result = "fitted"
    figure = cells["figure"].split("|")[0]
    texts = (cells["where"], cells["claim"], cells["paper"], cells["artifact"])
    return Claim(figure, *texts, shown.format_map(names), result, comment)


def judge_all(data: Data, checks: Mapping[str, Check], tables: Tables) -> list[Claim]:
    """All claims whose figures, divided by ``|``, are among the tables."""
    claims = data.table("claims")
    return [judge(cells, checks, tables) for cells in claims if set(cells["figure"].split("|")) <= set(tables)]
