"""The best configuration of a fabric that can be configured."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, SupportsIndex

from antiphon._core import Fabric, Schedule, System
from antiphon._core import algorithms as core_algorithms
from antiphon._core import configure as core_configure
from antiphon.arguments import expect
from antiphon.collective.matrix import DEFAULT
from antiphon.collective.schedules import as_schedule
from antiphon.collective.specs import specs_of
from antiphon.errors import AntiphonError
from antiphon.given import as_collective, as_fabric, as_system
from antiphon.results import Configured

if TYPE_CHECKING:
    from collections.abc import Callable

    from antiphon.names import Collective, Fidelity

Method = Literal["search", "greedy"]

STEPS = 400
"""Most simulations of a search, unless it is said."""
SEARCHED = 256
"""Most ranks of a fabric that is searched unless a method is asked for: larger ones would take minutes."""
METHODS: tuple[Method, ...] = ("search", "greedy")
"""How a configuration is found."""


def configure(
    fabric: str | Fabric,
    algorithms: str | Iterable[str] | None = None,
    bytes: str | SupportsIndex | None = None,
    *,
    collective: Collective | str = "all-reduce",
    root: int = 0,
    schedule: str | os.PathLike[str] | Schedule | None = None,
    system: str | System = "aries",
    fidelity: Fidelity | str = "packet",
    method: Method | str | None = None,
    switch: str | None = None,
    steps: int = STEPS,
    progress: Callable[[float], object] | None = None,
) -> Configured:
    """Finds the configuration of a fabric in which a collective, or a schedule, takes the least time.

    Segments that messages would relieve are added while an estimate of the load of links falls; the most promising
    configurations are simulated, and the best is improved a segment at a time. It ends where nothing near is better, at
    a bound that no configuration and no algorithm can beat, or after ``steps`` simulations, and gives the same
    whenever it is called. What it finds is legal and proven; that nothing better exists is only known at the bound.

    >>> found = configure("aries:4x4", "ring", "1MiB")
    >>> found.given_ns / found.time_ns > 1.9
    True

    Args:
        fabric: specification or Fabric, such as ``aries:8x8``; a configuration that it has is one to start from.
        algorithms: names or specifications, a sequence or text with commas; default: all. The best of them is taken.
        bytes: full buffer size, a number of bytes or text; default: 64 MiB.
        collective: what to compute.
        root: root rank of broadcast and reduce.
        schedule: instead of algorithms, a Schedule for as many ranks or a file of one; its messages are kept and go the
            shortest ways.
        system: preset, file or System.
        fidelity: ``alpha-beta``, ``packet`` or ``flit``.
        method: ``search``, or ``greedy``: segments for the shortest messages first, as in the paper; default: search
            up to 256 ranks.
        switch: how long a change of configuration between phases takes, such as ``50ns``; then those that make the best
            faster are looked for too. Without it there are none.
        steps: most simulations, for every number of wires up to that of the fabric, of which one that ``optimal`` plans
            counts as (ranks / 8)^2 more, at most a sixth.
        progress: called about ten times a second with the share of them done, 0 to 1; what it raises ends the search.

    Raises:
        AntiphonError: ``not-applicable`` for a fabric that cannot be configured, or if no algorithm applies; and for
            mistakes in the arguments.
    """
    expect("fabric", fabric, str, Fabric)
    name = fabric if isinstance(fabric, str) else fabric.name
    if method is None:
        method = "search" if as_fabric(fabric).ranks <= SEARCHED else "greedy"
    if schedule is not None and algorithms is not None:
        raise AntiphonError("give either algorithms or a schedule", "bad-spec")
    size = DEFAULT if bytes is None else bytes
    own = None if schedule is None else as_schedule(schedule, as_fabric(fabric), routed=False)
    if algorithms is None:
        wanted = as_collective(collective)
        specs = [each.name for each in core_algorithms() if wanted in each.collectives]
    else:
        specs = list(dict.fromkeys(specs_of(algorithms)))
    if not specs and schedule is None:
        raise AntiphonError("no algorithm given; name at least one, or leave it out for all", "bad-spec")
    return core_configure(
        name, specs, collective, size, as_system(system), root, own, fidelity, method, switch, steps, progress
    )
