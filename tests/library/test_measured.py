"""What runs reach, against tables that were measured: tolerances are those of issue 55."""

from __future__ import annotations

import library_table
import pytest
from library_table import errors, fugaku, measured, stated

from antiphon.library.cluster import Cluster
from antiphon.library.measured import expected, nvls_gb_per_s

GREATEST = {"1 GiB and more": 5.0, "from 64 MiB": 16.0}
MEAN = {"from 64 MiB": 5.0, "1 to 64 MiB": 18.0, "below": 25.0}
NDV4 = {"1 to 64 MiB": 30.0, "below": 35.0}


@pytest.mark.parametrize("table", [each for each in measured() if each[1] == 8 and each[0] != "v100"], ids=str)
def test_boxes_of_eight(table: library_table.Table) -> None:
    for band, found in errors(table).items():
        sizes = [abs(error) for error in found]
        assert max(sizes) <= GREATEST.get(band, 100), band
        assert sum(sizes) / len(sizes) <= (NDV4 if table[2] == "NDv4" else MEAN).get(band, 100), band


@pytest.mark.parametrize("table", [("a100", 4, "vTrain"), ("v100", 4, "vTrain"), ("v100", 8, "vTrain")], ids=str)
def test_other_boxes_at_one_gib(table: library_table.Table) -> None:
    assert max(map(abs, errors(table)["1 GiB and more"])) <= 10


def test_figures_that_people_state() -> None:
    """NVLS on four to eight GPUs within 3 %; without it, and between boxes, within 10 %; the docs have worse."""
    worse = {("dgx-a100:3,nics=4", 24), ("gb200-nvl72:20", 1440)}
    for row, found in stated():
        cluster, rate = Cluster.parse(row["cluster"]), float(row["bus_gb_per_s"])
        if (row["cluster"], cluster.ranks) not in worse:
            limit = 0.03 if found.algorithm == "nvls" else 0.1
            assert rate / found.bus_gb_per_s == pytest.approx(1, abs=limit), row


def test_eight_nodes_of_fugaku() -> None:
    found = list(fugaku())
    assert [each[1] for each in found] == ["all-gather", "all-reduce"]
    assert all(each.time_us == pytest.approx(us, rel=0.08) for _, _, us, each in found)


def test_nvls_is_the_2k_form() -> None:
    """Bus bandwidth 2 K (n - 1) / (n + 1); with fewer than four GPUs rings are faster."""
    for gpus, algorithm in ((2, "ring"), (3, "ring"), (4, "nvls"), (8, "nvls")):
        found = expected(Cluster.parse("dgx-h100:1").group(gpus), "all-reduce", 64 << 30)
        assert (gpus, found.algorithm) == (gpus, algorithm)
    found = expected(Cluster.parse("h800:1"), "all-reduce", 64 << 30)
    assert found.bus_gb_per_s == pytest.approx(2 * 200 * 308 / 450 * 7 / 9, rel=0.01)
    assert nvls_gb_per_s(308, 8) * 14 / 8 == pytest.approx(479.1, abs=0.1)


def test_the_floor_hides_what_is_short() -> None:
    box = Cluster.parse("dgx-a100:1")
    assert expected(box, "all-reduce", 1024, floor_us=90).time_us == 90
    large = [expected(box, "all-reduce", 1 << 30, floor_us=floor).time_us for floor in (None, 90.0)]
    assert large[0] == large[1]


def test_the_tables_of_the_page_are_current() -> None:
    text = library_table.PAGE.read_text("utf-8")
    assert text == library_table.page(text), "run make tables"
