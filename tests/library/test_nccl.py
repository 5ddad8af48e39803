"""NCCL's and RCCL's cost models: figures computed by hand from the facts that docs/explanation/library.md names."""

from __future__ import annotations

import csv
import io
import itertools
import math
import time
from typing import Any

import pytest

import antiphon
from antiphon.library import nccl, rccl
from antiphon.library.cluster import MACHINES, Cluster
from antiphon.library.measured import expected
from antiphon.library.tuner import tuner_csv, tuner_rows

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("cluster", "bytes", "algorithm", "protocol", "time_us"),
    [
        # The figures of the model that issue 55 asks for, to 0.5 %.
        ("dgx-a100:1", MIB, "ring", "LL", 35.9),
        ("dgx-a100:1", 8 * MIB, "ring", "LL128", 107.1),
        ("dgx-a100:1", GIB, "ring", "Simple", 7885),
        ("dgx-h100:1", MIB, "ring", "LL", 28.0),
        ("dgx-h100:1", 4 * MIB, "nvls", "Simple", 40.4),
        ("dgx-h100:1", 64 * MIB, "nvls", "Simple", 271.7),
        ("dgx-h100:1", GIB, "nvls", "Simple", 3973),
        # By hand: ring of 360 GB/s; six rings of 20; 32 heads of 20 x 0.74 x 31/32 x 2; 8 x 90 x 0.74 x 7/8 x 2.
        ("dgx-h100:1,switches=plain", GIB, "ring", "Simple", 8.4 + 14 * 3.4 + GIB / (1000 * 360 * 8 / 14)),
        ("dgx-v100", GIB, "ring", "Simple", 8.4 + 14 * 3.4 + GIB / (1000 * 120 * 8 / 14)),
        ("gb200-nvl72:1", GIB, "nvls", "Simple", 25 + GIB / (1000 * 32 * 20 * 0.74 * 31 / 32 * 2 * 72 / 142)),
        ("dgx-b200:1", GIB, "nvls", "Simple", 25 + GIB / (1000 * 8 * 90 * 0.74 * 7 / 8 * 2 * 8 / 14)),
        # Two boxes: eight channels of 57.7, 16 ranks, one hop; more: 45.5, the cap of NVLSTree.
        ("dgx-h100:2", GIB, "nvls_tree", "Simple", 25 + 2 * 20.9 + GIB / (1000 * 8 * 57.7 * 16 / 30)),
        ("dgx-h100:8", GIB, "nvls_tree", "Simple", 25 + 6 * 20.9 + GIB / (1000 * 8 * 45.5 * 64 / 126)),
        ("dgx-h100:8,switches=rail:in-tree", GIB, "nvls", "Simple", 25 + 18 + GIB / (1000 * 8 * 48 * 64 / 126)),
        # Three boxes of four NICs: four channels of 24; steps in the box cost 3 x 2 us of an AMD processor.
        ("dgx-a100:3,nics=4", GIB, "ring", "Simple", (8.4 + 42 * 6 + 4 * 14) * 1.4 + GIB / (1000 * 96 * 24 / 46)),
        ("dgx-a100:64", 1024, "tree", "LL", 6.8 + 2 * (7 * 0.6 + 6 * 5) + 1024 / (1000 * 19 * 0.9 / 2)),
    ],
)
def test_what_nccl_chooses(cluster: str, bytes: int, algorithm: str, protocol: str, time_us: float) -> None:
    choice = nccl.choose(Cluster.parse(cluster), "all-reduce", bytes)
    assert (choice.algorithm, choice.protocol) == (algorithm, protocol)
    assert choice.time_us == pytest.approx(time_us, rel=0.005)
    factor = nccl.bus_factor("all-reduce", Cluster.parse(cluster).ranks)
    assert choice.bus_gb_per_s == pytest.approx(factor * bytes / (1000 * choice.time_us))


@pytest.mark.parametrize(
    ("collective", "time_us"),
    [
        ("all-gather", 8.4 + 7 * 3.4 + GIB / (1000 * 360 * 8 / 7)),
        ("reduce-scatter", 8.4 + 7 * 3.4 + GIB / (1000 * 360 * 8 / 7)),
        ("broadcast", 8.4 + 3.4 + GIB / (1000 * 360)),
        ("reduce", 8.4 + 3.4 + GIB / (1000 * 360)),
    ],
)
def test_other_collectives_are_rings(collective: str, time_us: float) -> None:
    choice = nccl.choose(Cluster.parse("dgx-h100:1"), collective, GIB)
    assert choice.algorithm == "ring"
    assert choice.time_us == pytest.approx(time_us)


def test_pat_needs_one_gpu_a_box_and_collnet_needs_sharp() -> None:
    def known(cluster: Cluster, collective: str) -> set[str]:
        return {each.algorithm for each in nccl.choices(cluster, collective, MIB)}

    boxes = Cluster.parse("dgx-h100:16")
    assert known(boxes.group(1, 16), "all-gather") == {"ring", "pat"}
    assert known(boxes, "all-reduce") == {"ring", "tree", "nvls_tree"}
    sharp = Cluster.parse("dgx-h100:16,switches=rail:in-tree")
    assert known(sharp, "all-reduce") == {"ring", "tree", "nvls", "nvls_tree", "collnet_direct", "collnet_chain"}
    assert known(sharp, "all-gather") == {"ring", "nvls", "collnet_direct"}


@pytest.mark.parametrize(
    ("cluster", "bytes", "protocol", "time_us"),
    [
        ("mi300x:1", 1024, "LL", 12 + 14 * 0.8 + 1024 / (1000 * 336 * 0.08 * 8 / 14)),
        ("mi300x:1", GIB, "Simple", 17 + 14 * 2.1 + GIB / (1000 * 336 * 8 / 14)),
        ("mi300x:2", 4 * GIB, "Simple", 17 + 28 * 6 + 2 * 320 + 4 * GIB / (1000 * 336 * 16 / 30)),
    ],
)
def test_what_rccl_chooses(cluster: str, bytes: int, protocol: str, time_us: float) -> None:
    choice = rccl.choose(Cluster.parse(cluster), "all-reduce", bytes)
    assert (choice.algorithm, choice.protocol) == ("ring", protocol)
    assert choice.time_us == pytest.approx(time_us)


@pytest.mark.parametrize("kind", MACHINES)
def test_more_bytes_never_take_less_at_large_sizes(kind: str) -> None:
    """Of NCCL: RCCL's corrections jump. And all times are numbers, on one box and on several."""
    for boxes in (1, 2, 3, 64)[: MACHINES[kind].most_boxes]:
        cluster, model = Cluster.parse(f"{kind}:{boxes}"), rccl if kind.startswith("mi") else nccl
        if kind == "mi250":
            with pytest.raises(antiphon.AntiphonError, match="modelled for mi300x"):
                model.choose(cluster, "all-reduce", MIB)
            continue
        for collective in nccl.COLLECTIVES:
            times = []
            for exponent in range(34):
                found = model.choices(cluster, collective, 1 << exponent)
                assert all(0 < each.time_us < math.inf and each.channels > 0 for each in found)
                times.append(found[0].time_us)
            assert model is rccl or times[-10:] == sorted(times[-10:])


@pytest.mark.parametrize(
    "spec", ["dgx-a100:2", "dgx-h100:2", "dgx-h100:3", "dgx-h100:64", "dgx-b200:2", "gb200-nvl72:2"]
)
def test_no_large_size_is_faster_than_nics(spec: str) -> None:
    """What leaves a box: all data twice but for the box's own share, once if switches between boxes add."""
    for nics, switches in itertools.product((1, 2, 4, 8), ("nvs:on-read", "rail:in-tree")):
        cluster = Cluster.parse(f"{spec},nics={nics},switches={switches}")
        share = 1 if cluster.sharp else 2 * (cluster.boxes - 1) / cluster.boxes
        least_us = share * 8 * GIB / (1000 * nics * cluster.nic_raw_gb_per_s)
        assert expected(cluster, "all-reduce", 8 * GIB).time_us >= least_us


def test_the_largest_cluster_takes_no_time() -> None:
    start, cluster = time.perf_counter(), Cluster.parse("dgx-h100:16384")
    assert cluster.ranks == 131_072
    assert all(expected(cluster, "all-reduce", 1 << each).time_us > 0 for each in range(10, 34))
    assert time.perf_counter() - start < 0.5


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("mesh:4x4", "no cluster that libraries are modelled on; known: dgx-v100"),
        ("dgx-h100:16385", "1 to 16,384 boxes"),
        ("dgx-h100:0", "1 to 16,384 boxes"),
        ("dgx-v100:2", "1 to 1 boxes"),
        ("dgx-h100:2,drop=0-1", "'drop=0-1' is nothing that a library's model knows"),
        ("dgx-h100:2@50", "'2@50' is nothing"),
        ("dgx-h100:2,nics=3", "'nics=3'"),
        ("dgx-h100:2,rails=leaf-spine,ratio=0", "'ratio=0'"),
        ("fugaku:2x2", "write fugaku:XxYxZ"),
        ("fugaku:99999x99999x99999", "1 to 131,072 nodes"),
    ],
)
def test_clusters_that_are_refused(spec: str, says: str) -> None:
    with pytest.raises(antiphon.AntiphonError, match=says):
        Cluster.parse(spec)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda h: nccl.choices(h, "all-to-all", MIB), "no library's model covers all-to-all"),
        (lambda h: nccl.choices(h, "all-reduce", 0), "bytes is 0"),
        (lambda h: nccl.choices(h.group(1), "all-reduce", MIB), "one GPU moves nothing"),
        (lambda h: h.group(9), "not 1 of 9"),
        (lambda h: Cluster.parse("dgx-v100").group(3), "rings of 3"),
        (lambda h: Cluster.of(antiphon.Fabric("dgx-h100:2").group([0, 1, 8])), "equal shares of boxes"),
        (lambda h: nccl.choices(Cluster.parse("mi300x"), "all-reduce", 1), "ask for the library rccl"),
        (
            lambda h: nccl.choices(Cluster.parse("dgx-h100:64,rails=leaf-spine,ratio=999"), "all-reduce", 1),
            "NICs are slower",
        ),
        (lambda h: expected(h, "all-reduce", MIB, "mpi"), "no library 'mpi'"),
        (lambda h: tuner_rows(h, "all-reduce", [MIB], ["combs"]), "NCCL does not know combs"),
        (lambda h: tuner_rows(h, "all-gather", [MIB], ["tree"]), "no all-gather by tree"),
    ],
)
def test_what_is_refused(call: Any, says: str) -> None:
    with pytest.raises(antiphon.AntiphonError, match=says):
        call(Cluster.parse("dgx-h100:1"))


def test_rows_of_the_tuner_are_those_of_the_plugin() -> None:
    cluster = Cluster.parse("dgx-h100:1").group(4)
    rows = tuner_rows(cluster, "all-reduce", [1 << each for each in range(10, 34)])
    lines = [line for line in tuner_csv(cluster, "all-reduce", rows).splitlines() if not line.startswith("#")]
    cells = list(csv.reader(io.StringIO("\n".join(lines))))
    assert cells[0] == ["allreduce", "1024", "4194303", "ring", "ll", "-1", "1", "4", "-1", "-1"]
    assert [row[3:5] for row in cells] == [["ring", "ll"], ["nvls", "simple"], ["nvls", "simple"]]
    assert [int(row[1]) for row in cells[1:]] == [int(row[2]) + 1 for row in cells[:-1]]  # no gap, no overlap
    assert [row.changes for row in rows] == [False, True, True]
    assert all(0 < row.gain < 0.1 for row in rows if row.changes)
