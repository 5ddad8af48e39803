"""Logs of nccl-tests and rccl-tests of all ages, from all launchers; and files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.errors import AntiphonError
from antiphon.expectation.logs import LARGEST_LOG, read_log

RANKS = "\n".join(
    f"#  Rank {r:2} Group  0 Pid {9 + r} on  box-{r // 8} device {r % 8} [0x8d] NVIDIA H100" for r in range(16)
)
HEAD = "#   size      count   type  redop  root    time   algbw   busbw #wrong    time   algbw   busbw #wrong"
ROW = "1073741824  268435456  float   sum      -1   4200.0  255.65  479.34      0   4100.0  261.89  491.04      0"
BOTH = (1 << 30, 4200.0, 4100.0)
FORMATS = {
    "2.0, without root": (ROW.replace("      -1", "").replace("      0 ", "  4e-07 "), BOTH),
    "root": (ROW, BOTH),
    "root 3 of a broadcast": (ROW.replace("sum      -1", "none      3"), BOTH),
    "without time of in place": (ROW[:-34] + "     N/A", (1 << 30, 4200.0, None)),
    "N/A for wrong": (ROW.replace("      0", "    N/A"), BOTH),
    "times of iterations": (ROW.replace("  0   4100", "  0  4199.1  4300.9  4300.9     0.11   4100"), BOTH),
    "timestamp": (ROW + "  2026-01-31 10:00:00", BOTH),
    "mpirun --tag-output": (f"[1,0]<stdout>:{ROW}", BOTH),
    "srun --label": (f" 0: {ROW}", BOTH),
    "pdsh": (f"box-0: {ROW}", BOTH),
    "tags between writes": (ROW.replace("  float", "[0]  float").replace("  4100.0", "[0]  4100.0"), BOTH),
    "without type (MSCCL++)": (ROW.replace("  float   sum      -1", ""), BOTH),
    "noise in front": (
        f"box-0:42:42 [0] NCCL INFO Channel 00/16 : 0 1 2 3 4 5 6 7\nNCCL version 2.21.5+cuda12.4\n{ROW}",
        BOTH,
    ),
    "cut in the next row": (f"{ROW}\n  2147483648     5368", BOTH),
}


@pytest.mark.parametrize(("rows", "expected"), FORMATS.values(), ids=FORMATS)
def test_rows_of_every_format(rows: str, expected: tuple[int, float, float | None], tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"mpirun -np 16 ./build/all_reduce_perf -b 1G\n# nThread 1 nGpus 1\n{RANKS}\n{HEAD}\n{rows}\n")
    [run] = read_log(str(log))
    [row] = run.rows
    assert (row.bytes, row.out_of_place_us, row.in_place_us) == expected
    assert (run.collective, run.ranks, len(run.hosts), run.device) == ("all-reduce", 16, 2, "NVIDIA H100")
    assert row.bus_factor == pytest.approx(1.875, rel=1e-3)


def test_in_place_may_come_first(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"#             in-place                       out-of-place\n{ROW}\n")
    [row] = read_log(str(log))[0].rows
    assert (row.in_place_us, row.out_of_place_us, row.us) == (4200.0, 4100.0, 4200.0)


def test_several_runs_in_one_file(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    parts = [f"# Collective test starting: {name}_perf\n# nThread 1\n{ROW}" for name in ("all_gather", "alltoall")]
    log.write_text("\n".join([*parts, f"./reduce_scatter_perf\n{ROW}\n{ROW}"]))
    assert [(run.collective, len(run.rows)) for run in read_log(str(log))] == [
        ("all-gather", 1), ("all-to-all", 1), ("reduce-scatter", 2)
    ]  # fmt: skip


def test_json_of_nccl_tests(tmp_path: Path) -> None:
    devices = [{"rank": r, "hostname": "a", "device_info": "NVIDIA H100"} for r in range(8)]
    place = {"time": 4200.0, "alg_bw": 255.65, "bus_bw": 447.39, "nwrong": 0}
    results = [{"size": 1 << 30, "out_of_place": None, "in_place": place}]
    document = {
        "args": ["./all_reduce_perf"],
        "nccl_version": 22703,
        "config": {"devices": devices},
        "results": results,
    }
    log = tmp_path / "a.json"
    log.write_text(json.dumps(document))
    [run] = read_log(str(log))
    assert (run.collective, run.ranks, run.rows[0].us) == ("all-reduce", 8, 4200.0)


def test_what_antiphon_run_prints(commands: Any, tmp_path: Path) -> None:
    log = tmp_path / "a.json"
    document = commands.document("run", "ring:2", "ring", "--bytes", "4KiB,64KiB", "--transport", "threads")
    log.write_text(json.dumps(document))
    [run] = read_log(str(log))
    assert (run.collective, run.ranks, [row.bytes for row in run.rows]) == ("all-reduce", 2, [4096, 65536])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no row"),
        (b"\x7fELF\0\0\1", "is not text"),
        (b"hello\n1 2 3 4 5 6 7\n\xff\xfe\n", "has no row"),
        (HEAD.encode(), "has no row"),
        (b"0 0 float sum -1 5.7 0.00 0.00 0 5.5 0.00 0.00 0", "has no row"),
        (b"{", "no JSON of nccl-tests"),
        (b'{"results": 3}', "no JSON of nccl-tests"),
        (b'{"results": [{"size": "x"}]}', "no JSON of nccl-tests"),
        (b'{"results": [{"size": 1e400}]}', "no JSON of nccl-tests"),
        (b'{"results": [{"size": 8, "in_place": {"time": "nan"}}]}', "has no row"),
        (b"[" * 100000, "has no row"),
        (b"1" * 5000 + b" 2 float 1 1 1", "has no row"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(content)
    with pytest.raises(AntiphonError, match=message) as error:
        read_log(str(log))
    assert "\n" not in str(error.value)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "none", "cannot be read"), (tmp_path, "Is a directory")):
        with pytest.raises(AntiphonError, match=message):
            read_log(str(path))
    huge = tmp_path / "huge.log"
    with huge.open("wb") as file:
        file.truncate(LARGEST_LOG + 1)
    with pytest.raises(AntiphonError, match="is larger than 64MiB"):
        read_log(str(huge))


def test_wrong_results_and_impossible_times_are_said(tmp_path: Path) -> None:
    path = tmp_path / "log"
    fast = "4294967296 1073741824 float sum -1 4200.0 1022.61 1917.40 5 4100.0 1047.55 1964.16 0"
    path.write_text(f"{RANKS}\n{HEAD}\n{ROW}\n{fast}\n")
    assert [run.wrong for run in read_log(str(path))] == [1]
    found = antiphon.expect("dgx-h100:2", log=path)
    assert found.notes[0].startswith("1 rows say that results were wrong")
    assert found.below == [1 << 32]
    assert found.verdict == "1 of 2 sizes below the bound"
