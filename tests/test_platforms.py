"""Systems of one's own: files, quantities with units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.errors import AntiphonError
from antiphon.platforms import parameter_names, read_system


@pytest.mark.parametrize(
    ("change", "key", "value"),
    [
        ({"link_rate": "50GB/s"}, "link_rate_gb_per_s", 50),
        ({"link_rate": "400 Gb/s"}, "link_rate_gb_per_s", 50),
        ({"link_rate": "400Gbit/s"}, "link_rate_gb_per_s", 50),
        ({"link_rate": "1GiB/s"}, "link_rate_gb_per_s", 1.073741824),
        ({"link_rate_gb_per_s": "50GB/s"}, "link_rate_gb_per_s", 50),
        ({"link_rate_gb_per_s": "50"}, "link_rate_gb_per_s", 50),
        ({"link_latency": "1.5us"}, "link_latency_ns", 1500),
        ({"link_latency": "1.5µs"}, "link_latency_ns", 1500),
        ({"router_hand_off": "3e-9s"}, "router_hand_off_ns", 3),
        ({"link_latency": "0"}, "link_latency_ns", 0),
        ({"packet_payload": "4KiB"}, "packet_payload_bytes", 4096),
        ({"reduce_rate_gb_per_s": "inf"}, "reduce_rate_gb_per_s", float("inf")),
        ({"fixed_size_packets": True}, "fixed_size_packets", True),
        ({"interfaces": 3}, "interfaces", 3),
    ],
)
def test_quantities_have_units(change: dict[str, Any], key: str, value: Any) -> None:
    assert getattr(read_system("generic", change), key) == value
    assert next(iter(change)) in parameter_names()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"link_rate": "50"}, "no parameter 'link_rate'; did you mean 'link_rate_gb_per_s'?"),
        ({"link_rate": 50}, "did you mean 'link_rate_gb_per_s'?"),
        ({"link_rate": "50us"}, "link_rate=50us: no unit 'us'; known: B/s"),
        ({"link_rate": "0"}, "link_rate_gb_per_s=0; expected a number from 1e-9 to 1e9 GB/s"),
        ({"link_rate": 0.0}, "link_rate_gb_per_s=0; expected a number from 1e-9 to 1e9 GB/s"),
        ({"link_latency": "-1ns"}, "link_latency_ns=-1; expected a number from 0 to"),
        ({"link_rate": "9e999GB/s"}, "expected a number from 1e-9 to 1e9 GB/s"),
        ({"link_latency": "1.5 parsec"}, "no unit 'parsec'; known: ps, ns, us, µs, ms, s"),
        ({"link_rate": "1GB/s", "link_rate_gb_per_s": 1}, "'link_rate_gb_per_s' is given twice"),
        ({"clock_ns": []}, "clock_ns is neither text nor a number"),
        ({"name": 3}, ""),
    ],
)
def test_quantities_that_mean_nothing(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((AntiphonError, TypeError)) as refused:
        read_system("generic", changes)
    assert message in str(refused.value)


def test_a_file_is_a_preset_and_what_is_different(commands: Any, tmp_path: Path) -> None:
    toml, json = tmp_path / "own.toml", tmp_path / "own.json"
    toml.write_text('preset = "tto"\nname = "mine"\nlink_rate = "100GB/s"')
    json.write_text('{"preset": "tto", "name": "mine", "link_rate_gb_per_s": 100}')
    expected = antiphon.System("tto").with_(name="mine", link_rate_gb_per_s=100)
    assert read_system(str(toml)) == read_system(str(json)) == expected
    json.write_text(expected.to_json())
    assert read_system(str(json)) == expected
    run = ("bound", "ring:4", "--system")
    assert commands.document(*run, toml)["system"] == "mine"
    changed = commands.document(*run, toml, "--set", "link_rate=50GB/s")
    assert changed["system"] == "mine, link_rate=50GB/s"
    assert changed["lower_bound_ns"] > commands.document(*run, toml)["lower_bound_ns"]
    assert "mine" in commands.invoke("systems", toml).stdout
    toml.write_text("")
    assert read_system(str(toml)) == antiphon.System().with_(name=str(toml))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("own.toml", "preset = ", "own.toml: Invalid value"),
        ("own.json", "{", "own.json: Expecting"),
        ("own.json", "[" * 100_000, "own.json: "),
        ("own.json", "[]", "own.json: is no table of parameters"),
        ("own.toml", "preset = 3", "own.toml: preset is 3; give the name of a preset"),
        ("own.toml", 'preset = "ttо"', "own.toml: no system"),
        ("own.toml", "link_rat = 3", "own.toml: a system has no parameter 'link_rat'"),
        ("own.json", '{"link_rat": 3}', "own.json: "),
    ],
)
def test_files_that_mean_nothing(commands: Any, tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    assert message in commands.refused("bound", "ring:4", "--system", tmp_path / name)
    assert "cannot be read: No such file" in commands.refused("bound", "ring:4", "--system", "none.toml")


def test_a_run_says_its_protocol() -> None:
    fabric = antiphon.Fabric("dgx-a100:1@240")
    for size, protocol in (("1KiB", "ll"), ("8MiB", "ll128"), ("256MiB", "simple")):
        run = antiphon.run(fabric, antiphon.build(fabric, "ring", bytes=size, system="a100-nccl"), system="a100-nccl")
        assert run.to_dict()["protocol"] == run.result.protocol == protocol
        assert 0 < run.bound.time_ns <= run.time_ns
    schedule = antiphon.build(fabric, "ring", bytes="1KiB")
    assert "protocol" not in antiphon.run(fabric, schedule).to_dict()
    late = antiphon.simulate(fabric, schedule, read_system("a100-nccl", {"launch_ns": "27us"}))
    early = antiphon.simulate(fabric, schedule, "a100-nccl")
    assert late.time_ns == pytest.approx(early.time_ns + 27_000)
    flights = antiphon.simulate_flights(fabric, [antiphon.Flight(schedule)] * 2, "a100-nccl")
    assert flights.to_dict()["protocol"] == "ll"
    with pytest.raises(AntiphonError, match="give it one, such as protocols=simple:8400:3400:1"):
        antiphon.train("resnet50", fabric, "ring", overlap="layerwise", in_flight="shared", system="a100-nccl")


def rows_of_protocols() -> list[list[str]]:
    """Rows of docs/reference/simulation.md: GPU, size, protocol, ours, and of each table what was measured."""
    text = (Path(__file__).parents[1] / "docs" / "reference" / "simulation.md").read_text()
    rows = text.partition("<!-- protocols -->")[2].partition("<!-- end of protocols -->")[0].splitlines()
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row.startswith("| ")][1:]


@pytest.mark.parametrize("row", rows_of_protocols()[::2], ids=" ".join)
def test_times_in_the_documentation(row: list[str]) -> None:
    gpu, size, ring, optimal, *measured = row
    fabric = antiphon.Fabric({"A100": "dgx-a100:1", "H100": "dgx-h100:1"}[gpu])
    (system, bytes_), times = (f"{gpu.lower()}-nccl", size.replace(" ", "")), []
    for algorithm, cell in (("ring", ring), ("optimal", optimal)):
        schedule = antiphon.build(fabric, algorithm, bytes=bytes_, system=system)
        result = antiphon.simulate(fabric, schedule, system)
        times.append(result.time_ns / 1e3)
        assert cell == f"{times[-1]:,.1f} {result.protocol}"
    for each in filter(None, measured):
        time_us, error = each.rstrip(")").split(" (")
        assert error == f"{times[0] / float(time_us.replace(',', '')) - 1:+.0%}"
