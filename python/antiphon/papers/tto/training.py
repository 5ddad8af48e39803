"""Figures 10, 11 and 13 and section VIII-B of the TTO paper: training."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter

from antiphon.papers.tto.allreduce import (
    ALGORITHMS,
    BI_EVEN,
    DB_TREE,
    DB_TREE_SHARED,
    FLITS,
    MODELS,
    MULTI_TREE,
    RING,
    RING_2D,
    TTO,
    takes_part,
)
from antiphon.papers.tto.artifact import DATA, ArtifactTraining
from antiphon.repro.charts import Chart, bar_chart, line_chart
from antiphon.repro.data import Series
from antiphon.repro.figure import Outcome, Steps
from antiphon.repro.rows import COUNTED, Rows
from antiphon.repro.table import Entry, Table, grid
from antiphon.studies import Record

COMPARED = [RING, RING_2D, DB_TREE_SHARED, DB_TREE, MULTI_TREE, BI_EVEN, TTO]
"""Of Figs. 11 and 13."""
ALEX_NET, ALPHA_GO, _, GOOGLE_NET, _, RESNET, TRANSFORMER = MODELS
SMALL = [ALEX_NET, ALPHA_GO]
"""Whose exchanges are of at most 16 MiB, so that they are run in flits."""


def training(case: Entry, chunk: int = 0, overlap: str = "") -> ArtifactTraining:
    """A model with a series on a mesh; TTO's chunks are so large."""
    series, array = case["series"], case["array"]
    given = {"overlap": overlap, "compute": f"systolic:rows={array},cols={array}", "fidelity": series.more["fidelity"]}
    return ArtifactTraining(
        case["model"].run,
        f"mesh:{case['side']}x{case['side']}",
        series.run + (f":chunk={chunk}" if chunk and series == TTO else ""),
        tuple((name, value) for name, value in given.items() if value),
        system="tto",
        # 16 arrays of a chiplet add a number of 4 bytes in each row or column a cycle, 1 ns.
        changes=(("reduce_rate_gb_per_s", 64 * array),),
    )


def _measured(done: Record) -> Entry:
    """Times of an iteration and an epoch, and the parts of that."""
    count, both = done["iterations"], done["overlapped_communication_ns"]
    return {
        "time": done["epoch_ns"],
        "computing": done["compute_ns"],
        "AllReduce": done["communication_ns"],
        "iteration": done["iteration_ns"],
        "iterations": count,
        "hidden": both / done["communication_ns"],
        "epoch": done["epoch_ns"] / 1e9,
        "allreduce": done["communication_ns"] * count,
        "compute part": (done["compute_ns"] - both) * count,
        "both part": both * count,
        "AllReduce part": done["exposed_communication_ns"] * count,
    }


def _bars(title: str, of: Table, *parts: str) -> Chart:
    """Epochs over those with Ring."""
    columns, known = {part: f"{part} part" for part in parts}, "known relative"
    return bar_chart(title, "epoch / Ring's", of, itemgetter("model"), columns, known=known, over=RING, y_max=1.6)


def _cases(
    quick: bool,
    sides: Sequence[int],
    arrays: Sequence[int],
    algorithms: Sequence[Series],
    small: Sequence[Series] = SMALL,
) -> list[Entry]:
    """Algorithms with all models, and in flits with some."""
    if quick:
        cases = grid(series=algorithms, side=sides[:1], array=arrays[:1], model=(ALEX_NET, RESNET))
    else:
        cases = grid(series=algorithms, side=sides, array=arrays, model=MODELS)
        cases += grid(series=FLITS, side=sides, array=arrays, model=small)
    return list(filter(takes_part, cases))


def _epochs(figure: str, tables: str, cases: list[Entry], chunk: int = 0) -> Steps:
    """Fig. 10 or 13: epochs without overlap."""
    runs = yield [(case, [training(case, chunk)]) for case in cases]
    table = Table()
    for case, (done,) in runs:
        series, array, model, side = (case[axis] for axis in ("series", "array", "model", "side"))
        mesh, macs = f"{side}x{side}", f"{array}x{array} MACs"
        where = {"topology": mesh} if figure == "fig10" else {"mac_array": array}
        where |= {"model": model.published, "algorithm": series.published}
        columns = "total_epoch_cycles", "allreduce_cycles", "norm_total_vs_ring"
        epoch, allreduce, relative = (DATA.number(tables, column, **where) for column in columns)
        layers = {"model": model.published, "mac_array_dim": array}
        known = {"epoch": epoch and epoch / 1e9, "AllReduce": allreduce, "relative": relative}
        known["computing"] = DATA.number("compute_cycles", "total_cycles_json", **layers)
        source = f"{tables.split('|')[0]}: {' '.join(map(str, where.values()))}"
        words = {"what": f"{model}, {mesh if figure == 'fig10' else macs}", "MACs": macs, "source": source}
        table.append(case | _measured(done) | words | {f"known {name}": number for name, number in known.items()})
    rows = Rows(DATA, figure)
    for of in table.split("array", "model"):
        group, what, known = "Compute of an iteration", f"{of[0]['model']}, {of[0]['MACs']}", of[0]["known computing"]
        firm = {"artifact": known, "note": "", "source": ""}
        rows.add(of[0], "ns", of[0]["computing"], group, what, **firm)
    for column, unit in (("epoch", "s"), ("AllReduce", "ns")):
        for e in table:
            group, source, known = f"{e['series']}: {column}", f"{e['source']}: {column}", e[f"known {column}"]
            rows.add(e, unit, e[column], group, artifact=known, source=source)
    charts = []
    for of in table.where(series=ALGORITHMS).split("side", "array"):
        title = f"{of[0]['side']}x{of[0]['side']} mesh" + ("" if figure == "fig10" else f", {of[0]['MACs']}")
        charts.append(_bars(title, of, "compute", "AllReduce"))
    return Outcome(table, rows, charts)


def fig10(quick: bool) -> Steps:
    """Epochs without overlap."""
    return _epochs("fig10", "fig10_models|fig10_9x9", _cases(quick, (8, 9), (256,), ALGORITHMS))


def fig13(quick: bool) -> Steps:
    """Simba: smaller arrays."""
    return _epochs("fig13", "fig13_simba|fig13_mac16", _cases(quick, (6,), (32, 16), COMPARED), 49152)


def fig11(quick: bool) -> Steps:
    """Layer by layer, with overlap."""
    cases = []
    for case in _cases(quick, (8,), (256,), COMPARED, [*SMALL, GOOGLE_NET, TRANSFORMER]):
        model, algorithm = case["model"].published, case["series"].published
        known = partial(DATA.number, "fig11_overlap", model=model, algorithm=algorithm)
        numbers = {"known": known("iteration_total"), "known relative": known("norm_total_vs_ring")}
        note = {"note": DATA.texts["fasterrcnn"]} if case["model"].name == "FasterRCNN" else {}
        what = {"what": str(case["model"]), "source": f"fig11_overlap: {model} {algorithm}"}
        cases.append(case | numbers | note | what)
    cases = list(filter(takes_part, cases))
    runs = yield [(case, [training(case, 24576, "layerwise")]) for case in cases]
    table = Table(case | _measured(done) for case, (done,) in runs)
    chart = _bars("8x8 mesh, layer by layer", table.where(series=ALGORITHMS), "compute", "both", "AllReduce")
    return Outcome(table, Rows(DATA, "fig11", table, "ns", "iteration"), [chart])


def viii_b(_quick: bool) -> Steps:
    """What one chiplet less costs: equations 1 and 2."""
    cases = grid(series=(BI_EVEN, TTO), model=(RESNET,), side=(8,), array=(256,))
    runs = yield [(case, [training(case)]) for case in cases]
    table = Table(case | _measured(done) | {"what": "ResNet152 on 8x8"} for case, (done,) in runs)
    rows = Rows(DATA, "viii-b")
    for e in table:
        key = f"iterations, {e['series']}"
        rows.add(e, "", e["iterations"], group="Equation 1", what=key, key=key, own=COUNTED, note="")
    extra = table[1]["iterations"] - table[0]["iterations"]
    rows.add(table[1], "", extra, "Equation 1", "additional iterations of TTO", "additional iterations", own=COUNTED)
    ring, times, gain = table[0], table.values("time"), DATA.texts["gain"]
    gained = 100 * (table[0]["allreduce"] / table[1]["allreduce"] - 1)
    sent = [(f"AllReduce, {e['series']}", f"AllReduce, {e['series']}", "ns", e["AllReduce"], "") for e in table]
    for what, key, unit, ours, note in (
        ("forward and back-propagation", "T", "ns", ring["computing"], ""),
        *sent,
        ("gain of TTO in an epoch", "gain", "ns", times.fall, ""),
        ("gain in the AllReduces of an epoch", "gain share", "%", gained, gain),
    ):
        rows.add(ring, unit, ours, group="Equation 2", what=what, key=key, note=note)
    parts = {part: f"{part} part" for part in ("compute", "AllReduce")}
    in_s = Table(e | {column: e[column] / 1e9 for column in parts.values()} for e in table)
    return Outcome(table, rows, [bar_chart("ResNet152 on 8x8", "epoch, s", in_s, itemgetter("series"), parts)])


def one_less(quick: bool) -> Steps:
    """Where one chiplet less does not pay: every case with every complete algorithm; its series is the model."""
    models = [ALEX_NET, RESNET] if quick else MODELS
    cases = grid(side=(3, 4) if quick else range(3, 11), array=(256,), series=models)
    cases += grid(side=(8,), array=(16, 32) if quick else (16, 32, 64, 128), series=models)
    complete = [series for series in ALGORITHMS if "complete" in series.roles]
    rivals = [
        (case, [each for each in complete if takes_part({"series": each, "side": case["side"]})]) for case in cases
    ]
    runs = yield [
        ((case, those), [training(case | {"model": case["series"], "series": each}) for each in those])
        for case, those in rivals
    ]
    table = Table()
    for (case, those), records in runs:
        epochs = {rival.name: done["epoch_ns"] for rival, done in zip(those, records, strict=True)}
        tto = epochs.pop(TTO.name)
        best = min(epochs, key=lambda name: epochs[name])
        side, array = (f"{case[axis]}x{case[axis]}" for axis in ("side", "array"))
        found = {"what": side if case["array"] == 256 else array, "best": best, "speedup": epochs[best] / tto}
        table.append(case | found | {"whole": f"{side}, {array} MACs, over {best}"})
    charts = []
    for title, of, axis, part in (
        ("256x256 MACs", "mesh", "side", table.where(array=256)),
        ("8x8 mesh", "array", "array", table.where(side=8)),
    ):
        labels = axis, f"side of the {of}", "speedup", "speedup of TTO's epoch"
        charts.append(line_chart(title, part, *labels, ticks=str, reference=1))
    rows = Rows(DATA, "one-less")
    for e in table:
        rows.add(e, "×", e["speedup"], what=e["whole"])
    return Outcome(table, rows, charts, columns=2)
