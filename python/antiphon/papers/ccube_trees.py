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
from antiphon.papers.ccube_systems import EXACT, HEIGHT, MIB, RANKS, SYSTEM, TREES, chunk_of, cost, row, tree_spec
from antiphon.papers.model import Bar, Bars, Block, Experiment, Numbers, Outcome, Results, Row, Spans, Style

CHUNK = 1 << 10
"""Bytes of a chunk of the examples, in which only steps are counted."""
CHUNK_STYLES = {
    f"chunk {number}": Style(colour)
    for number, colour in enumerate(("#0072b2", "#d55e00", "#009e73", "#7a5195", "#b8860b", "#4d7a97"), 1)
}

Transfer = dict[str, Any]


@cache
def _example(ranks: int, chunks: int, *, overlap: bool) -> tuple[Fabric, Schedule]:
    """One tree of fully joined ranks, proven."""
    fabric = Fabric(f"fc:{ranks}")
    spec = tree_spec(overlap=overlap, chunk=CHUNK, trees=1)
    schedule = antiphon.build(fabric, spec, bytes=chunks * CHUNK, system=SYSTEM)
    antiphon.verify(fabric, schedule)
    return fabric, schedule


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


def _spans(
    title: str, fabric: Fabric, schedule: Schedule, tracks: list[str], track_of: Callable[[Transfer], str], x_max: float
) -> Spans:
    """A chart of what is sent when; messages of one track in one step are drawn once."""
    blocks: dict[str, dict[tuple[int, int], Block]] = {track: {} for track in tracks}
    for transfer, chunk, step in _sent(fabric, schedule):
        block = Block(str(chunk + 1), f"chunk {chunk + 1}", step, 1)
        blocks[track_of(transfer)][step, chunk] = block
    return Spans(title, "steps", {track: list(of.values()) for track, of in blocks.items()}, x_max)


# --- Fig. 5 -------------------------------------------------------------------------------------

NODES = {0: "N4", 2: "N2", 1: "N1", 3: "N3"}
"""The paper's names: N4 is the root, N2 below it, N1 and N3 the leaves."""
FIG5_CHUNKS = 4
GENERAL_RANKS = (4, 8, 16, 32, 64, 128)
GENERAL_CHUNKS = (1, 4, 16, 64)
TITLES = {False: "tree", True: "overlapped tree"}


def _fig5(_results: Results, quick: bool) -> Outcome:
    rows: list[Row] = []
    numbers: Numbers = {}
    charts = []
    for overlap, part in ((False, "(a) tree"), (True, "(c) overlapped tree")):
        fabric, schedule = _example(4, FIG5_CHUNKS, overlap=overlap)
        steps = schedule.stats(fabric).steps
        numbers[TITLES[overlap],] = steps
        rows.append(row("fig5", TITLES[overlap], "4 nodes, 4 chunks", "steps", steps, TITLES[overlap], EXACT))
        tracks = [f"{NODES[a]} to {NODES[b]}" for a, b in ((1, 2), (3, 2), (2, 0), (0, 2), (2, 1), (2, 3))]
        charts.append(_spans(part, fabric, schedule, tracks, _edge, 10))
    ring = Fabric("ring:4")
    schedule = antiphon.build(ring, "ring", bytes=4 * CHUNK, system=SYSTEM)
    antiphon.verify(ring, schedule)
    steps = schedule.stats(ring).steps
    numbers["ring",] = steps
    rows.append(Row("ring", "4 nodes, 4 chunks", "steps", steps, tolerance=EXACT, note=RING_STEPS))
    senders = [_sender({"from": rank}) for rank in (1, 2, 3, 0)]
    charts.insert(1, _spans("(b) ring", ring, schedule, senders, _sender, 10))
    for ranks in GENERAL_RANKS[:2] if quick else GENERAL_RANKS:
        height = ranks.bit_length() - 1
        for chunks in GENERAL_CHUNKS:
            for overlap in (False, True):
                fabric, schedule = _example(ranks, chunks, overlap=overlap)
                steps = schedule.stats(fabric).steps
                numbers[TITLES[overlap], ranks, chunks] = steps
                exact = 2 * height + chunks - 1 if overlap else 2 * (height + chunks - 1)
                what = f"{ranks} nodes, {chunks} chunks"
                rows.append(Row(TITLES[overlap], what, "steps", steps, tolerance=EXACT, reference=float(exact)))
    return Outcome(rows, charts, numbers)


def _edge(transfer: Transfer) -> str:
    return f"{NODES[transfer['from']]} to {NODES[transfer['to']]}"


def _sender(transfer: Transfer) -> str:
    return f"{NODES[transfer['from']]} sends"


RING_STEPS = (
    "A ring of 4 takes 2 (P - 1) = 6 steps of sending; the paper draws 7, and its “Step 1” to “Step 4” are three of"
    " sending."
)

# --- Fig. 7 -------------------------------------------------------------------------------------

FIG7_CHUNKS = 6
TURNAROUND = "gradient turnaround"


def _fig7(_results: Results, _quick: bool) -> Outcome:
    rows: list[Row] = []
    numbers: Numbers = {}
    charts = []
    end = 2 * (HEIGHT + FIG7_CHUNKS - 1)
    for overlap, part in ((False, "(a) tree"), (True, "(b) overlapped tree")):
        fabric, schedule = _example(RANKS, FIG7_CHUNKS, overlap=overlap)
        depth = _depths(schedule)

        def level(transfer: Transfer, depth: dict[int, int] = depth) -> str:
            up = transfer["op"] == "reduce"
            below = depth[transfer["from"] if up else transfer["to"]]
            return f"level {below} {'up' if up else 'down'}"

        tracks = [f"level {n} up" for n in range(HEIGHT, 0, -1)] + [f"level {n} down" for n in range(1, HEIGHT + 1)]
        steps = schedule.stats(fabric).steps
        first = 1 + max(step for _, chunk, step in _sent(fabric, schedule) if chunk == 0)
        title = f"{part}: the first chunk is everywhere after {first} steps, all after {steps}"
        charts.append(_spans(title, fabric, schedule, tracks, level, end))
        exact = (2 * HEIGHT + FIG7_CHUNKS - 1, 2 * HEIGHT) if overlap else (end, 2 * HEIGHT + FIG7_CHUNKS - 1)
        for what, ours, closed in (("AllReduce", steps, exact[0]), (TURNAROUND, first, exact[1])):
            numbers[TITLES[overlap], what] = ours
            rows.append(Row(TITLES[overlap], f"8 nodes, 6 chunks: {what}", "steps", ours, reference=float(closed)))
    return Outcome(rows, charts, numbers)


def _depths(schedule: Schedule) -> dict[int, int]:
    """Edges to the root, by rank."""
    transfers = json.loads(schedule.to_json())["transfers"]
    parents = {each["from"]: each["to"] for each in transfers if each["op"] == "reduce"}

    def depth(rank: int) -> int:
        return 1 + depth(parents[rank]) if rank in parents else 0

    return {rank: depth(rank) for rank in range(schedule.ranks)}


# --- Fig. 10 ------------------------------------------------------------------------------------

FIG15_BYTES = 64 * MIB
DETOURS = {(2, 4): 0, (3, 5): 1}
"""Joined in a tree, not by a link; and the GPU between them."""


@cache
def _trees(count: int, *, overlap: bool) -> tuple[Fabric, Schedule]:
    """One tree or two on the DGX-1, proven."""
    fabric = Fabric("dgx1v")
    spec = tree_spec(overlap=overlap, chunk=chunk_of(FIG15_BYTES, cost(RANKS, FIG15_BYTES).chunks), trees=count)
    schedule = antiphon.build(fabric, spec, bytes=FIG15_BYTES, system=SYSTEM)
    antiphon.verify(fabric, schedule)
    return fabric, schedule


def _ends(fabric: Fabric) -> list[tuple[int, int]]:
    """From and to of every link."""
    return list(zip(fabric.links["from"].tolist(), fabric.links["to"].tolist(), strict=True))


def _single(fabric: Fabric, schedule: Schedule, pair: tuple[int, int]) -> bool:
    """Whether the schedule is still free of conflicts if a doubled pair is a single one."""
    ends = _ends(fabric)
    first = {end: ends.index(end) for end in (pair, pair[::-1])}
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


SETTINGS = {
    "one tree, overlapped": (1, True),
    "two trees, not overlapped": (TREES, False),
    "two trees, overlapped": (TREES, True),
}


def _fig10(_results: Results, _quick: bool) -> Outcome:
    rows: list[Row] = []
    numbers: Numbers = {}
    groups: dict[str, list[Bar]] = {}
    for name, (count, overlap) in SETTINGS.items():
        fabric, schedule = _trees(count, overlap=overlap)
        proven = float(antiphon.verify(fabric, schedule).conflict_free)
        numbers["proven", count, overlap] = proven
        rows.append(Row(name, "free of conflicts", "of 1", proven, tolerance=EXACT))
        doubled = sorted({end for end, links in Counter(_ends(fabric)).items() if links > 1 and end[0] < end[1]})
        for pair in doubled:
            needed = 1 if _single(fabric, schedule, pair) else 2
            numbers["needed", count, overlap, pair[0], pair[1]] = needed
            what = f"NVLinks needed on {pair[0]}-{pair[1]}"
            found = row("fig10", name, what, "", needed, what if count > 1 and overlap else "", EXACT)
            rows.append(found)
            groups.setdefault(f"{pair[0]}-{pair[1]}", []).append(Bar(name, [needed], found.paper))
        for pair, between in _detours(fabric, schedule).items():
            numbers["detour", count, overlap, pair[0], pair[1]] = between
            rows.append(Row(name, f"detour of {pair[0]}-{pair[1]} over GPU", "", between, tolerance=EXACT))
    return Outcome(rows, [Bars("Pairs that have two", "NVLinks needed", ["links"], groups)], numbers)


def _detours(fabric: Fabric, schedule: Schedule) -> dict[tuple[int, int], int]:
    """Pairs that are joined by way of another rank, and which."""
    ends = _ends(fabric)
    found = {}
    for transfer in json.loads(schedule.to_json())["transfers"]:
        if len(transfer["route"]) > 1:
            pair = sorted((transfer["from"], transfer["to"]))
            found[pair[0], pair[1]] = ends[transfer["route"][0]][1]
    return dict(sorted(found.items()))


# --- Fig. 15 ------------------------------------------------------------------------------------

OWN, FORWARDED = "of its own", "forwarded"
GPU = "GPU"


def _fig15(_results: Results, _quick: bool) -> Outcome:
    fabric, schedule = _trees(TREES, overlap=True)
    ends = _ends(fabric)
    document = json.loads(schedule.to_json())
    sent: Counter[tuple[int, str]] = Counter()
    for transfer in document["transfers"]:
        size = document["lanes"][transfer["payload"][0]]["bytes"]
        for hop, link in enumerate(transfer["route"]):
            sent[ends[link][0], FORWARDED if hop else OWN] += size
    rows = []
    numbers: Numbers = {}
    groups = {}
    for gpu in range(RANKS):
        for what in (OWN, FORWARDED):
            numbers[what, gpu] = sent[gpu, what] / FIG15_BYTES
            rows.append(Row(f"sent, {what}", f"GPU {gpu}", "of the data", numbers[what, gpu]))
        groups[f"{GPU} {gpu}"] = [Bar(GPU, [numbers[OWN, gpu], numbers[FORWARDED, gpu]])]
    chart = Bars("What a GPU sends in an AllReduce", "times the data", [OWN, FORWARDED], groups)
    return Outcome(rows, [chart], numbers)


TREE_STYLES = {
    GPU: Style("#0072b2"),
    **dict(zip(SETTINGS, (Style("#56b4e9"), Style("#7f7f7f"), Style("#d55e00")), strict=True)),
}

FIG_5 = Experiment(
    "fig5",
    "Fig. 5. Steps of tree, ring and overlapped tree",
    "Four nodes, four chunks; N4 is the root, N2 below it, N1 and N3 are the leaves. Rows are links, blocks the chunks"
    " on them, drawn from the slots of schedules that are proven free of conflicts. More nodes and chunks are in the"
    " numbers; their reference is 2 (h + K - 1) and 2h + K - 1 steps.",
    lambda _quick: [],
    _fig5,
    columns=1,
)
FIG_7 = Experiment(
    "fig7",
    "Fig. 7. Levels of a tree over time",
    "Eight nodes, so that the tree has three levels of links, and six chunks. The gradient turnaround is the time until"
    " the first chunk is everywhere.",
    lambda _quick: [],
    _fig7,
    columns=1,
)
FIG_10 = Experiment(
    "fig10",
    "Fig. 10. Two trees on the DGX-1",
    "Eight pairs of GPUs have two NVLinks. For each of them, all messages are put on one of the two, and the proof says"
    " whether that link then has two messages in one step, so that both are needed. Two pairs of the trees have no link"
    " and take a detour over GPU 0 or 1, which shares 0-4 or 1-5 with an edge of the same tree.",
    lambda _quick: [],
    _fig10,
    columns=1,
)
FIG_15 = Experiment(
    "fig15",
    "Fig. 15. Detours",
    "What every GPU sends in one AllReduce of C1, and how much of it is for others. The 3 to 4 % that GPUs 0 and 1"
    " lose in the paper are not reproduced: there, forwarding takes kernels and memory bandwidth from the computation,"
    " and a model of the network has no such thing. Here a detour costs nothing but the links.",
    lambda _quick: [],
    _fig15,
    columns=1,
)
