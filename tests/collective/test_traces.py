"""Traces of runs: files in Chrome's trace event format."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon import AntiphonError, Flight


def tracks(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The events of each track by its name, with the places of the format checked; the core checks its rules."""
    names: dict[tuple[int, int], str] = {}
    events: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in json.loads(path.read_text())["traceEvents"]:
        track = (event["pid"], event["tid"])
        if event["name"] == "thread_name":
            assert track not in names
            names[track] = event["args"]["name"]
        if event["ph"] == "M":
            continue
        assert event["ph"] in "Xi"
        assert event["ts"] >= 0 <= event.get("dur", 0.0)
        events[names[track]].append(event)
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


def test_commands_write_traces(commands: Any, tmp_path: Path) -> None:
    path, flights = tmp_path / "ring.json", tmp_path / "flights.json"
    result = commands.invoke("simulate", "ring:4", "ring", "--bytes", "64KiB", "--trace", path)
    assert (result.exit_code, "Trace: " in result.output) == (0, True)
    assert len(tracks(path)) == 4 + 4
    flights.write_text('[{"algorithm": "ring", "bytes": "64KiB"}, {"algorithm": "ring", "bytes": "4KiB"}]')
    commands.document("flights", "ring:4", flights, "--trace", path)
    assert {event["args"]["flight"] for each in tracks(path).values() for event in each} == {0, 1}


def test_what_cannot_be_traced_leaves_no_file(commands: Any, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    schedule = antiphon.build("mesh:3x3", "tto:chunk=96KiB", bytes="16GiB", system="tto")
    with pytest.raises(antiphon.TooLarge, match="a trace has at most 1048576 events"):
        antiphon.simulate("mesh:3x3", schedule, "tto", trace=path)
    with pytest.raises(AntiphonError, match=r"must end in \.json"):
        antiphon.simulate_flights("mesh:3x3", [Flight(schedule)], trace=tmp_path / "trace.txt")
    refused = commands.refused("simulate", "mesh:3x3", "tto", "--groups", "rows", "--trace", path)
    assert "--trace is for one group" in refused
    assert list(tmp_path.iterdir()) == []
