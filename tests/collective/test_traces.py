"""Traces of runs: files in Chrome's trace event format."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon import AntiphonError, Flight

METADATA = {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def tracks(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The events of each track by its name, with the rules of the format checked."""
    document = json.loads(path.read_text())
    names: dict[tuple[int, int], str] = {}
    processes: dict[int, str] = {}
    events: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in document["traceEvents"]:
        track = (event["pid"], event["tid"])
        assert all(type(number) is int for number in track)
        if event["ph"] == "M":
            assert event["name"] in METADATA
            if event["name"] == "thread_name":
                assert track not in names
                names[track] = event["args"]["name"]
            if event["name"] == "process_name":
                processes[event["pid"]] = event["args"]["name"]
            continue
        assert event["ph"] in "Xi"
        assert event["ph"] != "i" or (event["s"] == "t" and "dur" not in event)
        assert isinstance(event["ts"], float)
        assert event["ts"] >= 0
        assert event.get("dur", 0.0) >= 0
        assert event["name"]
        assert event["cat"]
        assert names[track].startswith(processes[event["pid"]][:-1])  # rank 3 of ranks
        events[names[track]].append(event)
    for each in events.values():
        for before, after in itertools.pairwise(each):
            assert round((before["ts"] + before.get("dur", 0)) * 1e6) <= round(after["ts"] * 1e6) or after["ph"] == "i"
    return events


def busy_ns(events: list[dict[str, Any]]) -> float:
    return float(sum(round(event.get("dur", 0) * 1e6) for event in events)) / 1000


@pytest.mark.parametrize("fidelity", antiphon.fidelities())
def test_a_trace_adds_up(fidelity: str, tmp_path: Path) -> None:
    path = tmp_path / "tto.json"
    schedule = antiphon.build("mesh:3x3", "tto", bytes="288KiB", system="tto")
    traced = antiphon.run("mesh:3x3", schedule, "tto", fidelity, trace=path)
    plain = antiphon.run("mesh:3x3", schedule, "tto", fidelity)
    assert traced.time_ns == plain.time_ns
    assert traced.result.links == plain.result.links
    events = tracks(path)
    for rank, row in enumerate(plain.result.ranks["reduce_ns"].tolist()):
        assert busy_ns(events[f"rank {rank}"]) == row
    links = {name: busy_ns(each) for name, each in events.items() if name.startswith("link")}
    used = [row for row in plain.result.links["busy_ns"].tolist() if row]
    assert sorted(links.values()) == sorted(used)
    named = {event["name"].partition(":")[0] for name, each in events.items() if name[0] == "l" for event in each}
    assert named == ({"flits"} if fidelity == "flit" else {schedule.algorithm.partition(":")[0]})


def test_commands_write_traces(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    result = call("simulate", "ring:4", "ring", "--bytes", "64KiB", "--trace", path)
    assert result.exit_code == 0
    assert "Trace: " in result.output
    assert len(tracks(path)) == 4 + 4
    flights = tmp_path / "flights.json"
    flights.write_text('[{"algorithm": "ring", "bytes": "64KiB"}, {"algorithm": "ring", "bytes": "4KiB"}]')
    result = call("flights", "ring:4", flights, "--trace", path, "--json")
    assert result.exit_code == 0
    assert json.loads(result.output)["schema"].startswith("antiphon-flights/")
    assert {event["args"]["flight"] for each in tracks(path).values() for event in each} == {0, 1}


def test_what_cannot_be_traced_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    schedule = antiphon.build("mesh:3x3", "tto:chunk=96KiB", bytes="16GiB", system="tto")
    with pytest.raises(AntiphonError, match="a trace has at most 1048576 events") as error:
        antiphon.simulate("mesh:3x3", schedule, "tto", trace=path)
    assert error.value.code == "too-large"
    assert "\n" not in error.value.message
    with pytest.raises(AntiphonError, match=r"must end in \.json"):
        antiphon.simulate_flights("mesh:3x3", [Flight(schedule)], trace=tmp_path / "trace.txt")
    result = call("simulate", "mesh:3x3", "tto", "--groups", "rows", "--trace", path)
    assert result.exit_code != 0
    assert "--trace is for one group" in result.output
    assert list(tmp_path.iterdir()) == []
