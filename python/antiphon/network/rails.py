"""Multi-dimensional networks: collectives scheduled over their dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from antiphon._core import Fabric, Schedule, System, parse_bytes
from antiphon._core import advise_rails as core_advise_rails
from antiphon._core import rails as core_rails
from antiphon._core import rails_flights as core_rails_flights
from antiphon._core import rails_messages as core_rails_messages
from antiphon.arguments import expect, shown
from antiphon.declared import takes
from antiphon.errors import AntiphonError
from antiphon.files import parse_json
from antiphon.given import as_system
from antiphon.names import Collective, Scheduler
from antiphon.platforms import read_endpoint
from antiphon.results import RailsAdvice, RailsFlights, RailsRun, Table

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from antiphon._options import RailsOptions


@takes("rails")
def rails(
    topology: str,
    bytes: str | SupportsIndex = 100000000,
    collective: Collective | str = "all-reduce",
    scheduler: Scheduler | str = "search",
    *,
    enforced: bool = True,
    endpoint: str = "system",
    energy: bool = False,
    system: str | System = "ideal",
    **options: Unpack[RailsOptions],
) -> RailsRun:
    """A collective on a multi-dimensional network, chunks scheduled over its dimensions (docs/explanation/rails.md).

    >>> run = rails("3D-SW_SW_SW_hetero", "100MB", scheduler="themis")
    >>> run.npus, run.dimensions.height, run.utilization <= run.utilization_bound
    (1024, 3, True)

    Args:
        topology: preset (``rails_topologies()``) or dimensions such as ``ring4@1000/20ns,sw8@800/700ns``: rates in Gb/s
            of one NPU.
        bytes: full buffer size, a number of bytes or text such as ``100MB``.
        collective: ``all-reduce``, ``reduce-scatter``, ``all-gather`` or ``all-to-all``.
        scheduler: in which order chunks use the dimensions (Themis, ISCA 2022; ``search`` is ours).
        enforced: whether NPUs timed with ``jitter_ns`` keep to the order of the run without.
        endpoint: what stands between an NPU's memory and its links (``endpoints()``, docs/explanation/endpoints.md), or
            a file of
            ``calibrate``; the chunk submitted first goes first, unless ``intra`` says otherwise.
        energy: also what it takes (docs/explanation/energy.md).
        system: preset, file or System with the energies that count for it; times do not depend on it.

    Raises:
        AntiphonError: ``bad-spec``, ``unknown-name``, ``bad-size``, ``not-applicable``, ``too-large``; ``stalled`` with
            the cycle of NPUs that wait for each other.
    """
    expect("energy", energy, bool)
    platform, endpoint = as_system(system), read_endpoint(endpoint)
    return core_rails(topology, bytes, collective, scheduler, enforced, endpoint, energy, platform, **options)


@dataclass(frozen=True)
class RailsFlight:
    """A collective that is launched at some time.

    >>> RailsFlight("16MiB", dimensions=[1], name="rows").start_ns
    0.0

    Attributes:
        bytes: full buffer size, a number of bytes or text.
        collective: as in ``rails``.
        dimensions: those along which it goes, from 1, in every group of NPUs along them at once; all if there are none.
        start_ns: when it is launched at the earliest.
        after: numbers of the flights before it in the list that are to be over before.
        priority: at an endpoint those of lower numbers go first, of equal ones those that start first.
        name: what it is called in results.
    """

    bytes: str | SupportsIndex = 100000000
    collective: Collective | str = "all-reduce"
    dimensions: Sequence[int] = ()
    start_ns: float = 0.0
    after: Sequence[int] = ()
    priority: int = 0
    name: str = ""


@takes("rails")
def rails_flights(
    topology: str,
    flights: Sequence[RailsFlight],
    scheduler: Scheduler | str = "search",
    *,
    shared_loads: bool = False,
    endpoint: str = "system",
    **options: Unpack[RailsOptions],
) -> RailsFlights:
    """Several collectives in flight on a multi-dimensional network: their chunks queue at the same dimensions.

    >>> run = rails_flights("2D-SW_SW", [RailsFlight("1MB"), RailsFlight("1MB", after=[0])], "themis")
    >>> run.flights["start_ns"][1] == run.flights["finish_ns"][0]
    np.True_

    Args:
        topology: as in ``rails``.
        flights: what is launched when.
        scheduler: as in ``rails``; it orders each by itself.
        shared_loads: Themis orders a collective when it starts, by what dimensions still have to do of others.
        endpoint: as in ``rails``.
        options: as in ``rails``, without ``jitter_ns`` and ``sharing``.

    Raises:
        AntiphonError: as ``rails``, naming the flight; ``bad-spec`` for flights after others that are not before them.
    """
    flights = list(flights)
    entries = []
    for number, each in enumerate(flights):
        expect(f"flights[{number}]", each, RailsFlight)
        expect(f"flights[{number}].name", each.name, str)
        numbers = list(each.dimensions), each.start_ns, list(each.after), each.priority
        entries.append((each.collective, each.bytes, *numbers))
    expect("shared_loads", shared_loads, bool)
    endpoint = read_endpoint(endpoint)
    run = core_rails_flights(topology, entries, scheduler, shared_loads, endpoint, **options)
    names = np.asarray([each.name for each in flights], "str")
    return replace(run, flights=Table({"name": names} | dict(run.flights.items())))


def read_rails_flights(text: str) -> list[RailsFlight]:
    """The flights of a JSON list of objects; ``after`` has names there.

    >>> read_rails_flights('[{"name": "a", "bytes": "1MiB"}, {"bytes": "2MiB", "after": ["a"]}]')[1].after
    [0]

    Raises:
        AntiphonError: ``bad-file`` naming the entry and what is wrong.
    """
    try:
        entries = parse_json(text)
    except ValueError as error:
        raise AntiphonError(f"flights are no JSON: {error}", "bad-file") from None
    if not isinstance(entries, list) or not entries:
        raise AntiphonError("flights are a JSON list of objects, at least one", "bad-file")
    flights: list[RailsFlight] = []
    numbers: dict[str, int] = {}
    for place, entry in enumerate(entries):
        try:
            flights.append(_read_flight(entry, numbers))
        except AntiphonError as error:
            raise AntiphonError(f"flights[{place}]: {error.message}", "bad-file") from None
        name = flights[-1].name or str(place)
        if name in numbers:
            raise AntiphonError(f"flights[{place}]: name '{name[:40]}' is there twice", "bad-file")
        numbers[name] = place
    return flights


KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "bytes": ("a size", (str, int)),
    "collective": ("text", (str,)),
    "dimensions": ("a list", (list,)),
    "start_ns": ("a number", (int, float)),
    "after": ("a list", (list,)),
    "priority": ("a whole number", (int,)),
    "name": ("text", (str,)),
}
"""What an entry of a file of flights may say, and as what."""


def _read_flight(entry: Any, numbers: dict[str, int]) -> RailsFlight:
    if not isinstance(entry, dict):
        raise AntiphonError("it is no object", "bad-file")
    for key, value in entry.items():
        if key not in KINDS:
            raise AntiphonError(f"unknown key '{key[:40]}'; known: {', '.join(KINDS)}", "bad-file")
        what, kinds = KINDS[key]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise AntiphonError(f"{key} is {shown(value)}; expected {what}", "bad-file")
    if "bytes" in entry:
        parse_bytes(entry["bytes"])
    for name in entry.get("after", ()):
        if not isinstance(name, str) or name not in numbers:
            message = (
                f"it is after '{str(name)[:40]}', which is no entry before it; known: {', '.join(numbers) or 'none'}"
            )
            raise AntiphonError(message, "bad-file")
    if not all(isinstance(number, int) and 0 < number <= 8 for number in entry.get("dimensions", ())):
        raise AntiphonError("dimensions are numbers from 1 to 8", "bad-file")
    if not 0 <= entry.get("priority", 0) < 1 << 32:
        raise AntiphonError("priority is a whole number from 0 to 4,294,967,295", "bad-file")
    values: dict[str, Any] = entry | {"after": [numbers[name] for name in entry.get("after", ())]}
    return RailsFlight(**values)


def rails_messages(
    topology: str,
    bytes: str | SupportsIndex = 100000000,
    collective: Collective | str = "all-reduce",
    scheduler: Scheduler | str = "search",
    *,
    slices: SupportsIndex = 1,
    **options: Unpack[RailsOptions],
) -> tuple[Fabric, Schedule]:
    """The same plan as messages: the expanded fabric, and a schedule to verify and simulate on it.

    >>> fabric, schedule = rails_messages("ring2@1000/20ns,sw2@800/700ns", "1MB", chunks=4)
    >>> fabric.ranks, schedule.bytes
    (4, 1000000)

    Args:
        topology: as in ``rails``; up to some dozens of NPUs.
        bytes: full buffer size, a number of bytes or text.
        collective: as in ``rails``.
        scheduler: as in ``rails``.
        slices: parts of a chunk that follow each other through the steps of a stage.
        options: as in ``rails``; ``chunks`` is 16 by default.

    Raises:
        AntiphonError: as ``rails``; ``too-large`` past the limits of fabrics and schedules.
    """
    options = {"chunks": 16, **options}
    return core_rails_messages(topology, bytes, collective, scheduler, slices, **options)


def advise_rails(topology: str) -> RailsAdvice:
    """What the rates of a multi-dimensional network are good for (Themis, ISCA 2022, section 6.3).

    >>> advice = advise_rails("2D-SW_SW")
    >>> advice.npus, advice.dimensions["binding"].tolist()
    (1024, [True, True])

    Args:
        topology: as in ``rails``.

    Raises:
        AntiphonError: ``bad-spec``, ``unknown-name`` or ``too-large``.
    """
    return core_advise_rails(topology)
