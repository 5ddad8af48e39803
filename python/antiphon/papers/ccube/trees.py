"""Figures 5, 7, 10 and 15 of the C-Cube paper: steps, links and detours, from the schedules themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import antiphon
from antiphon import Fabric, Schedule
from antiphon.errors import AntiphonError
from antiphon.papers.ccube.systems import DATA, HEIGHT, MIB, RANKS, SYSTEM, TREES, chunk_of, cost, tree_spec
from antiphon.repro.charts import Block
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry

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


Blocks = dict[str, list[Block]]


def _tracks(case: Entry, tracks: list[str], track_of: Callable[[Transfer], str]) -> Blocks:
    """What is sent when; messages of one track in one step are drawn once."""
    blocks: dict[str, dict[tuple[int, int], Block]] = {track: {} for track in tracks}
    for transfer, chunk, step in _sent(*_example(case["series"], case["ranks"], case["chunks"])):
        blocks[track_of(transfer)][step, chunk] = Block(str(chunk + 1), f"chunk {chunk + 1}", step, 1)
    return {track: list(of.values()) for track, of in blocks.items()}


# --- Figs. 5 and 7 ------------------------------------------------------------------------------

NODES = {0: "N4", 2: "N2", 1: "N1", 3: "N3"}
"""The paper's names: N4 is the root, N2 below it, N1 and N3 the leaves."""
EDGES = [f"{NODES[a]} to {NODES[b]}" for a, b in ((1, 2), (3, 2), (2, 0), (0, 2), (2, 1), (2, 3))]
SENDERS = [f"{NODES[rank]} sends" for rank in (1, 2, 3, 0)]


def _steps(case: Entry) -> Entry:
    fabric, schedule = _example(case["series"], case["ranks"], case["chunks"])
    height, chunks = case["ranks"].bit_length() - 1, case["chunks"]
    # The closed form, and what the paper's text counts.
    exact, said = {
        TREE: (2 * (height + chunks - 1), 2 * (height + chunks)),
        OVERLAPPED: (2 * height + chunks - 1, 2 * height + chunks),
    }.get(case["series"], (0, 0))
    steps = schedule.stats(fabric).steps
    note = {"note": DATA.texts["ring_steps"]} if case["series"] == "ring" else {}
    what = {"what": f"{case['ranks']} nodes, {chunks} chunks"}
    return what | {"steps": steps, "exact": float(exact), "missing": said - steps} | note


def _nodes(case: Entry) -> Entry:
    """Steps, and of the examples what nodes send to each other."""
    found = _steps(case)
    if not case["drawn"]:
        return found
    if case["series"] == "ring":
        return found | {"tracks": _tracks(case, SENDERS, lambda t: f"{NODES[t['from']]} sends")}
    return found | {"tracks": _tracks(case, EDGES, lambda t: f"{NODES[t['from']]} to {NODES[t['to']]}")}


def _levels(case: Entry) -> Entry:
    """Steps, and what is sent on every level of the tree."""
    example = _example(case["series"], case["ranks"], case["chunks"])
    depth = _depths(example[1])

    def level(transfer: Transfer) -> str:
        up = transfer["op"] == "reduce"
        return f"level {depth[transfer['from'] if up else transfer['to']]} {'up' if up else 'down'}"

    levels = [f"level {n} up" for n in range(HEIGHT, 0, -1)] + [f"level {n} down" for n in range(1, HEIGHT + 1)]
    return _steps(case) | {
        "turnaround": 1 + max(step for _, chunk, step in _sent(*example) if chunk == 0),
        "first": float(2 * HEIGHT + (case["chunks"] - 1 if case["series"] == TREE else 0)),
        "levels": _tracks(case, levels, level),
    }


def _depths(schedule: Schedule) -> dict[int, int]:
    """Edges to the root, by rank."""
    transfers = json.loads(schedule.to_json())["transfers"]
    parents = {each["from"]: each["to"] for each in transfers if each["op"] == "reduce"}

    def depth(rank: int) -> int:
        return 1 + depth(parents[rank]) if rank in parents else 0

    return {rank: depth(rank) for rank in range(schedule.ranks)}


def _general_steps(_cells: Cells, tables: Tables) -> Judged:
    missing = {(e["series"], e["missing"]) for e in tables["fig5"].where(drawn=False)}
    exact = missing == {(OVERLAPPED, 1), (TREE, 2)}
    return verdict(False, exact), {"steps": "2h + K - 1, 2 (h + K - 1)" if exact else "other numbers"}


# --- Fig. 10 ------------------------------------------------------------------------------------

BYTES = 64 * MIB


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
    """NVLinks that a doubled pair needs; and over which GPU messages take a detour."""
    fabric, schedule = _trees(case)
    ends, found, pair = _ends(fabric), {}, tuple(map(int, case["pair"].split("-")))
    for transfer in json.loads(schedule.to_json())["transfers"]:
        if len(transfer["route"]) > 1:
            a, b = sorted((transfer["from"], transfer["to"]))
            found[f"detour of {a}-{b} over GPU"] = ends[transfer["route"][0]][1]
    stated = DATA.stated["fig10"].get(f"{case['series']}, {case['pair']}")
    return found | {
        "detours": len(found),
        "proven": float(antiphon.verify(fabric, schedule).conflict_free),
        "links": 1 if _single(fabric, schedule, (pair[0], pair[1])) else 2,
        "stated links": stated.value if stated else None,
    }


def _doubled(_cells: Cells, tables: Tables) -> Judged:
    needed = [of.where(links=2).column("pair") for _, of in tables["fig10"].by("series")]
    one, apart, both = ({(int(pair[0]), int(pair[2])) for pair in pairs} for pairs in needed)
    # The second tree is the first with every number XOR 1.
    alone = {tuple(sorted((a ^ flip, b ^ flip))) for a, b in one for flip in (0, 1)}
    shared, own = (listed(sorted(pairs), "{0[0]}-{0[1]}") for pairs in (both - alone, alone))
    return verdict(both - alone == {(2, 3), (6, 7)}), {"shared": shared, "own": own, "apart": len(apart) or "no"}


# --- Fig. 15 ------------------------------------------------------------------------------------


def _forwarded(case: Entry) -> Entry:
    fabric, schedule = _trees({"trees": TREES, "overlap": True})
    ends, document = _ends(fabric), json.loads(schedule.to_json())
    sent = {"of its own": 0.0, "forwarded": 0.0}
    for transfer in document["transfers"]:
        for hop, link in enumerate(transfer["route"]):
            if ends[link][0] == case["gpu"]:
                sent["forwarded" if hop else "of its own"] += document["lanes"][transfer["payload"][0]]["bytes"]
    return {what: size / BYTES for what, size in sent.items()}


FIGURES = (
    Figure(DATA, "fig5", _nodes),
    Figure(DATA, "fig7", _levels),
    Figure(DATA, "fig10", _links),
    Figure(DATA, "fig15", _forwarded),
)
CHECKS = {"steps-general": _general_steps, "doubled": _doubled}
