"""How large a collectives engine must be (ACE, ISCA 2021): its SRAM, state machines and memory bandwidth."""

from __future__ import annotations

from collections.abc import Callable
from typing import SupportsIndex

from antiphon._core import engine_parts, parse_bytes
from antiphon._core import rails as core_rails
from antiphon.arguments import expect, shown
from antiphon.errors import AntiphonError
from antiphon.names import Collective, Scheduler
from antiphon.results import EngineAdvice, Table

MOST_SRAM = 1 << 30
"""Bytes: an engine that is never short of them."""
MOST_FSMS = 1024
"""State machines of such an engine."""
MOST_MEMORY = 10_000
"""GB/s that such an engine reads."""
SRAM_STEP = 64 << 10
"""SRAM is found to so many bytes."""
JOINT_STEP = 1.03
"""By how much a part grows where all together are not enough."""


def advise_ace(
    topology: str,
    bytes: str | SupportsIndex = "64MiB",
    collective: Collective | str = "all-reduce",
    scheduler: Scheduler | str = "phased",
    *,
    share: float = 0.95,
    chunk: str | SupportsIndex = "64KiB",
) -> EngineAdvice:
    """The smallest engine that reaches a share of what the network allows, and what it costs.

    First each part alone, with plenty of the others: the least memory bandwidth, state machines and SRAM. Where these
    together are not enough, the part that helps most grows by a few percent until they are.

    >>> advice = advise_ace("ace:4x4x4", "8MiB")
    >>> advice.reached >= 0.95, advice.fsms, 100 < advice.memory_gb_per_s < 200
    (True, 16, True)

    Args:
        topology: as in ``rails``, such as ``ace:4x4x4``.
        bytes: full buffer size, a number of bytes or text such as ``64MiB``.
        collective: as in ``rails``.
        scheduler: as in ``rails``.
        share: of the speed with an ideal endpoint, above 0 and below 1.
        chunk: size of the engine's chunks.

    Raises:
        AntiphonError: as ``rails``; ``bad-size`` for the share; ``not-applicable`` if no engine reaches it.
    """
    expect("share", share, int, float)
    if not 0 < share < 1:
        raise AntiphonError(f"share is {shown(share)}; expected a number above 0 and below 1", "bad-size")
    size = parse_bytes(chunk)

    def time_ns(endpoint: str) -> float:
        return core_rails(topology, bytes, collective, scheduler, endpoint=endpoint).time_ns

    ideal_ns = time_ns(f"ideal:chunk={size}")
    tried: dict[str, float] = {}

    def reached(memory: float = MOST_MEMORY, fsms: int = MOST_FSMS, sram: int = MOST_SRAM) -> float:
        spec = f"ace:chunk={size},fsms={fsms},sram={sram},memory_gb_per_s={memory}"
        spec += f",total_memory_gb_per_s={max(memory, 900)}"
        if spec not in tried:
            try:
                tried[spec] = ideal_ns / time_ns(spec)
            except AntiphonError as error:
                # Too little for a chunk in every phase.
                if error.code != "bad-size":
                    raise
                tried[spec] = 0.0
        return tried[spec]

    if reached() < share:
        message = f"no engine reaches {share:.0%} of an ideal endpoint on {topology}: at most {reached():.1%}"
        raise AntiphonError(f"{message}; use a smaller share or chunk", "not-applicable")
    memory = _least(lambda gb_per_s: reached(memory=gb_per_s) >= share, 1, MOST_MEMORY)
    fsms = _least(lambda count: reached(fsms=count) >= share, 1, MOST_FSMS)
    sram = SRAM_STEP * _least(lambda steps: reached(sram=steps * SRAM_STEP) >= share, 1, MOST_SRAM // SRAM_STEP)
    alone = {"memory_gb_per_s": float(memory), "fsms": float(fsms), "sram_bytes": float(sram)}
    while reached(memory, fsms, sram) < share:
        larger = [
            (min(max(memory + 1, round(memory * JOINT_STEP)), MOST_MEMORY), fsms, sram),
            (memory, min(fsms + 1, MOST_FSMS), sram),
            (memory, fsms, min(sram + max(SRAM_STEP, round(sram * (JOINT_STEP - 1))), MOST_SRAM)),
        ]
        helps = max(larger, key=lambda parts: reached(*parts))
        # Where none helps by itself, all grow.
        every = (larger[0][0], larger[1][1], larger[2][2])
        memory, fsms, sram = helps if reached(*helps) > reached(memory, fsms, sram) else every
    endpoint = f"ace:sram={sram},fsms={fsms},memory_gb_per_s={memory},chunk={size}"
    if memory > 900:
        endpoint += f",total_memory_gb_per_s={memory}"
    parts = engine_parts(endpoint)
    return EngineAdvice(
        topology=topology,
        collective=str(collective),
        bytes=parse_bytes(bytes),
        share=float(share),
        reached=reached(memory, fsms, sram),
        ideal_ns=ideal_ns,
        endpoint=endpoint,
        sram_bytes=sram,
        fsms=fsms,
        memory_gb_per_s=float(memory),
        alone=Table.of_rows([{"part": part, "least": least} for part, least in alone.items()]),
        parts=Table.of_rows([{"part": name, "area_um2": area, "power_mw": power} for name, area, power in parts]),
    )


def _least(enough: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number from ``low`` to ``high`` that is enough, if more never is less."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low
