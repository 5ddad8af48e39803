"""A schedule on links that are slower or farther than they should be."""

from __future__ import annotations

import os
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from antiphon._core import Fabric, Schedule, System, time_on
from antiphon._core import build as core_build
from antiphon._core import simulate as core_simulate
from antiphon._core import varied as core_varied
from antiphon.arguments import expect, shown
from antiphon.collective.schedules import Heartbeat, as_schedule
from antiphon.errors import AntiphonError
from antiphon.given import as_fabric, as_system
from antiphon.names import Fidelity
from antiphon.parallel import in_parallel
from antiphon.results import Spread, Table, Variations

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_DRAWS = 100_000
MOST_VALUES = 1 << 26
"""Draws, and draws times links, of one question."""
UNLIKELY = 0.05
"""How often the largest of all correlations is above ``chance`` where no link matters."""


def vary(
    fabric: str | Fabric,
    schedule: str | os.PathLike[str] | Schedule,
    *,
    slow: str | None = None,
    latency: str | None = None,
    share: float = 1.0,
    draws: int = 200,
    seed: int = 1,
    replan: bool = False,
    system: str | System = "generic",
    fidelity: Fidelity | str = "packet",
    jobs: int | None = None,
    progress: Heartbeat | None = None,
) -> Variations:
    """Times a schedule on links whose rates and latencies are drawn, and says on which links its time depends most.

    Links differ independently of each other, each way of a cable by itself, and stay as they are for the whole run.

    >>> from antiphon import build
    >>> schedule = build("mesh:4x4", "combs", bytes="1MiB")
    >>> found = vary("mesh:4x4", schedule, slow="uniform:0.5..1", draws=20)
    >>> found.intact_ns < found.times.p50_ns <= found.times.worst_ns
    True

    Args:
        fabric: specification or Fabric.
        schedule: of a collective, for all ranks of the fabric: a Schedule, or a file ``*.json``
            (docs/reference/schedule.md) or of another tool (docs/reference/formats.md).
        slow: distribution of what rates are multiplied by: a number, ``uniform:0.5..1``, ``normal:0.9,0.05`` (mean,
            standard deviation) or ``exponential:0.9`` (mean); below 0.001 it counts as that, above 1 as 1.
        latency: distribution of what is added to latencies, in ns, as ``uniform:0..50``; below 0 it counts as 0.
        share: share of the links that this is for, each alike.
        draws: how many times all links are drawn.
        seed: seed of all draws.
        replan: also with a schedule that the same algorithm makes for each draw.
        system: preset, file or System.
        fidelity: in how much detail.
        jobs: draws at a time, as many as cores for None.
        progress: called with the share done, 0 to 1; what it raises ends the work.

    Raises:
        AntiphonError: as ``simulate``; ``bad-spec`` for what is no distribution, or if none is given; ``bad-size`` for
            ``share`` and ``draws``; ``too-large`` for too many draws on too many links; with ``replan`` as ``build``.
        KeyboardInterrupt: on Ctrl-C.
    """
    expect("slow", slow, str, type(None))
    expect("latency", latency, str, type(None))
    expect("draws", draws, int)
    expect("replan", replan, bool)
    if isinstance(draws, bool) or not 1 <= draws <= MOST_DRAWS:
        raise AntiphonError(f"draws is {shown(draws)}; expected a whole number from 1 to {MOST_DRAWS:,}", "bad-size")
    network, platform = as_fabric(fabric), as_system(system)
    plan = as_schedule(schedule, network)
    links = len(network.links["from"])
    if draws * links > MOST_VALUES:
        message = f"{draws:,} draws of {links:,} links; at most {MOST_VALUES // links:,} draws are supported there"
        raise AntiphonError(message, "too-large")
    intact_ns = core_simulate(network, plan, platform, fidelity).time_ns
    speeds, added = np.ones((draws, links)), np.zeros((draws, links))
    done = 0

    def time(draw: int) -> tuple[float, float]:
        nonlocal done
        varied, drawn = core_varied(network, slow, latency, share, seed, draw, platform)
        speeds[draw], added[draw] = drawn["speed"], drawn["added_ns"]
        own_ns = anew_ns = time_on(network, plan, varied, platform, fidelity)
        if replan:
            what = (plan.algorithm, plan.collective, plan.bytes, platform, plan.root or 0, None, plan.matrix)
            anew_ns = core_simulate(varied, core_build(varied, *what), platform, fidelity).time_ns
        done += 1
        if progress is not None:
            progress(done / draws)
        return own_ns, anew_ns if replan else float("nan")

    times = np.array(in_parallel(time, range(draws), jobs))
    correlations = np.fmax(_correlations(-speeds, times[:, 0]), _correlations(added, times[:, 0]))
    order = np.argsort(np.where(np.isnan(correlations), np.inf, -correlations), kind="stable")
    names = network.nodes["name"]
    ends = {end: names[network.links[end]][order] for end in ("from", "to")}
    return Variations(
        fabric=network.name,
        algorithm=plan.algorithm,
        collective=plan.collective,
        bytes=plan.bytes,
        fidelity=fidelity,
        slow=slow,
        latency=latency,
        share=float(share),
        seed=seed,
        intact_ns=intact_ns,
        times=_spread(times[:, 0]),
        replanned=_spread(times[:, 1]) if replan else None,
        chance=min(NormalDist().inv_cdf((1 - UNLIKELY) ** (1 / links)) / max(draws - 1, 1) ** 0.5, 1.0),
        draws=Table({"time_ns": times[:, 0], "replanned_ns": times[:, 1]}),
        links=Table({"link": order, **ends, "correlation": correlations[order]}),
    )


def _spread(times: NDArray[np.float64]) -> Spread:
    """Percentiles: the least times that so many draws do not pass."""
    ordered = np.sort(times)
    p5, p50, p95, p99 = (float(ordered[-(-len(ordered) * share // 100) - 1]) for share in (5, 50, 95, 99))
    return Spread(float(times.mean()), p5, p50, p95, p99, float(ordered[-1]))


def _correlations(columns: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spearman's rank correlation of each column with times; NaN where one of them is always the same."""
    centred = _ranks(times)
    found = np.full(columns.shape[1], np.nan)
    for link in range(columns.shape[1]):
        own = _ranks(columns[:, link])
        norm = float(np.sqrt((own @ own) * (centred @ centred)))
        if norm > 0:
            found[link] = (own @ centred) / norm
    return found


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places in order, from their mean; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    places = np.cumsum(counts) - (counts + 1) / 2
    return np.asarray(places[inverse] - (len(values) - 1) / 2, dtype=np.float64)
