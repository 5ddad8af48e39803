"""Systems fitted to every second size of a log, against the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from library_table import measured
from logged import log_text

import antiphon
from antiphon.errors import AntiphonError
from antiphon.expectation.fitting import MOST_LINES, least_us, lines_of

MIB = 1 << 20


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("table", measured(), ids=str)
def test_the_other_sizes_of_a_log(table: tuple[str, int, str], first: int, tmp_path: Path) -> None:
    gpu, gpus, _ = table
    times = measured()[table]
    log, system = tmp_path / "a.log", tmp_path / "a.toml"
    log.write_text(log_text(dict(times[first::2]), gpus, gpu=gpu))
    cluster = f"dgx-{gpu}:1" + ":raw" * (gpu == "v100")
    system.write_text(antiphon.expect(cluster, log=log).system_toml())
    others = dict(times[1 - first :: 2])
    log.write_text(log_text(others, gpus, gpu=gpu))
    rows = antiphon.expect(cluster, log=log, system=str(system)).rows.rows()
    for least, limit in ((64 * MIB, 0.05), (MIB, 0.10)):
        errors = [abs(row["share"] - 1) for row in rows if row["bytes"] >= least]
        assert not errors or sum(errors) / len(errors) <= limit


def test_lines_are_few_and_meet_a_concave_log() -> None:
    times = {size: 20 + size**0.8 / 1e3 for size in (1 << k for k in range(10, 34))}
    lines = lines_of(times)
    assert len(lines) == MOST_LINES
    assert all(1 - 1e-9 <= least_us(lines, size) / us < 1.12 for size, us in times.items())


def test_what_cannot_be_fitted(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    for cluster, times, message in (
        ("dgx-h100:1", {1 << 30: 4000.0}, "two sizes"),
        ("dgx-h100:1", {1 << 20: 40.0, 1 << 30: 40.0}, "two sizes"),
        ("dgx-h100:1", {1 << 20: 40.0, 1 << 30: 3000.0}, "say dgx-h100:1:raw"),
    ):
        log.write_text(log_text(times, 8))
        with pytest.raises(AntiphonError, match=message):
            antiphon.expect(cluster, log=log).system_toml()
