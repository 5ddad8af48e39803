"""Figures 4 and 12 of the Themis paper: training, whose inputs the paper does not publish; ours are assumptions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

import antiphon
from antiphon import Iteration
from antiphon._core import TrainingPlan, Workload
from antiphon.papers.model import Bar, Bars, Experiment, Line, Lines, Numbers, Outcome, Results, Row, Style, stated
from antiphon.papers.themis_schedulers import BASELINE, PAPER, SCF, SEARCH, SINGLE, TOPOLOGIES, Series, row
from antiphon.study import Record, TrainingPoint

A100 = "roofline:tflops=312,gb-per-s=1555,efficiency=1,memory-efficiency=1"
"""Peak FP16 rate and memory bandwidth of an A100 of 40 GB: the paper takes a roofline of all FLOPS."""
FP16_BYTES = 2


@dataclass(frozen=True)
class Model:
    """A workload of the paper.

    Attributes:
        title: as the paper calls it.
        name: our table of its layers.
        batch: samples on each NPU, or on those that share a model (section 5.2).
        compute: model of computation.
        parallel: NPUs that every layer is divided over.
    """

    title: str
    name: str
    batch: int
    compute: str = A100
    parallel: int = 1

    @property
    def recomputes(self) -> bool:
        """Whether the backward pass repeats the forward pass, as the paper says of ZeRO."""
        return self.parallel > 1

    def run(self, series: Series, topology: str) -> TrainingPoint:
        """An iteration; the exchanges of gradients come after the backward pass, and those between layers hold up
        all computation, as in ASTRA-sim."""
        options = (
            ("batch", self.batch),
            ("compute", self.compute),
            ("gradient_bytes", FP16_BYTES),
            ("activation_bytes", FP16_BYTES),
            ("model_parallel", self.parallel),
            ("recompute", self.recomputes),
            ("blocking", True),
        )
        algorithm = series.scheduler if series.intra is None else f"{series.scheduler}:{series.intra}"
        return TrainingPoint(self.name, f"rails:{topology}", algorithm, options)


RESNET = Model("ResNet-152", "resnet152", 32)
GNMT = Model("GNMT", "gnmt", 128)
DLRM = Model("DLRM", "dlrm", 512, "measured")
TRANSFORMER = Model("Transformer-1T", "transformer-1t", 16, parallel=128)
MODELS = (RESNET, GNMT, DLRM, TRANSFORMER)

IDEAL = "Ideal"
TRAINED = (BASELINE, SCF, SEARCH)
CURRENT = "2D-current"
INFINITE = "Infinite rate"
TRAINING_STYLES: Mapping[str, Style] = {
    IDEAL: Style("#009e73", "*"),
    **{
        name: Style(colour, marker)
        for name, colour, marker in zip(
            (CURRENT, *TOPOLOGIES),
            ("#1b2230", "#7f7f7f", "#56b4e9", "#0072b2", "#009e73", "#e69f00", "#d55e00"),
            ("s", "o", "v", "^", "D", "P", "X"),
            strict=True,
        )
    },
    INFINITE: Style("#8a94a3", "", dashed=True),
}


# --- the ideal ----------------------------------------------------------------------------------


@cache
def _groups(topology: str, parallel: int) -> tuple[tuple[int, float], tuple[int, float]]:
    """Of the NPUs that share a model, and of those with the same part of it: how many they are, and their rates in
    Gb/s together. The former are on the first dimensions."""
    left = parallel
    sizes, rates = [1, 1], [0.0, 0.0]
    table = antiphon.advise_rails(topology).dimensions
    for name, rate in zip(table["name"], table["gbit_per_s"], strict=True):
        size = int("".join(filter(str.isdigit, name.partition("(")[2])))
        inside = math.gcd(left, size)
        left //= inside
        for group, share in enumerate((inside, size // inside)):
            sizes[group] *= share
            rates[group] += float(rate) if share > 1 else 0.0
    model, data = zip(sizes, rates, strict=True)
    return (model, data) if parallel > 1 else (data, data)


def _ideal(model: Model, topology: str) -> Iteration:
    """The iteration with all rates of a group always busy: 2 S (1 - 1/N) / rates for an AllReduce of S bytes."""
    plan = TrainingPlan(
        Workload(model.name),
        model.compute,
        model.batch,
        gradient_bytes=FP16_BYTES,
        activation_bytes=FP16_BYTES,
        model_parallel=model.parallel,
        recompute=model.recomputes,
        blocking=True,
    )
    exchanges = plan.run([0.0] * len(plan.exchanges)).exchanges
    times = []
    for kind, size, of in zip(exchanges["kind"], exchanges["bytes"], exchanges["pass"], strict=True):
        npus, gbit_per_s = _groups(topology, model.parallel)[of == "weight gradient"]
        sent = float(size) * (1 - 1 / npus) * (2 if kind == "all-reduce" else 1)
        times.append(8 * sent / gbit_per_s)
    return plan.run(times)


@dataclass(frozen=True)
class Times:
    """An iteration in nanoseconds."""

    compute: float
    model: float
    """Exposed communication between layers."""
    data: float
    """Exposed communication of gradients."""

    @property
    def exposed(self) -> float:
        """All exposed communication."""
        return self.model + self.data

    @property
    def iteration(self) -> float:
        """All of it."""
        return self.compute + self.exposed


Table = dict[tuple[str, str, str], Times]
"""Of a model's title, a topology, and a series or the ideal."""


def _times(record: Record | Iteration) -> Times:
    values = record if isinstance(record, dict) else vars(record) | {"compute_ns": record.compute_ns}
    return Times(values["compute_ns"], values["exposed_model_ns"], values["exposed_data_ns"])


def _table(results: Results, models: Sequence[Model], topologies: Sequence[str], series: Sequence[Series]) -> Table:
    table: Table = {}
    for model in models:
        for topology in topologies:
            for each in series:
                table[model.title, topology, each.name] = _times(results[model.run(each, topology)])
            table[model.title, topology, IDEAL] = _times(_ideal(model, topology))
    return table


# --- Fig. 4 -------------------------------------------------------------------------------------

FIG4_MODELS = (RESNET, GNMT, TRANSFORMER)
SHARES = tuple(range(10, 101, 2))
"""Utilization in percent."""


def _fig4_topologies(quick: bool) -> tuple[str, ...]:
    return (CURRENT, *TOPOLOGIES[:2]) if quick else (CURRENT, *TOPOLOGIES)


def _fig4_points(quick: bool) -> list[TrainingPoint]:
    return [model.run(BASELINE, topology) for model in FIG4_MODELS for topology in _fig4_topologies(quick)]


def _fig4(results: Results, quick: bool) -> Outcome:
    topologies = _fig4_topologies(quick)
    table = _table(results, FIG4_MODELS, topologies, [BASELINE])
    rows, charts = [], []
    numbers: Numbers = {}
    for model in FIG4_MODELS:
        ideal = {name: table[model.title, name, IDEAL] for name in topologies}
        slowest = ideal[CURRENT].compute + 10 * ideal[CURRENT].exposed
        lines = []
        for name in topologies:
            baseline = table[model.title, name, BASELINE.name]
            share = 100 * ideal[name].exposed / baseline.exposed
            numbers[model.title, name] = share
            rows.append(Row("Baseline", f"{model.title}, {name}", "%", share))
            compute, exposed = ideal[name].compute, ideal[name].exposed
            times = [(compute + exposed * 100 / used) / slowest for used in SHARES]
            lines.append(Line(name, SHARES, times, marked=False))
            lines.append(Line(name, [share], [baseline.iteration / slowest]))
        lines.append(Line(INFINITE, SHARES, [ideal[CURRENT].compute / slowest] * len(SHARES), marked=False))
        charts.append(Lines(model.title, "utilization, %", "time / slowest", lines))
    if not quick:
        rows += _fig4_means(table, numbers)
    return Outcome(rows, charts, numbers)


def _fig4_means(table: Table, numbers: Numbers) -> list[Row]:
    current = fmean(numbers[model.title, CURRENT] for model in FIG4_MODELS)
    shares = [numbers[model.title, name] for model in FIG4_MODELS for name in TOPOLOGIES]
    numbers["mean",], numbers["least",], numbers[CURRENT,] = fmean(shares), min(shares), current
    rows = []
    for what, value in (
        (f"{CURRENT}: baseline utilization", current),
        ("next generation: baseline utilization, mean", fmean(shares)),
        ("next generation: baseline utilization, least", min(shares)),
    ):
        rows.append(row("fig4", "Utilization", what, "%", value, what, SINGLE))
    for model in FIG4_MODELS:
        gains = _gains(table, model, IDEAL)
        for how, value in (("mean", fmean(gains)), ("most", max(gains))):
            what = f"{model.title}: ideal over baseline, {how}"
            rows.append(row("fig4", "Speed-up of an iteration", what, "×", value, what, SINGLE, ASSUMED))
    return rows


# --- Fig. 12 ------------------------------------------------------------------------------------

ASSUMED = (
    "The time of computation is an assumption, and a speed-up of iterations depends on it. The claims below say which"
    " time would give the paper's mean, and whether its other numbers would follow."
)


def _gains(table: Table, model: Model, name: str, share: float = 1.0) -> list[float]:
    """Speed-ups of iterations over the baseline, by topology, if computation took ``share`` of its time."""

    def time(topology: str, of: str) -> float:
        times = table[model.title, topology, of]
        return share * times.compute + times.exposed

    return [time(topology, BASELINE.name) / time(topology, name) for topology in TOPOLOGIES]


def _solve(function: Callable[[float], float], target: float) -> float | None:
    """Where a falling function of a share in 0.001 to 10 has a value, None if nowhere."""
    low, high = 0.001, 10.0
    if not function(high) <= target <= function(low):
        return None
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if function(middle) > target else (low, middle)
    return high


def _fig12_topologies(quick: bool) -> tuple[str, ...]:
    return TOPOLOGIES[1:3] if quick else TOPOLOGIES


def _fig12_points(quick: bool) -> list[TrainingPoint]:
    return [
        model.run(series, topology) for model in MODELS for topology in _fig12_topologies(quick) for series in TRAINED
    ]


def _fig12(results: Results, quick: bool) -> Outcome:
    topologies = _fig12_topologies(quick)
    table = _table(results, MODELS, topologies, TRAINED)
    names = (*(series.name for series in TRAINED), IDEAL)
    rows, charts = [], []
    numbers: Numbers = {}
    for model in MODELS:
        groups: dict[str, list[Bar]] = {}
        for topology in topologies:
            whole = table[model.title, topology, BASELINE.name].iteration
            for name in names:
                times = table[model.title, topology, name]
                numbers[model.title, topology, name] = times.iteration
                what = f"{model.title}, {topology}"
                rows.append(Row(f"{name}: iteration", what, "ns", times.iteration))
                for part in ("compute", "model", "data"):
                    group = f"{name}: {part if part == 'compute' else f'exposed, {part}'}"
                    rows.append(Row(group, what, "ns", getattr(times, part)))
                parts = [times.compute / whole, times.model / whole, times.data / whole]
                groups.setdefault(topology.replace("-", "-\n", 1), []).append(Bar(name, parts))
        parts_of = ["compute", "exposed, model parallel", "exposed, data parallel"]
        charts.append(Bars(model.title, "iteration / baseline's", parts_of, groups))
    if not quick:
        rows += _fig12_means(table, numbers)
    return Outcome(rows, charts, numbers)


def _fig12_means(table: Table, numbers: Numbers) -> list[Row]:
    rows = []
    for name in (SCF.name, SEARCH.name, IDEAL):
        group = f"{name}: speed-up of an iteration"
        for model in MODELS:
            gains = _gains(table, model, name)
            for how, value in (("mean", fmean(gains)), ("most", max(gains))):
                what = f"{model.title}, {how}"
                rows.append(row("fig12", group, what, "×", value, f"{model.title}: {name}, {how}", SINGLE, ASSUMED))
                numbers[model.title, name, how] = value
    for name in (SCF.name, SEARCH.name, IDEAL):
        ratios = [
            table[model.title, topology, BASELINE.name].exposed / table[model.title, topology, name].exposed
            for model in MODELS
            for topology in TOPOLOGIES
        ]
        numbers["exposed", name] = fmean(ratios)
        key = f"{name}: exposed communication"
        rows.append(
            row("fig12", "Exposed communication, reduced", f"{name}, mean of 24", "×", fmean(ratios), key, SINGLE)
        )
    for model in MODELS:
        _consistent(table, numbers, model)
    for topology in TOPOLOGIES:
        hidden = table[DLRM.title, topology, SCF.name]
        numbers["model", DLRM.title, topology] = hidden.model / hidden.iteration
        baseline, themis = (table[TRANSFORMER.title, topology, name] for name in (BASELINE.name, SCF.name))
        numbers["dominates", TRANSFORMER.title, topology] = themis.model / themis.exposed
        numbers["data", TRANSFORMER.title, topology] = themis.data / baseline.data
    return rows


def _consistent(table: Table, numbers: Numbers, model: Model) -> None:
    """With the share of computation that gives the paper's mean: whether its other numbers follow. No reproduction, so
    there are no rows of it."""
    target = stated(PAPER, "fig12")[f"{model.title}: {SCF.name}, mean"]
    share = _solve(lambda share: fmean(_gains(table, model, SCF.name, share)), target)
    if share is not None:
        numbers[model.title, "share"] = share
        numbers[model.title, "most", "consistent"] = max(_gains(table, model, SCF.name, share))
        numbers[model.title, "ideal", "consistent"] = fmean(_gains(table, model, IDEAL, share))


ASSUMPTIONS = (
    "Assumed, since the paper does not publish it: computation is the roofline of an A100 at its full 312 TFLOPS (FP16)"
    " and 1,555 GB/s, a multiply-add being two operations and each backward pass as long as the forward pass; sentences"
    " of 50 tokens for GNMT; a public table of LIBRA with measured times for DLRM; 128 layers of 25600, 2048 tokens a"
    " sample, two AllReduces in each direction of a block and the forward pass repeated in the backward pass for"
    " Transformer-1T. Gradients and activations have two bytes. Nothing is tuned."
)
FIG_4 = Experiment(
    "fig4",
    "Fig. 4. What utilization is worth",
    "Time of an iteration over the utilization of the network, relative to 2D-current at 10 %; the marks are the"
    f" baseline's utilization. {ASSUMPTIONS}",
    _fig4_points,
    _fig4,
    columns=3,
)
FIG_12 = Experiment(
    "fig12",
    "Fig. 12. Training",
    f"{ASSUMPTIONS} Ideal is the same iteration with all rates busy in every exchange, 2 S (1 - 1/N) / sum of rates for"
    " an AllReduce, among the NPUs that take part. How much shorter exposed communication gets hardly depends on the"
    " assumptions; how much faster an iteration gets does.",
    _fig12_points,
    _fig12,
    columns=1,
)
