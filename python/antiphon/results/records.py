"""What there is to choose from: plain records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Parameter:
    """What may be given by key: a parameter of systems or routers, an option of an algorithm or compute model.

    >>> import antiphon
    >>> next(each.unit for each in antiphon.System("tto").parameters() if each.key == "link_latency_ns")
    'ns'

    Attributes:
        key: as an argument of ``System.with_`` and ``noc``, or in ``name:key=value``.
        kind: ``bytes``, ``count``, ``number``, ``choice``, ``flag``, ``rank`` or ``specification``.
        values: what it takes, in words.
        unit: of its values; empty where there is none.
        least: smallest number it takes; None if it is no number.
        most: largest.
        choices: names to choose from, or a number outside of the range.
        default: what holds unless it is given, as text; in ``System.parameters`` the value of that system.
        meaning: in one line.
        source: paper or origin.
        json: its place in JSON, in the unit of its name there; empty for options of algorithms.
    """

    key: str
    kind: str
    values: str
    unit: str
    least: float | None
    most: float | None
    choices: tuple[str, ...]
    default: str
    meaning: str
    source: str
    json: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "choices", tuple(self.choices))  # the core gives a list


@dataclass(frozen=True)
class Algorithm:
    """One algorithm, as the core gives it; ``antiphon.algorithms`` makes entries of them.

    Attributes:
        name: as in specifications ``name[:key=value,...]``.
        summary: what it does, in one line.
        options: what may be given behind the name.
        source: paper or origin.
        collectives: names of the collectives it can do.
    """

    name: str
    summary: str
    options: list[Parameter]
    source: str
    collectives: list[str]
