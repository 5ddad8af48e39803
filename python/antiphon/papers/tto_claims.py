"""What the TTO paper claims, held against our own numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import fmean

import antiphon
from antiphon.papers.checks import CLOSE, Check, Checks, Finding, checked, close, number, spread
from antiphon.papers.model import Claim, Numbers, Outcome
from antiphon.papers.tto_algorithms import (
    DBTREE_PUBLISHED,
    MIB,
    MULTITREE,
    RING,
    RING_2D,
    RING_BI_EVEN,
    RING_BI_ODD,
    RING_BI_ODD_PUBLISHED,
    SYSTEM,
    TTO,
    mesh,
)
from antiphon.papers.tto_training import TITLES

LITTLE = 0.25
"""What fails at no more than this share of the points holds in part."""
BI = "the bidirectional rings"
BI_PUBLISHED = "the bidirectional rings as the artifact has them"
BASELINES = {
    "ring": RING.name,
    "ring-2d": RING_2D.name,
    "dbtree": DBTREE_PUBLISHED.name,
    "multitree": MULTITREE.name,
    "bi": BI,
}


def claims(outcomes: Mapping[str, Outcome]) -> list[Claim]:
    """All claims whose experiments are among the outcomes."""
    return checked("tto", CHECKS, outcomes)


def _bi(side: int) -> str:
    """The paper's bidirectional ring on a mesh: of RingBiOdd, the complete one."""
    return RING_BI_EVEN.name if side % 2 == 0 else RING_BI_ODD.name


def _named(name: str, side: int) -> str:
    if name == BI_PUBLISHED:
        return RING_BI_EVEN.name if side % 2 == 0 else RING_BI_ODD_PUBLISHED.name
    return _bi(side) if name == BI else name


# --- AllReduce (Figs. 8 and 9) ------------------------------------------------------------------


def _points(numbers: Numbers) -> list[tuple[int, int]]:
    """Meshes and sizes of Fig. 8."""
    return [(int(side), int(size)) for side, name, size in numbers if name == TTO.name]


def _speedups(numbers: Numbers, fast: str, slow: str, *, odd: bool = False) -> list[float]:
    """At every point of Fig. 8, or the odd meshes', how much faster one is than the other."""
    return [
        numbers[side, _named(slow, side), size] / numbers[side, _named(fast, side), size]
        for side, size in _points(numbers)
        if side % 2 or not odd
    ]


def _allreduce(slow: str) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        numbers = outcomes["fig8"].numbers
        values = _speedups(numbers, TTO.name, slow)
        comment = ""
        if slow == RING.name:
            comment = (
                f"Three trees against one ring cannot give more than 3×; the most at any point is {max(values):.2f}×."
            )
        elif slow == DBTREE_PUBLISHED.name:
            linear = fmean(_speedups(numbers, TTO.name, "DBTree (one rank a router)"))
            comment = f"Against DBTree as it was run, on a quarter of the mesh; {linear:.2f}× with one rank a router."
        elif slow == BI:
            centre = fmean(_speedups(numbers, TTO.name, BI_PUBLISHED))
            comment = f"{centre:.2f}× if RingBiOdd leaves out the centre, as in the artifact."
        return number(row, fmean(values), "×", comment)

    return check


def _odd(slow: str) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        numbers = outcomes["fig8"].numbers
        large = fmean(
            numbers[side, slow, size] / numbers[side, RING_BI_ODD.name, size]
            for side, size in _points(numbers)
            if side % 2 and size >= 4 * MIB
        )
        values = _speedups(numbers, RING_BI_ODD.name, slow, odd=True)
        return number(row, fmean(values), "×", f"{large:.2f}× from 4 MiB on.")

    return check


def _always(winners: str, rivals: Iterable[str]) -> Check:
    """That one is the fastest at every point."""

    def check(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        numbers = outcomes["fig8"].numbers
        points = _points(numbers)
        lost: dict[str, list[str]] = {}
        lost_points = set()
        for side, size in points:
            for rival in rivals:
                if numbers[side, _named(rival, side), size] < numbers[side, _named(winners, side), size]:
                    where = f"{side}x{side} {antiphon.format_bytes(size)}"
                    lost.setdefault(rival, []).append(where)
                    lost_points.add((side, size))
        if not lost:
            return Finding(f"at all {len(points)} points", "holds")
        comment = "; ".join(f"to {rival} at {', '.join(where)}" for rival, where in lost.items()) + "."
        little = len(lost_points) <= LITTLE * len(points)
        return Finding(
            f"loses at {len(lost_points)} of {len(points)} points",
            "holds in part" if little else "does not hold",
            f"Loses {comment}",
        )

    return check


def _scale(slow: str, fast: str = TTO.name, *, odd: bool = False) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        numbers = outcomes["fig9"].numbers
        sides = [int(side) for side, name in numbers if name == TTO.name and (int(side) % 2 or not odd)]
        values = [numbers[side, _named(slow, side)] / numbers[side, _named(fast, side)] for side in sides]
        return number(row, fmean(values), "×", f"{min(values):.2f}–{max(values):.2f}× over {len(values)} meshes.")

    return check


def _corner(_row: dict[str, str], _outcomes: Mapping[str, Outcome]) -> Finding:
    fabric = antiphon.Fabric(mesh(9))
    corner, centre = (
        antiphon.verify(fabric, antiphon.build(fabric, variant.spec, bytes=MIB, system=SYSTEM))
        for variant in (RING_BI_ODD, RING_BI_ODD_PUBLISHED)
    )
    comment = "" if centre.complete else f"Leaving out the centre is not complete: {centre.gaps}."
    return Finding("the corner variant is proven", "holds" if corner.complete else "does not hold", comment)


def _steps(_row: dict[str, str], _outcomes: Mapping[str, Outcome]) -> Finding:
    fabric = antiphon.Fabric(mesh(9))
    steps = antiphon.build(fabric, RING_BI_ODD.spec, bytes=MIB, system=SYSTEM).stats(fabric).steps
    holds = steps == 2 * fabric.ranks - 2
    return Finding(f"{steps} steps for N = {fabric.ranks}", "holds" if holds else "does not hold")


def _no_bi_odd(_row: dict[str, str], _outcomes: Mapping[str, Outcome]) -> Finding:
    fabric = antiphon.Fabric(mesh(9))
    try:
        antiphon.build(fabric, RING_BI_EVEN.spec, bytes=MIB, system=SYSTEM)
    except antiphon.AntiphonError:
        return Finding("refused on 9x9", "holds")
    return Finding("built on 9x9", "does not hold")


# --- training (Figs. 10, 11, 13) ----------------------------------------------------------------


def _training(numbers: Numbers, fast: str, slow: str, sides: Iterable[int], what: str = "epoch") -> list[float]:
    """Speedups over all models and arrays."""
    cases = dict.fromkeys((int(key[0]), key[1], key[2]) for key in numbers if key[0] in set(sides))
    return [
        numbers[side, array, model, _named(slow, side), what] / numbers[side, array, model, _named(fast, side), what]
        for side, array, model in cases
    ]


def _train(slow: str) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        numbers = outcomes["fig10"].numbers
        both, odd = (_training(numbers, TTO.name, slow, sides) for sides in ((8, 9), (9,)))
        comment = f"As a range over models and meshes; the mean is {fmean(both):.2f}×."
        if slow == BI:
            even = _training(numbers, TTO.name, slow, (8,))
            comment = f"{min(odd):.2f}–{max(odd):.2f}× on 9x9, {min(even):.2f}–{max(even):.2f}× on 8x8."
            centre = _training(numbers, TTO.name, BI_PUBLISHED, (9,))
            comment += f" The mean is {fmean(both):.2f}×. If RingBiOdd leaves out the centre, as in the artifact:"
            comment += f" {min(centre):.2f}–{max(centre):.2f}× on 9x9."
        return spread(row, both, comment)

    return check


def _train_odd(slow: str) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        numbers = outcomes["fig10"].numbers
        epochs, alone = (_training(numbers, RING_BI_ODD.name, slow, (9,), what) for what in ("epoch", "allreduce"))
        return spread(row, epochs, f"The AllReduce alone: {min(alone):.2f}–{max(alone):.2f}×.")

    return check


def _reduction(fast: str, slow: str, sides: tuple[int, ...]) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        speedups = _training(outcomes["fig10"].numbers, fast, slow, sides)
        percent = 100 * fmean(1 - 1 / speedup for speedup in speedups)
        comment = f"The mean speedup is {fmean(speedups):.2f}×: the paper's number is a speedup, not a reduction."
        if not close(100 * fmean(speedups) - 100, float(row["low"])):
            comment = f"The mean speedup is {fmean(speedups):.2f}×."
        return number(row, percent, "%", comment)

    return check


def _overlap(slow: str) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        numbers = outcomes["fig11"].numbers
        models = [model for model, name in numbers if name == TTO.name]
        return spread(row, [numbers[m, _named(slow, 8)] / numbers[m, TTO.name] for m in models])

    return check


def _simba(slow: str, what: str) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        values = _training(outcomes["fig13"].numbers, TTO.name, slow, (6,), what)
        return number(row, fmean(values), "×") if what == "allreduce" else spread(row, values)

    return check


# --- use of links, section VIII -----------------------------------------------------------------


def _use(name: str) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        numbers = outcomes["fig12"].numbers
        mean, median = numbers[name, "mean"], numbers[name, "median"]
        low, high = float(row["low"]), float(row["high"])
        holds = low * (1 - CLOSE) <= mean <= high * (1 + CLOSE)
        comment = f"Median {median:.1f} %, peak {numbers[name, 'peak']:.1f} %."
        return Finding(f"{mean:.1f} % over the run", "holds" if holds else "does not hold", comment)

    return check


def _gain(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["viii-b"].numbers
    comment = f"{numbers['of TTO',]:.1f} % of TTO's epoch. The paper's gain in cycles is right, its percentage is not."
    return number(row, numbers["share",], "%", comment)


def _loses(axis: str, few: Callable[[int], bool]) -> Check:
    """Where TTO's epoch is longer than with the fastest other algorithm."""

    def check(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        numbers = outcomes["one-less"].numbers
        lost: dict[str, list[int]] = {}
        for (kind, at, model), speedup in numbers.items():
            if kind == axis and speedup < 1 and few(int(at)):
                lost.setdefault(TITLES[str(model)], []).append(int(at))
        cases = [key for key in numbers if key[0] == axis and few(int(key[1]))]
        count = sum(map(len, lost.values()))
        comment = "; ".join(f"{model} on {', '.join(f'{at}x{at}' for at in ats)}" for model, ats in lost.items())
        comment = f"Slower than the fastest other algorithm: {comment}." if lost else ""
        return Finding(f"loses in {count} of {len(cases)} cases", "holds" if lost else "does not hold", comment)

    return check


def _computing(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["one-less"].numbers
    gains = {str(model): speedup for (kind, at, model), speedup in numbers.items() if (kind, at) == ("mesh", 8)}
    order = sorted(gains, key=lambda model: gains[model])
    texts = [f"{TITLES[model]} {gains[model]:.3f}×" for model in order]
    comment = "Over the fastest other algorithm on 8x8, without overlap: " + ", ".join(texts) + "."
    overlapped = outcomes["fig11"].numbers
    others = {name for model, name in overlapped if name != TTO.name}
    behind = [
        TITLES[model]
        for model in gains
        if min(overlapped[model, name] for name in others) < overlapped[model, TTO.name]
    ]
    comment += f" With overlap it loses on {', '.join(behind) or 'none'}."
    lost = [model for model in order if gains[model] < 1] or behind
    return Finding(f"least gain: {texts[0]}", "holds" if lost else "does not hold", comment)


def _chunk(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig14"].numbers
    best = max(numbers, key=lambda key: numbers[key])
    near = [int(chunk) for (chunk,), value in numbers.items() if value >= 0.99 * numbers[best]]
    ours = f"{antiphon.format_bytes(int(best[0]))} is best"
    comment = f"Within 1 % of it: {', '.join(map(antiphon.format_bytes, near))}."
    return Finding(ours, "holds" if 96 * 1024 <= int(best[0]) <= 192 * 1024 else "does not hold", comment)


CHECKS: Checks = {
    **{f"allreduce-{key}": (("fig8",), _allreduce(name)) for key, name in BASELINES.items()},
    **{f"odd-{key}": (("fig8",), _odd(name)) for key, name in BASELINES.items() if name != BI},
    "tto-always": (("fig8",), _always(TTO.name, BASELINES.values())),
    "bi-always": (("fig8",), _always(BI, [name for name in BASELINES.values() if name != BI])),
    "odd-corner": (("table1",), _corner),
    "odd-steps": (("table1",), _steps),
    "no-bi-odd": (("table1",), _no_bi_odd),
    **{f"scale-{key}": (("fig9",), _scale(BASELINES[key])) for key in ("ring", "multitree", "bi")},
    "scale-odd": (("fig9",), _scale(MULTITREE.name, RING_BI_ODD.name, odd=True)),
    **{f"train-{key}": (("fig10",), _train(BASELINES[key])) for key in ("multitree", "bi")},
    **{f"train-odd-{key}": (("fig10",), _train_odd(name)) for key, name in BASELINES.items() if name != BI},
    "reduction-odd-ring": (("fig10",), _reduction(RING_BI_ODD.name, RING.name, (9,))),
    "reduction-odd-multitree": (("fig10",), _reduction(RING_BI_ODD.name, MULTITREE.name, (9,))),
    "reduction-multitree": (("fig10",), _reduction(TTO.name, MULTITREE.name, (8, 9))),
    "reduction-bi": (("fig10",), _reduction(TTO.name, BI, (8, 9))),
    **{f"overlap-{key}": (("fig11",), _overlap(name)) for key, name in BASELINES.items()},
    "use-tto": (("fig12",), _use(TTO.name)),
    "use-odd": (("fig12",), _use(RING_BI_ODD.name)),
    "use-ring": (("fig12",), _use(RING.name)),
    "use-multitree": (("fig12",), _use(MULTITREE.name)),
    **{f"simba-allreduce-{key}": (("fig13",), _simba(name, "allreduce")) for key, name in BASELINES.items()},
    **{f"simba-{key}": (("fig13",), _simba(name, "epoch")) for key, name in BASELINES.items()},
    "gain": (("viii-b",), _gain),
    "small-meshes": (("one-less",), _loses("mesh", lambda side: side <= 4)),
    "computing-models": (("one-less", "fig11"), _computing),
    "small-arrays": (("one-less",), _loses("array", lambda array: array <= 32)),
    "chunk": (("fig14",), _chunk),
}
