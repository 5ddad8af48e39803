"""Endpoints from Python and the command line; how large an engine must be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import antiphon
from antiphon.cli import main


def command(*arguments: str) -> dict[str, Any]:
    outcome = CliRunner().invoke(main, [*arguments, "--json"])
    assert outcome.exit_code == 0, outcome.output
    return json.loads(outcome.stdout)


def test_the_least_engine_reaches_its_share() -> None:
    advice = antiphon.advise_ace("ace:4x4x4", "8MiB", share=0.9)
    run = antiphon.rails("ace:4x4x4", "8MiB", scheduler="phased", endpoint=advice.endpoint)
    assert advice.ideal_ns / run.time_ns == advice.reached >= 0.9
    least = dict(zip(advice.alone["part"].tolist(), advice.alone["least"].tolist(), strict=True))
    assert least["fsms"] <= advice.fsms
    assert least["sram_bytes"] <= advice.sram_bytes
    # Less memory than alone is too little, with plenty of all else.
    less = f"ace:memory_gb_per_s={least['memory_gb_per_s'] - 1},fsms=1024,sram=1GiB"
    slower = antiphon.rails("ace:4x4x4", "8MiB", scheduler="phased", endpoint=less)
    assert advice.ideal_ns / slower.time_ns < 0.9
    assert advice.to_dict()["area_um2"] == advice.area_um2 > 0 < advice.power_mw
    assert "Use it: --endpoint" in CliRunner().invoke(main, ["advise", "ace", "ace:4x2x2", "--bytes", "4MiB"]).output


@pytest.mark.parametrize("share", [0, 1, -1.5])
def test_shares_are_checked(share: float) -> None:
    with pytest.raises(antiphon.AntiphonError, match="above 0 and below 1"):
        antiphon.advise_ace("ace:4x4x4", share=share)


def test_an_engine_that_must_load_one_chunk_first_is_slower() -> None:
    with pytest.raises(antiphon.AntiphonError, match=r"no engine reaches 100% .* at most"):
        antiphon.advise_ace("sw2@8000/0ns", "64KiB", "all-gather", share=0.9999)


@pytest.mark.parametrize("arguments", [["simulate", "ace:2x2x2", "hierarchical"], ["rails", "ace:2x2x2"]])
def test_every_command_takes_an_endpoint(arguments: list[str]) -> None:
    times = [
        command(*arguments, "--bytes", "1MiB", *endpoint)
        for endpoint in ([], ["--endpoint", "ideal"], ["--endpoint", "npu:memory_gb_per_s=20"], ["--endpoint", "ace"])
    ]
    names = [each.get("runs", [each])[0]["endpoint"] for each in times]
    assert names == ["system", "ideal", "npu:memory_gb_per_s=20", "ace"]


def test_compare_and_train_say_the_endpoint() -> None:
    compared = command("compare", "ring:4", "--algorithms", "ring", "--bytes", "64KiB", "--endpoint", "ideal")
    assert compared["runs"][0]["endpoint"] == "ideal"
    trained = command(
        "train", "alexnet", "rails:ace:2x2x2", "phased", "--overlap", "both", "--compute", "roofline", "--endpoint",
        "ace", "--against-endpoints", "ideal,npu:memory_gb_per_s=128,sms=2",
    )  # fmt: skip
    assert trained["endpoint"] == "ace"
    against = trained["against"]
    assert [each["endpoint"] for each in against] == ["ideal", "npu:memory_gb_per_s=128,sms=2"]
    assert against[1]["exposed_communication_ns"] > trained["exposed_communication_ns"]


def test_an_endpoint_may_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"endpoint": "npu:memory_gb_per_s=5,sms=1", "measured": []}))
    assert command("simulate", "ring:4", "ring", "--bytes", "4KiB", "--endpoint", str(path))["endpoint"] == (
        "npu:memory_gb_per_s=5,sms=1"
    )
    outcome = CliRunner().invoke(main, ["simulate", "ring:4", "ring", "--endpoint", "no.json"])
    assert outcome.output.startswith("error: no.json: cannot be read")
    path.write_text("[1]")
    outcome = CliRunner().invoke(main, ["simulate", "ring:4", "ring", "--endpoint", str(path)])
    assert outcome.exit_code == 2
    assert 'no "endpoint" such as' in outcome.output


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        ("npx", "did you mean 'npu'"),
        ("npu:sms=0", "sms=0"),
        ("npu:memory_gb_per_s=1000", "more than all there is"),
        ("ace:sram=1KiB", "not even one chunk"),
        ("ace:fsm_split=half", "fsm_split=half"),
    ],
)
def test_mistakes_are_one_line(endpoint: str, message: str) -> None:
    outcome = CliRunner().invoke(main, ["rails", "ace:4x4x4", "--endpoint", endpoint])
    assert outcome.exit_code == 2
    assert message in outcome.output
    assert outcome.output.count("\n") == 1


def test_what_computation_lacks() -> None:
    def train(endpoint: str, **more: Any) -> antiphon.Training:
        system = antiphon.System().with_(endpoint=endpoint)
        return antiphon.train(
            "astrasim1-resnet50-dataparallel", "rails:ace:4x4x4", "phased", system, overlap="both", **more
        )  # type: ignore[arg-type]

    with pytest.raises(antiphon.AntiphonError, match="give memory_bound"):
        train("npu")
    alone = train("ideal").compute_ns
    static = train("ace-baseline-commopt", contention="static", memory_bound=1).compute_ns
    assert static == pytest.approx(2 * alone, rel=1e-3)
    assert alone < train("ace-baseline-commopt", memory_bound=1).compute_ns <= static
    with pytest.raises(antiphon.AntiphonError, match="leaves nothing to compute with"):
        train("ace-baseline-nooverlap", memory_bound=1)
    two = train("ace", memory_bound=0.5, unroll=2, order="lifo")
    assert two.iteration.count == 2
    assert two.iteration.network.height == 400
    assert two.iteration.exchanges.height == 2 * train("ace", memory_bound=0.5).iteration.exchanges.height
