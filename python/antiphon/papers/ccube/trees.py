"""Figures 5, 7, 8, 10 and 16 of the C-Cube paper: steps, links and detours, from the schedules themselves, and
examples of chaining."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import Any

import antiphon
from antiphon import Fabric, Schedule
from antiphon._core import Workload
from antiphon.collective.timing import simulator
from antiphon.errors import AntiphonError
from antiphon.papers.ccube.systems import (
    DATA,
    HEIGHT,
    MIB,
    NVLINK_GB,
    RANKS,
    SYSTEM,
    TREES,
    chunk_by_eq_4,
    tree_spec,
)
from antiphon.repro.charts import Block, bar_chart, span_chart
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.figure import Outcome, Steps
from antiphon.repro.rows import COUNTED, Rows
from antiphon.repro.table import Entry, Table, grid
from antiphon.results import Table as Columns
from antiphon.results import rows_of

CHUNK = 1 << 10
"""Bytes of a chunk of the examples, in which only steps are counted."""
TREE, OVERLAPPED, A_RING = "tree", "overlapped tree", "ring"

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
    if series == A_RING:
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
    found = {"steps": steps, "exact": float(exact), "missing": exact + waits - steps, "first": float(turnaround)}
    return found | {"what": f"{case['ranks']} nodes, {case['chunks']} chunks"}


def _between(transfer: Transfer) -> str:
    return f"{NODES[transfer['from']]} to {NODES[transfer['to']]}"


def fig5(quick: bool) -> Steps:
    """Steps, and of the examples what nodes send to each other."""
    yield []
    text = {TREE: _between, OVERLAPPED: _between, A_RING: lambda each: f"{NODES[each['from']]} sends"}
    cases = grid(drawn=(True,), ranks=(4,), chunks=(4,), series=text)
    ranks = (4, 8) if quick else (4, 8, 16, 32, 64, 128)
    cases += grid(drawn=(False,), ranks=ranks, chunks=(1, 4, 16, 64), series=(TREE, OVERLAPPED))
    table, rows, blocks = Table(), Rows(DATA, "fig5"), {}
    for case in cases:
        e = case | _steps(case)
        table.append(e)
        if case["drawn"]:
            blocks[case["series"]] = _blocks(case, text[case["series"]])
            note = DATA.texts["ring_steps"] if case["series"] == A_RING else ""
            rows.add(e, "steps", e["steps"], key=case["series"], note=note, own=COUNTED)
        else:
            rows.add(e, "steps", e["steps"], key="", reference=e["exact"], own=COUNTED)
    links = ("N1 to N2", "N3 to N2", "N2 to N4", "N4 to N2", "N2 to N1", "N2 to N3")
    charts = [
        span_chart(title, "steps", 10, tracks, blocks[series])
        for title, series, tracks in (
            ("(a) tree", TREE, links),
            ("(b) ring", A_RING, [f"N{number} sends" for number in (1, 2, 3, 4)]),
            ("(c) overlapped tree", OVERLAPPED, links),
        )
    ]
    return Outcome(table, rows, charts)


def _levels(case: Entry) -> Entry:
    """Steps, and what is sent on every level of the tree."""
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


def fig7(_quick: bool) -> Steps:
    """Levels of a tree over time."""
    yield []
    cases = grid(ranks=(8,), chunks=(6,), series=(TREE, OVERLAPPED))
    table = Table(case | _levels(case) for case in cases)
    tracks = [f"level {level} up" for level in (3, 2, 1)] + [f"level {level} down" for level in (1, 2, 3)]
    rows, charts = Rows(DATA, "fig7"), []
    for letter, e in zip("ab", table, strict=True):
        steps, turnaround, what = e["steps"], e["turnaround"], e["what"]
        rows.add(e, "steps", steps, what=f"{what}: AllReduce", reference=e["exact"])
        rows.add(e, "steps", turnaround, what=f"{what}: gradient turnaround", reference=e["first"])
        title = f"({letter}) {e['series']}: the first chunk is everywhere after {turnaround} steps, all after {steps}"
        charts.append(span_chart(title, "steps", 16, tracks, e["blocks"]))
    return Outcome(table, rows, charts)


BYTES = 64 * MIB
SENT_FOR = "of its own", "forwarded"
"""For whom a GPU sends."""


def _trees(count: int, overlap: bool) -> tuple[Fabric, Schedule]:
    """One tree or two on the DGX-1."""
    return _built("dgx1v", tree_spec(overlap=overlap, chunk=chunk_by_eq_4(BYTES), trees=count), BYTES)


def _hops(fabric: Fabric, schedule: Schedule) -> Columns:
    """Every hop of every transfer: from GPU ``a``, of what goes ``from`` there ``to`` there, and its bytes."""
    routes, sent = schedule.routes, schedule.transfers
    of, sizes = routes["transfer"], schedule.lanes["bytes"][schedule.payloads["lane"]]
    ends = {"a": fabric.links["from"][routes["link"]], "from": sent["from"][of], "to": sent["to"][of]}
    return Columns({"hop": routes["hop"], "bytes": sizes[of]} | ends)


def _single(fabric: Fabric, schedule: Schedule, pair: str) -> bool:
    """Whether the schedule is still free of conflicts if a doubled pair is a single one."""
    ends = [f"{link['from']}-{link['to']}" for link in rows_of(fabric.links)]
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


def fig10(_quick: bool) -> Steps:
    """NVLinks that doubled pairs need; and over which GPU messages take a detour."""
    yield []
    pairs = ("0-3", "0-4", "1-2", "1-5", "2-3", "4-7", "5-6", "6-7")
    table = Table()
    rows = Rows(DATA, "fig10")
    for name, trees, overlap in (
        ("one tree, overlapped", 1, True),
        ("two trees, not overlapped", 2, False),
        ("two trees, overlapped", 2, True),
    ):
        fabric, schedule = _trees(trees, overlap)
        passed = [each for each in rows_of(_hops(fabric, schedule)) if each["hop"]]
        detours = {"detour of {}-{} over GPU".format(*sorted((each["from"], each["to"]))): each["a"] for each in passed}
        proven = float(antiphon.verify(fabric, schedule).conflict_free)
        found = {"what": "free of conflicts", "detours": len(detours), "proven": proven} | detours
        part = Table()
        for pair in pairs:
            stated = DATA.number("stated", "value", figure="fig10", what=f"{name}, {pair}")
            links = {"links": 2 - _single(fabric, schedule, pair), "stated links": stated}
            part.append({"series": DATA.series[name], "pair": pair} | links | found)
        table += part
        rows.add(part[0], "of 1", proven, own=COUNTED)
        for e in part:
            what, key = f"NVLinks needed on {e['pair']}", f"{name}, {e['pair']}"
            rows.add(e, "", e["links"], what=what, key=key, own=COUNTED)
        for detour in ("detour of 2-4 over GPU", "detour of 3-5 over GPU")[:trees]:
            rows.add(part[0], "", detours[detour], what=detour, own=COUNTED)
    of, parts = itemgetter("pair"), {"links": "links"}
    chart = bar_chart("Pairs that have two", "NVLinks needed", table, of, parts, known="stated links")
    return Outcome(table, rows, [chart])


def doubled(_cells: Cells, tables: Tables) -> Judged:
    """Which pairs need both of their links only where trees overlap."""
    needed = [of.where(links=2).column("pair") for _, of in tables["fig10"].by("series")]
    one, apart, both = ({(int(pair[0]), int(pair[2])) for pair in pairs} for pairs in needed)
    # The second tree is the first with every number XOR 1.
    alone = {tuple(sorted((a ^ flip, b ^ flip))) for a, b in one for flip in (0, 1)}
    shared, own = (listed(sorted(pairs), "{0[0]}-{0[1]}") for pairs in (both - alone, alone))
    return verdict(both - alone == {(2, 3), (6, 7)}), {"shared": shared, "own": own, "apart": len(apart) or "no"}


def sent() -> Table:
    """What every GPU sends in an AllReduce of C1, and how much of it is for others; streams that it passes on."""
    fabric, schedule = _trees(TREES, True)
    hops, streams = _hops(fabric, schedule), schedule.relays(fabric)
    table = Table()
    for gpu in range(RANKS):
        own, later = hops["a"] == gpu, hops["hop"] > 0
        shares = (float(hops["bytes"][of].sum()) / BYTES for of in (own & ~later, own & later))
        found = {"gpu": gpu, "what": f"GPU {gpu}", "streams": streams[gpu]}
        table.append(found | dict(zip(SENT_FOR, shares, strict=True)))
    return table


STEP_BYTES = 2 * MIB
"""A chunk of the examples, and what a step carries: there is no latency."""
UNIT_NS = STEP_BYTES / NVLINK_GB
HEADER = "layer,fwd_compute_ns,fwd_comm,fwd_bytes,ig_compute_ns,ig_comm,ig_bytes,wg_compute_ns,wg_comm,wg_bytes"


def _chained(case: Entry) -> Entry:
    """How long an iteration takes from the end of the backward pass, and how long it waits for what."""
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


def _examples(figure: str, cases: list[Entry], x_max: float) -> Steps:
    """Figs. 8 and 16."""
    yield []
    table = Table(case | _chained(case) for case in cases)
    rows, charts = Rows(DATA, figure), []
    for e in table:
        for what in ("AllReduce", "iteration", "waits for the first layer", "bubbles"):
            rows.add(e, "steps", e[what], group=e["title"], what=what)
        tracks = ("reduction", "broadcast", "forward")
        charts.append(span_chart(e["title"], "time in steps of a chunk", x_max, tracks, e["blocks"]))
    return Outcome(table, rows, charts)


def fig8(_quick: bool) -> Steps:
    """Gradient queuing."""
    layers = {"chunks": [1, 2, 3, 4, 5], "steps": [5, 4, 3, 2, 1]}
    titles = {"(a) not chained": False, "(b) chained: gradient queuing": True}
    return _examples("fig8", [{"title": title, "chained": chained} | layers for title, chained in titles.items()], 35)


def fig16(_quick: bool) -> Steps:
    """Patterns of computation and communication."""
    cases = [
        {"case": number, "title": f"Case {number}: {title}", "chunks": chunks, "steps": steps, "chained": True}
        for number, title, chunks, steps in (
            (1, "computation falls, gradients grow with depth", [1, 2, 3, 4, 5], [5, 4, 3, 2, 1]),
            (2, "computation grows: bubbles", [3, 3, 3, 3, 3], [1, 2, 3, 4, 5]),
            (3, "large first layers: late turnaround", [5, 4, 3, 2, 1], [5, 4, 3, 2, 1]),
        )
    ]
    return _examples("fig16", [case | {"what": case["title"]} for case in cases], 26)
