"""What throughput failures leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from antiphon._core import Fabric, System
from antiphon._core import survive as core_survive
from antiphon.arguments import expect
from antiphon.given import as_fabric, as_system
from antiphon.results import Survival

if TYPE_CHECKING:
    from antiphon.names import Collective, FailedNodes


def survive(
    fabric: str | Fabric,
    *,
    fail: str = "1",
    collective: Collective | str = "all-reduce",
    root: int = 0,
    system: str | System = "generic",
    nodes: FailedNodes | str = "dead",
    target: float = 0.9,
    draws: int = 200,
    seed: int = 0,
    progress: Callable[[float], object] | None = None,
) -> Survival:
    """What throughput failures of links and nodes leave, each between a plan that reaches it and a proof.

    Throughput is that of large data, by rates of links, as ``optimal`` plans it: switches forward, and add nothing.
    The search for a failure starts from the plans of the intact fabric that still work. Prices of links prove how near
    it is to the best.

    >>> found = survive("mesh:3x3", fail="nodes", system="ideal")
    >>> found.nodes.height, bool((found.nodes["certified"] >= found.nodes["share"]).all())
    (9, True)

    Args:
        fabric: the intact one: specification or Fabric.
        fail: ``links``, the links between every two nodes, ``nodes``, or ``1``, both, each by itself; ``2``, pairs of
            these; ``rate:0.01``, each fails by itself with this chance.
        collective: what to compute among the ranks that are left.
        root: root rank of broadcast and reduce.
        system: preset, file or System.
        nodes: what a failed node does: ``dead``, its links fail too, or ``forward``, only its rank is lost. Switches
            are dead.
        target: the share of the intact throughput whose chance is wanted; a plan less than 0.1 % below it counts where
            no proof says that none reaches it.
        draws: most pairs, which are drawn at random if there are more, or draws by a rate; at most 10,000.
        seed: of what is drawn.
        progress: called about ten times a second with the share that is planned; what it raises ends the search.

    Raises:
        AntiphonError: ``bad-spec`` or ``bad-size`` for mistakes in the arguments; ``not-applicable`` for a fabric that
            changes between phases; ``too-large`` for too many links.
    """
    expect("fail", fail, str)
    return core_survive(
        as_fabric(fabric), fail, collective, root, as_system(system), nodes, target, draws, seed, progress
    )
