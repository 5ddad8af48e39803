"""What a study can run: the commands of the command line, by their names, with their options as keys."""

from __future__ import annotations

import difflib
import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, NewType, get_args, get_type_hints

from antiphon._core import Fabric, Schedule, System, parse_bytes
from antiphon.arguments import shown
from antiphon.collective.comparison import bounded, compare, run
from antiphon.collective.configuring import configure
from antiphon.collective.schedules import Heartbeat, build, lower_bound, read_schedule
from antiphon.collective.tuning import tune
from antiphon.declared import REQUIRED, Input, inputs
from antiphon.errors import AntiphonError
from antiphon.network.noc import noc
from antiphon.network.rails import rails
from antiphon.network.saturation import noc_saturation
from antiphon.platforms import parameter_names, read_endpoint, read_system
from antiphon.studies.jobs import Job, Record
from antiphon.training.train import train

Size = NewType("Size", int)
"""A number of bytes, given as one or as text with a unit."""
SETTING = "set."
"""Before the name of a parameter of the system where a key could be."""
PROBLEM = ("collective", "root", "bytes", "matrix")
"""Keys that say what is to be done, where no schedule does."""
KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", Size: "a size such as 64MiB"}
"""Kinds of values, in words."""


@dataclass(frozen=True)
class CommandPoint(Job):
    """A command with values for its keys."""

    command: str
    values: tuple[tuple[str, Any], ...]

    def measure(self, progress: Heartbeat | None = None) -> Record:
        """What the command prints with ``--json``, without tables."""
        given = dict(self.values)
        settings = {key.removeprefix(SETTING): given.pop(key) for key in list(given) if key.startswith(SETTING)}
        command = COMMANDS[self.command]
        system = read_system(given.pop("system", command.system), settings)
        if "endpoint" in given:
            system = system.with_(endpoint=read_endpoint(given.pop("endpoint")))
        return command.run(progress or (lambda _share: None), system=system, **given)


@dataclass(frozen=True)
class Command:
    """A command as a function of a heartbeat and its keys.

    Attributes:
        run: makes the record. What it takes by name are keys; ``**given`` are the others of what it is of.
        of: functions of the package that it calls, whose inputs are keys.
        shown: columns of its results that are shown on a terminal.
        also: further ones that tables have unless others are chosen.
        without: inputs of these functions that are no keys.
        system: the platform where none is named.
    """

    run: Callable[..., Record]
    of: tuple[Callable[..., Any], ...]
    shown: tuple[str, ...]
    also: str
    without: str = ""
    system: str = "generic"

    @property
    def columns(self) -> list[str]:
        """The main ones."""
        return [*self.shown, *self.also.split()]

    @property
    def keys(self) -> Mapping[str, Any]:
        """Kinds of values, by key."""
        return _keys(self)

    def required(self) -> list[str]:
        """Keys that must be given."""
        own = inspect.signature(self.run).parameters
        declared = [each for function in self.of for each in inputs(function).values() if each.key in self.keys]
        needed = [each.key for each in declared if each.default is REQUIRED and each.key not in own]
        required = [key for key, each in own.items() if key in self.keys and each.default is REQUIRED]
        return [key for key in [*required, *needed] if key != "system"]

    def checked(self, key: str, value: Any, where: str) -> tuple[str, Any]:
        """A key and its value, as they are in a point.

        Raises:
            AntiphonError: ``unknown-name`` with the nearest key; ``bad-spec`` for a value of another kind.
        """
        if key.startswith(SETTING):
            known = [SETTING + name for name in parameter_names()]
            kind: Any = str | int | float | bool
        else:
            known = list(self.keys)
            key = key.replace("-", "_")
            kind = self.keys.get(key)
        if key not in known:
            raise unknown("key", key, known, where)
        kinds = [each for each in get_args(kind) or [kind] if each is not type(None)]
        if kinds == [Size]:
            try:
                return key, parse_bytes(value)
            except (AntiphonError, TypeError) as error:
                raise AntiphonError(f"{where}: {key}: {error}", "bad-size") from None
        if type(value) in kinds or (type(value) is int and float in kinds):
            return key, value
        words = " or ".join(KINDS[each] for each in kinds)
        raise AntiphonError(f"{where}: {key} is {shown(value)}; expected {words}", "bad-spec")


HANDLED = frozenset(("progress", "jobs", "time_limit_s", "trace", "playback", "chakra", "bound"))
"""Inputs of functions that are no keys."""


@cache
def _keys(command: Command) -> dict[str, Any]:
    hints = get_type_hints(command.run)
    own = {
        each.name: hints[each.name]
        for each in inspect.signature(command.run).parameters.values()
        if each.kind is each.KEYWORD_ONLY
    }
    left_out = {*HANDLED, *command.without.split()}
    given = {
        each.key: _kind(each)
        for function in command.of
        for each in inputs(function).values()
        if each.key not in left_out and not each.called
    }
    return given | own | {"system": str, "endpoint": str}


def _kind(given: Input) -> Any:
    """The type of an input's values in a file."""
    if given.key == "bytes":
        return Size
    kinds: dict[str, Any] = {"bool": bool, "SupportsIndex": int, "int": int, "float": float, "str": str}
    taken = dict.fromkeys(kind for name, kind in kinds.items() if given.takes(name))
    return reduce(operator.or_, taken or [str])


def unknown(kind: str, name: str, known: list[str], where: str) -> AntiphonError:
    """The error about a name that is not known, with the nearest that is."""
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
    return AntiphonError(f"{where}: no {kind} '{name[:40]}'; {hint}", "unknown-name")


def _fabric(spec: str, group: str | None) -> Fabric:
    fabric = Fabric(spec)
    return fabric if group is None else fabric.group(group)


def _own(path: str, fabric: Fabric, problem: Mapping[str, Any]) -> Schedule:
    """A schedule from a file, which says what is to be done."""
    if problem:
        raise AntiphonError(f"{', '.join(problem)}: this is what the schedule says; leave it out", "bad-spec")
    return read_schedule(path, fabric)


def _simulate(
    heartbeat: Heartbeat,
    *,
    fabric: str,
    algorithm: str | None = None,
    schedule: str | None = None,
    group: str | None = None,
    system: System,
    fidelity: str = "packet",
    energy: bool = False,
    **problem: Any,
) -> Record:
    network = _fabric(fabric, group)
    if (algorithm is None) == (schedule is None):
        raise AntiphonError("give either algorithm or schedule", "bad-spec")
    if algorithm is not None:
        built = build(network, algorithm, system=system, progress=heartbeat, **problem)
    else:
        built = _own(schedule or "", network, problem)
    return run(network, built, system, fidelity, progress=heartbeat, energy=energy).to_dict()


def _compare(
    heartbeat: Heartbeat, *, fabric: str, schedule: str | None = None, group: str | None = None, **given: Any
) -> Record:
    network = _fabric(fabric, group)
    problem = {key: given.pop(key) for key in PROBLEM if key in given}
    own = [] if schedule is None else [_own(schedule, network, problem)]
    for each in own:
        size = {"bytes": each.bytes} if each.matrix is None else {"matrix": each.matrix}
        problem = {"collective": each.collective, "root": each.root or 0} | size
    report = _named(heartbeat)
    comparison = compare(network, schedules=own, jobs=1, progress=report, **given, **problem)
    if not comparison.runs:
        message = f"no algorithm could do {comparison.collective} on {comparison.fabric}"
        raise AntiphonError(message, "not-applicable")
    document = comparison.to_dict()
    return document | {"best": document["runs"][0]}


def _bound(_heartbeat: Heartbeat, *, fabric: str, group: str | None = None, **given: Any) -> Record:
    return bounded(_fabric(fabric, group), **{"fidelity": "packet", **given})[1]


def _tune(
    heartbeat: Heartbeat,
    *,
    fabric: str,
    collective: str = "all-reduce",
    sizes: str | int | None = None,
    group: str | None = None,
    **given: Any,
) -> Record:
    buffers = [sizes] if isinstance(sizes, int) else sizes
    found = tune(_fabric(fabric, group), collective, buffers, jobs=1, progress=_named(heartbeat), **given)
    document = found.to_dict()
    return document | ({"best": document["choices"][0]} if len(document["choices"]) == 1 else {})


def _configure(heartbeat: Heartbeat, *, fabric: str, schedule: str | None = None, **given: Any) -> Record:
    problem = {key: value for key, value in given.items() if key in PROBLEM}
    own = None if schedule is None else _own(schedule, Fabric(fabric), problem)
    return configure(fabric, schedule=own, progress=heartbeat, **given).to_dict()


def _train(heartbeat: Heartbeat, *, fabric: str, group: str | None = None, **given: Any) -> Record:
    rails = fabric.startswith("rails:")
    if rails and group is not None:
        raise AntiphonError(f"{fabric}: groups are of fabrics; name the dimensions that take part", "not-applicable")
    network = fabric if rails else _fabric(fabric, group)
    return train(fabric=network, progress=_named(heartbeat), **given).to_dict()


def _rails(_heartbeat: Heartbeat, *, system: System, free_order: bool = False, **given: Any) -> Record:
    return rails(endpoint=system.endpoint, system=system, enforced=not free_order, **given).to_dict()


def _noc(
    heartbeat: Heartbeat,
    *,
    fabric: str,
    traffic: str = "uniform",
    rate: float | None = None,
    saturation: bool = False,
    group: str | None = None,
    **given: Any,
) -> Record:
    network = _fabric(fabric, group)
    if saturation and rate is not None:
        raise AntiphonError("give either rate or saturation", "bad-spec")
    if saturation:
        return noc_saturation(network, traffic, progress=heartbeat, **given).to_dict()
    return noc(network, traffic, 0.1 if rate is None else rate, progress=heartbeat, **given).to_dict()


def _named(heartbeat: Heartbeat) -> Callable[[str, float], object]:
    """Progress of what has a name."""
    return lambda _name, share: heartbeat(share)


COMMANDS = {
    "simulate": Command(
        _simulate,
        (build,),
        ("time_ns", "efficiency", "bus_bandwidth_gb_per_s"),
        "algorithm ranks verified lower_bound_ns bound.binding algorithm_bandwidth_gb_per_s"
        " link_utilization_mean link_utilization_max steps energy.total_j",
    ),
    "compare": Command(
        _compare,
        (compare,),
        ("best.algorithm", "best.time_ns", "best.efficiency"),
        "best.verified lower_bound_ns bound.binding best.algorithm_bandwidth_gb_per_s best.bus_bandwidth_gb_per_s"
        " best.link_utilization_mean best.link_utilization_max best.steps best.energy.total_j",
        without="schedules estimates library",
    ),
    "bound": Command(
        _bound,
        (lower_bound,),
        ("bound.binding", "lower_bound_ns"),
        "bound.volume_ns bound.cut_ns bound.latency_ns bound.strength_ns bound.prices_ns bound.endpoint_ns"
        " bound.computation_ns bound.limit.text",
    ),
    "train": Command(
        _train,
        (train,),
        ("iteration_ns", "exposed_communication_ns", "epoch_ns"),
        "global_batch iterations samples_per_s compute_ns communication_ns overlapped_communication_ns"
        " exposed_model_ns exposed_data_ns gradient_bytes energy.total_j",
    ),
    "rails": Command(
        _rails,
        (rails,),
        ("time_ns", "utilization"),
        "utilization_bound jittered_time_ns npus scheduler intra chunks endpoint energy.total_j",
        without="enforced",
        system="ideal",
    ),
    "noc": Command(
        _noc,
        (noc,),
        ("rate", "accepted_flits_per_node_cycle", "packet_latency_cycles.mean", "stable"),
        "packet_latency_cycles.half_width packet_latency_cycles.p50 packet_latency_cycles.p99"
        " network_latency_cycles.mean hops_mean packets cycles unstable_rate energy.total_j",
    ),
    "configure": Command(
        _configure,
        (configure,),
        ("algorithm", "time_ns", "speedup", "efficiency"),
        "fabric given_ns lower_bound_ns lower_bound_by simulated ended",
        system="aries",
    ),
    "tune": Command(
        _tune,
        (tune,),
        ("best.algorithm", "best.time_ns", "best.efficiency"),
        "best.lower_bound_ns best.lower_bound_of best.algorithm_bandwidth_gb_per_s objective best.energy.total_j",
    ),
}
"""By name."""
