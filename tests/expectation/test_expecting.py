"""Verdicts on logs, faults, bounds: healthy logs are good, and each fault's log names it."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import expect_table
import pytest
from library_table import measured
from logged import log_text

import antiphon
from antiphon.errors import AntiphonError
from antiphon.expectation.bounds import cuts_us
from antiphon.expectation.causes import FAULTS, RING, faults_of
from antiphon.library.cluster import Cluster
from antiphon.library.measured import expected
from antiphon.results import rows_of

SIZES = [1 << k for k in range(10, 34)]


def judged(tmp_path: Path, cluster: str, text: str, **given: Any) -> antiphon.Expectation:
    log = tmp_path / "a.log"
    log.write_text(text)
    return antiphon.expect(cluster, log=log, **given)


@pytest.mark.parametrize("table", measured(), ids=str)
def test_healthy_logs_are_as_expected_and_above_the_bound(table: tuple[str, int, str], tmp_path: Path) -> None:
    gpu, gpus, _ = table
    times = dict(measured()[table])
    found = judged(tmp_path, f"dgx-{gpu}:1", log_text(times, gpus, gpu=gpu))
    assert (found.verdict, found.slow, found.ranks) == ("as expected", [], gpus)
    assert all(row["bound_us"] < row["measured_us"] for row in found.rows.rows())
    assert found.floor_us == pytest.approx(times[min(times)], rel=1e-3)
    assert found.floor_from == "log"


@pytest.mark.parametrize(
    ("boxes", "bus_gb_per_s", "cause", "slow"),
    [
        (2, 330, "no NVLS", True),  # NVIDIA/nccl issue 1221: NCCL_NVLS_ENABLE=0
        (2, 430, "one plane of a rail", False),  # the same, healthy: 7 % below what is expected is no verdict
        (1, 480, None, False),  # issue 1455
        (1, 367, "no NVLS", True),  # the same by rings
        (1, 900, None, False),  # more than is expected
        (1, 5, None, True),  # no single fault
    ],
)
def test_stated_bandwidths(boxes: int, bus_gb_per_s: float, cause: str | None, slow: bool, tmp_path: Path) -> None:
    ranks = 8 * boxes
    times = {size: size * 2 * (ranks - 1) / ranks / bus_gb_per_s / 1e3 for size in (1 << 32, 1 << 33)}
    found = judged(tmp_path, f"dgx-h100:{boxes}", log_text(times, ranks, boxes))
    assert (found.causes["fault"].tolist()[:1], bool(found.slow)) == ([cause] if cause else [], slow)
    assert "the launch floor is the library's" in found.notes[0]


@pytest.mark.parametrize(
    "cluster", ["dgx-h100:1", "dgx-a100:1", "dgx-h100:2", "dgx-h100:4", "dgx-a100:8", "dgx-h100:64"]
)
def test_the_log_of_each_fault_names_it_first_or_second(cluster: str, tmp_path: Path) -> None:
    box = Cluster.parse(cluster)
    floor_us = 31.0
    whole = {size: expected(box, "all-reduce", size, floor_us=floor_us).time_us for size in SIZES}
    faults = faults_of(box, "all-reduce", "nccl", floor_us, whole)
    assert set(faults) <= {*FAULTS, RING}
    assert len(faults) >= 2
    for fault, curves in faults.items():
        for curve in curves:
            noisy = {size: us * (1 + 0.01 * math.sin(7 * place)) for place, (size, us) in enumerate(curve.items())}
            found = judged(tmp_path, cluster, log_text(noisy, box.ranks, box.boxes, box.gpu))
            assert fault in found.causes["fault"].tolist()[:2], (fault, found.causes.rows())


def switched(fabric: str, mode: str) -> antiphon.Fabric | None:
    """The fabric with switches that only forward, or add on reads; None where it cannot have them."""
    try:
        return antiphon.Fabric(f"{fabric},switches={mode}")
    except AntiphonError:
        return None


def test_bounds_in_closed_form_are_the_exact_ones() -> None:
    for kind, gpu, nic in (("dgx-h100", 450, 50), ("dgx-a100", 300, 25), ("mi300x", 64, 50)):
        for boxes in (1, 2, 3):
            spec = f"{kind}:{boxes}@{gpu}" + f"+{nic}" * (boxes > 1)
            fabric = switched(spec, "plain") or antiphon.Fabric(spec)
            cluster = replace(Cluster.parse(f"{kind}:{boxes}"), nvls=False)
            for collective in antiphon.collectives():
                assert ours_over_exact(fabric, cluster, collective) == pytest.approx(1, rel=1e-6), (spec, collective)


def test_the_bound_of_a_switch_that_reduces() -> None:
    fabric = switched("dgx-h100:1@450", "on-read")
    if fabric is None:
        pytest.skip("no switch reduces in this core")
    assert ours_over_exact(fabric, Cluster.parse("dgx-h100:1"), "all-reduce") == pytest.approx(1, rel=1e-6)


def ours_over_exact(fabric: antiphon.Fabric, cluster: Cluster, collective: str) -> float:
    _, exact_ns = antiphon.lower_bound(fabric, collective, 1 << 30, "ideal").by_rates
    return max(cuts_us(cluster, collective, 1 << 30).values()) * 1e3 / exact_ns


def test_faults_of_links_are_what_simulated_rings_lose() -> None:
    [slow, whole] = [
        antiphon.simulate(fabric, antiphon.build(fabric, "ring", bytes=1 << 30), "ideal", "alpha-beta").time_ns
        for fabric in (antiphon.Fabric("switch:8@450,slow=0-8:0.944"), antiphon.Fabric("switch:8@450"))
    ]
    box = replace(Cluster.parse("dgx-h100:1"), nvls=False)
    worse = FAULTS["a GPU link down"](box)
    assert worse is not None
    ratio = max(cuts_us(worse, "all-reduce", 1 << 30).values()) / max(cuts_us(box, "all-reduce", 1 << 30).values())
    assert ratio == pytest.approx(slow / whole, rel=5e-3)


def test_a_lost_nic_is_what_the_exact_bound_loses() -> None:
    spec = "dgx-a100:3@300+25"
    fabric = switched(spec, "plain") or antiphon.Fabric(spec)
    nic = next(link for link in rows_of(fabric.links) if link["from"] == 0 and link["rate_gb_per_s"] == 25)
    worse = FAULTS["one NIC or rail lost"](Cluster.parse("dgx-a100:3"))
    assert worse is not None
    lost = antiphon.Fabric(f"{fabric.name},drop=0-{nic['to']}")
    assert ours_over_exact(lost, worse, "all-gather") == pytest.approx(1, rel=1e-6)


def test_large_clusters_take_no_longer() -> None:
    begin = time.perf_counter()
    assert antiphon.expect("dgx-h100:8").ranks == 64
    assert antiphon.expect("dgx-h100:16384").ranks == 131_072
    assert time.perf_counter() - begin < 4


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    rows = log_text({1 << 30: 4000.0, 1 << 20: 45.0}, 8)
    for cluster, text, note in (
        ("dgx-a100:1", rows, "the log is of NVIDIA H100 80GB HBM3"),
        ("dgx-h100:1", log_text({1 << 30: 4000.0}, 16, 2), "the log is of 16 GPUs on 2 hosts, dgx-h100:1 has 8 on 1"),
        ("dgx-h100:2", rows, "the log is of 8 GPUs on 1 host: expected of as many"),
        ("dgx-h100:1", "\n".join(rows.splitlines()[-2:]), "does not say how many GPUs"),
        ("dgx-h100:1", rows + log_text({1 << 30: 5000.0}, 4), "the log has runs on 4, 8 GPUs"),
        ("dgx-h100:1", log_text({1 << 20: 45.0}, 8), "nothing is said of causes"),
    ):
        assert any(note in each for each in judged(tmp_path, cluster, text).notes), note


def test_sizes_that_were_not_measured_are_expected_and_runs_are_averaged(tmp_path: Path) -> None:
    text = "".join(log_text({1 << 30: us}, 8) for us in (4000.0, 4100.0, 9000.0))
    rows = judged(tmp_path, "dgx-h100:1", text, sizes="512MiB,1GiB").rows.rows()
    assert [row["measured_us"] for row in rows][1:] == [4100.0]
    assert math.isnan(rows[0]["measured_us"])
    assert rows[0]["verdict"] == "link-limited"


@pytest.mark.parametrize(
    ("cluster", "given", "text", "message"),
    [
        ("mesh:4x4", {}, None, "no cluster that libraries are modelled on"),
        ("dgx-h100:1", {"library": "mpi"}, None, "no library 'mpi'; known: nccl, rccl, none"),
        ("dgx-h100:1", {"sizes": "1KiB..1"}, None, "the first is larger"),
        ("dgx-h100:1", {"sizes": []}, None, "give 1 to 4,096 sizes"),
        ("dgx-h100:1", {"collective": "gossip"}, None, "gossip"),
        ("dgx-h100:1", {"system": "tto"}, None, "has no protocols"),
        ("dgx-v100:1", {"collective": "all-to-all"}, None, "pairs share links"),
        (
            "dgx-h100:1",
            {"collective": "broadcast"},
            log_text({1 << 30: 4e3}, 8),
            "has runs of all-reduce, not of broadcast",
        ),
        ("dgx-h100:1", {}, log_text({1 << 30: 4e3}, 8).replace("all_reduce", "all_gather"), "busbw is 1.750 of algbw"),
        ("dgx-h100:1", {}, log_text({1 << 30: 4e3}, 1), "built without MPI=1"),
        (
            "dgx-h100:1",
            {},
            log_text({1 << 30: 4e3}, 8) + log_text({1 << 30: 4e3}, 8).replace("all_r", "r"),
            "say which",
        ),
    ],
)
def test_refusals(cluster: str, given: dict[str, Any], text: str | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(AntiphonError, match=message) as error:
        antiphon.expect(cluster, **given) if text is None else judged(tmp_path, cluster, text, **given)
    assert "\n" not in str(error.value)


def test_the_table_of_the_page_is_current() -> None:
    text = expect_table.PAGE.read_text("utf-8")
    assert text == expect_table.page(text), "run make tables"
