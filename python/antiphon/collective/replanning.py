"""After a failure: another schedule, from the one before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from antiphon._core import Fabric, Schedule, System
from antiphon._core import replan as core_replan
from antiphon.arguments import expect
from antiphon.collective.schedules import as_schedule
from antiphon.given import as_fabric, as_system
from antiphon.results import Replanned


def replan(
    schedule: str | os.PathLike[str] | Schedule,
    fabric: str | Fabric,
    fail: str | Iterable[str],
    *,
    system: str | System = "generic",
    progress: Callable[[float], object] | None = None,
) -> Replanned:
    """Finds a schedule of the same collective for what is left of a fabric when links or nodes have failed.

    The search starts from the trees or paths of the schedule before: those that still reach all ranks. So it
    has few others to find.

    >>> from antiphon import build
    >>> before = build("mesh:4x4", "optimal", "all-gather", "16MiB", "ideal")
    >>> found = replan(before, "mesh:4x4", ["5-6", "0>1"], system="ideal")
    >>> found.fabric.name
    'mesh:4x4,drop=5-6,drop=0>1'

    Args:
        schedule: for the intact fabric, by ``optimal``: a Schedule or a file ``*.json``.
        fabric: the intact one: specification or Fabric.
        fail: one failure or several, in a list or with commas: ``3-4``, all links between two nodes, ``3>4``, those one
            way, or ``40``, a node, whose rank is left out of the collective. Nodes are numbers or names (``rail0``).
        system: preset, file or System.
        progress: called about ten times a second; what it raises ends the search.

    Raises:
        AntiphonError: ``not-applicable`` for a schedule of another algorithm, of a group, or whose root has failed;
            ``not-proven`` for one that is wrong; ``bad-file`` for one that is for another fabric; ``bad-spec`` for
            failures that name nothing or leave ranks out of reach.
    """
    expect("fail", fail, str, Iterable)
    network = as_fabric(fabric)
    failures = [fail] if isinstance(fail, str) else list(fail)
    for each in failures:
        expect("fail", each, str)
    return core_replan(as_schedule(schedule, network), network, failures, as_system(system), progress)
