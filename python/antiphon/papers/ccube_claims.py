"""What the C-Cube paper claims, held against our own numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from statistics import fmean

from antiphon.papers.ccube_allreduce import (
    EQUATIONS,
    FIG4_RANKS,
    FIG4_SIZES,
    FIG12_SIZES,
    FIG14_RANKS,
    FIG14_SIZES,
    LAYER_WISE,
    ONE_SHOT,
    SETTINGS,
    SIMULATED,
    SLICE,
    SLICING,
    calls,
)
from antiphon.papers.ccube_systems import (
    C1,
    C2,
    CC,
    CHANNELS,
    MIB,
    NVLINK_GB,
    PAPER,
    RANKS,
    RING,
    B,
    Variant,
    size_text,
)
from antiphon.papers.ccube_training import BATCHES, BEHIND, CASES, MODELS, PARAMETERS, RATES, TIME, gains
from antiphon.papers.ccube_trees import DETOURS, GENERAL_CHUNKS, GENERAL_RANKS, TITLES
from antiphon.papers.checks import Check, Checks, Finding, checked, close, number
from antiphon.papers.model import Claim, Numbers, Outcome, Verdict

LITTLE = 0.25
"""What fails at no more than this share of the cases holds in part."""
SIGNIFICANT = 0.02
"""What gains more is an improvement."""
ALIKE = 0.005
"""Speeds within this share are the same."""


def claims(outcomes: Mapping[str, Outcome]) -> list[Claim]:
    """All claims whose experiments are among the outcomes."""
    return checked(PAPER, CHECKS, outcomes)


def _holds(holds: bool, partly: bool = False) -> Verdict:
    return "holds" if holds else "holds in part" if partly else "does not hold"


def _share(failing: int, cases: int) -> Verdict:
    """The verdict on what should be so always."""
    return _holds(not failing, failing <= LITTLE * cases)


# --- steps and links ----------------------------------------------------------------------------


def _steps(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig5"].numbers
    found = [numbers[TITLES[overlap],] for overlap in (True, False)]
    text = f"{found[0]:g}, {found[1]:g}"
    return Finding(text, _holds(found == [7, 10]), "Counted in the slots of proven schedules.")


def _steps_general(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig5"].numbers
    less: set[tuple[float, float]] = set()
    for ranks in GENERAL_RANKS:
        for chunks in GENERAL_CHUNKS:
            height = ranks.bit_length() - 1
            overlapped, two = numbers[TITLES[True], ranks, chunks], numbers[TITLES[False], ranks, chunks]
            less.add((2 * height + chunks - overlapped, 2 * (height + chunks) - two))
    exact = less == {(1, 2)}
    text = "2h + K - 1, 2 (h + K - 1)" if exact else "other numbers"
    comment = "The text counts 1 and 2 steps more than its own Fig. 5; chunks and nodes enter as it says."
    return Finding(text, _holds(False, exact), comment)


def _doubled(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig10"].numbers

    def needed(trees: int, overlap: bool) -> set[tuple[int, ...]]:
        """Pairs that need two."""
        start = ("needed", trees, overlap)
        return {tuple(map(int, key[3:])) for key, links in numbers.items() if key[:3] == start and links == 2}

    # The second tree is the first with every number XOR 1.
    alone = {tuple(sorted((a ^ flip, b ^ flip))) for a, b in needed(1, True) for flip in (0, 1)}
    shared, others = needed(2, True) - alone, ", ".join(f"{a}-{b}" for a, b in sorted(alone))
    comment = (
        f"The trees need two on {others} as well, each for itself: there, a detour meets an edge of its own tree."
        f" Without overlap {len(needed(2, False)) or 'no'} pair needs two."
    )
    text = ", ".join(f"{a}-{b}" for a, b in sorted(shared))
    return Finding(text, _holds(shared == {(2, 3), (6, 7)}), comment)


def _detours(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig10"].numbers
    found = {key[3:]: value for key, value in numbers.items() if key[:3] == ("detour", 2, True)}
    holds = found == DETOURS and numbers["proven", 2, True] == 1
    text = ", ".join(f"{a}-{between:g}-{b}" for (a, b), between in found.items())
    return Finding(text, _holds(holds), "Proven: no link carries two messages in one step.")


def _in_order(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig12"].numbers
    late = [numbers["out of order", size] for size in FIG12_SIZES]
    text = f"{sum(late):g} chunks out of order in {len(late)} sizes"
    return Finding(text, _holds(not any(late)), "By the times at which chunks are complete at all nodes, B and C1.")


# --- cost ---------------------------------------------------------------------------------------


def _loss(name: str, most: int) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        value = outcomes["fig3"].numbers[name, most, "loss"]
        least = float(row["low"])
        holds = value > least if name == SLICING else close(value, least)
        # Every AllReduce takes its latency once, all together the same bytes.
        sizes = {key: calls(*key) for key in ((ONE_SHOT, 0), (LAYER_WISE, 0), (SLICING, SLICE))}
        busy = 2 * (RANKS - 1) / RANKS * sum(sizes[ONE_SHOT, 0]) / (CHANNELS * NVLINK_GB)
        latency = busy / (len(sizes[LAYER_WISE, 0]) - 2)
        other = (busy + len(sizes[SLICING, SLICE]) * latency) / (busy + latency)
        step = latency / (2 * (RANKS - 1))
        comment = (
            f"With the latency of C-Cube's kernels. NCCL's is not stated: {step / 1000:.1f} µs a step would give 2.0×"
            f" for layers and {other:.1f}× for slices of {SLICE // 1000} kB."
        )
        return Finding(f"{value:.1f}×", _holds(holds, value > least), comment)

    return check


def _small_tree(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig4"].numbers
    small = FIG4_SIZES[0]
    ratios = [numbers[small, ranks] for ranks in FIG4_RANKS]
    wins = [ranks for ranks, ratio in zip(FIG4_RANKS, ratios, strict=True) if ratio > 1]
    rising = all(more > less for less, more in pairwise(ratios[1:]))
    holds = rising and wins == [ranks for ranks in FIG4_RANKS if ranks >= wins[0]]
    text = f"{size_text(small)}: from {wins[0]} nodes on; {ratios[-1]:.0f}× with {FIG4_RANKS[-1]}"
    return Finding(text, _holds(holds), "Eq. 2 over Eq. 5.")


def _large_ring(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig4"].numbers
    endless, most, where = (numbers[what, RANKS] for what in ("endless", "most", "most at"))
    comment = (
        f"P / (P - 1) is reached by endless data only. By the same equations the ring is {100 * (most - 1):.0f} %"
        f" faster at {int(where) // MIB} MB, where the tree's last term, 4 sqrt(abNh), counts. More latency moves the"
        " size, not the ratio."
    )
    good = abs(endless - float(row["low"])) < 0.01
    text = f"{100 * (endless - 1):.1f} % with endless data on 8 nodes"
    return Finding(text, _holds(good and most < 1.2, good), comment)


# --- AllReduce ----------------------------------------------------------------------------------


def _c1_always(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig12"].numbers
    slower = [size for size in FIG12_SIZES if numbers[SIMULATED, size] < 1 - 1e-9]
    same = [size_text(size) for size in FIG12_SIZES if abs(numbers[SIMULATED, size] - 1) < 1e-9]
    comment = f"With a single chunk nothing overlaps: {', '.join(same)} are the same." if same else ""
    return Finding(f"at {len(FIG12_SIZES) - len(slower)} of {len(FIG12_SIZES)} sizes", _share(len(slower), 9), comment)


def _c1_64(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig12"].numbers
    comment = f"The fit. By Eqs. 5 and 7 {numbers[EQUATIONS, 64 * MIB]:.2f}×."
    return number(row, numbers[SIMULATED, 64 * MIB], "×", comment)


def _c1_large(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig12"].numbers
    gain, own = (numbers[what, 256 * MIB] for what in (SIMULATED, "own"))
    comment = (
        f"256 MB; 128 MB: {numbers[SIMULATED, 128 * MIB]:.2f}×. C1's own best number of chunks makes it"
        f" {100 * (own - 1):.1f} % faster."
    )
    return number(row, gain, "×", comment)


def _model(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig12"].numbers
    errors = {size: abs(numbers[SIMULATED, size] / numbers[EQUATIONS, size] - 1) for size in FIG12_SIZES}
    large = max(error for size, error in errors.items() if size >= 4 * MIB)
    small = max(error for size, error in errors.items() if size < 4 * MIB)
    comment = (
        f"Less up to {100 * small:.0f} %: the equations let chunks be no whole number, and count a step or two more."
        " Against our simulation, not a DGX-1."
    )
    return Finding(
        f"within {100 * large:.1f} % from 4 MB on", _holds(small <= 0.05 and large <= 0.05, large <= 0.05), comment
    )


# --- training -----------------------------------------------------------------------------------

CASES_13 = [(model, name, batch) for model in MODELS for name in RATES for batch in BATCHES]


def _speed(numbers: Numbers, case: tuple[str, str, int], variant: Variant) -> float:
    model, name, batch = case
    return numbers[model, name, batch, variant.name]


def _where(case: tuple[str, str, int]) -> str:
    return f"{case[0]}, {case[1]}, batch {case[2]}"


def _order(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig13"].numbers

    def ordered(case: tuple[str, str, int]) -> bool:
        b, c1, c2, cc = (_speed(numbers, case, variant) for variant in (B, C1, C2, CC))
        return b < min(c1, c2) and max(c1, c2) < cc

    failing = [case for case in CASES_13 if not ordered(case)]
    return Finding(f"at {len(CASES_13) - len(failing)} of {len(CASES_13)} points", _share(len(failing), len(CASES_13)))


def _c2(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    values = gains(outcomes["fig13"].numbers, C2.name, C1.name)
    better = sum(value > 1 for value in values.values())
    alike = sum(abs(value - 1) <= ALIKE for value in values.values())
    worst = min(values, key=lambda case: values[case])
    comment = (
        f"As fast within 0.5 % at {alike}; least at {_where(worst)}: {values[worst]:.2f}×. With the same chunks, the"
        " first one behind the barrier is everywhere after 2h + K - 1 steps, in which C1 has done all, so by counting"
        " it cannot win."
    )
    return Finding(f"better at {better} of {len(values)} points", _share(len(values) - better, len(values)), comment)


def _gain(ours: Variant, over: Variant, how: str) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        values = gains(outcomes["fig13"].numbers, ours.name, over.name)
        if how == "mean":
            value, comment = fmean(values.values()), f"Of {len(values)} points."
        else:
            where = max(values, key=lambda case: values[case])
            value, comment = values[where], f"{_where(where)}."
        return number(
            row, value, "×", f"{comment} Depends on the times of computation, which are assumed, and on the batches."
        )

    return check


def _cc_exceeds(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    values = gains(outcomes["fig13"].numbers, CC.name, RING.name)
    slower = [case for case, value in values.items() if value < 1]
    expected = all(model == "ZFNet" and batch <= 32 for model, _, batch in slower)
    comment = f"Slower: {'; '.join(map(_where, slower))}." if slower else ""
    return Finding(f"at {len(values) - len(slower)} of {len(values)} points", _holds(expected), comment)


def _behind(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig13"].numbers
    gained, left = (gains(numbers, ours, over) for ours, over in ((BEHIND, RING.name), (CC.name, BEHIND)))
    faster = sum(value > 1 for value in left.values())
    comment = (
        f"Mean and most. CC is faster than such a ring at {faster} of {len(left)} points,"
        f" {min(left.values()):.2f}–{max(left.values()):.2f}×. Here communication takes nothing from the computation"
        " that it runs behind, neither the ring nor CC; on the paper's GPUs it does."
    )
    mean, most = fmean(gained.values()), max(gained.values())
    return Finding(f"{mean:.2f}×, {most:.2f}×", _holds(most <= 1 + SIGNIFICANT, mean <= 1 + SIGNIFICANT), comment)


def _efficiency(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig13"].numbers
    best = max(100 * _speed(numbers, case, CC) for case in CASES_13)
    comment = "Nothing but waiting for gradients is modelled, so large batches come closer to 100 % than on real GPUs."
    return Finding(f"{best:.1f} %", _holds(best >= float(row["low"])), comment)


def _batch(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig13"].numbers
    names = [variant.name for variant in (B, C1, C2, CC, RING)]
    high, low = RATES
    pairs = [
        ((model, rate, more, name), (model, rate, less, name))
        for model in MODELS
        for rate in RATES
        for less, more in pairwise(BATCHES)
        for name in names
    ]
    pairs += [((m, high, batch, n), (m, low, batch, n)) for m in MODELS for batch in BATCHES for n in names]
    failing = sum(numbers[better] <= numbers[worse] for better, worse in pairs)
    return Finding(f"in {len(pairs) - failing} of {len(pairs)} comparisons", _share(failing, len(pairs)))


# --- more nodes ---------------------------------------------------------------------------------


def _scale(size: int) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        numbers = outcomes["fig14"].numbers
        few, many = FIG14_RANKS[-2:]

        def at(what: str) -> str:
            return ", ".join(f"{numbers[what, size, ranks]:.2f}× with {ranks}" for ranks in (few, many))

        comment = (
            f"{size_text(size)}; by the cost model {at('model')}; chunks of 256 kB {at('256 kB')}; no latency but that"
            f" of links {at('links only')}. The paper states neither its largest number of nodes nor its latencies."
        )
        claimed = float(row["low"])
        most = [max(numbers[setting, size, ranks] for ranks in FIG14_RANKS) for setting in SETTINGS]
        holds = all(close(value, claimed) for value in most)
        return Finding(at("ratio"), _holds(holds, max(most) > claimed), comment)

    return check


def _scale_nodes(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    return _rising(outcomes["fig14"].numbers, "ratio")


def _rising(numbers: Numbers, what: str, comment: str = "") -> Finding:
    pairs = [(size, less, more) for size in FIG14_SIZES for less, more in pairwise(FIG14_RANKS)]
    failing = sum(numbers[what, size, more] <= numbers[what, size, less] for size, less, more in pairs)
    return Finding(f"in {len(pairs) - failing} of {len(pairs)} doublings", _share(failing, len(pairs)), comment)


def _turnaround(how: Callable[[list[float]], float], word: str) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        numbers = outcomes["fig14"].numbers
        large = FIG14_SIZES[-1]
        simulated, steps = (
            how([numbers[what, large, ranks] for ranks in FIG14_RANKS]) for what in ("turnaround", "turnaround model")
        )
        claimed = float(row["low"])
        comment = (
            f"64 MB, 4 to 256 nodes. In steps of equal length {steps:.1f}×; in the simulation, latencies of chunks"
            " overlap and a node's link is shared by those of its tree. The paper's sizes and numbers of nodes are not"
            " stated."
        )
        found = [close(value, claimed) for value in (simulated, steps)]
        near = min(abs(value / claimed - 1) for value in (simulated, steps)) <= 0.15
        return Finding(f"{simulated:.1f}× {word}".strip(), _holds(found[0], any(found) or near), comment)

    return check


def _turnaround_small(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig14"].numbers
    values = [numbers["turnaround", FIG14_SIZES[0], ranks] for ranks in FIG14_RANKS]
    most = max(abs(value - 1) for value in values)
    return Finding(f"{min(values):.2f}–{max(values):.2f}×", _holds(most <= 0.05), "16 kB, a single chunk.")


def _turnaround_nodes(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig14"].numbers
    larger = all(
        numbers["turnaround", more, ranks] > numbers["turnaround", less, ranks]
        for ranks in FIG14_RANKS
        for less, more in pairwise(FIG14_SIZES)
    )
    of_64 = [numbers["turnaround", FIG14_SIZES[-1], ranks] for ranks in FIG14_RANKS]
    rises = sum(more > less for less, more in pairwise(of_64))
    comment = (
        f"With 64 MB it falls from {of_64[0]:.0f}× with {FIG14_RANKS[0]} nodes to {of_64[-1]:.0f}× with"
        f" {FIG14_RANKS[-1]}: the first chunk has a higher tree to pass, and as many chunks behind it, (2h + K - 1) /"
        " 2h."
    )
    text = f"with the message: {'yes' if larger else 'no'}; with the network: in {rises} of {len(of_64) - 1} doublings"
    return Finding(text, _holds(larger and rises == len(of_64) - 1, larger), comment)


# --- patterns -----------------------------------------------------------------------------------


def _cases(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig16"].numbers
    names = [case.title for case in CASES]
    waits = {what: [numbers[name, what] for name in names] for what in ("waits for the first layer", "bubbles")}
    first, bubbles = waits.values()
    total = [numbers[name, "iteration"] for name in names]
    holds = bubbles[0] == 0 < bubbles[1] and first[2] > max(first[:2]) and total[0] < min(total[1:])
    comment = (
        f"Iterations of {', '.join(f'{value:g}' for value in total)} steps; waits for the first layer"
        f" {', '.join(f'{value:g}' for value in first)}, bubbles {', '.join(f'{value:g}' for value in bubbles)}."
    )
    return Finding("all three show" if holds else "not all show", _holds(holds), comment)


def _resnet(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig17"].numbers
    stages = sorted({str(key[1]) for key in numbers if str(key[1]).startswith("stage")})
    sizes, times = ([numbers[what, stage] for stage in stages] for what in (PARAMETERS, TIME))
    growing = all(more > less for less, more in pairwise(sizes))
    falling = all(later < sooner for sooner, later in pairwise(times))
    correlations = ", ".join(f"{what} {numbers[what, 'rank correlation']:+.2f}" for what in (PARAMETERS, TIME))
    comment = (
        f"Means of stages 1 to 4: {', '.join(f'{size / 1e6:.2f}' for size in sizes)} million;"
        f" {', '.join(f'{time / 1e6:.2f}' for time in times)} ms. Convolutions of all stages have about as many"
        " operations; normalizations and activations, which cost early stages most, are not in our table."
    )
    return Finding(f"rank correlations: {correlations}", _holds(growing and falling, growing or falling), comment)


CHECKS: Checks = {
    "steps": (("fig5",), _steps),
    "steps-general": (("fig5",), _steps_general),
    "layer-wise": (("fig3",), _loss(LAYER_WISE, 0)),
    "slicing": (("fig3",), _loss(SLICING, SLICE)),
    "small-tree": (("fig4",), _small_tree),
    "large-ring": (("fig4",), _large_ring),
    "doubled": (("fig10",), _doubled),
    "detours": (("fig10",), _detours),
    "in-order": (("fig12",), _in_order),
    "c1-always": (("fig12",), _c1_always),
    "c1-64": (("fig12",), _c1_64),
    "c1-large": (("fig12",), _c1_large),
    "model": (("fig12",), _model),
    "order": (("fig13",), _order),
    "c2-over-c1": (("fig13",), _c2),
    "c1-mean": (("fig13",), _gain(C1, B, "mean")),
    "c1-most": (("fig13",), _gain(C1, B, "most")),
    "cc-mean": (("fig13",), _gain(CC, B, "mean")),
    "cc-most": (("fig13",), _gain(CC, B, "most")),
    "r-over-c1": (("fig13",), _gain(RING, C1, "most")),
    "cc-over-r": (("fig13",), _gain(CC, RING, "most")),
    "cc-exceeds-r": (("fig13",), _cc_exceeds),
    "ring-behind": (("fig13",), _behind),
    "efficiency": (("fig13",), _efficiency),
    "batch": (("fig13",), _batch),
    "scale-small": (("fig14",), _scale(FIG14_SIZES[0])),
    "scale-large": (("fig14",), _scale(FIG14_SIZES[-1])),
    "scale-nodes": (("fig14",), _scale_nodes),
    "turnaround-most": (("fig14",), _turnaround(max, "at most")),
    "turnaround-mean": (("fig14",), _turnaround(fmean, "on average")),
    "turnaround-small": (("fig14",), _turnaround_small),
    "turnaround-nodes": (("fig14",), _turnaround_nodes),
    "cases": (("fig16",), _cases),
    "resnet": (("fig17",), _resnet),
}
