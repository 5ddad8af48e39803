"""Several collectives in flight on one fabric: what starts when, and who goes first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from antiphon import plot
from antiphon._core import Fabric, Schedule, System, build, flights_bound
from antiphon._core import simulate_flights as fly
from antiphon.arguments import expect
from antiphon.collective.matrix import amount
from antiphon.collective.schedules import named
from antiphon.collective.timing import Progress
from antiphon.errors import AntiphonError
from antiphon.files import LARGEST_SCHEDULE, parse_json, read_text, trace_to
from antiphon.given import as_fabric, as_system
from antiphon.names import Fidelity, Order
from antiphon.results import Result, SimulationResult, Table
from antiphon.results.record import APART, PLATFORM, Part, record, said, says

if TYPE_CHECKING:
    from matplotlib.figure import Figure


ORDERS = ("fifo", "lifo", "priority", "fair")
"""Who goes first on a link: the flight launched first, the one launched last, that of the lowest number, or that which
the link has served least."""
LATEST_NS = 1e15
"""Latest start of a flight."""
MOST = 1 << 16
"""Flights of one run."""
KEYS = (
    "name",
    "algorithm",
    "collective",
    "root",
    "bytes",
    "matrix",
    "schedule",
    "group",
    "groups",
    "start_ns",
    "after",
    "priority",
)
"""What an entry of a file of flights may say."""


@dataclass(frozen=True)
class Flight:
    """A schedule that is launched at some time.

    >>> Flight(build(Fabric("ring:4"), "ring", bytes=4096), start_ns=100.0, name="late").priority
    0

    Attributes:
        schedule: what is done; for all ranks of the fabric or for a group of them.
        start_ns: when it is launched at the earliest.
        after: numbers of the flights, in the list that this is in, that are to be over before.
        priority: with order ``priority`` flights of lower numbers go first.
        name: what it is called in results.
    """

    schedule: Schedule
    start_ns: float = 0.0
    after: Sequence[int] = field(default=())
    priority: int = 0
    name: str = ""


@record
class FlightsRun(Result):
    """Flights that were timed together.

    >>> run = simulate_flights("ring:4", [Flight(build(Fabric("ring:4"), "ring", bytes=4096), name="only")])
    >>> run.table()["name"].tolist()
    ['only']
    """

    fabric: str = says("specification of the fabric.")
    system: System = says("the platform.", f"{PLATFORM} fidelity=result.fidelity protocol?=result.protocol")
    order: str = says("who goes first on a link.")
    result: SimulationResult = says(
        "times and traffic of all together; its table ``flights`` has a row for each.",
        "verified=result.proof.complete time_ns link_utilization_mean=result.link_utilization_mean"
        " packet_hops=result.packet_hops flit_hops=result.flit_hops",
    )
    flights: list[Flight] = says("what was in flight.", "flights=_rows energy?=result.energy")
    groups: list[list[int] | None] = says("ranks that take part in each; None if all do.", APART)
    bounds_ns: list[float] = says("the lower bound of each by itself.", APART)
    lower_bound_ns: float = says("no schedules end all of them sooner.")
    lower_bound_by: str = says("what that rests on.", "lower_bound_by efficiency")
    contended: Table = says(
        "what each flight has of every link that several use (of parallel links that are used as one, of the first):"
        " ``link``, ``from``, ``to`` (names of nodes), ``busy_ns``, ``wait_ns`` (the longest that a flight waited there"
        " for its next packet, or message at ``alpha-beta``, to begin; NaN at ``flit``), ``flight``, ``bytes``.",
        "contended=most_contended",
    )

    headline = "FlightsRun of {0.result.flights.height:,} on {0.fabric}, {0.order}: {0.time_ns:,.1f} ns"
    time_ns = Part(float, "result", "From the start to the end of the last flight.")

    @property
    def efficiency(self) -> float | None:
        """``lower_bound_ns`` over ``time_ns``; None where nothing takes any time."""
        return self.lower_bound_ns / self.time_ns if self.time_ns else None

    def most_contended(self, most: int = 10) -> list[dict[str, Any]]:
        """The links that several flights use, the busiest first, at most so many: who has which share of them."""
        expect("most", most, int)
        rows = self.contended.rows()
        links = {row["link"]: row for row in reversed(rows)}
        chosen = sorted(links.values(), key=lambda row: (-row["busy_ns"], row["link"]))[: max(most, 0)]
        found = [
            {key: row[key] for key in ("link", "from", "to", "busy_ns")}
            | {"wait_ns": None if row["wait_ns"] != row["wait_ns"] else row["wait_ns"], "flights": []}
            for row in chosen
        ]
        of_link = {row["link"]: row["flights"] for row in found}
        for row in rows:
            if row["link"] in of_link:
                of_link[row["link"]].append({"flight": row["flight"], "bytes": row["bytes"]})
        for flights in of_link.values():
            total = sum(each["bytes"] for each in flights)
            for each in flights:
                each["share"] = each["bytes"] / total
        return found

    @property
    def tables(self) -> dict[str, Table]:
        """``flights``, a row for each; ``contended``; ``links``, ``ranks``, ``chunks``, ``timeline`` of all in one."""
        rows = {"flights": Table.of_rows(self._rows), "contended": self.contended}
        return rows | {name: table for name, table in self.result.tables.items() if name != "flights"}

    def plot(self) -> Figure:
        """When each flight is under way (extra ``plots``)."""
        rows = self._rows
        tracks = {
            row["name"] or f"flight {number}": [(row["start_ns"], row["time_ns"], row["algorithm"])]
            for number, row in enumerate(rows)
        }
        return plot.spans(f"{len(rows):,} flights on {self.fabric}", tracks)

    @property
    def _rows(self) -> list[dict[str, Any]]:
        spans = zip(self.result.flights["start_ns"].tolist(), self.result.flights["finish_ns"].tolist(), strict=True)
        work = "algorithm=schedule.algorithm collective=schedule.collective bytes=schedule.bytes priority after"
        return [
            {"name": flight.name, "group": group}
            | said(flight, work)
            | {"start_ns": start, "finish_ns": finish, "time_ns": finish - start, "lower_bound_ns": bound}
            for flight, group, bound, (start, finish) in zip(
                self.flights, self.groups, self.bounds_ns, spans, strict=True
            )
        ]


def simulate_flights(
    fabric: str | Fabric,
    flights: Sequence[Flight],
    system: str | System = "generic",
    fidelity: Fidelity | str = "packet",
    *,
    order: Order | str = "fifo",
    progress: Progress | None = None,
    energy: bool = False,
    trace: str | os.PathLike[str] | None = None,
) -> FlightsRun:
    """Proves schedules, then times them in flight together on a fabric.

    >>> mesh = Fabric("mesh:4x4")
    >>> rows = [Flight(build(row, "combs", bytes="1MiB")) for row in mesh.groups("rows")]
    >>> columns = [Flight(build(part, "combs", bytes="1MiB"), after=range(4)) for part in mesh.groups("columns")]
    >>> run = simulate_flights(mesh, [*rows, *columns])
    >>> run.result.flights["start_ns"][4] == run.result.flights["finish_ns"][:4].max()
    np.True_

    Args:
        fabric: specification or Fabric that they share.
        flights: schedules of all its ranks or of groups of them.
        system: preset, file or System.
        fidelity: ``alpha-beta``, ``packet`` or ``flit``.
        order: ``fifo``: on every link packets of the flight launched first go first, others fill the gaps it leaves;
            ``lifo``: of that launched last; ``priority``: of that with the lowest number; ``fair``: of that which
            the link has served least, so that all have an equal share of it (docs/reference/simulation.md).
        progress: called with a title and the share done.
        energy: also what the run takes (docs/explanation/energy.md).
        trace: also a file ``*.json`` of what happened when, in Chrome's trace event format (docs/reference/formats.md).

    Raises:
        AntiphonError: as ``simulate``, naming the flight; ``bad-spec`` if flights wait for each other.
    """
    fabric = as_fabric(fabric)
    flights = list(flights)
    for number, each in enumerate(flights):
        expect(f"flights[{number}]", each, Flight)
        expect(f"flights[{number}].schedule", each.schedule, Schedule)
    platform = as_system(system)
    entries = [(each.schedule, each.start_ns, list(each.after), each.priority) for each in flights]
    heartbeat = None if progress is None else partial(progress, f"{len(entries):,} flights")
    expect("energy", energy, bool)
    with trace_to(trace) as write:
        result, shares = fly(fabric, entries, platform, fidelity, order, heartbeat, energy, write)
    bounds_ns, bound_ns, limit = flights_bound(fabric, entries, platform, fidelity)
    names, links, at = fabric.nodes["name"], result.links, shares["link"]
    ends = {end: names[links[end][at]] for end in ("from", "to")}
    contended = {"link": at, **ends, "busy_ns": links["busy_ns"][at], "wait_ns": shares["wait_ns"]}
    return FlightsRun(
        fabric=fabric.name,
        system=platform,
        order=order,
        flights=flights,
        groups=[each.schedule.group for each in flights],
        bounds_ns=bounds_ns,
        lower_bound_ns=bound_ns,
        lower_bound_by=limit,
        contended=Table(contended | {"flight": shares["flight"], "bytes": shares["bytes"]}),
        result=result,
    )


def read_flights(
    text: str, fabric: str | Fabric, system: str | System = "generic", *, progress: Progress | None = None
) -> list[Flight]:
    """The flights of a JSON list, or of an object with a ``grid`` of ranks (docs/reference/json.md), built on a fabric.

    >>> len(read_flights('[{"algorithm": "ring-bi", "groups": "rows", "bytes": "1MiB"}]', "torus:3x4"))
    3

    Args:
        text: the JSON.
        fabric: specification or Fabric that they share.
        system: preset, file or System, whose packets chunks are cut for.
        progress: called with a title and the share done while schedules are built.

    Raises:
        AntiphonError: ``bad-file`` naming the entry and what is wrong; as ``build``.
    """
    fabric = as_fabric(fabric)
    try:
        entries = parse_json(text)
    except ValueError as error:
        raise AntiphonError(f"flights are no JSON: {error}", "bad-file") from None
    grid = None
    if isinstance(entries, dict):
        if set(entries) != {"grid", "flights"}:
            raise AntiphonError("an object of flights has grid and flights", "bad-file")
        grid, entries = _text(entries, "grid", ""), entries["flights"]
    if not isinstance(entries, list) or not entries:
        raise AntiphonError("flights are a JSON list of objects, at least one", "bad-file")
    flights: list[Flight] = []
    numbers: dict[str, list[int]] = {}
    for place, entry in enumerate(entries):
        try:
            added = _read_entry(entry, fabric, grid, system, numbers, progress)
        except AntiphonError as error:
            raise AntiphonError(f"flights[{place}]: {error.message}", error.code) from None
        if len(flights) + len(added) > MOST:
            raise AntiphonError(f"more than {MOST:,} flights", "too-large")
        name = added[0].name or str(place)
        if name in numbers:
            raise AntiphonError(f"flights[{place}]: name '{name}' is there twice", "bad-file")
        numbers[name] = list(range(len(flights), len(flights) + len(added)))
        flights += added
    return flights


def _read_entry(
    entry: Any,
    fabric: Fabric,
    grid: str | None,
    system: str | System,
    numbers: dict[str, list[int]],
    progress: Progress | None,
) -> list[Flight]:
    """The flights of one entry: one, or one for each of its groups."""
    if not isinstance(entry, dict):
        raise AntiphonError("it is no object", "bad-file")
    for key in entry:
        if key not in KEYS:
            raise AntiphonError(f"unknown key '{key[:40]}'; known: {', '.join(KEYS)}", "bad-file")
    if "group" in entry and "groups" in entry:
        raise AntiphonError("give either group or groups", "bad-file")
    if ("algorithm" in entry) == ("schedule" in entry):
        raise AntiphonError("give either algorithm or schedule", "bad-file")
    after = entry.get("after", [])
    if not isinstance(after, list) or not all(isinstance(name, str) for name in after):
        raise AntiphonError("after is a list of names of entries before it", "bad-file")
    before: list[int] = []
    for name in after:
        if name not in numbers:
            message = f"it is after '{name[:40]}', which is no entry before it; known: {', '.join(numbers) or 'none'}"
            raise AntiphonError(message, "bad-file")
        before += numbers[name]
    group = entry.get("group")
    if "groups" in entry:
        which = _text(entry, "groups", "")
        parts = fabric.groups(which if grid is None else f"{which} of {grid}")
    elif group is None:
        parts = [fabric]
    else:
        ranks = group if isinstance(group, list) else _text(entry, "group", "")
        if isinstance(ranks, list) and not all(isinstance(rank, int) and 0 <= rank < 1 << 32 for rank in ranks):
            raise AntiphonError("group is a list of ranks, or text like 0-3,8-11", "bad-file")
        parts = [fabric.group(ranks)]
    start = entry.get("start_ns", 0)
    priority = entry.get("priority", 0)
    if isinstance(start, bool) or not isinstance(start, int | float) or not 0 <= start <= LATEST_NS:
        raise AntiphonError(f"start_ns is a number from 0 to {LATEST_NS:g}", "bad-file")
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority < 1 << 32:
        raise AntiphonError("priority is a whole number from 0 to 4,294,967,295", "bad-file")
    name = _text(entry, "name", "")
    return [
        Flight(_schedule(entry, part, system, progress), float(start), tuple(before), priority, name) for part in parts
    ]


def _schedule(entry: dict[str, Any], part: Fabric, system: str | System, progress: Progress | None) -> Schedule:
    if "schedule" in entry:
        for key in ("collective", "root", "bytes", "matrix"):
            if key in entry:
                raise AntiphonError(f"{key} is the schedule's", "bad-file")
        path = _text(entry, "schedule", "")
        text = read_text(path, LARGEST_SCHEDULE)
        with named(path):
            return Schedule.from_json(text, part)
    algorithm = _text(entry, "algorithm", "")
    size = entry.get("bytes")
    if isinstance(size, bool) or not isinstance(size, str | int | None):
        raise AntiphonError("bytes is a size such as 16MiB, or a whole number", "bad-file")
    root = entry.get("root", 0)
    if isinstance(root, bool) or not isinstance(root, int) or not 0 <= root < 1 << 32:
        raise AntiphonError("root is the number of a rank", "bad-file")
    heartbeat = None if progress is None else partial(progress, f"{algorithm} on {part.name} (building)")
    data = amount(size, _text(entry, "matrix", "") or None, part)
    collective = _text(entry, "collective", "all-reduce")
    return build(part, algorithm, collective, data.bytes, as_system(system), root, heartbeat, data.matrix)


def _text(entry: dict[str, Any], key: str, default: str) -> str:
    value = entry.get(key, default)
    if not isinstance(value, str):
        raise AntiphonError(f"{key} is text", "bad-file")
    return value
