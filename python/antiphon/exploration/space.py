"""Spaces of designs: every combination of fabrics, values of axes and algorithms."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from antiphon._core import System, fidelities
from antiphon.arguments import shown
from antiphon.collective.specs import known_names, specs_of
from antiphon.errors import AntiphonError
from antiphon.files import read_toml
from antiphon.given import as_collective
from antiphon.platforms import RATES, read_system
from antiphon.studies.commands import COMMANDS, SETTING, CommandPoint, unknown
from antiphon.studies.grid import LARGEST_FILE, MOST_POINTS

PARTS = (
    "collective",
    "bytes",
    "weights",
    "system",
    "set",
    "algorithms",
    "fidelity",
    "fabrics",
    "axes",
    "equal",
    "constraints",
)
"""What a description of a space has."""
FABRIC = ("fabric", "algorithms", "set")
"""What a fabric of a space has, where it is a table."""
ALL = "all that apply"
"""In place of names of algorithms."""
RATE = "rate"
"""The place of the rate of links in a fabric, in GB/s."""
AREAS = {"mm2": 1.0}
IO = "io"
"""What a node sends over all its ports together, if that is equal or an axis."""
AREA = "area"
"""That of all routers, if it is equal."""
EQUAL = {IO: ("io_gb_per_s", {unit: float(size) for unit, size in RATES.items()}), AREA: ("area_mm2", AREAS)}
"""What can be made equal by the rate of links: the figure of the cost, and units of its values."""
CONSTRAINTS = (
    "time_ns",
    "energy_j",
    "power_w",
    "area_mm2",
    "ports",
    "link_gb_per_s",
    "io_gb_per_s",
    "wire_mm",
    "longest_link_mm",
    "beachfront_mm",
)
"""Figures of a design that may have a largest value."""
PLACE = re.compile(r"\{(\w*)\}")
QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d{1,2})?|\.\d+)\s*([A-Za-z/][A-Za-z0-9/]*)\s*")
"""A number with a unit."""

Values = dict[str, Any]


@dataclass(frozen=True)
class Design:
    """A fabric, an algorithm and parameters of the system.

    Attributes:
        name: that of the fabric in the space.
        values: of the axes that it has, and what is equal.
        settings: parameters of the system that are replaced, by keys such as ``set.link_rate``.
    """

    name: str
    values: tuple[tuple[str, Any], ...]
    fabric: str
    settings: tuple[tuple[str, Any], ...]
    algorithm: str


@dataclass(frozen=True)
class Template:
    """A fabric of a space, with places such as ``{side}`` for values."""

    name: str
    text: str
    settings: Values
    algorithms: Sequence[str] | None

    @property
    def places(self) -> list[str]:
        """Names of the places."""
        return list(dict.fromkeys(PLACE.findall(self.text)))

    def filled(self, values: Mapping[str, Any], rate_gb_per_s: float | None = None) -> str:
        """The specification with values in their places."""
        given = {name: _text(value) for name, value in values.items()}
        if rate_gb_per_s is not None:
            given[RATE] = f"{rate_gb_per_s:.9f}".rstrip("0").rstrip(".")
        return PLACE.sub(lambda place: given[place[1]], self.text)


@dataclass(frozen=True)
class Variant:
    """A template with values of its axes, before its rate is solved."""

    template: Template
    values: Values
    settings: Values
    equal: tuple[str, float] | None
    algorithms: Sequence[str]


@dataclass(frozen=True)
class Space:
    """A space of designs, and what they are judged by.

    Attributes:
        name: of its file.
        workloads: collectives with their sizes in bytes and weights: the time of a design is the sum of weights times
            times, and its energy that of energies.
        axes: values by key, of templates and of the system.
        equal: the key, its value and its text of every case in which something is equal.
        constraints: largest values of figures.
    """

    name: str
    workloads: Sequence[tuple[str, int, float]]
    system: str
    settings: Values
    algorithms: Sequence[str]
    fidelity: str
    templates: Sequence[Template]
    axes: Mapping[str, Sequence[Any]]
    equal: Sequence[tuple[str, float, str]] = ()
    constraints: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Space:
        """The space of a TOML file.

        Raises:
            AntiphonError: ``bad-file`` if it cannot be read or is no TOML; as ``of``, naming the file.
        """
        path = os.fspath(path)
        return cls.of(read_toml(path, LARGEST_FILE), path)

    @classmethod
    def of(cls, description: Mapping[str, Any], where: str = "space") -> Space:
        """The space of a description as in a file.

        >>> space = Space.of({"fabrics": {"mesh": "mesh:{side}x{side}"}, "axes": {"side": [2, 4]}})
        >>> [variant.template.filled(variant.values) for variant in space.variants()]
        ['mesh:2x2', 'mesh:4x4']

        Raises:
            AntiphonError: ``unknown-name`` with the nearest key; ``bad-spec`` or ``bad-size`` for a value;
                ``too-large`` for too many designs.
        """
        for part in description:
            if part not in PARTS:
                raise unknown("key", str(part), list(PARTS), where)
        system = _word(description.get("system", "generic"), f"{where}: system")
        read_system(system)
        settings = _settings(description.get("set", {}), f"{where}: set")
        algorithms = _algorithms(description.get("algorithms", ALL), f"{where}: algorithms")
        axes = _axes(description.get("axes", {}), f"{where}: axes")
        same = _table(description.get("equal", {}), f"{where}: equal")
        templates = _templates(description.get("fabrics"), axes, same, f"{where}: fabrics")
        fidelity = _checked("fidelity", description.get("fidelity", "packet"), where)
        if fidelity not in fidelities():
            raise unknown("fidelity", fidelity, fidelities(), where)
        space = cls(
            os.path.basename(where),
            _workloads(description, where),
            system,
            settings,
            algorithms,
            fidelity,
            templates,
            axes,
            _equal(same, axes, templates, f"{where}: equal"),
            _constraints(description.get("constraints", {}), f"{where}: constraints"),
        )
        for key in axes:
            if not key.startswith(SETTING) and not any(key in template.places for template in templates):
                raise AntiphonError(f"{where}: axes: no fabric has a place {{{key}}}", "bad-spec")
            if key in settings:
                raise AntiphonError(f"{where}: axes: {key} is an axis, and given in set too", "bad-spec")
        if space.count > MOST_POINTS:
            raise AntiphonError(f"{where}: {space.count:,} designs; at most {MOST_POINTS:,}", "too-large")
        return space

    @cached_property
    def count(self) -> int:
        """Designs, as often as they are given; of more than are supported, some."""
        return sum(len(variant.algorithms) for variant in itertools.islice(self.variants(), MOST_POINTS + 1))

    @property
    def columns(self) -> list[str]:
        """Keys of what designs have besides fabric and algorithm."""
        fixed = [key for template in self.templates for key in template.settings]
        return list(dict.fromkeys([*(key for key, *_ in self.equal), *self.axes, *fixed, *self.settings]))

    def variants(self) -> Iterator[Variant]:
        """Templates with every combination of the values of their axes, and of what is equal."""
        cases: Sequence[tuple[str, float, str] | None] = self.equal or [None]
        for template in self.templates:
            own = [key for key in self.axes if key in template.places]
            system = [key for key in self.axes if key.startswith(SETTING) and key not in template.settings]
            for equal in cases:
                for chosen in itertools.product(*(self.axes[key] for key in [*own, *system])):
                    values = dict(zip([*own, *system], chosen, strict=True))
                    settings = self.settings | template.settings | {key: values[key] for key in system}
                    shown_values = ({} if equal is None else {equal[0]: equal[2]}) | values
                    yield Variant(
                        template,
                        shown_values,
                        settings,
                        None if equal is None else equal[:2],
                        self.algorithms if template.algorithms is None else template.algorithms,
                    )

    def system_of(self, settings: Mapping[str, Any]) -> System:
        """The system with parameters replaced."""
        return read_system(self.system, {key.removeprefix(SETTING): value for key, value in settings.items()})

    def points(self, design: Design) -> list[CommandPoint]:
        """The runs of a design, one for each workload."""
        shared = {"fabric": design.fabric, "algorithm": design.algorithm, "system": self.system, "energy": True}
        shared |= {"fidelity": self.fidelity, **dict(design.settings)}
        given = ({**shared, "collective": kind, "bytes": size} for kind, size, _weight in self.workloads)
        return [CommandPoint("simulate", tuple(sorted(each.items()))) for each in given]

    def sum(self, figures: Sequence[float]) -> float:
        """A figure of a design from those of its workloads."""
        return math.fsum(weight * each for (*_, weight), each in zip(self.workloads, figures, strict=True))


def quantity(text: str | float, units: Mapping[str, float], where: str) -> float:
    """The number of a value that has one of these units, or none, in the first of them that is 1.

    Raises:
        AntiphonError: ``bad-size``.
    """
    match = QUANTITY.fullmatch(str(text))
    if match and match[2] in units:
        return float(match[1]) * units[match[2]]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        usual = next(unit for unit, size in units.items() if size == 1)
        raise AntiphonError(f"{where}: {shown(text)} is no value above 0; write for example 20{usual}", "bad-size")
    return value


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _word(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise AntiphonError(f"{where} is {shown(value)}; expected text", "bad-spec")
    return value


def _list(value: Any, where: str) -> list[Any]:
    """A list, or one of a single value."""
    several = list(value) if isinstance(value, list | tuple) else [value]
    if not several or isinstance(value, Mapping):
        raise AntiphonError(f"{where} is {shown(value)}; give a value or a list of values", "bad-spec")
    return several


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise AntiphonError(f"{where}: {shown(value)} is no table of keys", "bad-spec")
    return value


def _checked(key: str, value: Any, where: str) -> Any:
    """A value of a key of ``simulate``."""
    return COMMANDS["simulate"].checked(key, value, where)[1]


def _settings(given: Any, where: str) -> Values:
    return {SETTING + key: _checked(SETTING + key, value, where) for key, value in _table(given, where).items()}


def _algorithms(given: Any, where: str) -> list[str]:
    if given == ALL:
        return known_names()
    specs = specs_of(_list(given, where))
    for spec in specs:
        if spec.partition(":")[0] not in known_names():
            raise unknown("algorithm", spec, known_names(), where)
    return list(dict.fromkeys(specs))


def _workloads(description: Mapping[str, Any], where: str) -> list[tuple[str, int, float]]:
    kinds = [
        as_collective(_word(kind, f"{where}: collective"))
        for kind in _list(description.get("collective", "all-reduce"), f"{where}: collective")
    ]
    sizes = [_checked("bytes", size, where) for size in _list(description.get("bytes", "64MiB"), f"{where}: bytes")]
    pairs = list(itertools.product(kinds, sizes))
    if len(set(pairs)) < len(pairs):
        raise AntiphonError(f"{where}: a workload is given twice; give it once, with a weight", "bad-spec")
    weights = _list(description.get("weights", [1] * len(pairs)), f"{where}: weights")
    if len(weights) != len(pairs):
        what = f"{len(weights)} weights for {len(pairs)} workloads: every collective with every size"
        raise AntiphonError(f"{where}: {what}", "bad-spec")
    numbers = [_number(weight, f"{where}: weights") for weight in weights]
    return [(*pair, weight) for pair, weight in zip(pairs, numbers, strict=True)]


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise AntiphonError(f"{where}: {shown(value)} is no number above 0", "bad-size")
    return float(value)


def _axes(given: Any, where: str) -> dict[str, list[Any]]:
    axes: dict[str, list[Any]] = {}
    for key, several in _table(given, where).items():
        if key == SETTING[:-1]:
            for name, values in _table(several, f"{where}: set").items():
                found = _list(values, f"{where}: {SETTING}{name}")
                axes[SETTING + name] = [_checked(SETTING + name, value, where) for value in found]
            continue
        axes[key] = _list(several, f"{where}: {key}")
        for value in axes[key]:
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise AntiphonError(f"{where}: {key} has {shown(value)}; give numbers or texts", "bad-spec")
            if key == RATE:
                quantity(value, EQUAL[IO][1], f"{where}: {RATE}")
    return axes


def _templates(given: Any, axes: Mapping[str, Any], equal: Iterable[str], where: str) -> list[Template]:
    if not given:
        raise AntiphonError(f"{where} is missing; give a name and a specification for each", "bad-spec")
    templates = []
    for name, each in _table(given, where).items():
        here = f"{where}.{name}"
        table = {"fabric": each} if isinstance(each, str) else _table(each, here)
        for key in table:
            if key not in FABRIC:
                raise unknown("key", key, list(FABRIC), here)
        if "fabric" not in table:
            raise AntiphonError(f"{here}: fabric is missing; give a specification", "bad-spec")
        own = table.get("algorithms")
        text = _word(table["fabric"], f"{here}: fabric")
        template = Template(
            name,
            text,
            _settings(table.get("set", {}), f"{here}: set"),
            None if own is None else _algorithms(own, f"{here}: algorithms"),
        )
        known = [*(key for key in axes if not key.startswith(SETTING)), *equal, RATE]
        for place in template.places:
            if place not in known:
                raise unknown("axis", place, known, here)
        if re.search(r"[{}]", PLACE.sub("", text)):
            raise AntiphonError(f"{here}: '{text[:60]}' has a brace without another; write {{side}}", "bad-spec")
        templates.append(template)
    return templates


def _equal(
    table: Mapping[str, Any], axes: Mapping[str, Any], templates: Sequence[Template], where: str
) -> list[tuple[str, float, str]]:
    for key in table:
        if key not in EQUAL:
            raise unknown("key", key, list(EQUAL), where)
    if len(table) > 1:
        raise AntiphonError(f"{where}: {' and '.join(table)} cannot both be equal; give one", "bad-spec")
    rated = [template.name for template in templates if RATE in template.places]
    if same := [key for key in table if key in axes]:
        raise AntiphonError(f"{where}: {same[0]} is an axis, too", "bad-spec")
    if table and RATE in axes:
        raise AntiphonError(f"{where}: the rate of links follows from it; leave out the axis rate", "bad-spec")
    if not table and rated and RATE not in axes:
        what = f"fabrics.{rated[0]} has a place {{rate}}; give an axis rate, or equal.io or equal.area"
        raise AntiphonError(f"{where.removesuffix(': equal')}: {what}", "bad-spec")
    return [
        (key, quantity(value, EQUAL[key][1], f"{where}: {key}"), _text(value))
        for key, values in table.items()
        for value in _list(values, f"{where}: {key}")
    ]


def _constraints(given: Any, where: str) -> dict[str, float]:
    table = _table(given, where)
    for key in table:
        if key not in CONSTRAINTS:
            raise unknown("constraint", key, list(CONSTRAINTS), where)
    return {key: _number(value, f"{where}: {key}") for key, value in table.items()}
