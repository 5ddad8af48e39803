"""What limits a collective: each thing made twice as good, by hand and by ``limits``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.errors import AntiphonError
from antiphon.view.documents.limits import limits_document
from antiphon.view.text import bound_names, limit_text

THINGS = {"rates", "latency", "endpoint", "computation"}


def twice(system: antiphon.System, name: str) -> antiphon.System:
    """A system where this is twice as good, on fabrics whose links have no rates of their own."""
    changed: dict[str, Any] = {
        "rates": {"link_rate_gb_per_s": 2 * system.link_rate_gb_per_s},
        "latency": {
            "link_latency_ns": system.link_latency_ns / 2,
            "hand_off_ns": system.hand_off_ns / 2,
            "router_hand_off_ns": system.router_hand_off_ns / 2,
            "router_clock_ns": system.router_clock_ns / 2,
        },
        "endpoint": {
            "interfaces": 2 * system.interfaces,
            "interface_issue_ns": system.interface_issue_ns / 2,
            "interface_depth_packets": 2 * system.interface_depth_packets,
        },
        "computation": {"reduce_rate_gb_per_s": 2 * system.reduce_rate_gb_per_s},
    }
    return system.with_(**changed[name])


@pytest.mark.parametrize("fidelity", ["alpha-beta", "packet", "flit"])
@pytest.mark.parametrize(("fabric", "algorithm"), [("mesh:2x4", "ring-bi"), ("switch:4", "direct")])
def test_it_is_what_the_same_schedule_takes_where_that_is_twice_as_good(
    fabric: str, algorithm: str, fidelity: str
) -> None:
    system = antiphon.System("tto").with_(link_latency_ns=20, reduce_rate_gb_per_s=64, interface_issue_ns=8)
    schedule = antiphon.build(fabric, algorithm, bytes="256KiB", system=system)
    [size] = antiphon.limits(fabric, system=system, fidelity=fidelity, schedule=schedule)
    assert {each.name for each in size.limits} == THINGS
    assert size.time_ns == antiphon.simulate(fabric, schedule, system, fidelity).time_ns
    for each in size.limits:
        again = antiphon.simulate(fabric, schedule, twice(system, each.name), fidelity)
        assert (each.time_ns, each.saved) == (again.time_ns, 1 - again.time_ns / size.time_ns), each.name
    saved = [each.saved for each in size.limits]
    assert saved == sorted(saved, reverse=True)
    assert size.limit.saved > 0.05


FABRICS = {
    "mesh:4x4": "generic",
    "torus:4x4": "generic",
    "mesh:3x3": "tto",
    "ring:8": "ideal",
    "fbfly:4x4": "generic",
    "switch:8": "generic",
    "fc:8": "ideal",
    "hypercube:3": "generic",
    "dgx-h100:1": "h100-nccl",
    "dgx1v": "dgx1",
}


def test_the_limit_is_right_by_removing_it() -> None:
    for fabric, system in FABRICS.items():
        sizes = "1KiB,1GiB" if fabric in ("mesh:4x4", "switch:8") else "1KiB"
        found = antiphon.limits(fabric, sizes=sizes, system=system, algorithms="ring,dbtree", jobs=1)
        _is_right(found)
        small = found["1KiB"]
        # Links of tto have no latency: a packet of 8 KiB for each message decides.
        assert small.limit.name == ("rates" if system == "tto" else "latency"), (fabric, small)
        assert sizes == "1KiB" or found["1GiB"].limit.name == "rates"


@pytest.mark.slow
@pytest.mark.parametrize("fabric", FABRICS)
def test_the_limit_is_right_from_1_kib_to_1_gib(fabric: str) -> None:
    algorithms = "ring,dbtree,direct,optimal"
    found = antiphon.limits(fabric, algorithms=algorithms, sizes="1KiB,32KiB,1MiB,32MiB,1GiB", system=FABRICS[fabric])
    _is_right(found)
    # Switches of NVLS add more slowly than links bring data.
    assert found["1GiB"].limit.name == ("computation" if fabric == "dgx-h100:1" else "rates")


def _is_right(found: antiphon.Limits) -> None:
    """What is named saves more than all else, and much; and the bound moves with what it is by."""
    for size in found:
        others = max(each.saved for each in size.limits[1:])
        assert size.limit.saved >= max(others, 0.05), (found.fabric, size)
        assert size.bound.time_ns <= min(size.time_ns, *(2 * each.time_ns for each in size.limits))
        if size.lower_bound_by == "rates":
            assert size.bound.time_ns == size.rates_bound_ns
    smallest = found.sizes[0]
    if smallest.lower_bound_by == "latency" and found.system.name in ("generic", "ideal"):
        relieved = twice(found.system, "latency")
        less = antiphon.lower_bound(found.fabric, bytes=smallest.bytes, system=relieved, fidelity=found.fidelity)
        assert less.time_ns < smallest.bound.time_ns


def test_additions_and_endpoints_limit() -> None:
    slow = antiphon.System("ideal").with_(reduce_rate_gb_per_s=1)
    found = antiphon.limits("ring:4", sizes="64MiB", algorithms="ring", system=slow)["64MiB"]
    assert (found.limit.name, found.lower_bound_by, found.limit.saved > 0.4) == ("computation", "computation", True)
    # Three quarters of the buffer are added by every rank.
    assert found.bound.computation_ns == found.bound.time_ns == 0.75 * (64 << 20)
    for endpoint in ("npu:memory_gb_per_s=4", "ace:memory_gb_per_s=4"):
        system = antiphon.System("ideal").with_(endpoint=endpoint)
        found = antiphon.limits("ring:4", sizes="64MiB", algorithms="ring", system=system)["64MiB"]
        assert (found.limit.name, found.lower_bound_by, found.limit.saved > 0.4) == ("endpoint", "endpoint", True)
        assert found.bound.time_ns > 0.7 * found.time_ns


def test_texts_say_what_binds() -> None:
    def told(bytes: str, **changes: Any) -> tuple[str, str]:
        bound = antiphon.lower_bound("ring:4", bytes=bytes, system=antiphon.System("ideal").with_(**changes))
        return bound_names(bound), limit_text(bound)

    assert told("64MiB")[0] == "strength"
    small = told("64B")
    assert small[0].startswith("latency; by rates")
    assert small[1].startswith("latency, of a packet")
    slow = told("64MiB", reduce_rate_gb_per_s=1)
    assert slow[0].startswith("computation; by rates")
    assert slow[1].startswith("computation, by additions")
    slow = told("64MiB", endpoint="npu:memory_gb_per_s=1")
    assert slow[0].startswith("endpoint; by rates")
    assert slow[1].startswith("endpoints, by what")


def test_the_command(commands: Any, tmp_path: Path) -> None:
    report = tmp_path / "roofline.html"
    sizes = ("--sizes", "1KiB,64MiB", "--algorithms", "ring,dbtree")
    done = commands.invoke("limits", "ring:4", *sizes, "--report", str(report), "--json")
    document = json.loads(done.stdout)
    first, last = document["sizes"]
    assert (first["limit"], last["limit"]) == ("latency", "rates")
    assert document["changes"] == [{"bytes": 64 << 20, "from": "latency", "to": "rates"}]
    assert {each["name"] for each in first["limits"]} == THINGS
    page = report.read_text("utf-8")
    for text in ("The limit is latency at 1KiB, rates from 64MiB on", "bound by latency", "limited by rates"):
        assert text in page
    shown = commands.invoke("limits", "ring:4", *sizes, "--format", "markdown").stdout
    assert "From 64MiB on: rates limits, no longer latency" in shown
    assert len(commands.invoke("limits", "ring:4", *sizes, "--format", "csv").stdout.splitlines()) == 3
    file = tmp_path / "ring.json"
    file.write_text(antiphon.build("ring:4", "ring", bytes="1MiB").to_json(), "utf-8")
    [only] = json.loads(commands.invoke("limits", "ring:4", "--schedule", str(file), "--json").stdout)["sizes"]
    assert (only["algorithm"], only["bytes"]) == ("ring", 1 << 20)
    wrong = commands.invoke("limits", "ring:4", "--schedule", str(file), "--sizes", "1KiB")
    assert wrong.exit_code != 0
    assert "leave out sizes and algorithms" in wrong.output


def test_what_binds_together_is_said() -> None:
    """Pieces so small that hand-offs take as long as links: neither alone saves much."""
    schedule = antiphon.build("dgx1v", "optimal:piece=6KiB", bytes="256MiB", system="dgx1")
    found = antiphon.limits("dgx1v", system="dgx1", schedule=schedule)
    assert 0 < found["256MiB"].limit.saved < 0.1
    assert "At 256MiB no thing alone saves a tenth" in str(limits_document(found))
    other = antiphon.limits("ring:4", sizes="64MiB", algorithms="ring", fidelity="alpha-beta")
    assert "saves a tenth" not in str(limits_document(other))


def test_mistakes_are_named() -> None:
    with pytest.raises(AntiphonError, match="2KiB was not timed; there are: 1KiB"):
        antiphon.limits("ring:4", sizes="1KiB", algorithms="ring", fidelity="alpha-beta")["2KiB"]
    with pytest.raises(AntiphonError, match="time limit"):
        antiphon.limits("ring:4", sizes="1KiB", time_limit_s=1e-9)
