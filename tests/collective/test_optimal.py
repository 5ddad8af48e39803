"""Optimal values beside those of linear programs that HiGHS solves, of closed forms and of publications; few trees."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import highspy
import numpy as np
import pytest

import antiphon
from antiphon import AntiphonError, Fabric

DATA = Path(__file__).parents[2] / "data" / "fabrics"
GB = 1_000_000_000
Arc = tuple[int, int, float]


def arcs(fabric: Fabric) -> list[Arc]:
    """Every link, with bytes in a nanosecond."""
    links = fabric.links
    return list(
        zip(*(links[key].tolist() for key in ("from", "to")), links["rate_gb_per_s"] * links["speed"], strict=True)
    )


def nodes_of_ranks(fabric: Fabric) -> list[int]:
    ranks = fabric.nodes["rank"].tolist()
    return [ranks.index(rank) for rank in range(fabric.ranks)]


def least_time(links: list[Arc], count: int, supplies: list[dict[int, float]], alone: bool) -> float:
    """The least T with a flow for each of the supplies (bytes that nodes send; negative: take in).

    On every link at most its rate times T: of each flow where they are ``alone``, else of all flows together.
    """
    # Numbers near 1.
    most = max(abs(bytes_) for supply in supplies for bytes_ in supply.values())
    fastest = max(rate for _, _, rate in links)
    program = highspy.Highs()  # type: ignore[no-untyped-call]
    program.setOptionValue("output_flag", False)
    for tolerance in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
        program.setOptionValue(tolerance, 1e-9)
    infinite = highspy.kHighsInf
    program.addVar(0.0, infinite)
    program.changeColCost(0, 1.0)
    for _ in range(len(supplies) * len(links)):
        program.addVar(0.0, infinite)

    def column(flow: int, link: int) -> int:
        return 1 + flow * len(links) + link

    def row(lower: float, upper: float, entries: dict[int, float]) -> None:
        program.addRow(lower, upper, len(entries), np.array(list(entries), np.int32), np.array(list(entries.values())))

    for flow, supply in enumerate(supplies):
        for node in range(count):
            entries = {column(flow, at): 1.0 for at, link in enumerate(links) if link[0] == node}
            entries |= {column(flow, at): -1.0 for at, link in enumerate(links) if link[1] == node}
            row(supply.get(node, 0.0) / most, supply.get(node, 0.0) / most, entries)
    for at, (_, _, rate) in enumerate(links):
        for flows in [[flow] for flow in range(len(supplies))] if alone else [range(len(supplies))]:
            row(-infinite, 0.0, {0: -rate / fastest} | {column(flow, at): 1.0 for flow in flows})
    program.run()
    assert program.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(program.getObjectiveValue()) * most / fastest


def gathered(fabric: Fabric, size: int) -> float:
    """All-gather: if every rank could be sent all shards alone, all ranks can (J. Edmonds, 1973)."""
    ranks = nodes_of_ranks(fabric)
    shard = size / len(ranks)
    supplies = [{node: shard - size * (node == sink) for node in ranks} for sink in ranks]
    return least_time(arcs(fabric), len(fabric.nodes["rank"]), supplies, alone=True)


def broadcast(fabric: Fabric, size: int) -> float:
    root, *others = nodes_of_ranks(fabric)
    return least_time(arcs(fabric), len(fabric.nodes["rank"]), [{root: size, to: -size} for to in others], alone=True)


def exchanged(fabric: Fabric, size: int) -> float:
    """All-to-all: a flow from every rank, all on the same links."""
    ranks = nodes_of_ranks(fabric)
    part = size / len(ranks)
    supplies = [{node: part * (len(ranks) * (node == source) - 1) for node in ranks} for source in ranks]
    return least_time(arcs(fabric), len(fabric.nodes["rank"]), supplies, alone=False)


def partitions(count: int) -> Iterator[list[int]]:
    """The part of each of so many things, in all ways."""

    def longer(parts: list[int]) -> Iterator[list[int]]:
        if len(parts) == count:
            yield parts
            return
        for part in range(max(parts, default=-1) + 2):
            yield from longer([*parts, part])

    yield from longer([])


def reduced(fabric: Fabric, size: int) -> float:
    """All-reduce without switches, links equally fast both ways: the worst of all partitions (W. T. Tutte; C. St. J. A.
    Nash-Williams, 1961)."""
    links = arcs(fabric)

    def time(parts: list[int]) -> float:
        between = sum(rate for a, b, rate in links if parts[a] != parts[b])
        return 2 * max(parts) * size / between if between else 0.0

    return max(map(time, partitions(fabric.ranks)))


def bound_ns(fabric: Fabric | str, collective: str, size: int) -> float:
    fabric = Fabric(fabric) if isinstance(fabric, str) else fabric
    return antiphon.lower_bound(fabric, collective, size, system="ideal").time_ns


PROGRAMS = {"all-gather": gathered, "broadcast": broadcast, "all-to-all": exchanged}
FABRICS = [
    "mesh:3x3@25",
    "torus:3x4@25",
    "mesh:3x3@25,drop=0-1",
    "dgx1v@25",
    "mi250:1",
    "dgx-a100:2",
    "mesh:2x3@25+100",
]
SIZE = 9 * 8 * 7 * 5 * 11 << 20
"""Whole elements for every rank."""


@pytest.mark.parametrize("spec", FABRICS)
@pytest.mark.parametrize("collective", PROGRAMS)
def test_bounds_are_the_optima_of_flows(spec: str, collective: str) -> None:
    fabric = Fabric(spec)
    optimum = PROGRAMS[collective](fabric, SIZE)
    assert bound_ns(fabric, collective, SIZE) == pytest.approx(optimum, rel=1e-6)
    schedule = antiphon.build(spec, "optimal", collective, SIZE, "ideal")
    share = antiphon.verify(spec, schedule).share_of_optimum
    assert share is not None
    assert 0.99 <= share <= 1.0


@pytest.mark.parametrize(
    "spec", ["mesh:2x4@25", "mesh:3x3@25", "mesh:3x3@25,drop=0-1", "torus:3x3@25", "dgx1v@25", "fc:5@25"]
)
def test_the_bound_of_an_all_reduce_is_the_worst_partition(spec: str) -> None:
    assert bound_ns(spec, "all-reduce", SIZE) == pytest.approx(reduced(Fabric(spec), SIZE), rel=1e-6)


@pytest.mark.parametrize(
    ("spec", "collective", "ns"),
    [
        # ForestColl: GB/s of the whole result, from which follows the time of 1 GB.
        (f"file:{DATA}/a100x1.json", "all-gather", GB / (2400 / 7)),
        (f"file:{DATA}/a100x2.json", "all-gather", GB / (1040 / 3)),
        (f"file:{DATA}/mi250x1.json", "all-gather", GB / (2400 / 7)),
        (f"file:{DATA}/h100x2.json", "all-gather", GB / (1600 / 3)),
        (f"file:{DATA}/h100x4.json", "all-gather", GB / (16000 / 31)),
        # TE-CCL's DGX-2.
        (f"file:{DATA}/dgx2x2.json", "all-gather", 7.75e6),
        (f"file:{DATA}/dgx2x2.json", "all-to-all", 80.0e6),
        # The strength of graphs, with ranks at switches (Tutte and Nash-Williams).
        (f"file:{DATA}/a100x2.json", "all-reduce", 75e6 / 13),
        (f"file:{DATA}/h100x4.json", "all-reduce", 3.875e6),
        ("mesh:8x8@25", "all-reduce", 0.5625 * GB / 25),
        ("mesh:4x4@25,drop=5-6", "all-reduce", 15 / 23 * GB / 25),
        ("dgx1v@25", "all-to-all", 8 / 3 * GB / 8 / 25),
        ("mesh:4x4@25,drop=5-6", "all-to-all", 64 / 3 * GB / 16 / 25),
        # Half of a line's ranks send to the other half over its middle.
        ("mesh:8x8@25", "all-to-all", 8 * 16 * GB / 64 / 25),
        ("torus:8x8@25", "all-to-all", 8 * 8 * GB / 64 / 25),
    ],
)
def test_bounds_are_the_published_optima(spec: str, collective: str, ns: float) -> None:
    assert bound_ns(spec, collective, GB) == pytest.approx(ns, rel=1e-6)


def most_lanes(schedule: antiphon.Schedule) -> int:
    """Of one root; all of an all-reduce are of none."""
    if schedule.collective == "all-reduce":
        return len(schedule.lanes["bytes"])
    roots = schedule.lanes["source" if schedule.collective in ("all-gather", "broadcast") else "owner"]
    return int(np.unique(roots, return_counts=True)[1].max())


@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter", "broadcast", "all-reduce"])
@pytest.mark.parametrize("spec", ["dgx1v@25", "mesh:4x4,drop=5-6", "mi250:1"])
def test_no_root_has_more_trees_than_it_may(spec: str, collective: str) -> None:
    shares = []
    for trees in (1, 2, 4):
        schedule = antiphon.build(spec, f"optimal:trees={trees}", collective, "1GiB", "ideal")
        proof = antiphon.verify(spec, schedule)
        assert proof.complete
        assert most_lanes(schedule) <= trees
        shares.append(proof.share_of_optimum or 0.0)
    assert all(more >= 0.98 * few for few, more in pairwise(shares))


def test_numbers_of_trees_are_checked() -> None:
    for trees, collective in [(0, "all-gather"), ("x", "all-gather"), (2, "all-to-all")]:
        with pytest.raises(AntiphonError, match="trees"):
            antiphon.build("dgx1v", f"optimal:trees={trees}", collective, "1MiB")


@pytest.mark.parametrize(
    ("spec", "collective", "system", "size", "others"),
    [
        ("mesh:4x4", "all-reduce", "tto", "128KiB", "combs"),
        ("mesh:3x7", "all-reduce", "tto", "1MiB", "combs,forest"),
        ("dgx1v", "all-reduce", "tto", "64MiB", "forest"),
        ("dgx1v", "reduce", "tto", "16KiB", "direct"),
        ("switch:8", "broadcast", "tto", "16KiB", "multitree"),
        ("dgx-h100:4", "broadcast", "tto", "16KiB", "direct,multitree"),
        ("dgx-a100:1", "all-reduce", "generic", "1MiB", "multitree"),
        ("mi250:1", "all-to-all", "generic", "16KiB", "direct"),
    ],
)
def test_no_other_algorithm_is_sooner_through(spec: str, collective: str, system: str, size: str, others: str) -> None:
    runs = antiphon.compare(spec, collective, bytes=size, system=system, algorithms=f"optimal,{others}")
    assert runs["optimal"].time_ns <= 1.005 * runs.best.time_ns


@pytest.mark.parametrize("spec", ["dgx-a100:1,slow=8-4:0.2", "switch:8,slow=0-8:0.2", "switch:8,slow=0>8:0.3"])
def test_few_trees_behind_a_switch_with_a_slow_link(spec: str) -> None:
    """Many trees of a reduction flood the switch before the slow link."""
    schedule = antiphon.build(spec, "optimal", "reduce", "1GiB", "ideal")
    time_ns = antiphon.simulate(spec, schedule, "ideal").time_ns
    assert bound_ns(spec, "reduce", 1 << 30) >= 0.97 * time_ns


@pytest.mark.parametrize("spec", ["dgx-h100:16", "dgx-h100:18"])
def test_pods_go_in_stages(spec: str) -> None:
    """Ranks have a message for every other digit of their place; time is lost in the first and the last chunk."""
    run = antiphon.run(spec, antiphon.build(spec, "optimal", bytes="1GiB"))
    assert run.efficiency is not None
    assert run.efficiency > 0.97
    assert run.stats.transfers < 50 * run.ranks
