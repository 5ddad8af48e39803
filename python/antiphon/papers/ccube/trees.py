"""Figures 5, 7, 8, 10, 15 and 16 of the C-Cube paper: steps, links and detours, from the schedules themselves, and
examples of chaining."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import antiphon
from antiphon import Fabric, Schedule
from antiphon._core import Workload
from antiphon.collective.timing import simulator
from antiphon.errors import AntiphonError
from antiphon.papers.ccube.systems import DATA, HEIGHT, MIB, NVLINK_GB, SYSTEM, TREES, chunk_by_eq_4, tree_spec
from antiphon.repro.charts import Block
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry
from antiphon.results import Table, rows_of

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


def _example(case: Entry) -> tuple[Fabric, Schedule]:
    """One tree of fully joined ranks, or a ring."""
    series, ranks, size = case["series"], case["ranks"], case["chunks"] * CHUNK
    if series == "ring":
        return _built(f"ring:{ranks}", "ring", size)
    return _built(f"fc:{ranks}", tree_spec(overlap=series == OVERLAPPED, chunk=CHUNK, trees=1), size)


def _sent(case: Entry) -> list[tuple[Transfer, int, int]]:
    """Every message of an example: its transfer, its chunk, and the step in which it is sent, from 0."""
    fabric, schedule = _example(case)
    lengths = [length for _, length in schedule.stats(fabric).phases]
    found = []
    for transfer, lane in zip(rows_of(schedule.transfers), schedule.payloads["lane"].tolist(), strict=True):
        first = sum(lengths[: transfer["phase"]]) + transfer["step"]
        # A tree is one lane of chunks, a ring lanes of one.
        found += [(transfer, lane + chunk, first + chunk) for chunk in range(transfer["chunks"])]
    return found


def _blocks(case: Entry, track_of: Callable[[Transfer], str]) -> list[Block]:
    """What is sent when; messages of one track in one step are drawn once."""
    sent = ((track_of(transfer), chunk + 1, step) for transfer, chunk, step in _sent(case))
    return list(dict.fromkeys(Block(track, str(chunk), f"chunk {chunk}", step, 1) for track, chunk, step in sent))


NODES = {0: "N4", 2: "N2", 1: "N1", 3: "N3"}
"""The paper's names: N4 is the root, N2 below it, N1 and N3 the leaves."""


def _steps(case: Entry) -> Entry:
    """Steps, beside the closed form and what the paper's text counts: a tree waits twice for its chunks."""
    fabric, schedule = _example(case)
    height, more, waits = case["ranks"].bit_length() - 1, case["chunks"] - 1, 1 + (case["series"] == TREE)
    exact, steps = 2 * height + waits * more, schedule.stats(fabric).steps
    turnaround = 2 * height + (waits - 1) * more
    return {"steps": steps, "exact": float(exact), "missing": exact + waits - steps, "first": float(turnaround)}


def _nodes(case: Entry) -> Entry:
    """Fig. 5: steps, and of the examples what nodes send to each other."""
    if not case["drawn"]:
        return _steps(case)
    text = "{} sends" if case["series"] == "ring" else "{} to {}"
    return _steps(case) | {"blocks": _blocks(case, lambda t: text.format(NODES[t["from"]], NODES[t["to"]]))}


def _levels(case: Entry) -> Entry:
    """Fig. 7: steps, and what is sent on every level of the tree."""
    sent = _sent(case)
    parents = {each["from"]: each["to"] for each, _, _ in sent if each["reduces"]}

    def depth(rank: int) -> int:
        """Edges to the root."""
        return 1 + depth(parents[rank]) if rank in parents else 0

    def level(transfer: Transfer) -> str:
        up = transfer["reduces"]
        return f"level {depth(transfer['from'] if up else transfer['to'])} {'up' if up else 'down'}"

    turnaround = 1 + max(step for _, chunk, step in sent if chunk == 0)
    return _steps(case) | {"turnaround": turnaround, "blocks": _blocks(case, level)}


BYTES = 64 * MIB


def _trees(case: Entry) -> tuple[Fabric, Schedule]:
    """One tree or two on the DGX-1."""
    return _built("dgx1v", tree_spec(overlap=case["overlap"], chunk=chunk_by_eq_4(BYTES), trees=case["trees"]), BYTES)


def _hops(fabric: Fabric, schedule: Schedule) -> Table:
    """Every hop of every transfer: from GPU ``a``, of what goes ``from`` there ``to`` there, and its bytes."""
    routes, sent = schedule.routes, schedule.transfers
    of, sizes = routes["transfer"], schedule.lanes["bytes"][schedule.payloads["lane"]]
    ends = {"a": fabric.links["from"][routes["link"]], "from": sent["from"][of], "to": sent["to"][of]}
    return Table({"hop": routes["hop"], "bytes": sizes[of]} | ends)


def _single(fabric: Fabric, schedule: Schedule, pair: list[str]) -> bool:
    """Whether the schedule is still free of conflicts if a doubled pair is a single one."""
    ends = [[str(link["from"]), str(link["to"])] for link in rows_of(fabric.links)]
    first = {link: ends.index(end) for link, end in enumerate(ends) if end in (pair, pair[::-1])}
    document = json.loads(schedule.to_json())
    document["conflict_free"] = True
    for transfer in document["transfers"]:
        transfer["route"] = [first.get(link, link) for link in transfer["route"]]
    try:
        antiphon.verify(fabric, Schedule.from_json(json.dumps(document), fabric))
    except AntiphonError as error:
        if error.code != "not-proven" or "carries two messages" not in error.message:
            raise
        return False
    return True


def _links(case: Entry) -> Entry:
    """Fig. 10: NVLinks that a doubled pair needs; and over which GPU messages take a detour."""
    fabric, schedule = _trees(case)
    detours = [each for each in rows_of(_hops(fabric, schedule)) if each["hop"]]
    found = {"detour of {}-{} over GPU".format(*sorted((each["from"], each["to"]))): each["a"] for each in detours}
    return found | {
        "detours": len(found),
        "proven": float(antiphon.verify(fabric, schedule).conflict_free),
        "links": 1 if _single(fabric, schedule, case["pair"].split("-")) else 2,
    }


def _doubled(_cells: Cells, tables: Tables) -> Judged:
    needed = [of.where(links=2).column("pair") for _, of in tables["fig10"].by("series")]
    one, apart, both = ({(int(pair[0]), int(pair[2])) for pair in pairs} for pairs in needed)
    # The second tree is the first with every number XOR 1.
    alone = {tuple(sorted((a ^ flip, b ^ flip))) for a, b in one for flip in (0, 1)}
    shared, own = (listed(sorted(pairs), "{0[0]}-{0[1]}") for pairs in (both - alone, alone))
    return verdict(both - alone == {(2, 3), (6, 7)}), {"shared": shared, "own": own, "apart": len(apart) or "no"}


def _forwarded(case: Entry) -> Entry:
    """Fig. 15."""
    hops = _hops(*_trees({"trees": TREES, "overlap": True}))
    own, later = hops["a"] == case["gpu"], hops["hop"] > 0
    parts = {"of its own": own & ~later, "forwarded": own & later}
    return {part: float(hops["bytes"][of].sum()) / BYTES for part, of in parts.items()}


STEP_BYTES = 2 * MIB
"""A chunk of the examples, and what a step carries: there is no latency."""
UNIT_NS = STEP_BYTES / NVLINK_GB
HEADER = "layer,fwd_compute_ns,fwd_comm,fwd_bytes,ig_compute_ns,ig_comm,ig_bytes,wg_compute_ns,wg_comm,wg_bytes"


def _chained(case: Entry) -> Entry:
    """Figs. 8 and 16: how long an iteration takes from the end of the backward pass, and how long it waits for what."""
    layers = [
        f"layer {number},{round(steps * UNIT_NS)},NONE,0,0,NONE,0,0,ALLREDUCE,{count * STEP_BYTES}"
        for number, (count, steps) in enumerate(zip(case["chunks"], case["steps"], strict=True), 1)
    ]
    chained, workload = case["chained"], Workload.from_csv("layers", "\n".join([HEADER, *layers]))
    system = antiphon.System(SYSTEM).with_(hand_off_ns=0.0)
    collective = Fabric(f"dgx1v@{NVLINK_GB:g}"), tree_spec(overlap=True, chunk=STEP_BYTES, trees=1)
    timer = simulator(system, "alpha-beta", keep_chunks=True)
    training = antiphon.train(workload, *collective, system, overlap="ccube" if chained else "none", collectives=timer)
    found = {
        "AllReduce": training.communication_ns,
        "iteration": training.iteration_ns,
        "waits for the first layer": training.turnaround_ns if chained else training.communication_ns,
        "bubbles": training.bubbles_ns,
    }
    complete = timer(*collective, "all-reduce", training.gradient_bytes).chunks
    assert complete is not None
    blocks = []
    chunks = [(layer, part) for layer, count in enumerate(case["chunks"], 1) for part in range(1, count + 1)]
    for (layer, part), end in zip(chunks, complete["complete_ns"].tolist(), strict=True):
        # A chunk comes to the root, and then to the last node; it is as long on its way down as on its way up.
        for track, start in (("reduction", end / UNIT_NS - HEIGHT - 1), ("broadcast", end / UNIT_NS - 1)):
            blocks.append(Block(track, f"L{layer}-{part}", f"layer {layer}", start, 1))
    forward, begin = training.iteration.forward, 0.0 if chained else training.communication_ns
    for number, (start, finish) in enumerate(zip(forward["start_ns"], forward["finish_ns"], strict=True), 1):
        length = float(finish - start) / UNIT_NS
        blocks.append(Block("forward", f"L{number}", f"layer {number}", (begin + float(start)) / UNIT_NS, length))
    # A message is a flit longer on a detour, which is not drawn.
    return {what: round(value / UNIT_NS, 3) for what, value in found.items()} | {"blocks": blocks}


FIGURES = (
    Figure(DATA, "fig5", _nodes),
    Figure(DATA, "fig7", _levels),
    Figure(DATA, "fig10", _links),
    Figure(DATA, "fig15", _forwarded),
    *(Figure(DATA, name, _chained) for name in ("fig8", "fig16")),
)
CHECKS = {"doubled": _doubled}
