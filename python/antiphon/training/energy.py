"""What an iteration of training takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from antiphon.results import Energy, Iteration, Table
from antiphon.results.energy import PARTS

WINDOWS = 256
"""Of power over time."""


def iteration_energy(iteration: Iteration, exchanges: Sequence[Energy], static_w: float) -> Energy | None:
    """Energy of an iteration, the mean if several follow each other: dynamic energy of its exchanges, each spread over
    the time in which it is under way, and static power. None without exchanges."""
    import numpy as np

    if not exchanges:
        return None
    total = sum(exchanges[1:], exchanges[0])
    means = {f"{part}_aj": getattr(total, f"{part}_aj") // iteration.count for part in PARTS}
    static_aj = round(static_w * 1e6) * round(iteration.time_ns * 1e3)
    # Of all iterations, in one timeline.
    all_ns = iteration.time_ns * iteration.count
    edges = np.linspace(0.0, all_ns, WINDOWS + 1)
    power = np.full(WINDOWS, static_w)
    spans = zip(exchanges, iteration.exchanges["start_ns"], iteration.exchanges["finish_ns"], strict=True)
    for energy, start, finish in spans:
        length = max(float(finish - start), 1e-3)
        overlap = np.clip(np.minimum(edges[1:], start + length) - np.maximum(edges[:-1], start), 0, None)
        power += energy.dynamic_aj * 1e-18 * overlap / length / (all_ns / WINDOWS * 1e-9)
    mean = replace(total, **means, static_aj=static_aj, time_ns=iteration.time_ns)
    table = Table({"start_ns": edges[:-1], "power_w": power})
    return replace(mean, peak_power_w=max(float(power.max()), mean.average_power_w), power=table)
