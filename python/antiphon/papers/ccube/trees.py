"""Figures 5, 7, 10 and 15 of the C-Cube paper: steps, links and detours, from the schedules themselves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import antiphon
from antiphon import Fabric, Schedule
from antiphon.errors import AntiphonError
from antiphon.papers.ccube.dgx1 import DATA, EXACT, HEIGHT, MIB, RANKS, SYSTEM, TREES, row
from antiphon.papers.ccube.systems import chunk_of, cost, tree_spec
from antiphon.repro.charts import Bar, Bars, Block, Spans
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.figure import Figure, Row, Shown
from antiphon.repro.table import Entry, Table, grid

CHUNK = 1 << 10
"""Bytes of a chunk of the examples, in which only steps are counted."""
TREE, OVERLAPPED = "tree", "overlapped tree"

Transfer = dict[str, Any]


@cache
def _built(name: str, algorithm: str, size: int) -> tuple[Fabric, Schedule]:
    """A schedule, proven."""
    fabric = Fabric(name)
    schedule = antiphon.build(fabric, algorithm, bytes=size, system=SYSTEM)
    antiphon.verify(fabric, schedule)
    return fabric, schedule


def _example(series: str, ranks: int, chunks: int) -> tuple[Fabric, Schedule]:
    """One tree of fully joined ranks, or a ring."""
    if series == "ring":
        return _built(f"ring:{ranks}", "ring", chunks * CHUNK)
    return _built(f"fc:{ranks}", tree_spec(overlap=series == OVERLAPPED, chunk=CHUNK, trees=1), chunks * CHUNK)


def _sent(fabric: Fabric, schedule: Schedule) -> list[tuple[Transfer, int, int]]:
    """Every message: its transfer, its chunk, and the step in which it is sent, from 0."""
    document = json.loads(schedule.to_json())
    lengths = [length for _, length in schedule.stats(fabric).phases]
    begins = [
        sum(lengths[:phase]) if document["phases"][phase]["barrier"] or document["algorithm"] == "ring" else 0
        for phase in range(len(lengths))
    ]
    found = []
    for transfer in document["transfers"]:
        lane = document["lanes"][transfer["payload"][0]]
        for chunk in range(lane["chunks"]):
            step = begins[transfer["phase"]] + transfer["step"] + chunk * lane["stride"]
            found.append((transfer, chunk if lane["chunks"] > 1 else transfer["payload"][0], step))
    return found


def _spans(title: str, case: Entry, tracks: list[str], track_of: Callable[[Transfer], str], x_max: float) -> Spans:
    """A chart of what is sent when; messages of one track in one step are drawn once."""
    blocks: dict[str, dict[tuple[int, int], Block]] = {track: {} for track in tracks}
    for transfer, chunk, step in _sent(*_example(case["series"], case["ranks"], case["chunks"])):
        blocks[track_of(transfer)][step, chunk] = Block(str(chunk + 1), f"chunk {chunk + 1}", step, 1)
    return Spans(title, "steps", {track: list(of.values()) for track, of in blocks.items()}, x_max)


# --- Fig. 5 -------------------------------------------------------------------------------------

NODES = {0: "N4", 2: "N2", 1: "N1", 3: "N3"}
"""The paper's names: N4 is the root, N2 below it, N1 and N3 the leaves."""
EDGES = [f"{NODES[a]} to {NODES[b]}" for a, b in ((1, 2), (3, 2), (2, 0), (0, 2), (2, 1), (2, 3))]


def _fig5_cases(quick: bool) -> list[Entry]:
    drawn = grid(drawn=[True], ranks=[4], chunks=[4], series=[TREE, OVERLAPPED, "ring"])
    ranks = (4, 8) if quick else (4, 8, 16, 32, 64, 128)
    return drawn + grid(drawn=[False], ranks=ranks, chunks=(1, 4, 16, 64), series=[TREE, OVERLAPPED])


def _steps(case: Entry) -> Entry:
    fabric, schedule = _example(case["series"], case["ranks"], case["chunks"])
    height, chunks = case["ranks"].bit_length() - 1, case["chunks"]
    # The closed form, and what the paper's text counts.
    exact, said = {
        TREE: (2 * (height + chunks - 1), 2 * (height + chunks)),
        OVERLAPPED: (2 * height + chunks - 1, 2 * height + chunks),
    }.get(case["series"], (0, 0))
    steps = schedule.stats(fabric).steps
    return {"what": f"{case['ranks']} nodes, {chunks} chunks", "steps": steps, "exact": exact, "missing": said - steps}


def _fig5(table: Table) -> Shown:
    rows = []
    for e in table:
        name, key = e["series"], e["series"] if e["drawn"] else ""
        note = DATA.texts["ring_steps"] if name == "ring" else ""
        reference = None if e["drawn"] else float(e["exact"])
        rows.append(row("fig5", name, e["what"], "steps", e["steps"], key, EXACT, note, reference))
    edge, sender = (lambda t: f"{NODES[t['from']]} to {NODES[t['to']]}"), (lambda t: f"{NODES[t['from']]} sends")
    senders = [f"{NODES[rank]} sends" for rank in (1, 2, 3, 0)]
    tree, overlapped, ring = table.where(drawn=True)
    return rows, [
        _spans("(a) tree", tree, EDGES, edge, 10),
        _spans("(b) ring", ring, senders, sender, 10),
        _spans("(c) overlapped tree", overlapped, EDGES, edge, 10),
    ]


FIG_5 = Figure("fig5", _fig5_cases, _steps, _fig5)


def _example_steps(_cells: Cells, tables: Tables) -> Judged:
    found = [tables["fig5"].one("steps", drawn=True, series=series) for series in (OVERLAPPED, TREE)]
    return verdict(found == [7, 10]), {"steps": listed(found, "{}")}


def _general_steps(_cells: Cells, tables: Tables) -> Judged:
    missing = {(e["series"], e["missing"]) for e in tables["fig5"].where(drawn=False)}
    exact = missing == {(OVERLAPPED, 1), (TREE, 2)}
    return verdict(False, exact), {"steps": "2h + K - 1, 2 (h + K - 1)" if exact else "other numbers"}


# --- Fig. 7 -------------------------------------------------------------------------------------


def _levels(case: Entry) -> Entry:
    sent = _sent(*_example(case["series"], case["ranks"], case["chunks"]))
    return _steps(case) | {"turnaround": 1 + max(step for _, chunk, step in sent if chunk == 0)}


def _fig7(table: Table) -> Shown:
    rows, charts = [], []
    end = table.one("exact", series=TREE)
    for e, part in zip(table, ("(a) tree", "(b) overlapped tree"), strict=True):
        depth = _depths(_example(e["series"], e["ranks"], e["chunks"])[1])

        def level(transfer: Transfer, depth: dict[int, int] = depth) -> str:
            up = transfer["op"] == "reduce"
            return f"level {depth[transfer['from'] if up else transfer['to']]} {'up' if up else 'down'}"

        tracks = [f"level {n} up" for n in range(HEIGHT, 0, -1)] + [f"level {n} down" for n in range(1, HEIGHT + 1)]
        title = f"{part}: the first chunk is everywhere after {e['turnaround']} steps, all after {e['steps']}"
        charts.append(_spans(title, e, tracks, level, end))
        first = 2 * HEIGHT + (e["chunks"] - 1 if e["series"] == TREE else 0)
        for what, ours, closed in (("AllReduce", "steps", e["exact"]), ("gradient turnaround", "turnaround", first)):
            where = f"8 nodes, 6 chunks: {what}"
            rows.append(Row(e["series"], where, "steps", e[ours], reference=float(closed)))
    return rows, charts


def _depths(schedule: Schedule) -> dict[int, int]:
    """Edges to the root, by rank."""
    transfers = json.loads(schedule.to_json())["transfers"]
    parents = {each["from"]: each["to"] for each in transfers if each["op"] == "reduce"}

    def depth(rank: int) -> int:
        return 1 + depth(parents[rank]) if rank in parents else 0

    return {rank: depth(rank) for rank in range(schedule.ranks)}


FIG_7 = Figure("fig7", lambda _quick: grid(series=[TREE, OVERLAPPED], ranks=[RANKS], chunks=[6]), _levels, _fig7)

# --- Fig. 10 ------------------------------------------------------------------------------------

BYTES = 64 * MIB
DETOURS = {(2, 4): 0, (3, 5): 1}
"""Joined in a tree, not by a link; and the GPU between them."""
SETTINGS = (
    {"series": "one tree, overlapped", "trees": 1, "overlap": True},
    {"series": "two trees, not overlapped", "trees": TREES, "overlap": False},
    {"series": "two trees, overlapped", "trees": TREES, "overlap": True},
)


def _trees(case: Entry) -> tuple[Fabric, Schedule]:
    """One tree or two on the DGX-1."""
    chunk = chunk_of(BYTES, cost(RANKS, BYTES).chunks)
    return _built("dgx1v", tree_spec(overlap=case["overlap"], chunk=chunk, trees=case["trees"]), BYTES)


def _ends(fabric: Fabric) -> list[tuple[int, int]]:
    """From and to of every link."""
    return list(zip(fabric.links["from"].tolist(), fabric.links["to"].tolist(), strict=True))


def _single(fabric: Fabric, schedule: Schedule, pair: tuple[int, int]) -> bool:
    """Whether the schedule is still free of conflicts if a doubled pair is a single one."""
    ends = _ends(fabric)
    first = {end: ends.index(end) for end in (pair, (pair[1], pair[0]))}
    document = json.loads(schedule.to_json())
    document["conflict_free"] = True
    for transfer in document["transfers"]:
        transfer["route"] = [first.get(ends[link], link) for link in transfer["route"]]
    try:
        antiphon.verify(fabric, Schedule.from_json(json.dumps(document), fabric))
    except AntiphonError as error:
        if error.code != "not-proven" or "carries two messages" not in error.message:
            raise
        return False
    return True


def _links(case: Entry) -> Entry:
    fabric, schedule = _trees(case)
    ends, detours = _ends(fabric), {}
    for transfer in json.loads(schedule.to_json())["transfers"]:
        if len(transfer["route"]) > 1:
            detours[tuple(sorted((transfer["from"], transfer["to"])))] = ends[transfer["route"][0]][1]
    doubled = sorted({end for end, links in Counter(ends).items() if links > 1 and end[0] < end[1]})
    return {
        "what": "free of conflicts",
        "proven": float(antiphon.verify(fabric, schedule).conflict_free),
        "needed": {pair: 1 if _single(fabric, schedule, pair) else 2 for pair in doubled},
        "detours": dict(sorted(detours.items())),
    }


def _fig10(table: Table) -> Shown:
    rows: list[Row] = []
    groups: dict[str, list[Bar]] = {}
    for e in table:
        name = e["series"]
        rows.append(Row(name, e["what"], "of 1", e["proven"], tolerance=EXACT))
        for (a, b), needed in e["needed"].items():
            what = f"NVLinks needed on {a}-{b}"
            key = what if name == "two trees, overlapped" else ""
            rows.append(row("fig10", name, what, "", needed, key, EXACT))
            groups.setdefault(f"{a}-{b}", []).append(Bar(name, [needed], rows[-1].paper))
        for (a, b), between in e["detours"].items():
            rows.append(Row(name, f"detour of {a}-{b} over GPU", "", between, tolerance=EXACT))
    return rows, [Bars("Pairs that have two", "NVLinks needed", ["links"], groups)]


FIG_10 = Figure("fig10", lambda _quick: SETTINGS, _links, _fig10)


def _doubled(_cells: Cells, tables: Tables) -> Judged:
    one, apart, both = ({p for p, n in e["needed"].items() if n == 2} for e in tables["fig10"])
    # The second tree is the first with every number XOR 1.
    alone = {tuple(sorted((a ^ flip, b ^ flip))) for a, b in one for flip in (0, 1)}
    shared, own = (listed(sorted(pairs), "{0[0]}-{0[1]}") for pairs in (both - alone, alone))
    return verdict(both - alone == {(2, 3), (6, 7)}), {"shared": shared, "own": own, "apart": len(apart) or "no"}


def _detours(_cells: Cells, tables: Tables) -> Judged:
    found = tables["fig10"][-1]
    holds = found["detours"] == DETOURS and found["proven"] == 1
    return verdict(holds), {"detours": listed(found["detours"].items(), "{0[0][0]}-{0[1]}-{0[0][1]}")}


# --- Fig. 15 ------------------------------------------------------------------------------------

OWN, FORWARDED = "of its own", "forwarded"


def _forwarded(case: Entry) -> Entry:
    fabric, schedule = _trees(SETTINGS[-1])
    ends, document = _ends(fabric), json.loads(schedule.to_json())
    sent = {OWN: 0.0, FORWARDED: 0.0}
    for transfer in document["transfers"]:
        for hop, link in enumerate(transfer["route"]):
            if ends[link][0] == case["gpu"]:
                sent[FORWARDED if hop else OWN] += document["lanes"][transfer["payload"][0]]["bytes"]
    return {"what": f"GPU {case['gpu']}"} | {what: size / BYTES for what, size in sent.items()}


def _fig15(table: Table) -> Shown:
    rows = [Row(f"sent, {what}", e["what"], "of the data", e[what]) for e in table for what in (OWN, FORWARDED)]
    groups = {e["what"]: [Bar("GPU", [e[OWN], e[FORWARDED]])] for e in table}
    return rows, [Bars("What a GPU sends in an AllReduce", "times the data", [OWN, FORWARDED], groups)]


FIG_15 = Figure("fig15", lambda _quick: grid(gpu=range(RANKS)), _forwarded, _fig15)

CHECKS = {"steps": _example_steps, "steps-general": _general_steps, "doubled": _doubled, "detours": _detours}
