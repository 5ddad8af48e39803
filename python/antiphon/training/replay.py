"""Execution traces replayed on a fabric: what every rank computes and exchanges, and when it is done."""

from __future__ import annotations

import os
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, get_args

import numpy as np

from antiphon import plot
from antiphon._core import ExecutionTrace, Fabric, Schedule, System, build
from antiphon.arguments import expect
from antiphon.collective.timing import Progress
from antiphon.errors import AntiphonError
from antiphon.files import read_text
from antiphon.given import as_fabric, as_system
from antiphon.names import Fidelity, Order
from antiphon.results import Result, Table
from antiphon.results.record import APART, PLATFORM, record, says
from antiphon.training.networks import collectives_of
from antiphon.training.profiles import converted, profiles_of
from antiphon.training.traces import prefix_of, trace_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST_GROUPS = 1 << 26
"""Files of groups are read whole; larger ones are refused."""
MOST_BUILT = 1 << 14
"""Different exchanges for which schedules are built."""
MOST_DRAWN = 64
"""Ranks of a chart."""


@record
class Replay(Result):
    """Execution traces on one fabric.

    >>> import antiphon, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prefix = os.path.join(folder, "alexnet")
    ...     _ = antiphon.train("alexnet", "ring:4", "ring", in_flight="shared", chakra=prefix)
    ...     replayed = antiphon.replay(prefix, "ring:4", "ring")
    >>> replayed.ranks.height, replayed.exchanges["kind"].tolist()
    (4, ['all-reduce'])

    Its table ``replays`` is one row, what ``to_dict`` has.
    """

    trace: str = says("prefix of the files.")
    fabric: str = says("specification of the fabric.")
    algorithm: str = says("the algorithm of its collectives.")
    exchange: str = says("the algorithm of those that ``algorithm`` does not do.")
    system: System = says("the platform.", PLATFORM)
    fidelity: str = says("at which exchanges were simulated.")
    compute: str | None = says("the compute model of nodes that say their operations only; None if there is none.")
    order: str = says("which exchange goes first where several are under way.", "order ranks=ranks.height")
    nodes: int = says("nodes of all ranks.")
    untimed_nodes: int = says(
        "those of them that compute for a time that the trace does not say: they take none.",
        "untimed_nodes exchanges=exchanges.height",
    )
    time_ns: float = says(
        "when the last rank was done.",
        "time_ns compute_ns communication_ns exposed_communication_ns exposed_communication_max_ns idle_ns",
    )
    exchanges: Table = says(
        "per exchange ``name``, ``kind`` (a collective, ``message`` or ``barrier``), ``bytes`` of the full buffer,"
        " ``group``, ``ranks`` (how many take part), ``ready_ns`` (the first of them was ready), ``start_ns`` (all,"
        " or the sender, were) and ``finish_ns``.",
        APART,
    )
    ranks: Table = says(
        "per rank ``compute_ns``, in which a stream of its accelerator computes; ``exposed_communication_ns``, in"
        " which none does and an exchange that it is ready for is not over; ``other_ns``, in which only its host or"
        " memory works; ``idle_ns``, in which it waits for other ranks or is done; ``finish_ns``, when it is done.",
        APART,
    )

    row = "replays"
    headline = (
        "Replay of {0.trace} on {0.fabric} with {0.algorithm}: {0.time_ns:,.1f} ns,"
        " {0.exposed_communication_ns:,.1f} ns exposed"
    )

    @property
    def compute_ns(self) -> float:
        """Time that a rank computes, the mean of all."""
        return float(self.ranks["compute_ns"].mean())

    @property
    def exposed_communication_ns(self) -> float:
        """Time that a rank computes nothing while its exchanges are not over, the mean of all."""
        return float(self.ranks["exposed_communication_ns"].mean())

    @property
    def exposed_communication_max_ns(self) -> float:
        """Exposed communication of the rank with the most."""
        return float(self.ranks["exposed_communication_ns"].max())

    @property
    def idle_ns(self) -> float:
        """Time that a rank does nothing, the mean of all."""
        return float(self.ranks["idle_ns"].mean())

    @property
    def communication_ns(self) -> float:
        """Sum of the times of all exchanges."""
        return float((self.exchanges["finish_ns"] - self.exchanges["start_ns"]).sum())

    def plot(self) -> Figure:
        """Where the time of each rank went (extra ``plots``)."""
        parts = ("compute", "exposed_communication", "other", "idle")
        tracks: dict[str, list[plot.Block]] = {}
        for rank in range(min(self.ranks.height, MOST_DRAWN)):
            start, blocks = 0.0, []
            for part in parts:
                time = float(self.ranks[f"{part}_ns"][rank])
                blocks.append((start, time, part.replace("_", " ")))
                start += time
            tracks[f"rank {rank}"] = blocks
        return plot.spans(f"{self.trace} on {self.fabric} with {self.algorithm}", tracks)


def replay(
    trace: str | os.PathLike[str],
    fabric: str | Fabric,
    algorithm: str,
    system: str | System = "generic",
    *,
    exchange: str = "direct",
    compute: str | None = None,
    groups: str | os.PathLike[str] | None = None,
    order: Order | str = "priority",
    fidelity: Fidelity | str = "packet",
    progress: Progress | None = None,
) -> Replay:
    """The time of execution traces, Chakra's or those of PyTorch's profiler, on a fabric: every rank computes and
    exchanges as its own trace says.

    Collectives start when all ranks of their group are ready, messages when their sender is, and all that are under way
    share the links. Schedules are proven first.

    >>> import antiphon, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prefix = os.path.join(folder, "alexnet")
    ...     trained = antiphon.train("alexnet", "ring:4", "ring", in_flight="shared", chakra=prefix)
    ...     replay(prefix, "ring:4", "ring").time_ns == trained.iteration_ns
    True

    Args:
        trace: prefix of the files, ``PREFIX`` for ``PREFIX.0.et``, ``PREFIX.1.et``, ... or, of PyTorch's profiler,
            ``PREFIX.0.json``, ...; one of them, or their folder.
        fabric: specification or Fabric, whose ranks are those of the files.
        algorithm: ``name[:key=value,...]`` of the collectives.
        system: preset, file or System.
        exchange: algorithm of collectives that the other does not do.
        compute: ``roofline[:key=value,...]``, which times nodes that say their operations and no duration; default: the
            system's processor, if it is one.
        groups: a JSON file of the ranks of each group by name, ``{"1": [0, 1]}``; default: the groups that the traces
            list, else the ranks that name a group are in it.
        order: which exchange goes first where several are under way: ``priority`` (default: the lowest
            ``comm_priority``, then the one that started first), ``fifo``, ``lifo`` or ``fair``.
        fidelity: ``alpha-beta``, ``packet`` or ``flit``.
        progress: called with a title and the share done.

    Raises:
        AntiphonError: ``bad-file`` with file and node; ``stalled`` if ranks wait for each other; as
            ``simulate_flights``.
    """
    fabric, platform = as_fabric(fabric), as_system(system)
    for name, text in (("algorithm", algorithm), ("exchange", exchange), ("order", order)):
        expect(name, text, str)
    expect("compute", compute, str, type(None))
    expect("groups", groups, str, os.PathLike, type(None))
    if order not in get_args(Order):
        raise AntiphonError(f"no order '{order[:40]}'; known: {', '.join(get_args(Order))}", "unknown-name")
    if fabric.members is not None:
        message = f"{fabric.name}: traces are of all ranks of a fabric, by its own numbers; give the whole fabric"
        raise AntiphonError(message, "not-applicable")
    if compute is None and platform.processor.partition(":")[0] == "roofline":
        compute = platform.processor
    listed = None if groups is None else read_text(os.fspath(groups), LARGEST_GROUPS)
    expect("trace", trace, str, os.PathLike)
    profiles = profiles_of(trace)
    prefix = os.fspath(trace) if profiles else prefix_of(trace)
    reading = progress and partial(progress, f"{prefix} (reading)")
    if profiles:
        with TemporaryDirectory() as folder:
            files, named = converted(profiles, fabric.ranks, folder)
            try:
                work = ExecutionTrace.read(files, compute, listed or named, reading)
            except AntiphonError as error:
                message = error.message.replace(os.path.join(folder, "profile"), prefix)
                raise AntiphonError(message, error.code) from None
    else:
        work = ExecutionTrace.read(trace_files(trace, fabric.ranks, fabric.name), compute, listed, reading)
    table = Table(work.exchanges)
    members = work.groups
    schedules = _schedules(table, members, fabric, algorithm, exchange, platform)
    heartbeat = progress and partial(progress, f"{prefix} on {fabric.name}")
    times = work.run(fabric, schedules, platform, fidelity, order, heartbeat)
    numbers = table["group"].tolist()
    messages = table["from"] >= 0
    names = [
        f"{sender} > {receiver}" if message else members[number][0] or "all"
        for message, number, sender, receiver in zip(messages, numbers, table["from"], table["to"], strict=True)
    ]
    sizes = [2 if message else len(members[number][1]) for message, number in zip(messages, numbers, strict=True)]
    groups_of = np.asarray(names, "str")
    columns = {"name": table["name"], "kind": table["kind"], "bytes": table["bytes"]}
    return Replay(
        trace=prefix,
        fabric=fabric.name,
        algorithm=algorithm,
        exchange=exchange,
        system=platform,
        fidelity=fidelity,
        compute=compute,
        order=order,
        nodes=work.nodes,
        untimed_nodes=work.untimed,
        time_ns=times["time_ns"],
        ranks=Table(times["ranks"]),
        exchanges=Table(columns | {"group": groups_of, "ranks": np.asarray(sizes, np.int64)} | times["exchanges"]),
    )


def _schedules(
    table: Table,
    groups: list[tuple[str, list[int]]],
    fabric: Fabric,
    algorithm: str,
    exchange: str,
    system: System,
) -> list[Schedule | None]:
    """The schedule of every exchange, one for those that are alike; None where nothing goes over the network."""
    kinds = collectives_of(algorithm)
    known: dict[tuple[str, int, int, int], Schedule] = {}
    parts: dict[int, Fabric] = {}
    schedules: list[Schedule | None] = []
    columns = (table[name].tolist() for name in ("kind", "bytes", "group", "from", "to", "moves"))
    for kind, size, group, sender, receiver, moves in zip(*columns, strict=True):
        if not moves:
            schedules.append(None)
            continue
        key = (kind, size, sender, receiver) if sender >= 0 else (kind, size, -1, group)
        if key not in known:
            if len(known) == MOST_BUILT:
                message = f"the traces have more than {MOST_BUILT:,} exchanges of different sizes and groups"
                raise AntiphonError(message, "too-large")
            if sender >= 0:
                known[key] = build(fabric.group([sender, receiver]), "direct", "broadcast", size, system)
            else:
                ranks = groups[group][1]
                if group not in parts:
                    parts[group] = fabric if len(ranks) == fabric.ranks else fabric.group(ranks)
                name = algorithm if kind in kinds else exchange
                known[key] = build(parts[group], name, kind, size, system)
            if known[key].excluded:
                message = f"{algorithm} leaves out ranks, which the traces do not"
                raise AntiphonError(message, "not-applicable")
        schedules.append(known[key])
    return schedules
