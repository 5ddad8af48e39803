"""Where a network saturates: the largest rate of synthetic traffic that it keeps up with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from antiphon._core import Fabric
from antiphon.errors import AntiphonError
from antiphon.given import as_fabric
from antiphon.network.noc import noc
from antiphon.results import NocResult, Result
from antiphon.results.record import APART, record, says

PRECISION = 0.01
"""The largest stable rate is known to this share of itself."""
STRIDE = 1.1
"""From a stable rate at most to this many times as much."""
LEAST_RATE = 1e-4
"""A network that cannot keep up with this rate is taken to carry no traffic at all."""


@record
class Saturation(Result):
    """The largest rate that is stable, and the least known to be unstable.

    >>> found = noc_saturation("ring:4", "neighbor", warm_up_cycles=100, cycles=500)
    >>> found.stable.stable, found.stable.rate < found.unstable_rate
    (True, True)
    """

    stable: NocResult = says("the run at the largest stable rate.")
    unstable_rate: float | None = says("the least rate that was tried and is unstable; None if every rate is stable.")
    tried: tuple[NocResult, ...] = says("all runs of the search, in its order.", APART, default=(), repr=False)

    headline = "Saturation {0.stable.traffic} on {0.stable.fabric}: at rate {0.stable.rate:.4g}"
    row = "runs"

    def to_dict(self) -> dict[str, Any]:
        """The run as documented in docs/reference/json.md, with ``unstable_rate``."""
        return self.stable.to_dict() | {"unstable_rate": self.unstable_rate}


def noc_saturation(
    fabric: str | Fabric,
    traffic: str = "uniform",
    *,
    progress: Callable[[float], object] | None = None,
    **parameters: Any,
) -> Saturation:
    """Finds the largest stable rate by bisection, to 1 %.

    >>> noc_saturation("mesh:2x2", "neighbor", warm_up_cycles=100, cycles=500).stable.rate
    1.0

    Args:
        fabric: specification or Fabric, as in ``noc``, like all further parameters.
        traffic: as in ``noc``.
        progress: called with the share of the bisection that is done.
        parameters: those of ``noc``, but ``rate``.

    Raises:
        AntiphonError: as ``noc``; ``not-applicable`` if every rate is too much.
    """
    fabric = as_fabric(fabric)
    runs: list[NocResult] = []

    def run(rate: float) -> NocResult:
        done = len(runs) / (len(runs) + 8)  # how many follow is not known
        report = None if progress is None else partial(_told, progress, done)
        runs.append(noc(fabric, traffic, rate, progress=report, **parameters))
        return runs[-1]

    low: NocResult | None = None
    high, rate = None, 1.0
    while True:
        result = run(rate)
        if result.stable:
            low = result
        else:
            high = rate
        if high is None:
            return Saturation(result, None, tuple(runs))
        if low is not None and high - low.rate <= PRECISION * high:
            return Saturation(low, high, tuple(runs))
        if high < LEAST_RATE:
            raise AntiphonError(f"{fabric.name} is saturated at every rate of {traffic} traffic", "not-applicable")
        # What was accepted beyond saturation is a good first guess.
        guess = min(max(result.accepted_flits_per_node_cycle, 0.25 * high), 0.95 * high)
        rate = guess if low is None else min(STRIDE * low.rate, (low.rate + high) / 2)


def _told(progress: Callable[[float], object], done: float, _share: float) -> None:
    """Tells the share of the bisection, whatever that of the run is."""
    progress(done)
