"""An all-to-all of unequal sizes: matrices given as arrays, rows and files, and what comes of them."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import antiphon
from antiphon import AntiphonError, Fabric
from antiphon.collective.matrix import amount, as_matrix

SIZES = [[7, 4096, 0, 1 << 20], [512, 0, 0, 3], [0, 0, 0, 8192], [1024, 0, 65536, 0]]
SENT = [[0, *SIZES[0][1:]], *SIZES[1:]]
LINES = "7,4KiB,0,1MiB\r\n512,0,0B, 3 \n\n0,0,0KiB,8192\n1024,00,64KiB,0\n"
FABRIC = "mesh:2x2"
ASKED = ("--collective", "all-to-all", "--matrix")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sizes.csv"
    path.write_text(LINES)
    return path


def test_all_forms_are_the_same(file: Path, tmp_path: Path) -> None:
    fabric = Fabric(FABRIC)
    mixed = [[str(size) if size else 0 for size in row] for row in SIZES]
    for given in (SIZES, np.array(SIZES), np.array(SIZES, dtype=np.float64), mixed, tuple(SIZES), file, str(file)):
        assert as_matrix(given, fabric).tolist() == SENT
    assert SIZES[0][0] == 7  # what is given stays as it is
    assert amount(None, file, fabric).bytes == (1 << 20) + 4096
    assert amount(None, None, fabric)[:2] == (64 << 20, None)
    # Nothing on the diagonal counts.
    strange = tmp_path / "strange.csv"
    strange.write_text("-5,4\n1,none\n")
    rows: list[list[str | int]] = [[-5, 4], [1, "none"]]
    for given in (strange, rows, np.array([[-5, 4], [1, 1 << 60]]), np.array([[np.nan, 4], [1, 0]])):
        assert as_matrix(given, Fabric("ring:2")).tolist() == [[0, 4], [1, 0]]


def test_a_schedule_has_its_matrix() -> None:
    schedule = antiphon.build(FABRIC, "optimal", "all-to-all", matrix=SIZES)
    assert schedule.matrix is not None
    assert schedule.matrix.dtype == np.uint64
    assert schedule.matrix.tolist() == SENT
    assert (schedule.bytes, schedule.matrix_bytes) == ((1 << 20) + 4096, sum(map(sum, SENT)))
    assert antiphon.verify(FABRIC, schedule).complete
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert antiphon.Schedule.from_json(schedule.to_json(), Fabric(FABRIC)) == schedule
    plain = antiphon.build(FABRIC, "direct", "all-to-all", bytes=4096)
    assert (plain.matrix, plain.matrix_bytes) == (None, None)
    wide = antiphon.build("aries:2x2", "direct", "all-to-all", matrix=SIZES)
    with pytest.raises(AntiphonError, match="has a matrix, for which fabrics are not configured"):
        antiphon.configure("aries:2x2", schedule=wide)


def test_runs_and_bounds() -> None:
    comparison = antiphon.compare(FABRIC, "all-to-all", matrix=SIZES)
    assert {run.algorithm for run in comparison} == {"optimal", "direct"}
    reasons = {refusal.algorithm: refusal.reason for refusal in comparison.refused}
    assert reasons["exchange"] == "exchange cannot do an all-to-all with a matrix; use optimal or direct"
    assert comparison.bound == antiphon.lower_bound(FABRIC, "all-to-all", matrix=SIZES, fidelity="packet")
    best = comparison.best
    assert best.bus_bandwidth_gb_per_s == best.algorithm_bandwidth_gb_per_s == best.bytes / best.time_ns
    assert best.to_dict()["matrix_bytes"] == comparison.to_dict()["matrix_bytes"] == sum(map(sum, SENT))
    # A schedule beside others does the same, or is refused.
    own = antiphon.build(FABRIC, "direct", "all-to-all", matrix=SIZES)
    assert len(antiphon.compare(FABRIC, "all-to-all", None, "optimal", matrix=SIZES, schedules=[own])) == 2
    other = [list(reversed(row)) for row in reversed(SIZES)]
    message = f"direct does all-to-all of {sum(map(sum, SENT))}B by a matrix: compare it"
    with pytest.raises(AntiphonError, match=message):
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
        ("0,1\n1,0,4\n", "line 2: 3 numbers, expected 2"),
        ("\n0,1\n-4,0\n", "line 3: size '-4': must not be negative; write for example 0"),
        ("0,\n1,0\n", "line 1: size '': not a size"),
        ("0,2PiB\n1,0\n", "line 1: size '2PiB': larger than 1 PiB"),
        ("9,0\n0,9\n", "no rank has anything for another one"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_file_of_one(commands: Any, tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "wrong.csv"
    if text is not None:
        path.write_text(text)
    output = commands.refused("simulate", "ring:2", "direct", "--collective", "all-to-all", "--matrix", path)
    assert output.startswith(f"error: {path}: {message}"), output


def test_the_command_line(commands: Any, file: Path, tmp_path: Path) -> None:
    total, most, out, page = sum(map(sum, SENT)), (1 << 20) + 4096, tmp_path / "schedule.json", tmp_path / "page.html"
    for command in (
        ("compare", FABRIC),
        ("simulate", FABRIC, "optimal"),
        ("bound", FABRIC),
        ("show", FABRIC, "optimal", "--out", out),
        ("verify", FABRIC, "direct"),
        ("verify", "mesh:2x4", "optimal", "--group", "0,3,4,7"),
    ):
        document = commands.document(*command, *ASKED, file)
        assert (document["bytes"], document["matrix_bytes"]) == (most, total), command
        printed = commands.invoke(*command, *ASKED, file).output
        assert command[0] == "verify" or f"{total}B by a matrix" in " ".join(printed.split()), printed
    compared = commands.document("compare", FABRIC, "--schedule", out, "--algorithms", "direct")
    assert len(compared["runs"]) == 2
    commands.document("compare", FABRIC, *ASKED, file, "--report", page)
    assert f"all-to-all of {total}B by a matrix" in page.read_text()
    again = commands.refused("simulate", FABRIC, "--schedule", out, "--matrix", file)
    assert "--matrix is what the schedule says" in again


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("bound", FABRIC, *ASKED, "FILE", "--bytes", "1MiB"), "give either bytes or a matrix"),
        (("bound", FABRIC, "--matrix", "FILE"), "a matrix is for all-to-all, not for all-reduce"),
        (("bound", "ring:8", *ASKED, "FILE"), "4 numbers, expected 8"),
        (("simulate", FABRIC, "bruck", *ASKED, "FILE"), "bruck cannot do an all-to-all with a matrix; use optimal or"),
        (("tune", FABRIC, *ASKED, "FILE"), "No such option"),
        (("configure", "aries:2x2", *ASKED, "FILE"), "No such option"),
    ],
)
def test_what_a_matrix_does_not_go_with(commands: Any, file: Path, command: tuple[str, ...], message: str) -> None:
    assert message in commands.refused(*(str(file) if word == "FILE" else word for word in command))


def test_flights_and_studies_take_one(commands: Any, file: Path, tmp_path: Path) -> None:
    entry = {"algorithm": "optimal", "collective": "all-to-all", "matrix": str(file)}
    (flight,) = antiphon.read_flights(json.dumps([entry]), FABRIC)
    assert flight.schedule.matrix_bytes == sum(map(sum, SENT))
    with pytest.raises(AntiphonError, match="give either bytes or a matrix"):
        antiphon.read_flights(json.dumps([entry | {"bytes": 4}]), FABRIC)
    fixed = {"fabric": FABRIC, "collective": "all-to-all", "matrix": str(file)}
    study = antiphon.study(
        {"command": "simulate", "fixed": fixed, "axes": {"algorithm": ["optimal", "direct"]}}, columns="all"
    )
    assert {row["matrix_bytes"] for row in study} == {sum(map(sum, SENT))}
