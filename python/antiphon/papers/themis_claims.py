"""What the Themis paper claims, held against our own numbers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from statistics import fmean, geometric_mean

import antiphon
from antiphon.papers.checks import Check, Checks, Finding, checked, close, number
from antiphon.papers.model import Claim, Outcome, Verdict, stated
from antiphon.papers.themis_allreduce import FEW, FIG10_CHUNKS, SENSITIVE, speedups
from antiphon.papers.themis_networks import BOUND, RATIOS
from antiphon.papers.themis_schedulers import (
    BASELINE,
    CHUNKS,
    FIFO,
    FIFO_DELAY,
    MB,
    PAPER,
    SCF,
    SCF_BEFORE,
    SCF_DELAY,
    SEARCH,
    SIZES_MB,
    TOPOLOGIES,
    Series,
)
from antiphon.papers.themis_training import DLRM, IDEAL, MODELS, TRANSFORMER, Model

POINTS = 1.5
"""Points of utilization within which a mean holds."""
LITTLE = 0.25
"""What fails at no more than this share of the cases holds in part."""
DROP = 5.0
"""Points of utilization that are no longer stable."""
FULL = 95.0
"""Percent that count as the whole network."""
CASES = [(topology, size * MB) for topology in TOPOLOGIES for size in SIZES_MB]


def claims(outcomes: Mapping[str, Outcome]) -> list[Claim]:
    """All claims whose experiments are among the outcomes."""
    return checked(PAPER, CHECKS, outcomes)


def _within(row: dict[str, str], value: float, comment: str = "") -> Finding:
    """A utilization in percent, by points."""
    holds = abs(value - float(row["low"])) <= POINTS
    return Finding(f"{value:.2f} %", "holds" if holds else "does not hold", comment)


def _share(failing: int, all_cases: int) -> Verdict:
    """The verdict on what should be so always."""
    return "holds" if not failing else "holds in part" if failing <= LITTLE * all_cases else "does not hold"


# --- AllReduce ----------------------------------------------------------------------------------


def _utilization(series: Series, others: tuple[Series, ...] = ()) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        numbers = outcomes["fig11"].numbers
        comment = "; ".join(f"{other.name}: {numbers[other.name, 'mean']:.2f} %" for other in others)
        if (series.name, "nudged point") in numbers:
            comment += (
                f". Single points are not firm: sizes 1.5 % larger move one by"
                f" {numbers[series.name, 'nudged point']:+.1f} points,"
                f" the mean by {numbers[series.name, 'nudged mean']:+.2f}."
            )
        return _within(row, numbers[series.name, "mean"], comment)

    return check


def _speedup(series: Series) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        values = speedups(outcomes["fig8"].numbers, series, CASES)
        arithmetic, geometric = fmean(values), geometric_mean(values)
        holds = close(geometric, float(row["low"])) and close(arithmetic, float(row["low"]))
        comment = "Arithmetic and geometric mean; the paper does not say which it is."
        return Finding(f"{arithmetic:.2f}×, {geometric:.2f}×", "holds" if holds else "does not hold", comment)

    return check


def _most(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    values = dict(zip(CASES, speedups(outcomes["fig8"].numbers, SCF, CASES), strict=True))
    topology, size = max(values, key=lambda case: values[case])
    return number(row, values[topology, size], "×", f"{topology}, {size // MB} MB. A single point.")


def _closed_form(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig11"].numbers
    errors = [
        abs(numbers[BASELINE.name, name, 1000 * MB] - 100 * antiphon.advise_rails(name).baseline_utilization)
        for name in TOPOLOGIES
    ]
    text = f"at most {max(errors):.2f} points off at 1 GB"
    return Finding(
        text, "holds" if max(errors) < 0.1 else "does not hold", "(1 - 1/N) / (largest load × sum of rates)."
    )


def _example(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig5"].numbers
    orders = [numbers[SCF.name, "order", chunk] for chunk in range(1, 5)]
    loads = [numbers[SCF.name, dimension] for dimension in (1, 2)]
    holds = orders == [12, 21, 12, 12] and loads == [6.5, 7.0] and numbers[SCF.name,] < numbers[BASELINE.name,]
    comment = (
        f"Done after {numbers[SCF.name,]:g} units, the baseline after {numbers[BASELINE.name,]:g}; the same orders take"
        f" {numbers[FIFO.name,]:g} with FIFO, and {numbers[SCF_BEFORE.name,]:g} if a chunk's size is that before the"
        " stage."
    )
    return Finding(
        f"the same orders, loads {loads[0]:g} and {loads[1]:g}", "holds" if holds else "does not hold", comment
    )


def _scf_best(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig11"].numbers
    lost = [(name, size) for name, size in CASES if numbers[FIFO.name, name, size] > numbers[SCF.name, name, size]]
    where = ", ".join(f"{name} {size // MB} MB" for name, size in lost)
    comment = f"FIFO is better at {where}." if lost else ""
    return Finding(f"at {len(CASES) - len(lost)} of {len(CASES)} points", _share(len(lost), len(CASES)), comment)


def _starvation(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig9"].numbers
    least = {
        series: min(numbers[series.name, dimension] for dimension in (1, 2, 3)) for series in (BASELINE, FIFO, SCF)
    }
    holds = least[BASELINE] < least[FIFO] < least[SCF]
    text = ", ".join(f"{value:.0f} %" for value in least.values())
    return Finding(text, "holds" if holds else "does not hold", "Time in which the least active dimension has a chunk.")


def _initial_load(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    means, chunks = outcomes["fig11"].numbers, outcomes["fig10"].numbers

    def error(fifo: Series, scf: Series) -> float:
        """Mean difference to the paper's numbers, in points."""
        pairs = [(means[one.name, "mean"], stated(PAPER, "fig11")[one.stands_for]) for one in (fifo, scf)]
        for count in (4, 512):
            said = stated(PAPER, "fig10")
            pairs += [
                (chunks[one.name, "two", count], said[f"{one.stands_for}, {count} chunks"]) for one in (fifo, scf)
            ]
        return fmean(abs(ours - paper) for ours, paper in pairs)

    zero, delay = error(FIFO, SCF), error(FIFO_DELAY, SCF_DELAY)
    comment = (
        "That is what the paper says; its numbers seem to come from loads that start at zero, as in ASTRA-sim. Over its"
        f" six numbers for utilization we are {zero:.1f} points off on average with zero, {delay:.1f} with A_K."
    )
    return Finding("the paper's numbers fit zero better", "does not hold" if zero < delay else "holds", comment)


def _sizes(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig11"].numbers
    cases = [(series, name) for series in (BASELINE, FIFO, SCF) for name in TOPOLOGIES]
    less = [
        f"{series.name} on {name}"
        for series, name in cases
        if numbers[series.name, name, 1000 * MB] < numbers[series.name, name, 100 * MB]
    ]
    comment = f"1 GB uses less than 100 MB: {', '.join(less)}." if less else ""
    return Finding(f"in {len(cases) - len(less)} of {len(cases)} cases", _share(len(less), len(cases)), comment)


def _chunks(series: Series, count: int) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        numbers = outcomes["fig10"].numbers
        comment = ""
        if series is SCF:
            comment = f"{numbers[SCF_BEFORE.name, 'two', count]:.2f} % with the size before the stage."
        if series is SCF and count == 512:
            comment += " Packet headers, which the paper says cost goodput, are not modelled here."
        return _within(row, numbers[series.name, "two", count], comment)

    return check


def _chunks_baseline(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig10"].numbers
    spans = [
        max(values) - min(values)
        for name in SENSITIVE
        if (values := [numbers[BASELINE.name, name, chunks] for chunks in FIG10_CHUNKS])
    ]
    return Finding(f"{max(spans):.2f} points between 4 and 512", "holds" if max(spans) < 1 else "does not hold")


def _stable(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig10"].numbers
    steps = list(pairwise(FIG10_CHUNKS[1:]))
    drops = {
        (series.name, name, many): numbers[series.name, name, few] - numbers[series.name, name, many]
        for series in (SCF, SCF_BEFORE)
        for name in SENSITIVE
        for few, many in steps
    }
    worst = max(drops, key=lambda case: drops[case])
    later = max(drop for (_, _, many), drop in drops.items() if many > CHUNKS)
    comment = (
        f"{worst[0]} on {worst[1]}, from {worst[2] // 2} to {worst[2]} chunks. From {CHUNKS} chunks on by at most"
        f" {later:.1f} points."
    )
    return Finding(f"drops by {drops[worst]:.0f} points", "holds" if drops[worst] <= DROP else "does not hold", comment)


def _room(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    scf, search = (outcomes["fig11"].numbers[series.name, "mean"] for series in (SCF, SEARCH))
    few = outcomes["fig10"].numbers
    gains = ", ".join(f"{few[SEARCH.name, 'six', n] - few[SCF.name, 'six', n]:.0f}" for n in FEW)
    comment = f"With 64 chunks; with 4, 8 and 16 chunks {gains} points more."
    more = search - scf
    verdict: Verdict = "holds" if more <= POINTS else "holds in part" if more <= DROP else "does not hold"
    return Finding(f"{more:.1f} points more by a search", verdict, comment)


def _search(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers, times = outcomes["fig11"].numbers, outcomes["fig8"].numbers
    mean = numbers[SEARCH.name, "mean"]
    rivals = (BASELINE, FIFO, SCF, SCF_BEFORE)
    lost = sum(
        any(times[SEARCH.name, name, size] > times[rival.name, name, size] for rival in rivals) for name, size in CASES
    )
    least = min(numbers[SEARCH.name, name, size] for name, size in CASES)
    holds = mean >= 99 and not lost
    comment = f"At least {least:.1f} %; slower than Themis or the baseline at {lost} of {len(CASES)} points."
    return Finding(f"{mean:.2f} %", "holds" if holds else "does not hold", comment)


def _search_few(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig10"].numbers
    found = [numbers[SEARCH.name, "six", chunks] for chunks in FEW]
    themis = ", ".join(f"{numbers[SCF.name, 'six', chunks]:.1f}" for chunks in FEW)
    holds = all(value >= least for value, least in zip(found, (70, 88, 96), strict=True))
    text = ", ".join(f"{value:.1f}" for value in found)
    return Finding(f"{text} %", "holds" if holds else "does not hold", f"Themis+SCF: {themis} %.")


# --- training -----------------------------------------------------------------------------------


def _fig4(key: str, comment: str = "") -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        return _within(row, outcomes["fig4"].numbers[key,], comment)

    return check


def _train(model: Model) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        numbers = outcomes["fig12"].numbers
        most, search = numbers[model.title, SCF.name, "most"], numbers[model.title, SEARCH.name, "mean"]
        comment = f"At most {most:.2f}×; by search {search:.2f}×."
        share = numbers.get((model.title, "share"))
        if share is not None:
            most, ideal = (numbers[model.title, what, "consistent"] for what in ("most", "ideal"))
            said = [
                stated(PAPER, "fig12")[f"{model.title}: {what}"] for what in (f"{SCF.name}, most", f"{IDEAL}, mean")
            ]
            comment += (
                f" Depends on the time of computation, which is assumed: the paper's mean would need {share:.2f} of it."
                f" The largest speed-up would then be {most:.2f}× (paper: {said[0]:.2f}×), the ideal one {ideal:.2f}×"
                f" ({said[1]:.2f}×)."
            )
        return number(row, numbers[model.title, SCF.name, "mean"], "×", comment)

    return check


def _exposed(name: str) -> Check:
    def check(row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
        numbers = outcomes["fig12"].numbers
        comment = f"By search {numbers['exposed', SEARCH.name]:.2f}×." if name == SCF.name else ""
        return number(row, numbers["exposed", name], "×", comment)

    return check


def _dlrm(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["fig12"].numbers
    shares = {name: 100 * numbers["model", DLRM.title, name] for name in TOPOLOGIES}
    seen = {name: share for name, share in shares.items() if share > 0.05}
    comment = "Exposed share of the iteration, Themis: " + ", ".join(f"{s:.1f} % on {n}" for n, s in seen.items())
    text = f"hidden on {len(shares) - len(seen)} of {len(shares)} topologies"
    return Finding(text, _share(len(seen), len(shares)), comment if seen else "")


def _transformer_data(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    ratios = [outcomes["fig12"].numbers["data", TRANSFORMER.title, name] for name in TOPOLOGIES]
    text = f"{min(ratios):.3f}–{max(ratios):.3f} of the baseline's"
    return Finding(text, "holds" if max(abs(ratio - 1) for ratio in ratios) < 0.01 else "does not hold")


def _transformer_model(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    shares = [outcomes["fig12"].numbers["dominates", TRANSFORMER.title, name] for name in TOPOLOGIES]
    text = f"{100 * min(shares):.0f}–{100 * max(shares):.0f} % of what is exposed"
    return Finding(text, "holds" if min(shares) > 0.5 else "does not hold")


# --- section 6.3 --------------------------------------------------------------------------------


def _just_enough(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["scenarios"].numbers
    found = [numbers[series.name, "1.0"] for series in (BASELINE, SCF, SEARCH)]
    good = [value >= FULL for value in found[:2]]
    verdict: Verdict = "holds" if all(good) else "holds in part" if any(good) else "does not hold"
    comment = (
        "The loads differ by the factors (P - 1)/P, which the paper's condition leaves out, so that Themis sends"
        f" {numbers['turned',]:.0f} of {CHUNKS} chunks over dim2 first, at 16 times the cost. The search stays at"
        f" {found[2]:.1f} %."
    )
    return Finding(f"{found[0]:.1f} %, {found[1]:.1f} %", verdict, comment if not all(good) else "")


def _over(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["scenarios"].numbers
    ratios = [ratio for ratio in RATIOS if ratio > 1]
    found = {ratio: numbers[SCF.name, str(ratio)] for ratio in ratios}
    below = [ratio for ratio in ratios if found[ratio] < FULL]
    baseline = numbers[BASELINE.name, str(ratios[-1])]
    verdict = _share(len(below), len(ratios)) if baseline < FULL else "does not hold"
    text = f"Themis {min(found.values()):.0f}–{max(found.values()):.0f} %, baseline down to {baseline:.0f} %"
    comment = "; ".join(f"{found[ratio]:.1f} % at {ratio:g} times what is just enough" for ratio in below)
    return Finding(text, verdict, comment)


def _under(_row: dict[str, str], outcomes: Mapping[str, Outcome]) -> Finding:
    numbers = outcomes["scenarios"].numbers
    ratios = [ratio for ratio in RATIOS if ratio < 1]
    bounds = [numbers[BOUND, str(ratio)] for ratio in ratios]
    reached = [numbers[SEARCH.name, str(ratio)] for ratio in ratios]
    text = ", ".join(f"at most {bound:.1f} % at {ratio:g}" for bound, ratio in zip(bounds, ratios, strict=True))
    comment = f"The search reaches {', '.join(f'{value:.1f}' for value in reached)} %."
    return Finding(text, "holds" if max(bounds) < FULL else "does not hold", comment)


CHECKS: Checks = {
    "util-baseline": (("fig11",), _utilization(BASELINE)),
    "util-fifo": (("fig11",), _utilization(FIFO, (FIFO_DELAY,))),
    "util-scf": (("fig11",), _utilization(SCF, (SCF_BEFORE, SCF_DELAY))),
    "speedup-fifo": (("fig8",), _speedup(FIFO)),
    "speedup-scf": (("fig8",), _speedup(SCF)),
    "speedup-most": (("fig8",), _most),
    "closed-form": (("fig11",), _closed_form),
    "example": (("fig5",), _example),
    "scf-best": (("fig11",), _scf_best),
    "starvation": (("fig9",), _starvation),
    "initial-load": (("fig10", "fig11"), _initial_load),
    "sizes": (("fig11",), _sizes),
    **{
        f"chunks-{key}-{count}": (("fig10",), _chunks(series, count))
        for key, series in (("fifo", FIFO), ("scf", SCF))
        for count in (4, 512)
    },
    "chunks-baseline": (("fig10",), _chunks_baseline),
    "stable": (("fig10",), _stable),
    "room": (("fig10", "fig11"), _room),
    "util-current": (("fig4",), _fig4("2D-current", "Mean of three workloads.")),
    "util-next": (("fig4",), _fig4("mean")),
    "util-least": (("fig4",), _fig4("least")),
    **{
        f"train-{key}": (("fig12",), _train(model))
        for key, model in zip(("resnet", "gnmt", "dlrm", "transformer"), MODELS, strict=True)
    },
    "exposed-scf": (("fig12",), _exposed(SCF.name)),
    "exposed-ideal": (("fig12",), _exposed(IDEAL)),
    "dlrm-hidden": (("fig12",), _dlrm),
    "transformer-data": (("fig12",), _transformer_data),
    "transformer-model": (("fig12",), _transformer_model),
    "just-enough": (("scenarios",), _just_enough),
    "over": (("scenarios",), _over),
    "under": (("scenarios",), _under),
    "search-64": (("fig8", "fig11"), _search),
    "search-few": (("fig10",), _search_few),
}
