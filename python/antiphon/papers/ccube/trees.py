"""Figures 5, 7, 8, 10 and 16 of the C-Cube paper: steps, links and detours, from the schedules themselves, and
examples of chaining."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from operator import itemgetter
from typing import Any

import antiphon
from antiphon import Fabric, Schedule
from antiphon._core import Workload
from antiphon.collective.timing import simulator
from antiphon.errors import AntiphonError
from antiphon.papers.ccube.systems import (
    C1,
    DATA,
    HEIGHT,
    MIB,
    NVLINK_GB,
    RANKS,
    SYSTEM,
    TREES,
    B,
    chunk_by_eq_4,
    kB,
    tree_spec,
)
from antiphon.repro.charts import Block, bar_chart, line_chart, span_chart
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


def _at_root(case: Entry) -> Entry:
    """Steps of one tree or two, when the first chunk is everywhere, and what passes the link of each root."""
    trees, chunks, turnaround, blocks = case["trees"], case["chunks"], 0, []
    fabric, schedule = _built(
        case["fabric"], tree_spec(overlap=case["overlap"], chunk=CHUNK, trees=trees), chunks * CHUNK
    )
    lengths = [length for _, length in schedule.stats(fabric).phases]
    for transfer, lane in zip(rows_of(schedule.transfers), schedule.payloads["lane"].tolist(), strict=True):
        first = sum(lengths[: transfer["phase"]]) + transfer["step"]
        if lane == 0:
            turnaround = max(turnaround, first + 1)
        way, root = ("up", "to") if transfer["reduces"] else ("down", "from")
        if transfer[root] == lane:  # The roots are ranks 0 and 1.
            for chunk in range(transfer["chunks"]):
                number, step = trees * chunk + lane + 1, first + chunk
                blocks.append(Block(f"tree {lane + 1} {way}", str(number), f"chunk {number}", step, 1))
    return {"steps": schedule.stats(fabric).steps, "turnaround": turnaround, "blocks": blocks}


ARRANGED = (
    ("one tree", 1, False, "dgx1v"),
    ("two trees", 2, False, "dgx1v"),
    ("one tree, overlapped", 1, True, "dgx1v"),
    ("two trees, overlapped", 2, True, "dgx1v"),
    ("two trees, overlapped, single links", 2, True, "fc:8"),
)


def fig6(_quick: bool) -> Steps:
    """One tree and two, without overlap and with it, where pairs have two links and where they have one."""
    yield []
    table, charts = Table(), []
    for letter, (title, trees, overlap, fabric) in zip(("(a)", "(b)", "(c)", "(d)", ""), ARRANGED, strict=True):
        case: Entry = {"fabric": fabric, "chunks": 6, "trees": trees, "overlap": overlap, "what": title}
        found = _at_root(case)
        table.append(case | found)
        tracks = [f"tree {tree} {way}" for tree in range(1, trees + 1) for way in ("up", "down")]
        said = f"the first chunk is everywhere after {found['turnaround']} steps, all after {found['steps']}"
        if letter:
            charts.append(span_chart(f"{letter} {title}: {said}", "steps", 16, tracks, found["blocks"]))
    rows = Rows(DATA, "fig6", table, "steps", "steps", group="AllReduce")
    rows.each(table, "steps", "turnaround", group="Gradient turnaround")
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


PCIE_GB, QPI_GB = 12.0, 19.2
"""GB/s each way: what data gets of 16 lanes of PCIe Gen3 (NCCL's ``topo.h``), and of a QPI link of 9.6 GT/s."""
UNLINKED = ({2, 4}, {3, 5})


def _hosted(direct: bool) -> Fabric:
    """The DGX-1 with its PCIe, two GPUs on a switch and two switches on a CPU; or, ``direct``, with NVLinks for the two
    pairs of the trees that lack them."""
    document = json.loads(Fabric(f"dgx1v@{NVLINK_GB:g}").to_json())
    document["nodes"] = [{} for _ in range(RANKS)] + [{"rank": False}] * (0 if direct else 6)
    edges = [(*sorted(pair), NVLINK_GB) for pair in UNLINKED]
    if not direct:
        edges = [(gpu, 8 + gpu // 2, PCIE_GB) for gpu in range(RANKS)]
        edges += [(8 + switch, 12 + switch // 2, PCIE_GB) for switch in range(4)] + [(12, 13, QPI_GB)]
    for one, other, rate in edges:
        ends = ((one, other), (other, one))
        document["links"] += [{"from": a, "to": b, "rate_gb_per_s": rate} for a, b in ends]
    return Fabric.from_json(json.dumps(document), "dgx1v, direct" if direct else "dgx1v, PCIe")


def _through_host(fabric: Fabric, schedule: Schedule) -> Schedule:
    """The schedule with what goes between the two pairs sent over PCIe and the CPUs."""
    ends = zip(fabric.links["from"].tolist(), fabric.links["to"].tolist(), strict=True)
    links = {pair: number for number, pair in enumerate(ends)}
    document = json.loads(schedule.to_json()) | {"conflict_free": False}
    for transfer in document["transfers"]:
        a, b = transfer["from"], transfer["to"]
        if {a, b} in UNLINKED:
            transfer["route"] = [
                links[hop] for hop in pairwise((a, 8 + a // 2, 12 + a // 4, 12 + b // 4, 8 + b // 2, b))
            ]
    return Schedule.from_json(json.dumps(document), fabric)


def iv_a(quick: bool) -> Steps:
    """B and C1 with detours over NVLinks, over PCIe, and if the two pairs had NVLinks."""
    yield []
    fabrics = {"detours": Fabric(f"dgx1v@{NVLINK_GB:g}"), "PCIe": _hosted(False), "direct NVLinks": _hosted(True)}
    table, rows = Table(), Rows(DATA, "iv-a")
    for case in grid(size=[64 * MIB] if quick else [MIB << n for n in range(0, 9, 2)], series=(B, C1)):
        size, spec = case["size"], tree_spec(overlap=case["series"] is C1, chunk=chunk_by_eq_4(case["size"]))
        found: Entry = {"what": kB(size)}
        for name, fabric in fabrics.items():
            schedule = antiphon.build(fabric, spec, bytes=size, system=SYSTEM)
            schedule = _through_host(fabric, schedule) if name == "PCIe" else schedule
            antiphon.verify(fabric, schedule)
            found[name] = antiphon.simulate(fabric, schedule, system=SYSTEM, fidelity="alpha-beta").time_ns
        found |= {"gain": found["PCIe"] / found["detours"], "loss": found["detours"] / found["direct NVLinks"]}
        table.append(case | found)
    for e in table:
        rows.add(e, "×", e["gain"], what=f"{e['what']}, detours over PCIe")
        rows.add(e, "×", e["loss"], what=f"{e['what']}, direct NVLinks over detours")
    chart = line_chart("Detours over PCIe", table, "size", "size", "gain", "times as fast", ticks=kB, reference=1)
    return Outcome(table, rows, [chart])


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


def _trained(case: Entry, overlap: str) -> tuple[antiphon.Training, list[float]]:
    """Layers of so many chunks, ``steps`` of a forward pass and ``backward`` ones for each gradient, on one overlapped
    tree; and when chunks of all their gradients are everywhere, in steps from the begin of the AllReduce."""
    back = round(case.get("backward", 0) * UNIT_NS)
    layers = [
        f"layer {number},{round(steps * UNIT_NS)},NONE,0,{back},NONE,0,{back},ALLREDUCE,{count * STEP_BYTES}"
        for number, (count, steps) in enumerate(zip(case["chunks"], case["steps"], strict=True), 1)
    ]
    workload = Workload.from_csv("layers", "\n".join([HEADER, *layers]))
    system = antiphon.System(SYSTEM).with_(hand_off_ns=0.0)
    collective = Fabric(f"dgx1v@{NVLINK_GB:g}"), tree_spec(overlap=True, chunk=STEP_BYTES, trees=1)
    timer = simulator(system, "alpha-beta", keep_chunks=True)
    training = antiphon.train(workload, *collective, system, overlap=overlap, collectives=timer)
    complete = timer(*collective, "all-reduce", training.gradient_bytes).chunks
    assert complete is not None
    return training, [end / UNIT_NS for end in complete["complete_ns"].tolist()]


def _chained(case: Entry) -> Entry:
    """How long an iteration takes from the end of the backward pass, and how long it waits for what."""
    chained = case["chained"]
    training, complete = _trained(case, "ccube" if chained else "none")
    found = {
        "AllReduce": training.communication_ns,
        "iteration": training.iteration_ns,
        "waits for the first layer": training.turnaround_ns if chained else training.communication_ns,
        "bubbles": training.bubbles_ns,
    }
    blocks = []
    chunks = [(layer, part) for layer, count in enumerate(case["chunks"], 1) for part in range(1, count + 1)]
    for (layer, part), end in zip(chunks, complete, strict=True):
        # A chunk comes to the root, and then to the last node; it is as long on its way down as on its way up.
        for track, start in (("reduction", end - HEIGHT - 1), ("broadcast", end - 1)):
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


FORWARD = 0
"""The pass, in a table of computations."""


def _behind(case: Entry, overlap: str) -> Entry:
    """An iteration from the begin of its backward pass to the end of the next forward pass."""
    training, complete = _trained(case, overlap)
    chained, forward = overlap == "ccube", training.iteration.forward_ns / UNIT_NS
    length, blocks = training.iteration_ns / UNIT_NS, []
    for each in rows_of(training.iteration.computations):
        layer, is_forward = each["layer"] + 1, each["pass"] == FORWARD
        # Unless it is chained, an iteration begins with its forward pass; what is drawn is the next one.
        later = 0.0 if chained else (length if is_forward else 0.0) - forward
        start, time = each["start_ns"] / UNIT_NS + later, (each["finish_ns"] - each["start_ns"]) / UNIT_NS
        blocks.append(Block("computation", f"{'F' if is_forward else 'B'}{layer}", f"layer {layer}", start, time))
    for each in rows_of(training.iteration.exchanges):
        start, end = each["start_ns"] / UNIT_NS, each["finish_ns"] / UNIT_NS
        layer = each["first_layer"] + 1
        if chained:
            ends = [start + complete[sum(case["chunks"][:number]) - 1] for number in range(1, len(case["chunks"]) + 1)]
            for layer, (begin, end) in enumerate(pairwise([start, *ends]), 1):
                blocks.append(Block("communication", f"C{layer}", f"layer {layer}", begin, end - begin))
        else:
            name = f"C{layer}" if overlap == "layerwise" else "C1 to C4"
            blocks.append(Block("communication", name, f"layer {layer}", start - forward, end - start))
    exposed = round(training.exposed_communication_ns / UNIT_NS, 2)
    return {"iteration": round(length, 2), "exposed": exposed, "blocks": blocks}


def fig2(_quick: bool) -> Steps:
    """What communication runs behind: nothing, the backward pass, or the next forward pass."""
    yield []
    case: Entry = {"chunks": [4] * 4, "steps": [2] * 4, "backward": 2}
    ways = {"nothing": "none", "the backward pass": "layerwise", "the next forward pass": "ccube"}
    table = Table({"what": what} | _behind(case, overlap) for what, overlap in ways.items())
    rows = Rows(DATA, "fig2", table, "steps", "iteration", group="Iteration")
    rows.each(table, "steps", "exposed", group="Communication that is exposed")
    charts = [
        span_chart(
            f"({letter}) behind {e['what']}",
            "time in steps of a chunk",
            48,
            ("computation", "communication"),
            e["blocks"],
        )
        for letter, e in zip("abc", table, strict=True)
    ]
    return Outcome(table, rows, charts)


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
