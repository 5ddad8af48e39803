"""Measuring a machine: what comes of it, whatever its speed."""

from __future__ import annotations

import itertools
import json
import math
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import antiphon
from antiphon import AntiphonError, Table
from antiphon.calibration import calibrate as module
from antiphon.calibration import cpu, device, machine
from antiphon.parallel import cores

COMMUNICATION = ("read", "write", "copy", "reduce")
COMPUTATION = ("gemm", "lookup")


def measure(**arguments: Any) -> antiphon.Calibration:
    """The least that can be measured."""
    least: dict[str, Any] = {"seconds": 0.01, "size": "64KiB", "gemm": 16}
    return antiphon.calibrate(**least | arguments)


@pytest.fixture(scope="module")
def calibration() -> antiphon.Calibration:
    return measure()


def test_everything_is_measured_alone_and_beside(calibration: antiphon.Calibration) -> None:
    rows = calibration.measured.rows()
    pairs = {*itertools.product(COMMUNICATION, COMPUTATION), *itertools.product(COMPUTATION, COMMUNICATION)}
    alone = {(work, "") for work in (*COMMUNICATION, *COMPUTATION)}
    assert {(row["work"], row["beside"]) for row in rows} == alone | pairs
    assert len(rows) == len(alone | pairs) + 1  # one core reads, too
    assert [rows[0][key] for key in ("work", "beside", "cores")] == ["read", "", 1]
    assert {row["cores"] for row in rows[1:]} == {cores()}
    for row in rows:
        assert row["unit"] == ("GFLOP/s" if row["work"] == "gemm" else "GB/s")
        assert 0 < row["rate_q1"] <= row["rate"] <= row["rate_q3"] < math.inf
        assert row["noisy"] == (row["spread"] > 0.2)
        if row["beside"]:
            assert 0 < row["slowdown_q1"] <= row["slowdown"] <= row["slowdown_q3"] < math.inf
        else:
            assert math.isnan(row["slowdown"])
    assert calibration.rounds == 3
    assert calibration.machine.cores == cores()
    assert calibration.others is None or 0 <= calibration.others <= 1


def test_the_document_is_json(calibration: antiphon.Calibration) -> None:
    document = json.loads(json.dumps(calibration.to_dict(), allow_nan=False))
    assert document["endpoint"] == calibration.endpoint
    assert document["machine"]["numpy"] == np.__version__
    first = document["measured"][0]
    assert (first["beside"], first["slowdown"]) == (None, None)
    assert [row["slowdown"] for row in document["published"]] == [1.16, 1.42, 6.2]


def test_progress_goes_up_to_one() -> None:
    told: dict[str, list[float]] = {"buffers": [], "round": []}
    measure(progress=lambda name, share: told[name.split()[0]].append(share))
    for shares in told.values():
        assert shares == sorted(shares)
        assert shares[-1] == 1
    assert len(told["round"]) == 3 * 15


def measured(read: float, reduce: float, core: float, cores: int) -> antiphon.Calibration:
    """A calibration with these rates, in GB/s; ``reduce`` beside a GEMM."""
    common = {"spread": 0.1, "noisy": False, "cores": cores, "unit": "GB/s"}
    rates: list[dict[str, Any]] = [
        {"work": "read", "beside": "", "rate": read},
        {"work": "reduce", "beside": "", "rate": 2 * reduce},
        {"work": "reduce", "beside": "gemm", "rate": reduce},
    ]
    here = replace(measure().machine, cores=cores, cache_bytes=1 << 20)
    table = Table.of_rows([row | common for row in rates])
    return antiphon.Calibration(here, 1 << 30, 1000, 3, 0.1, core, 0.0, table)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        # Of three bytes two are read: 90 of 900 GB/s, which two cores of 60 read.
        ((900, 135, 60, 80), (900, 90, 80, 2, 60)),
        # At least one core; never all.
        ((900, 1.5, 60, 80), (900, 1, 80, 1, 60)),
        ((20, 30, 4, 4), (20, 19.8, 4, 3, 4)),
        ((20, 30, 4, 1), (20, 19.8, 1, 1, 4)),
        # Four digits, no exponent.
        ((123456, 3 / 16, 0.0123456, 4), (123500, 0.125, 4, 3, 0.01235)),
    ],
)
def test_the_rule_of_the_endpoint(rates: tuple[float, float, float, int], expected: tuple[float, ...]) -> None:
    keys = ("total_memory_gb_per_s", "memory_gb_per_s", "total_sms", "sms", "sm_gb_per_s")
    text = ",".join(f"{key}={value}" for key, value in zip(keys, expected, strict=True))
    found = measured(*rates)
    assert found.endpoint == f"npu:{text}"
    given: dict[str, Any] = {"endpoint": found.endpoint}
    assert antiphon.System().with_(**given) != antiphon.System()
    assert ("on one core the endpoint leaves no core to computation" in found.notes) == (expected[2] == 1)


def test_a_rate_that_was_not_measured(calibration: antiphon.Calibration) -> None:
    assert calibration.rate("gemm", "read") > 0
    with pytest.raises(AntiphonError, match="gemm beside lookup was not measured"):
        calibration.rate("gemm", "lookup")


def test_what_speaks_against_figures_is_said() -> None:
    quiet = measured(100, 30, 10, 16)
    assert quiet.notes == []
    noisy = Table({**quiet.measured, "noisy": np.array([True, False, True])})
    loud = replace(quiet, bytes=1 << 19, others=0.334, measured=noisy)
    assert [note.partition(";")[0] for note in loud.notes] == [
        "buffers of 512KiB fit into the caches of 1MiB: rates are not those of memory",
        "other work took 33% of the time of the 16 cores meanwhile",
        "2 of 3 figures are noisy, the endpoint's among them",
    ]


def test_statistics_of_a_case() -> None:
    samples = {("copy", ""): [8.0, 9.0, 10.0], ("copy", "gemm"): [4.0, 3.0, 2.0], ("gemm", ""): [2.0, 2.0, 2.0]}
    row = module._row(("copy", "gemm"), samples, 2)
    # Slowdowns of the rounds: 2, 3 and 5.
    assert [row[key] for key in ("rate", "rate_q1", "rate_q3", "unit")] == [3, 2.5, 3.5, "GB/s"]
    assert [row[key] for key in ("slowdown", "slowdown_q1", "slowdown_q3")] == [3, 2.5, 4]
    assert (row["spread"], row["noisy"]) == (0.5, True)
    alone = module._row(("gemm", ""), samples, 2)
    assert (alone["unit"], alone["spread"], alone["noisy"]) == ("GFLOP/s", 0, False)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ({"device": "gpu"}, "unknown-name", "unknown device 'gpu'; there are: cpu, cuda"),
        ({"seconds": 0}, "bad-size", "seconds is 0; give a number above 0"),
        ({"seconds": math.nan}, "bad-size", "seconds is nan"),
        ({"seconds": "20"}, "bad-size", "seconds is '20'"),
        ({"seconds": 1e9}, "bad-size", "at most 3600"),
        ({"gemm": 0}, "bad-size", "gemm is 0; give a whole number from 1 to 16384"),
        ({"gemm": 1.5}, "bad-size", "gemm is 1.5"),
        ({"gemm": True}, "bad-size", "gemm is True"),
        ({"size": "1KiB"}, "bad-size", "too small to measure; give at least 64KiB"),
        ({"size": "much"}, "bad-size", "much"),
        ({"size": "1PiB"}, "too-large", "two buffers of 1PiB and a GEMM of dimension 16 need"),
    ],
)
def test_mistakes(arguments: dict[str, Any], code: str, message: str) -> None:
    with pytest.raises(AntiphonError, match=message) as caught:
        measure(**arguments)
    assert caught.value.code == code
    assert "\n" not in str(caught.value)


def test_the_device_is_a_name() -> None:
    with pytest.raises(TypeError, match="argument 'device'"):
        measure(device=3)


def test_memory_is_asked_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "free_memory", lambda: 1 << 20)
    with pytest.raises(AntiphonError, match=r"need 0.00107 GB, but this machine has 0.00105 GB free"):
        measure(size="512KiB")


@pytest.mark.parametrize(
    ("cache", "free", "expected"),
    [(100 << 20, None, 400 << 20), (1 << 20, None, 64 << 20), (None, None, 256 << 20), (1 << 30, 8 << 30, 1 << 30)],
)
def test_buffers_are_above_the_caches(cache: int | None, free: int | None, expected: int) -> None:
    assert device.buffer_bytes(None, cache, 1000, free, "here") == expected
    assert device.buffer_bytes(100_000, cache, 1000, free, "here") == 99_840  # whole rows


def test_a_product_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu.Cpu, "_estimate", lambda _: 55.0)
    with pytest.raises(
        AntiphonError, match="dimension 16 takes about 55 s on this machine, too long for 20 s"
    ) as caught:
        measure(seconds=20)
    assert caught.value.code == "too-large"


def test_an_interruption_ends_the_threads() -> None:
    before = threading.active_count()

    def interrupt(name: str, _share: float) -> None:
        if name == "round 1 of 3":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(seconds=1, progress=interrupt)
    assert threading.active_count() == before


def test_rounds_end_with_the_time() -> None:
    class Instant:
        """A device without lanes."""

        def lanes(self, _work: str) -> list[Any]:
            return []

        core = list

        def rates(self, sides: list[Any], _seconds: float) -> list[float]:
            return [1.0] * len(sides)

    def rounds(until: float) -> int:
        made = list(module._rounds(Instant(), 20, 0.1, until))  # type: ignore[arg-type]
        return len(made) // module.SAMPLES

    assert rounds(math.inf) == 20
    assert rounds(0) == module.FEWEST
