"""How large a collectives engine must be (ACE, ISCA 2021): its SRAM, state machines and memory bandwidth."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import SupportsIndex

from antiphon._core import engine_parts, parse_bytes
from antiphon.arguments import expect, shown
from antiphon.errors import AntiphonError
from antiphon.names import Collective, Scheduler
from antiphon.network.rails import rails
from antiphon.results import EngineAdvice, Table

MOST_RATE = 10_000
"""GB/s of the memory and the bus of an engine that is never short of them."""
MOST_COUNT = 1 << 16
"""State machines of such an engine, one for every chunk that there may be, and adders."""
SRAM_STEP = 64 << 10
"""SRAM is found to so many bytes."""
SRAM_COPIES = 16
"""Of the whole buffer, in the SRAM of such an engine: a chunk is in no more phases than that."""
GROWTH = 32
"""All parts grow together by one part of so many, where they are not enough."""
PARTS = {"memory_gb_per_s": MOST_RATE, "bus_gb_per_s": MOST_RATE, "alus": MOST_COUNT, "fsms": MOST_COUNT, "sram": 0}
"""What is varied of an engine, and how much of it is plenty; SRAM in steps, by the size of the buffer."""
PAPER = {"memory_gb_per_s": 128, "bus_gb_per_s": 500, "alus": 4, "fsms": 16, "sram": (4 << 20) // SRAM_STEP}
"""The engine of the paper, which is the default."""
NAMES = {"sram": "sram_bytes"}
"""Of parts in results, where they differ from the endpoint's options."""


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

    First each part alone, with plenty of the others: the least memory and bus bandwidth, adders, state machines and
    SRAM. Where these together are not enough, all grow, then each is as small again as the others allow. The part that
    is the limit of the paper's engine is the one of which plenty helps it most.

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
    plenty = PARTS | {"sram": max(SRAM_COPIES * parse_bytes(bytes), 1 << 30) // SRAM_STEP}

    def time_ns(endpoint: str) -> float:
        return rails(topology, bytes, collective, scheduler, endpoint=endpoint).time_ns

    ideal_ns = time_ns(f"ideal:chunk={size}")

    @cache
    def reached(spec: str) -> float:
        try:
            return ideal_ns / time_ns(spec)
        except AntiphonError as error:
            # Too little for a chunk in every phase.
            if error.code != "bad-size":
                raise
            return 0.0

    def of(parts: dict[str, int]) -> float:
        return reached(_spec(size, plenty | parts))

    def least(part: str, rest: dict[str, int], low: int, high: int) -> int:
        return _least(lambda amount: of(rest | {part: amount}) >= share, low, high)

    if of({}) < share:
        message = f"no engine reaches {share:.0%} of an ideal endpoint on {topology}: at most {of({}):.1%}"
        message += " with plenty of all parts"
        raise AntiphonError(
            f"{message}; the limit is that a chunk is read before it is sent: use a smaller share or chunk",
            "not-applicable",
        )
    alone = {part: least(part, {}, 1, most) for part, most in plenty.items()}

    def grown(steps: int) -> dict[str, int]:
        return {part: min(-(-amount * (GROWTH + steps) // GROWTH), plenty[part]) for part, amount in alone.items()}

    most = 1
    while of(grown(most)) < share:
        most *= 2
    parts = grown(_least(lambda steps: of(grown(steps)) >= share, 0, most))
    for part in parts:
        parts[part] = least(part, parts, alone[part], parts[part])
    endpoint = _spec(size, parts)
    paper = of(PAPER)
    limit = max(plenty, key=lambda part: of(PAPER | {part: plenty[part]}))
    return EngineAdvice(
        topology=topology,
        collective=str(collective),
        bytes=parse_bytes(bytes),
        share=float(share),
        reached=of(parts),
        ideal_ns=ideal_ns,
        endpoint=endpoint,
        **{NAMES.get(part, part): _amount(part, steps) for part, steps in parts.items()},
        paper_reached=paper,
        limit=None if paper >= share else NAMES.get(limit, limit),
        alone=Table.of_rows(
            [{"part": NAMES.get(part, part), "least": float(_amount(part, steps))} for part, steps in alone.items()]
        ),
        parts=Table.of_rows(
            [{"part": name, "area_um2": area, "power_mw": power} for name, area, power in engine_parts(endpoint)]
        ),
    )


def _amount(part: str, steps: int) -> int:
    return steps * SRAM_STEP if part == "sram" else steps


def _spec(chunk: int, parts: dict[str, int]) -> str:
    """An engine with so many steps of every part."""
    given = ",".join(f"{part}={_amount(part, steps)}" for part, steps in parts.items())
    memory = parts["memory_gb_per_s"]
    return f"ace:{given},chunk={chunk}" + (f",total_memory_gb_per_s={memory}" if memory > 900 else "")


def _least(enough: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number from ``low`` to ``high`` that is enough, if more never is less."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low
