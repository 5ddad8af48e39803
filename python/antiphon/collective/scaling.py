"""Collectives on more ranks than a schedule lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from antiphon._core import Fabric, System
from antiphon._core import at_scale as core_at_scale
from antiphon.collective.specs import specs_of
from antiphon.errors import AntiphonError
from antiphon.given import as_collective, as_fabric, as_system
from antiphon.names import Collective, Fidelity
from antiphon.results import AtScale


def at_scale(
    fabric: str | Fabric,
    bytes: int | str = "64MiB",
    collective: Collective | str = "all-reduce",
    *,
    algorithms: str | Iterable[str] | None = None,
    system: str | System = "generic",
    fidelity: Fidelity | str = "packet",
    progress: Callable[[float], object] | None = None,
) -> AtScale:
    """Proves, bounds and times a collective without a list of all its messages.

    On products of rings, lines, cliques and switches a collective goes along one dimension after the other, and a line
    stands for all that are parallel to it. On meshes of up to 131,072 ranks an all-reduce is a rule for all messages. A
    broadcast or reduce goes along trees that load links hardly more than they must, where a rule gives such trees.

    >>> found = at_scale("torus:4x4", "1MiB", "all-to-all", algorithms="staged")
    >>> bool(found.runs["efficiency"][0] > 0.9)
    True

    Args:
        fabric: specification or Fabric; one of more than 4,096 ranks only as a specification, such as ``mesh:256x256``.
        bytes: full buffer size.
        collective: what to compute.
        algorithms: names, in a list or with commas: ``staged``, ``optimal``, ``combs``, ``ring``, with options
            such as ``combs:piece=64KiB``; None for all that apply.
        system: preset, file or System.
        fidelity: in how much detail: ``packet`` or ``alpha-beta``.
        progress: called about ten times a second with the share of each algorithm that is done, 0 to 1; what it raises
            ends the work.

    Raises:
        AntiphonError: ``not-applicable`` or ``too-large`` if no algorithm applies, with the first reason;
            ``unknown-name``, ``bad-size`` or ``bad-spec`` for wrong arguments.
        KeyboardInterrupt: on Ctrl-C, within about a tenth of a second.
    """
    names = [] if algorithms is None else specs_of(algorithms)
    network, name = None, ""
    try:
        network = as_fabric(fabric)
        name = network.name
    except AntiphonError as error:
        if error.code != "too-large":
            raise
        name = str(fabric)
    kind = as_collective(collective)
    return core_at_scale(name, network, bytes, kind, names, as_system(system), fidelity, progress)
