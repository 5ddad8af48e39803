"""Grids of points: every combination of the values of some keys of a command."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from antiphon.arguments import expect, shown
from antiphon.collective.tuning import size_range
from antiphon.errors import AntiphonError
from antiphon.files import read_toml
from antiphon.studies.commands import COMMANDS, SETTING, Command, CommandPoint, Size, unknown

PARTS = ("command", "fixed", "axes", "case")
"""What a description of a grid has."""
LARGEST_FILE = 1 << 24
"""Descriptions are read whole; larger ones are refused."""
MOST_POINTS = 1_000_000
"""Points of one study."""

Values = dict[str, Any]
"""Values of keys of a command."""


@dataclass(frozen=True)
class Grid:
    """Every combination of the values of the axes, for each of the cases.

    Attributes:
        command: ``simulate``, ``compare``, ``bound``, ``train``, ``rails``, ``noc`` or ``tune``.
        axes: values of each key that varies; the last varies fastest.
        fixed: values of keys that all points share.
        cases: values of keys that vary together; none is like one without keys.
    """

    command: str
    axes: Mapping[str, Sequence[Any]]
    fixed: Mapping[str, Any]
    cases: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, description: Mapping[str, Any], where: str = "grid") -> Grid:
        """The grid of a description as in a file: ``command``, ``axes``, ``fixed`` and ``case``.

        >>> grid = Grid.of({"command": "rails", "axes": {"topology": ["2D-SW_SW"], "chunks": [16, 64]}})
        >>> [dict(point.values)["chunks"] for point in grid.points()]
        [16, 64]

        Raises:
            AntiphonError: ``unknown-name`` with the nearest key; ``bad-spec`` or ``bad-size`` for a value, and for a
                key that is missing or given twice; ``too-large``.
        """
        for part in description:
            if part not in PARTS:
                raise unknown("part", str(part), list(PARTS), where)
        name = description.get("command")
        if not isinstance(name, str):
            raise AntiphonError(f"{where}: command is missing; name one of {', '.join(COMMANDS)}", "bad-spec")
        if name not in COMMANDS:
            raise unknown("command", name, list(COMMANDS), where)
        command = COMMANDS[name]
        axes = _axes(command, description.get("axes", {}), f"{where}: axes")
        fixed = _values(command, description.get("fixed", {}), f"{where}: fixed")
        given = description.get("case", [])
        if not isinstance(given, list | tuple):
            raise AntiphonError(f"{where}: case is {shown(given)}; write [[case]] above each", "bad-spec")
        cases = [_values(command, each, f"{where}: case {number}") for number, each in enumerate(given, 1)]
        grid = cls(name, axes, fixed, cases)
        grid._check(command, where)
        return grid

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Grid:
        """The grid of a TOML file.

        Raises:
            AntiphonError: ``bad-file`` if it cannot be read or is no TOML; as ``of``, naming the file.
        """
        path = os.fspath(path)
        return cls.of(read_toml(path, LARGEST_FILE), path)

    @property
    def columns(self) -> list[str]:
        """Keys that vary, those of cases first."""
        return list(dict.fromkeys([*(key for case in self.cases for key in case), *self.axes]))

    def __len__(self) -> int:
        return max(len(self.cases), 1) * prod(map(len, self.axes.values()))

    def points(self) -> Iterator[CommandPoint]:
        """The points, case by case."""
        for case in self.cases or [{}]:
            for values in itertools.product(*self.axes.values()):
                point = {**self.fixed, **case, **dict(zip(self.axes, values, strict=True))}
                yield CommandPoint(self.command, tuple(sorted(point.items())))

    def _check(self, command: Command, where: str) -> None:
        """Refuses keys that are given twice or not at all, and too many points."""
        for case in self.cases or [{}]:
            for key in self.axes:
                for place, others in (("fixed", self.fixed), ("a case", case)):
                    if key in others:
                        raise AntiphonError(f"{where}: {key} is an axis, and given in {place} too", "bad-spec")
            for key in command.required():
                if not any(key in values for values in (self.axes, self.fixed, case)):
                    raise AntiphonError(f"{where}: {self.command} needs {key}: an axis, or fixed", "bad-spec")
        if len(self) > MOST_POINTS:
            raise AntiphonError(f"{where}: {len(self):,} points; at most {MOST_POINTS:,}", "too-large")


def _flat(values: Any, where: str) -> Values:
    """Values by key; those of the table ``set`` are parameters of the system."""
    if not isinstance(values, Mapping):
        raise AntiphonError(f"{where}: {shown(values)} is no table of keys", "bad-spec")
    flat: Values = {}
    for key, value in values.items():
        expect("key", key, str)
        settings = value if key == SETTING[:-1] and isinstance(value, Mapping) else None
        flat |= {key: value} if settings is None else {f"{SETTING}{name}": each for name, each in settings.items()}
    return flat


def _values(command: Command, values: Any, where: str) -> Values:
    return dict(command.checked(key, value, where) for key, value in _flat(values, where).items())


def _range(command: Command, key: str, value: Any) -> list[int]:
    """The sizes of a range; none if the value is no range."""
    ranges = command.keys.get(key) is Size and isinstance(value, str) and ".." in value
    return size_range(str(value)) if ranges else []


def _axes(command: Command, values: Any, where: str) -> dict[str, list[Any]]:
    axes: dict[str, list[Any]] = {}
    for key, several in _flat(values, where).items():
        given = _range(command, key, several) or several
        if isinstance(given, str | Mapping) or not isinstance(given, Sequence) or not given:
            raise AntiphonError(f"{where}: {key} is {shown(given)}; give a list of values", "bad-spec")
        every = (each for value in given for each in _range(command, key, value) or [value])
        pairs = [command.checked(key, value, where) for value in every]
        axes[pairs[0][0]] = [value for _key, value in pairs]
    return axes
