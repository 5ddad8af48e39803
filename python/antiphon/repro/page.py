"""The page of a reproduction: one file that needs nothing else. Its text is ``templates/reproduction.html``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from antiphon.repro.result import Reproduction
from antiphon.repro.rows import Row
from antiphon.view.pages.page import page_template
from antiphon.view.text import digits, format_time

READABLE = " /:;,.=()<>'"
"""What needs no code in the address of an image between double quotes."""


def render(reproduction: Reproduction, plots: Mapping[str, str]) -> str:
    """The page as text; ``plots`` has the SVG of a figure by its name."""
    return page_template("reproduction.html", value=value, percent=percent).render(
        reproduction=reproduction,
        notes={name: _notes(outcome.rows) for name, outcome in reproduction.outcomes.items()},
        # As images, so that the identifiers inside do not meet.
        plots={name: quote(" ".join(svg.split()), safe=READABLE) for name, svg in plots.items()},
    )


def _notes(rows: Sequence[Row]) -> dict[str, str]:
    """Every note, and of which groups it is, or of which rows if it is not of the whole group."""
    of: dict[str, dict[str, list[str]]] = {}
    sizes = Counter(row.group for row in rows)
    for row in rows:
        if row.note:
            of.setdefault(row.note, {}).setdefault(row.group, []).append(row.what)

    def where(groups: dict[str, list[str]]) -> str:
        same = next(iter(groups.values()))
        if len(groups) > 1 and all(cases == same and len(cases) < sizes[group] for group, cases in groups.items()):
            return ", ".join(same)
        return "; ".join(
            group if len(cases) > sizes[group] / 2 else f"{group}, {', '.join(cases)}"
            for group, cases in groups.items()
        )

    return {note: where(groups) for note, groups in of.items()}


def value(number: float | None, unit: str) -> str:
    """A number with its unit for people; nothing if there is none.

    >>> value(2688123.4, "ns"), value(1271, ""), value(None, "ns")
    ('2.69 ms', '1,271', '')
    """
    if number is None:
        return ""
    if unit == "ns":
        return format_time(number)
    if not unit:
        return f"{number:,.0f}"
    return f"{digits(number)} {unit}"


def percent(share: float | None) -> str:
    """A share in percent.

    >>> percent(0.01234), percent(0.0), percent(None)
    ('1.2 %', '0.00 %', '')
    """
    if share is None:
        return ""
    return f"{100 * share:.2f} %" if abs(share) < 0.01 else f"{100 * share:.1f} %"
