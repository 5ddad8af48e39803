"""Figures 10, 11 and 13 and the example of section VIII-B of the TTO paper: training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import antiphon
from antiphon.papers.model import (
    Bar,
    Bars,
    Experiment,
    Line,
    Lines,
    Numbers,
    Outcome,
    Results,
    Row,
    Style,
    published,
    stated,
)
from antiphon.papers.tto_algorithms import (
    DBTREE_PUBLISHED,
    IN_FLITS,
    MULTITREE,
    RING,
    RING_2D,
    RING_BI_EVEN,
    RING_BI_ODD,
    SYSTEM,
    TTO,
    VARIANTS,
    Variant,
    mesh,
    side_of,
)
from antiphon.study import Point
from antiphon.timing import CollectiveTime, Timer
from antiphon.training import Training

MODELS = {
    "alexnet": "alexnet",
    "AlphaGoZero": "alphagozero",
    "FasterRCNN": "fasterrcnn",
    "Googlenet": "googlenet",
    "NCF_recommendation": "ncf",
    "Resnet152": "resnet152",
    "Transformer": "transformer",
}
"""The paper's seven models: name in the published tables, and here."""
TITLES = dict(
    zip(MODELS, ("AlexNet", "AlphaGoZero", "FasterRCNN", "GoogLeNet", "NCF", "ResNet152", "Transformer"), strict=True)
)
MODEL_STYLES = {
    title: Style(colour, marker)
    for title, colour, marker in zip(
        TITLES.values(),
        ("#7f7f7f", "#56b4e9", "#cc79a7", "#e69f00", "#009e73", "#0072b2", "#d55e00"),
        "sD^Pv<o",
        strict=True,
    )
}
QUICK_MODELS = ("alexnet", "Resnet152")
BASELINES = (RING, RING_2D, DBTREE_PUBLISHED, MULTITREE, RING_BI_EVEN, TTO)
"""Algorithms of the figures on even meshes."""
COMPLETE = (RING, RING_2D, MULTITREE, RING_BI_EVEN, RING_BI_ODD, TTO)
"""Algorithms that the paper compares and that are complete and mapped as meant."""
SHOWN = 1.6
"""Bars are cut at this multiple of Ring's."""


@dataclass(frozen=True)
class Case:
    """One training run of the paper."""

    model: str
    side: int
    variant: Variant
    overlap: str = "none"
    array: int = 256
    chunk: int | None = None
    """Of TTO, in bytes; no chunk is larger than what is reduced."""

    def train(self, collectives: Timer) -> Training:
        """The training, with the times of its collectives from elsewhere."""
        return antiphon.train(
            MODELS[self.model],
            mesh(self.side),
            self.variant.spec,
            SYSTEM,
            overlap=self.overlap,
            compute=f"systolic:rows={self.array},cols={self.array}",
            collectives=collectives,
        )

    def point(self, size: int) -> Point:
        """The run behind one of its collectives."""
        spec = self.variant.spec
        if self.chunk is not None and self.variant is TTO:
            spec += f":chunk={min(self.chunk, size)}"
        # 16 arrays of a chiplet add one number in each row or column a cycle (1 ns).
        rate = 16 * self.array * 4
        changes = (("reduce_rate_gb_per_s", rate),)
        return Point(mesh(self.side), spec, size, SYSTEM, changes, fidelity=self.variant.fidelity)

    def points(self) -> list[Point]:
        """All its collectives: a training in which they take no time tells their sizes."""
        found: list[Point] = []

        def note(_fabric: antiphon.Fabric, _algorithm: str, _collective: str, size: int) -> CollectiveTime:
            found.append(self.point(size))
            return CollectiveTime(0.0, [])

        self.train(note)
        return found

    def result(self, results: Results) -> Training:
        """The training with its collectives as they were simulated."""

        def look_up(_fabric: antiphon.Fabric, _algorithm: str, _collective: str, size: int) -> CollectiveTime:
            record = results[self.point(size)]
            return CollectiveTime(record["time_ns"], record["excluded_ranks"])

        return self.train(look_up)


def _models(quick: bool) -> Sequence[str]:
    return QUICK_MODELS if quick else tuple(MODELS)


def _points(cases: Callable[[bool], list[Case]], quick: bool) -> list[Point]:
    return [point for case in cases(quick) for point in case.points()]


def _compute_rows(cases: list[Case], trainings: dict[Case, Training]) -> list[Row]:
    """The compute time of one iteration of every model and array."""
    table = {
        (row["model"], int(row["mac_array_dim"])): float(row["total_cycles_json"])
        for row in published("tto", "compute_cycles")
    }
    rows = []
    for model, array in dict.fromkeys((case.model, case.array) for case in cases):
        training = next(trainings[case] for case in cases if (case.model, case.array) == (model, array))
        what = f"{TITLES[model]}, {array}x{array} MACs"
        rows.append(Row("Compute of an iteration", what, "ns", training.compute_ns, None, table[model, array]))
    return rows


# --- Figs. 10 and 13 ----------------------------------------------------------------------------


def _fig10_cases(quick: bool) -> list[Case]:
    sides = (8,) if quick else (8, 9)
    cases = [Case(m, side, v) for v in VARIANTS for side in sides for m in _models(quick) if v.runs(side)]
    return cases + ([] if quick else _in_flits(Case(m, 8, v) for v in IN_FLITS for m in MODELS))


def _in_flits(cases: Iterable[Case]) -> list[Case]:
    """Those of the cases whose collectives are small enough."""
    return [case for case in cases if all(case.variant.runs(case.side, point.bytes) for point in case.points())]


def _fig13_cases(quick: bool) -> list[Case]:
    arrays = (32,) if quick else (32, 16)
    cases = [
        Case(model, 6, variant, array=array, chunk=48 * 1024)
        for variant in BASELINES
        for array in arrays
        for model in _models(quick)
    ]
    return cases + ([] if quick else _in_flits(Case(m, 6, v, array=32) for v in IN_FLITS for m in MODELS))


def _epochs(results: Results, cases: list[Case], table: dict[tuple[str, int, int, str], dict[str, str]]) -> Outcome:
    """Epochs without overlap; the published rows by model, side, array and algorithm."""
    trainings = {case: case.result(results) for case in cases}
    rows = _compute_rows(cases, trainings)
    numbers: Numbers = {}
    many_arrays = len({case.array for case in cases}) > 1
    for case, training in trainings.items():
        key = (case.model, case.side, case.array, case.variant.artifact)
        artifact = table.get(key)
        where = f"{case.array}x{case.array} MACs" if case.side == 6 else f"{case.side}x{case.side}"
        what = f"{TITLES[case.model]}, {where}"
        variant = case.variant
        for kind, unit, ours, theirs in (
            ("epoch", "s", training.epoch_ns / 1e9, "total_epoch_cycles"),
            ("AllReduce", "ns", training.communication_ns, "allreduce_cycles"),
        ):
            scale = 1e9 if unit == "s" else 1
            known = float(artifact[theirs]) / scale if artifact else None
            rows.append(Row(f"{variant.name}: {kind}", what, unit, ours, None, known, variant.tolerance, variant.note))
        if variant in IN_FLITS:
            continue
        numbers[case.side, case.array, case.model, variant.name, "epoch"] = training.epoch_ns
        numbers[case.side, case.array, case.model, variant.name, "allreduce"] = (
            training.iterations * training.communication_ns
        )
    charts = []
    for side, array in dict.fromkeys((case.side, case.array) for case in cases):
        groups = {}
        for model in dict.fromkeys(case.model for case in cases):
            of = {c.variant: t for c, t in trainings.items() if (c.side, c.array, c.model) == (side, array, model)}
            ring = of[RING].epoch_ns
            groups[TITLES[model]] = [
                Bar(
                    variant.name,
                    [t.iterations * t.compute_ns / ring, t.iterations * t.communication_ns / ring],
                    float(row["norm_total_vs_ring"])
                    if (row := table.get((model, side, array, variant.artifact)))
                    else None,
                )
                for variant, t in of.items()
                if variant not in IN_FLITS
            ]
        title = f"{side}x{side} mesh" + (f", {array}x{array} MACs" if many_arrays or side == 6 else "")
        charts.append(Bars(title, "epoch / Ring's", ["compute", "AllReduce"], groups, SHOWN))
    return Outcome(sorted(rows, key=lambda row: row.group.endswith("AllReduce")), charts, numbers)


def _fig10(results: Results, quick: bool) -> Outcome:
    table = {(row["model"], side_of(row), 256, row["algorithm"]): row for row in published("tto", "fig10_models")}
    return _epochs(results, _fig10_cases(quick), table)


def _fig13(results: Results, quick: bool) -> Outcome:
    table = {(row["model"], 6, int(row["mac_array"]), row["algorithm"]): row for row in published("tto", "fig13_simba")}
    return _epochs(results, _fig13_cases(quick), table)


# --- Fig. 11 ------------------------------------------------------------------------------------

FASTERRCNN_GROUPS = "The artifact leaves the last two layers' gradients (110,592 bytes) out of this model's exchanges."


def _fig11_cases(quick: bool) -> list[Case]:
    cases = [
        Case(model, 8, variant, overlap="layerwise", chunk=24 * 1024)
        for variant in BASELINES
        for model in _models(quick)
    ]
    return cases + ([] if quick else _in_flits(Case(m, 8, v, overlap="layerwise") for v in IN_FLITS for m in MODELS))


def _fig11(results: Results, quick: bool) -> Outcome:
    table = {(row["model"], row["algorithm"]): row for row in published("tto", "fig11_overlap")}
    cases = _fig11_cases(quick)
    trainings = {case: case.result(results) for case in cases}
    rows, groups = [], {}
    numbers: Numbers = {}
    for case, training in trainings.items():
        artifact, variant = table[case.model, case.variant.artifact], case.variant
        note = FASTERRCNN_GROUPS if case.model == "FasterRCNN" else variant.note
        known = float(artifact["iteration_total"])
        ours = training.iteration_ns
        rows.append(Row(variant.name, TITLES[case.model], "ns", ours, None, known, variant.tolerance, note))
        if variant not in IN_FLITS:
            numbers[case.model, variant.name] = training.epoch_ns
    for model in dict.fromkeys(case.model for case in cases):
        of = {case.variant: training for case, training in trainings.items() if case.model == model}
        ring = of[RING].epoch_ns
        groups[TITLES[model]] = [
            Bar(
                variant.name,
                [
                    t.iterations * part / ring
                    for part in (
                        t.compute_ns - t.overlapped_communication_ns,
                        t.overlapped_communication_ns,
                        t.exposed_communication_ns,
                    )
                ],
                float(table[model, variant.artifact]["norm_total_vs_ring"]),
            )
            for variant, t in of.items()
            if variant not in IN_FLITS
        ]
    chart = Bars("8x8 mesh, layer by layer", "epoch / Ring's", ["compute", "both", "AllReduce"], groups, SHOWN)
    return Outcome(rows, [chart], numbers)


# --- VIII-B -------------------------------------------------------------------------------------


def _example_cases(_quick: bool) -> list[Case]:
    return [Case("Resnet152", 8, variant) for variant in (RING_BI_EVEN, TTO)]


def _example(results: Results, _quick: bool) -> Outcome:
    said = stated("tto", "viii-b")
    base, tto = (case.result(results) for case in _example_cases(False))
    gain = tto.gain_ns(base)
    share = 100 * gain / base.epoch_ns
    wrong = "The paper's 44 % is neither the gain's share of the baseline's epoch nor of TTO's."
    rows = [
        Row("Equation 1", "iterations, RingBiEven", "", base.iterations, said["iterations RingBiEven"], tolerance=0),
        Row("Equation 1", "iterations, TTO", "", tto.iterations, said["iterations TTO"], tolerance=0),
        Row("Equation 2", "forward and back-propagation", "ns", base.compute_ns, said["T"]),
        Row("Equation 2", "AllReduce, RingBiEven", "ns", base.communication_ns, said["Cb"]),
        Row("Equation 2", "AllReduce, TTO", "ns", tto.communication_ns, said["Ct"]),
        Row("Equation 2", "gain of TTO in an epoch", "ns", gain, said["gain"]),
        Row("Equation 2", "gain as share of the baseline's epoch", "%", share, said["gain share"], note=wrong),
    ]
    groups = {
        name: [Bar(name, [t.iterations * part / 1e9 for part in (t.compute_ns, t.communication_ns)])]
        for name, t in ((RING_BI_EVEN.name, base), (TTO.name, tto))
    }
    chart = Bars("ResNet152 on 8x8", "epoch, s", ["compute", "AllReduce"], groups)
    numbers: Numbers = {("gain",): gain, ("share",): share, ("of TTO",): 100 * gain / tto.epoch_ns}
    return Outcome(rows, [chart], numbers)


# --- what one chiplet less costs, and where it does not pay ----------------------------------------

ONE_LESS_SIDES = tuple(range(3, 11))
ONE_LESS_ARRAYS = (16, 32, 64, 128, 256)


def _one_less_cases(quick: bool) -> list[Case]:
    sides, arrays = ((3, 4), (16, 32)) if quick else (ONE_LESS_SIDES, ONE_LESS_ARRAYS)
    settings = dict.fromkeys([(side, 256) for side in sides] + [(8, array) for array in arrays])
    return [
        Case(model, side, variant, array=array)
        for side, array in settings
        for model in _models(quick)
        for variant in COMPLETE
        if variant.runs(side)
    ]


def _one_less(results: Results, quick: bool) -> Outcome:
    epochs: dict[tuple[str, int, int], dict[Variant, float]] = {}
    for case in _one_less_cases(quick):
        epochs.setdefault((case.model, case.side, case.array), {})[case.variant] = case.result(results).epoch_ns
    rows = []
    numbers: Numbers = {}
    for (model, side, array), of in epochs.items():
        best = min((variant for variant in of if variant is not TTO), key=lambda variant: of[variant])
        speedup = of[best] / of[TTO]
        what = f"{side}x{side}, {array}x{array} MACs, over {best.name}"
        rows.append(Row(TITLES[model], what, "×", speedup))
        if array == 256:
            numbers["mesh", side, model] = speedup
        if side == 8:
            numbers["array", array, model] = speedup
    charts = []
    for axis, x_label in (("mesh", "side of the mesh"), ("array", "side of the array")):
        lines = []
        for model in _models(quick):
            found = sorted(
                (int(at), value) for (kind, at, of_model), value in numbers.items() if (kind, of_model) == (axis, model)
            )
            lines.append(Line(TITLES[model], [at for at, _ in found], [value for _, value in found]))
        ticks = [(float(x), str(x)) for x in lines[0].xs]
        title = "256x256 MACs" if axis == "mesh" else "8x8 mesh"
        charts.append(Lines(title, x_label, "speedup of TTO's epoch", lines, ticks, reference=1))
    return Outcome(rows, charts, numbers)


FIG_10 = Experiment(
    "fig10",
    "Fig. 10. Training time of an epoch",
    "Compute and one AllReduce of all gradients in every iteration, without overlap; 16 samples on each chiplet, of"
    " ImageNet's 1,281,167. TTO trains on one chiplet less, so it needs more iterations. The published numbers"
    " at hand are for 8x8.",
    partial(_points, _fig10_cases),
    _fig10,
    columns=1,
)
FIG_11 = Experiment(
    "fig11",
    "Fig. 11. Training with overlap",
    "Gradients are exchanged layer by layer as back-propagation delivers them, one exchange after another; the rows are"
    " iterations. TTO's chunks are 24 KiB, as in the artifact's runs.",
    partial(_points, _fig11_cases),
    _fig11,
    columns=1,
)
FIG_13 = Experiment(
    "fig13",
    "Fig. 13. Simba: smaller arrays",
    "Epochs on a 6x6 mesh, with arrays of 32x32 and 16x16 multipliers; TTO's chunks are 48 KiB, as in the artifact's"
    " runs. The published numbers at hand are for 32x32.",
    partial(_points, _fig13_cases),
    _fig13,
    columns=1,
)
EXAMPLE = Experiment(
    "viii-b",
    "Section VIII-B. What one chiplet less costs",
    "ResNet152 on 8x8: iterations of an epoch (equation 1), and the gain of TTO over the bidirectional ring (equation"
    " 2).",
    partial(_points, _example_cases),
    _example,
    columns=1,
)
ONE_LESS = Experiment(
    "one-less",
    "Section VIII-B. Where one chiplet less does not pay",
    "Speedup of an epoch with TTO over the fastest other complete algorithm, without overlap. Under 1, TTO loses. The"
    " paper names three such cases (small meshes, models that mostly compute, small arrays) but gives no numbers.",
    partial(_points, _one_less_cases),
    _one_less,
)
