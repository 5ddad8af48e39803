"""An all-to-all of unequal sizes: matrices given as arrays, rows and files, and what comes of them."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import antiphon
from antiphon import AntiphonError, Fabric
from antiphon.cli import main
from antiphon.collective.matrix import amount, as_matrix

SIZES = [[7, 4096, 0, 1 << 20], [512, 0, 0, 3], [0, 0, 0, 8192], [1024, 0, 65536, 0]]
SENT = [[0, *SIZES[0][1:]], *SIZES[1:]]
LINES = "7,4KiB,0,1MiB\r\n512,0,0B, 3 \n\n0,0,0KiB,8192\n1024,00,64KiB,0\n"
FABRIC = "mesh:2x2"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sizes.csv"
    path.write_text(LINES)
    return path


def run(*arguments: object) -> dict[str, object]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.output))


def refused(*arguments: object) -> str:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code in (1, 2), result.output
    assert result.output.startswith("error: ")
    assert result.output.count("\n") == 1, result.output
    return result.output


def test_all_forms_are_the_same(file: Path) -> None:
    fabric = Fabric(FABRIC)
    mixed = [[str(size) if size else 0 for size in row] for row in SIZES]
    for given in (SIZES, np.array(SIZES), np.array(SIZES, dtype=np.float64), mixed, tuple(SIZES), file, str(file)):
        assert as_matrix(given, fabric).tolist() == SENT
    assert SIZES[0][0] == 7  # what is given stays as it is
    assert amount(None, file, fabric).bytes == (1 << 20) + 4096
    assert amount(None, None, fabric)[:2] == (64 << 20, None)


def test_nothing_on_the_diagonal_counts(tmp_path: Path) -> None:
    file = tmp_path / "sizes.csv"
    file.write_text("-5,4\n1,none\n")
    ring = Fabric("ring:2")
    rows: list[list[str | int]] = [[-5, 4], [1, "none"]]
    for given in (file, rows, np.array([[-5, 4], [1, 1 << 60]]), np.array([[np.nan, 4], [1, 0]])):
        assert as_matrix(given, ring).tolist() == [[0, 4], [1, 0]]


def test_a_schedule_has_its_matrix() -> None:
    schedule = antiphon.build(FABRIC, "optimal", "all-to-all", matrix=SIZES)
    assert schedule.matrix is not None
    assert schedule.matrix.dtype == np.uint64
    assert schedule.matrix.tolist() == SENT
    assert (schedule.bytes, schedule.matrix_bytes) == ((1 << 20) + 4096, sum(map(sum, SENT)))
    assert antiphon.verify(FABRIC, schedule).complete
    lanes = schedule.lanes
    for source, owner in np.ndindex(4, 4):
        assert lanes["bytes"][(lanes["source"] == source) & (lanes["owner"] == owner)].sum() == SENT[source][owner]
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert antiphon.Schedule.from_json(schedule.to_json(), Fabric(FABRIC)) == schedule
    plain = antiphon.build(FABRIC, "direct", "all-to-all", bytes=4096)
    assert plain.matrix is None
    assert plain.matrix_bytes is None


def test_bytes_arrive() -> None:
    sizes = [[4 * size for size in row] for row in ([0, 3, 1], [5, 0, 0], [2, 7, 0])]
    schedule = antiphon.build("ring:3", "optimal", "all-to-all", matrix=sizes)
    part = schedule.bytes // 4
    buffers = [np.full(3 * part, -1, dtype=np.int32) for _ in range(3)]
    for rank, buffer in enumerate(buffers):
        buffer[rank * part : (rank + 1) * part] = 100 * rank + np.arange(part)
    ends = schedule.execute(buffers, 1)
    for source, owner in np.ndindex(3, 3):
        start, count = sum(sizes[source][:owner]) // 4, sizes[source][owner] // 4
        got = ends[owner][source * part + start : source * part + start + count]
        assert got.tolist() == [100 * source + start + at for at in range(count)]


def test_runs_and_bounds() -> None:
    comparison = antiphon.compare(FABRIC, "all-to-all", matrix=SIZES)
    assert {run.algorithm for run in comparison} == {"optimal", "direct"}
    reasons = {refusal.algorithm: refusal.reason for refusal in comparison.refused}
    assert reasons["exchange"] == "exchange cannot do an all-to-all with a matrix; use optimal or direct"
    bound = antiphon.lower_bound(FABRIC, "all-to-all", matrix=SIZES, fidelity="packet")
    assert comparison.bound == bound
    assert comparison.best.efficiency is not None
    assert comparison.best.efficiency <= 1
    best = comparison.best
    assert best.bus_bandwidth_gb_per_s == best.algorithm_bandwidth_gb_per_s == best.bytes / best.time_ns
    assert best.to_dict()["matrix_bytes"] == comparison.to_dict()["matrix_bytes"] == sum(map(sum, SENT))
    even = antiphon.lower_bound(FABRIC, "all-to-all", matrix=np.full((4, 4), 4096))
    plain = antiphon.lower_bound(FABRIC, "all-to-all", 4 * 4096)
    # Prices are only looked for where shards are equal.
    assert (even.volume_ns, even.cut_ns, even.latency_ns) == (plain.volume_ns, plain.cut_ns, plain.latency_ns)
    # A schedule beside others does the same, or is refused.
    own = antiphon.build(FABRIC, "direct", "all-to-all", matrix=SIZES)
    assert len(antiphon.compare(FABRIC, "all-to-all", None, "optimal", matrix=SIZES, schedules=[own])) == 2
    other = [list(reversed(row)) for row in reversed(SIZES)]
    with pytest.raises(
        AntiphonError, match=f"direct does all-to-all of {sum(map(sum, SENT))}B by a matrix: compare it"
    ):
        antiphon.compare(FABRIC, "all-to-all", algorithms="optimal", matrix=other, schedules=[own])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[0, 1], [1]], "rows of different lengths; expected 2 rows of 2 numbers"),
        ([[0, 1, 2], [1, 0, 2]], "2 x 3; expected 2 rows of 2 numbers, as ring:2 has ranks"),
        (np.zeros((3, 3)), "3 x 3; expected 2 rows"),
        (5, "5; expected 2 rows"),
        ([[0, 1], [1.5, 0]], "row 1, column 0: size '1.5': not a whole number"),
        ([[0, float("nan")], [1, 0]], "row 0, column 1: size 'nan'"),
        ([[0, -1], [1, 0]], "row 0, column 1: size '-1': must not be negative; write for example 0"),
        ([[0, "much"], [1, 0]], "row 0, column 1: size 'much'"),
        ([[0, None], [1, 0]], "row 0, column 1: "),
        ([[0, 1 << 80], [1, 0]], "row 0, column 1: "),
        ([[3, 0], [0, 3]], "matrix: no rank has anything for another one"),
    ],
)
def test_what_is_no_matrix(given: object, message: str) -> None:
    with pytest.raises(AntiphonError) as caught:
        antiphon.build("ring:2", "direct", "all-to-all", matrix=given)  # type: ignore[arg-type]
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1\n1,0\n\n0,0\n", "line 4: a row too many; expected 2, one for each rank of ring:2"),
        ("0,1\n", "1 rows, expected 2, one for each rank of ring:2"),
        ("", "0 rows, expected 2"),
        ("0,1\n1,0,4\n", "line 2: 3 numbers, expected 2"),
        ("0,1\n1;0\n", "line 2: 1 numbers, expected 2"),
        ("\n0,1\n-4,0\n", "line 3: size '-4': must not be negative; write for example 0"),
        ("0,ab\n1,0\n", "line 1: size 'ab': not a size"),
        ("0,\n1,0\n", "line 1: size '': not a size"),
        ("0,1.5\n1,0\n", "line 1: size '1.5': not a whole number of bytes"),
        ("0,2PiB\n1,0\n", "line 1: size '2PiB': larger than 1 PiB"),
        ("9,0\n0,9\n", "no rank has anything for another one"),
    ],
)
def test_what_is_no_file_of_one(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.csv"
    path.write_text(text)
    output = refused("simulate", "ring:2", "direct", "--collective", "all-to-all", "--matrix", path)
    assert output.startswith(f"error: {path}: {message}"), output


def test_the_command_line(file: Path, tmp_path: Path) -> None:
    asked = ("--collective", "all-to-all", "--matrix", file)
    total, most = sum(map(sum, SENT)), (1 << 20) + 4096
    out = tmp_path / "schedule.json"
    for command in (
        ("compare", FABRIC),
        ("simulate", FABRIC, "optimal"),
        ("verify", FABRIC, "direct"),
        ("bound", FABRIC),
        ("show", FABRIC, "optimal", "--out", out),
        ("verify", "mesh:2x4", "optimal", "--group", "0,3,4,7"),
    ):
        document = run(*command, *asked, "--json")
        assert (document["bytes"], document["matrix_bytes"]) == (most, total), command
    compared = run("compare", FABRIC, "--schedule", out, "--algorithms", "direct", "--json")
    assert isinstance(compared["runs"], list)
    assert len(compared["runs"]) == 2
    for command in (
        ("compare", FABRIC),
        ("simulate", FABRIC, "optimal"),
        ("bound", FABRIC),
        ("show", FABRIC, "direct"),
    ):
        result = CliRunner().invoke(main, [*command, *map(str, asked)])
        assert f"{total}B by a matrix" in " ".join(result.output.split()), result.output
    page = tmp_path / "page.html"
    run("compare", FABRIC, *asked, "--report", page, "--json")
    assert f"all-to-all of {total}B by a matrix" in page.read_text()


def test_what_a_matrix_does_not_go_with(file: Path, tmp_path: Path) -> None:
    asked = ("--collective", "all-to-all", "--matrix", file)
    assert "give either bytes or a matrix" in refused("bound", FABRIC, *asked, "--bytes", "1MiB")
    assert "a matrix is for all-to-all, not for all-reduce" in refused("bound", FABRIC, "--matrix", file)
    assert "4 numbers, expected 8" in refused("bound", "ring:8", *asked)
    assert "ring cannot" not in refused("simulate", FABRIC, "ring", *asked)
    assert "bruck cannot do an all-to-all with a matrix; use optimal or direct" in refused(
        "simulate", FABRIC, "bruck", *asked
    )
    assert "No such option" in refused("tune", FABRIC, *asked)
    assert "No such option" in refused("configure", "aries:2x2", *asked)
    missing = tmp_path / "missing.csv"
    assert "cannot be read" in refused("bound", FABRIC, "--collective", "all-to-all", "--matrix", missing)
    out = tmp_path / "schedule.json"
    run("show", FABRIC, "direct", *asked, "--out", out, "--json")
    assert "--matrix is what the schedule says" in refused("simulate", FABRIC, "--schedule", out, "--matrix", file)
    wide = antiphon.build("aries:2x2", "direct", "all-to-all", matrix=SIZES)
    with pytest.raises(AntiphonError, match="has a matrix, for which fabrics are not configured"):
        antiphon.configure("aries:2x2", schedule=wide)


def test_flights_and_studies_take_one(file: Path, tmp_path: Path) -> None:
    entry = {"algorithm": "optimal", "collective": "all-to-all", "matrix": str(file)}
    (flight,) = antiphon.read_flights(json.dumps([entry]), FABRIC)
    assert flight.schedule.matrix_bytes == sum(map(sum, SENT))
    with pytest.raises(AntiphonError, match="give either bytes or a matrix"):
        antiphon.read_flights(json.dumps([entry | {"bytes": 4}]), FABRIC)
    plan = tmp_path / "study.toml"
    plan.write_text(
        f'command = "simulate"\n[fixed]\nfabric = "{FABRIC}"\ncollective = "all-to-all"\nmatrix = "{file}"\n'
        '[axes]\nalgorithm = ["optimal", "direct"]\n'
    )
    document = run("study", plan, "--store", tmp_path / "runs", "--json")
    points = document["points"]
    assert isinstance(points, list)
    assert {point["result"]["matrix_bytes"] for point in points} == {sum(map(sum, SENT))}
