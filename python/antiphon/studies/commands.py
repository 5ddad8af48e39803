"""What a study can run: the commands of the command line, by their names, with their options as keys."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NewType, get_args, get_type_hints

from antiphon._core import Fabric, Schedule, System, parse_bytes, router_parameters
from antiphon.arguments import shown
from antiphon.collective.comparison import bounded, compare, run
from antiphon.collective.configuring import STEPS, configure
from antiphon.collective.schedules import build, read_schedule
from antiphon.collective.tuning import tune
from antiphon.errors import AntiphonError
from antiphon.network.noc import noc
from antiphon.network.rails import rails
from antiphon.network.saturation import noc_saturation
from antiphon.platforms import parameter_names, read_endpoint, read_system
from antiphon.studies.jobs import Heartbeat, Job, Record
from antiphon.training.train import IMAGENET, train

Size = NewType("Size", int)
"""A number of bytes, given as one or as text with a unit."""
SETTING = "set."
"""Before the name of a parameter of the system where a key could be."""
PROBLEM: dict[str, Any] = {"collective": str, "root": int, "bytes": Size}
"""Keys that say what is to be done, where no schedule does."""
MATRIX: dict[str, Any] = {"matrix": str}
"""A file instead of ``bytes``."""
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
        run: makes the record.
        shown: columns of its results that are shown on a terminal.
        also: further ones that tables have unless others are chosen.
        more: keys, with their kinds, that ``run`` takes as further arguments.
        system: the platform where none is named.
    """

    run: Callable[..., Record]
    shown: tuple[str, ...]
    also: str
    more: Callable[[], Mapping[str, Any]] = field(default=dict)
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
        parameters = inspect.signature(self.run).parameters.values()
        needed = [each.name for each in parameters if each.default is each.empty and each.kind is each.KEYWORD_ONLY]
        return [name for name in needed if name != "system"]

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


@cache
def _keys_of(run: Callable[..., Record]) -> dict[str, Any]:
    hints = get_type_hints(run)
    parameters = inspect.signature(run).parameters.values()
    keys = {each.name: hints[each.name] for each in parameters if each.kind is each.KEYWORD_ONLY}
    return keys | {"system": str, "endpoint": str}


def _keys(command: Command) -> dict[str, Any]:
    return _keys_of(command.run) | dict(command.more())


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
    heartbeat: Heartbeat,
    *,
    fabric: str,
    algorithms: str | None = None,
    schedule: str | None = None,
    group: str | None = None,
    system: System,
    fidelity: str = "packet",
    energy: bool = False,
    **problem: Any,
) -> Record:
    network = _fabric(fabric, group)
    own = [] if schedule is None else [_own(schedule, network, problem)]
    for each in own:
        size = {"bytes": each.bytes} if each.matrix is None else {"matrix": each.matrix}
        problem = {"collective": each.collective, "root": each.root or 0} | size
    comparison = compare(
        network,
        algorithms=algorithms,
        schedules=own,
        system=system,
        fidelity=fidelity,
        jobs=1,
        progress=lambda _name, share: heartbeat(share),
        energy=energy,
        **problem,
    )
    if not comparison.runs:
        message = f"no algorithm could do {comparison.collective} on {comparison.fabric}"
        raise AntiphonError(message, "not-applicable")
    document = comparison.to_dict()
    return document | {"best": document["runs"][0]}


def _bound(
    _heartbeat: Heartbeat,
    *,
    fabric: str,
    group: str | None = None,
    system: System,
    fidelity: str = "packet",
    **problem: Any,
) -> Record:
    return bounded(_fabric(fabric, group), system=system, fidelity=fidelity, **problem)[1]


def _tune(
    heartbeat: Heartbeat,
    *,
    fabric: str,
    collective: str = "all-reduce",
    sizes: str | int | None = None,
    algorithms: str | None = None,
    all_ranks: bool = False,
    objective: str = "time",
    energy: bool = False,
    group: str | None = None,
    system: System,
    fidelity: str = "packet",
) -> Record:
    document = tune(
        _fabric(fabric, group),
        collective,
        [sizes] if isinstance(sizes, int) else sizes,
        algorithms,
        system,
        fidelity,
        all_ranks=all_ranks,
        objective=objective,
        energy=energy,
        jobs=1,
        progress=lambda _name, share: heartbeat(share),
    ).to_dict()
    return document | ({"best": document["choices"][0]} if len(document["choices"]) == 1 else {})


def _configure(
    heartbeat: Heartbeat,
    *,
    fabric: str,
    algorithms: str | None = None,
    schedule: str | None = None,
    system: System,
    fidelity: str = "packet",
    method: str | None = None,
    switch: str | None = None,
    steps: int = STEPS,
    **problem: Any,
) -> Record:
    own = None if schedule is None else _own(schedule, Fabric(fabric), problem)
    found = configure(
        fabric,
        algorithms,
        schedule=own,
        system=system,
        fidelity=fidelity,
        method=method,
        switch=switch,
        steps=steps,
        progress=heartbeat,
        **problem,
    )
    return found.to_dict()


def _train(
    heartbeat: Heartbeat,
    *,
    model: str,
    fabric: str,
    algorithm: str,
    system: System,
    overlap: str = "none",
    bucket: str = "table",
    batch: int | None = None,
    global_batch: int | None = None,
    dataset: int = IMAGENET,
    compute: str | None = None,
    gradient_bytes: int = 4,
    activation_bytes: int = 2,
    model_parallel: int = 1,
    recompute: bool = False,
    blocking: bool = False,
    in_flight: str | None = None,
    chunks: int | None = None,
    order: str | None = None,
    unroll: int = 1,
    contention: str = "dynamic",
    memory_bound: float | None = None,
    exchange: str | None = None,
    fidelity: str = "packet",
    energy: bool = False,
    group: str | None = None,
) -> Record:
    network: str | Fabric = fabric if fabric.startswith("rails:") else _fabric(fabric, group)
    if isinstance(network, str) and group is not None:
        raise AntiphonError(f"{fabric}: groups are of fabrics; name the dimensions that take part", "not-applicable")
    return train(
        model,
        network,
        algorithm,
        system,
        overlap=overlap,
        bucket=bucket,
        batch=batch,
        global_batch=global_batch,
        dataset=dataset,
        compute=compute,
        gradient_bytes=gradient_bytes,
        activation_bytes=activation_bytes,
        model_parallel=model_parallel,
        recompute=recompute,
        blocking=blocking,
        in_flight=in_flight,
        chunks=chunks,
        order=order,
        unroll=unroll,
        contention=contention,
        memory_bound=memory_bound,
        exchange=exchange,
        fidelity=fidelity,
        energy=energy,
        progress=lambda _name, share: heartbeat(share),
    ).to_dict()


def _rails(
    _heartbeat: Heartbeat,
    *,
    topology: str,
    bytes: Size = Size(100_000_000),
    collective: str = "all-reduce",
    scheduler: str = "search",
    intra: str | None = None,
    chunks: int | str | None = None,
    system: System,
    energy: bool = False,
    sharing: int = 1,
    offload: bool = False,
    fixed_delay: bool = False,
    threshold: int = 16,
    jitter_ns: float | None = None,
    free_order: bool = False,
    seed: int = 1,
) -> Record:
    return rails(
        topology,
        bytes,
        collective,
        scheduler,
        intra,
        chunks=chunks,
        endpoint=system.endpoint,
        system=system,
        energy=energy,
        sharing=sharing,
        offload=offload,
        fixed_delay=fixed_delay,
        threshold=threshold,
        jitter_ns=jitter_ns,
        enforced=not free_order,
        seed=seed,
    ).to_dict()


def _noc(
    heartbeat: Heartbeat,
    *,
    fabric: str,
    traffic: str = "uniform",
    rate: float | None = None,
    saturation: bool = False,
    group: str | None = None,
    packet_flits: int = 1,
    seed: int = 1,
    routing: str | None = None,
    link_cycles: int = 1,
    latency_cycles: int = 0,
    warm_up_cycles: int | None = None,
    cycles: int | None = None,
    system: System,
    energy: bool = False,
    **routers: Any,
) -> Record:
    network = _fabric(fabric, group)
    given = routers | {
        "packet_flits": packet_flits,
        "seed": seed,
        "routing": routing,
        "link_cycles": link_cycles,
        "latency_cycles": latency_cycles,
        "warm_up_cycles": warm_up_cycles,
        "cycles": cycles,
        "system": system,
        "energy": energy,
    }
    if saturation and rate is not None:
        raise AntiphonError("give either rate or saturation", "bad-spec")
    if saturation:
        return noc_saturation(network, traffic, progress=heartbeat, **given).to_dict()
    return noc(network, traffic, 0.1 if rate is None else rate, progress=heartbeat, **given).to_dict()


def _router_keys() -> dict[str, Any]:
    """The parameters of routers; a number that may be infinite may be text."""
    return {
        each.key: int | str if each.choices and each.kind == "count" else int if each.kind == "count" else str
        for each in router_parameters()
    }


COMMANDS = {
    "simulate": Command(
        _simulate,
        ("time_ns", "efficiency", "bus_bandwidth_gb_per_s"),
        "algorithm ranks verified lower_bound_ns bound.binding algorithm_bandwidth_gb_per_s"
        " link_utilization_mean link_utilization_max steps energy.total_j",
        lambda: PROBLEM | MATRIX,
    ),
    "compare": Command(
        _compare,
        ("best.algorithm", "best.time_ns", "best.efficiency"),
        "best.verified lower_bound_ns bound.binding best.algorithm_bandwidth_gb_per_s best.bus_bandwidth_gb_per_s"
        " best.link_utilization_mean best.link_utilization_max best.steps best.energy.total_j",
        lambda: PROBLEM | MATRIX,
    ),
    "bound": Command(
        _bound,
        ("bound.binding", "lower_bound_ns"),
        "bound.volume_ns bound.cut_ns bound.latency_ns bound.strength_ns bound.prices_ns bound.limit.text",
        lambda: PROBLEM | MATRIX,
    ),
    "train": Command(
        _train,
        ("iteration_ns", "exposed_communication_ns", "epoch_ns"),
        "global_batch iterations samples_per_s compute_ns communication_ns overlapped_communication_ns"
        " exposed_model_ns exposed_data_ns gradient_bytes energy.total_j",
    ),
    "rails": Command(
        _rails,
        ("time_ns", "utilization"),
        "utilization_bound jittered_time_ns npus scheduler intra chunks endpoint energy.total_j",
        system="ideal",
    ),
    "noc": Command(
        _noc,
        ("rate", "accepted_flits_per_node_cycle", "packet_latency_cycles.mean", "stable"),
        "packet_latency_cycles.half_width packet_latency_cycles.p50 packet_latency_cycles.p99"
        " network_latency_cycles.mean hops_mean packets cycles unstable_rate energy.total_j",
        _router_keys,
    ),
    "configure": Command(
        _configure,
        ("algorithm", "time_ns", "speedup", "efficiency"),
        "fabric given_ns lower_bound_ns lower_bound_by simulated ended",
        lambda: PROBLEM,
        system="aries",
    ),
    "tune": Command(
        _tune,
        ("best.algorithm", "best.time_ns", "best.efficiency"),
        "best.lower_bound_ns best.lower_bound_of best.algorithm_bandwidth_gb_per_s objective best.energy.total_j",
    ),
}
"""By name."""
