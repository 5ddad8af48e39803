"""Time limits of comparisons and tunings: what is there counts, and what is not is said."""

from __future__ import annotations

import json
import time

import pytest
from click.testing import CliRunner

import antiphon
from antiphon import AntiphonError
from antiphon.cli import main
from antiphon.deadline import Deadline, OverTime


def test_limits_are_numbers_of_seconds() -> None:
    Deadline(None).check()
    Deadline(3600).check()
    assert Deadline(None).watching(None) is None
    late = Deadline(1e-9)
    time.sleep(0.001)
    with pytest.raises(OverTime, match="the time limit of 1e-09 s was over"):
        late.check()
    told: list[object] = []
    watched = late.watching(told.append)
    assert watched is not None
    with pytest.raises(OverTime):
        watched(0.5)
    assert told == []
    for wrong in (0, -1, float("nan"), 1e10, "5"):
        with pytest.raises(AntiphonError, match="give seconds, above 0") as error:
            antiphon.compare("ring:4", bytes=4096, time_limit_s=wrong)  # type: ignore[arg-type]
        assert error.value.code == "bad-size"


def test_comparisons_end_in_time() -> None:
    # What is at work ends within its simulation: 1 GiB in packets would take half a minute.
    begun = time.monotonic()
    found = antiphon.compare("mesh:12x12", bytes="1GiB", algorithms="ring,direct", system="tto", time_limit_s=0.3)
    assert time.monotonic() - begun < 15
    assert [refusal.code for refusal in found.refused] == ["time-limit"] * len(found.refused)
    assert len(found.refused) + len(found.runs) == 2
    assert found.refused
    whole = antiphon.compare("ring:4", bytes=4096, algorithms="ring", time_limit_s=3600)
    assert (len(whole.runs), whole.refused) == (1, [])


def test_the_command_says_what_is_left_out() -> None:
    options = ["--bytes", "1GiB", "--algorithms", "direct", "--system", "tto"]
    arguments = ["compare", "mesh:12x12", *options, "--time-limit"]
    result = CliRunner().invoke(main, [*arguments, "500ms", "--json"])
    assert (result.exit_code, result.stderr) == (3, "error: the time limit left out direct\n")
    document = json.loads(result.stdout)
    assert document["runs"] == []
    assert document["refused"][0]["reason"] == "the time limit of 0.5 s was over"
    result = CliRunner().invoke(main, [*arguments, "soon"])
    assert (result.exit_code, result.stderr) == (
        2,
        "error: --time-limit is 'soon', not a time above 0; write for example 90s, 5min or 2h\n",
    )


def test_tuning_keeps_the_sizes_that_are_done() -> None:
    # Half a minute in packets for 1 GiB, half a second for 4 KiB.
    sizes = ["4KiB", "1GiB", "2GiB"]
    tuning = antiphon.tune("mesh:12x12", sizes=sizes, algorithms="direct,ring", system="tto", time_limit_s=5)
    assert [choice.bytes for choice in tuning] == [4096]
    assert (tuning.left_out, tuning.crossovers) == ([1 << 30, 2 << 30], [])
    assert tuning.to_dict()["left_out_bytes"] == [1 << 30, 2 << 30]
    with pytest.raises(OverTime):
        antiphon.tune("mesh:12x12", sizes=sizes[1:], algorithms="direct", system="tto", time_limit_s=0.2)
    command = ["tune", "mesh:12x12", "--sizes", "4KiB,1GiB", "--algorithms", "direct", "--system", "tto"]
    result = CliRunner().invoke(main, [*command, "--time-limit", "5s"])
    assert (result.exit_code, result.stderr) == (3, "error: the time limit left out 1GiB\n")
    assert "Left out when the time limit was over: 1GiB, and crossovers" in result.stdout
