"""Several collectives in flight: in Python, from a file, on the command line, in training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon import AntiphonError, Fabric, Flight, build, read_flights, simulate_flights

MESH = Fabric("mesh:4x4")
ROWS_THEN_COLUMNS = [
    {"name": "rows", "algorithm": "combs", "groups": "rows", "bytes": "1MiB"},
    {"algorithm": "combs", "groups": "columns", "bytes": 1 << 20, "after": ["rows"], "priority": 1},
    {"name": "there", "algorithm": "direct", "collective": "broadcast", "root": 1, "group": [5, 0], "bytes": "64KiB"},
    {"algorithm": "direct", "collective": "broadcast", "group": "0,5", "after": ["there", "rows"], "bytes": "64KiB"},
]


def test_one_flight_is_a_run_by_itself() -> None:
    schedule = build(MESH, "tto", bytes="3MiB", system="tto")
    alone = antiphon.simulate(MESH, schedule, "tto")
    one = simulate_flights(MESH, [Flight(schedule)], "tto")
    assert one.result == alone
    late = simulate_flights(MESH, [Flight(schedule, start_ns=5000)], "tto")
    assert late.time_ns == alone.time_ns + 5000
    assert alone.flights["finish_ns"].tolist() == [alone.time_ns]


@pytest.mark.parametrize("fidelity", antiphon.fidelities())
def test_a_file_of_flights(fidelity: str) -> None:
    flights = read_flights(json.dumps(ROWS_THEN_COLUMNS), MESH, "tto")
    assert [len(flight.after) for flight in flights] == [0] * 4 + [4] * 4 + [0, 5]
    run = simulate_flights(MESH, flights, "tto", fidelity, order="priority")
    rows = run.to_dict()["flights"]
    assert [row["group"] for row in rows[:2]] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    last_row = max(row["finish_ns"] for row in rows[:4])
    assert all(row["start_ns"] == last_row for row in rows[4:8])
    assert rows[9]["start_ns"] == max(last_row, rows[8]["finish_ns"])
    assert all(row["time_ns"] >= row["lower_bound_ns"] > 0 for row in rows)
    assert run.time_ns == max(row["finish_ns"] for row in rows)
    assert run.result.proof.complete


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "flights are no JSON"),
        ("[]", "at least one"),
        ('{"flights": []}', "an object of flights has grid and flights"),
        ('{"grid": 4, "flights": [{"algorithm": "ring"}]}', "grid is text"),
        (
            '{"grid": "tp=4,dp=4", "flights": [{"algorithm": "ring", "groups": "pp"}]}',
            "no dimension 'pp'; the grid has tp",
        ),
        ('[{"algorithm": "ring", "groups": "dp of tp=4,dp=5"}]', "the grid has 20 ranks, mesh:4x4 has 16"),
        ("[1]", "flights[0]: it is no object"),
        ('[{"algorithm": "ring", "size": 3}]', "flights[0]: unknown key 'size'; known: name, algorithm"),
        ('[{"bytes": "1MiB"}]', "flights[0]: give either algorithm or schedule"),
        ('[{"algorithm": "rong"}]', "flights[0]: no algorithm 'rong'; did you mean 'ring'"),
        ('[{"algorithm": "direct", "group": "0,99"}]', "rank 99 does not exist"),
        ('[{"algorithm": "direct", "group": [0, -1]}]', "group is a list of ranks"),
        ('[{"algorithm": "direct", "group": "0", "groups": "rows"}]', "give either group or groups"),
        ('[{"algorithm": "direct", "after": ["x"]}]', "it is after 'x', which is no entry before it; known: none"),
        ('[{"algorithm": "direct", "after": "x"}]', "after is a list of names"),
        ('[{"algorithm": "direct", "start_ns": "1"}]', "start_ns is a number"),
        ('[{"algorithm": "direct", "start_ns": -1}]', "start_ns is a number from 0 to 1e+15"),
        ('[{"algorithm": "direct", "start_ns": NaN}]', "NaN is no number of JSON"),
        ('[{"algorithm": "direct", "priority": -1}]', "priority is a whole number"),
        ('[{"algorithm": "direct", "bytes": true}]', "bytes is a size"),
        ('[{"schedule": "none.json"}]', "none.json"),
        ('[{"schedule": "x.json", "bytes": 3}]', "bytes is the schedule's"),
        ('[{"name": "a", "algorithm": "direct"}, {"name": "a", "algorithm": "direct"}]', "name 'a' is there twice"),
    ],
)
def test_bad_files_are_named(text: str, what: str) -> None:
    with pytest.raises(AntiphonError) as error:
        read_flights(text, MESH)
    assert what in str(error.value)
    assert "\n" not in str(error.value)


def test_command_line(commands: Any, tmp_path: Path) -> None:
    file, schedule = tmp_path / "flights.json", tmp_path / "schedule.json"
    file.write_text(json.dumps(ROWS_THEN_COLUMNS))
    document = commands.document("flights", "mesh:4x4", file, "--system", "tto")
    assert document["order"] == "fifo"
    assert [row["name"] for row in document["flights"]] == ["rows"] * 4 + [""] * 4 + ["there", ""]
    assert set(document["tables"]) == {"links", "ranks", "timeline"}
    table = commands.invoke("flights", "mesh:4x4", file, "--order", "lifo").stdout
    assert "10 flights on mesh:4x4" in table
    assert "order lifo" in table
    schedule.write_text("{}")
    for text, why in (
        ('[{"algorithm": "rong"}]', "no algorithm 'rong'"),
        (json.dumps([{"schedule": str(schedule)}]), f"{schedule}: schedule: missing field"),
    ):
        file.write_text(text)
        assert commands.refused("flights", "mesh:4x4", file).startswith(f"error: {file}: flights[0]: {why}")
    assert "cannot be read" in commands.refused("flights", "mesh:4x4", tmp_path / "none.json")


def test_orders() -> None:
    schedule = build(MESH, "ring-bi", bytes="1MiB", system="tto")
    flights = [Flight(schedule, priority=2), Flight(schedule, priority=1)]
    finish = {
        order: simulate_flights(MESH, flights, "tto", order=order).result.flights["finish_ns"].tolist()
        for order in ("fifo", "lifo", "priority")
    }
    assert finish["fifo"][0] < finish["fifo"][1]
    assert finish["priority"] == finish["fifo"][::-1]
    # The first has sent a packet when the last is launched.
    assert finish["lifo"][1] == finish["fifo"][0] + 357
    # In turns they end within a packet of each other.
    fair = simulate_flights(MESH, flights, "tto", order="fair").result.flights["finish_ns"].tolist()
    assert fair[0] == fair[1] - 357
    assert fair[1] <= finish["fifo"][1]


def test_groups_of_a_grid(commands: Any, tmp_path: Path) -> None:
    """Two jobs that share links: who has what of the busiest, and a bound of both."""
    entries = [
        {"name": "tp", "algorithm": "ring-bi", "groups": "tp", "bytes": "1MiB"},
        {"name": "all", "algorithm": "ring-bi", "groups": "tp+dp", "bytes": "4MiB"},
    ]
    file = tmp_path / "flights.json"
    file.write_text(json.dumps({"grid": "tp=4,dp=4", "flights": entries}))
    for fidelity in antiphon.fidelities():
        document = commands.document("flights", "mesh:4x4", file, "--order", "fair", "--fidelity", fidelity)
        assert [row["group"] for row in document["flights"]] == [
            [4 * row + rank for rank in range(4)] for row in range(4)
        ] + [None]
        least = max(row["lower_bound_ns"] for row in document["flights"])
        assert least < document["lower_bound_ns"] < document["time_ns"]
        assert document["efficiency"] == document["lower_bound_ns"] / document["time_ns"]
        links = document["contended"]
        assert len(links) == 10
        assert [row["busy_ns"] for row in links] == sorted((row["busy_ns"] for row in links), reverse=True)
        for row in links:
            of = {each["flight"]: each["bytes"] for each in row["flights"]}
            assert set(of) > {4}
            assert sum(of.values()) == document["tables"]["links"][row["link"]]["bytes"]
            assert sum(each["share"] for each in row["flights"]) == pytest.approx(1)
            assert (row["wait_ns"] is None) == (fidelity == "flit")
        assert fidelity == "flit" or max(row["wait_ns"] for row in links) > 0
    table = commands.invoke("flights", "mesh:4x4", file, "--contended", "3").stdout
    assert "Links most contended" in table
    assert "Bound of all together" in table
    alone = simulate_flights(MESH, read_flights(json.dumps(entries[1:]).replace("tp+dp", "columns"), MESH))
    assert alone.most_contended() == []


DIRECT = build(MESH, "direct", bytes="64KiB")


@pytest.mark.parametrize(
    ("flights", "options", "what"),
    [
        ([], {}, "there is no flight"),
        ([Flight(DIRECT, after=[0])], {}, "flight 0 waits for itself"),
        ([Flight(DIRECT), Flight(DIRECT, after=[5])], {}, "flight 1: it is after flight 5 of 2"),
        ([Flight(DIRECT, start_ns=float("nan"))], {}, "flight 0: start_ns is NaN"),
        ([Flight(build("mesh:2x2", "direct", bytes="64KiB"))], {}, "4 ranks, the fabric has 16"),
        ([Flight(DIRECT)], {"order": "first"}, "no order 'first'; known: fifo, lifo, priority, fair"),
    ],
)
def test_bad_flights(flights: list[Flight], options: dict[str, Any], what: str) -> None:
    with pytest.raises(AntiphonError, match=what):
        simulate_flights(MESH, flights, **options)


def test_training_in_flight() -> None:
    for overlap in ("layerwise", "both"):
        serial, shared = (
            antiphon.train("googlenet", "mesh:3x3", "ring-bi-odd", "tto", overlap=overlap, in_flight=how)
            for how in ("serial", "shared")
        )
        assert shared.to_dict()["in_flight"] == "shared"
        # The same work; sums of times in flight together are longer.
        assert shared.compute_ns == serial.compute_ns
        assert shared.communication_ns > serial.communication_ns
        assert shared.iteration_ns < 1.02 * serial.iteration_ns
        exchanges = shared.iteration.exchanges
        assert (exchanges["start_ns"] == exchanges["ready_ns"]).all()
    for arguments, what in (
        (("alexnet", "mesh:3x3", "ring", None, "both"), "no in_flight 'both'; known: serial, shared"),
        (("alexnet", "rails:2D-SW_SW", "themis", None, "serial"), "in_flight serial is for fabrics"),
        (("transformer-1t", "mesh:4x4", "ring-bi", 5, None), "cannot be divided over 5 of 16 ranks"),
        (("transformer-1t", "mesh:4x4", "ring-bi", 16, None), "cannot be divided over 16 of 16 ranks"),
        (("transformer-1t", "mesh:4x4", "tto", 8, None), "leaves out ranks"),
    ):
        model, fabric, algorithm, parallel, how = arguments
        options: dict[str, Any] = {"model_parallel": parallel} if parallel else {"in_flight": how}
        with pytest.raises(AntiphonError, match=what):
            antiphon.train(model, fabric, algorithm, compute="roofline", **options)


@pytest.mark.parametrize("how", ["serial", "shared"])
def test_layers_divided_over_rows(how: str) -> None:
    """Activations in rows, gradients in columns, all rows or columns at once: as alone in one."""
    options: dict[str, Any] = {"batch": 4, "compute": "roofline", "system": "tto", "fidelity": "alpha-beta"}
    run = antiphon.train("transformer-1t", MESH, "dbtree", model_parallel=4, in_flight=how, gradient_bytes=2, **options)
    assert (run.global_batch, run.model_parallel) == (4 * 4, 4)
    exchanges = run.iteration.exchanges
    for part, of_pass in ((MESH.group("0-3"), "forward"), (MESH.group("0,4,8,12"), "weight gradient")):
        of = exchanges["pass"] == of_pass
        size = int(exchanges["bytes"][of][0])
        alone = antiphon.simulate(part, build(part, "dbtree", bytes=size, system="tto"), "tto", "alpha-beta").time_ns
        times = (exchanges["finish_ns"] - exchanges["start_ns"])[of & (exchanges["bytes"] == size)]
        assert times.min() == pytest.approx(alone, abs=1)
