"""Endpoints from Python and the command line; how large an engine must be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.platforms import read_endpoint


def test_the_least_engine_reaches_its_share(commands: Any) -> None:
    advice = antiphon.advise_ace("ace:4x4x4", "8MiB", share=0.9)
    run = antiphon.rails("ace:4x4x4", "8MiB", scheduler="phased", endpoint=advice.endpoint)
    assert advice.ideal_ns / run.time_ns == advice.reached >= 0.9
    least = dict(zip(advice.alone["part"].tolist(), advice.alone["least"].tolist(), strict=True))
    assert least["fsms"] <= advice.fsms
    assert least["sram_bytes"] <= advice.sram_bytes
    # Less memory than alone is too little, with plenty of all else.
    plenty = "fsms=1024,sram=1GiB,alus=1024,bus_gb_per_s=10000"
    less = f"ace:memory_gb_per_s={least['memory_gb_per_s'] - 1},{plenty}"
    slower = antiphon.rails("ace:4x4x4", "8MiB", scheduler="phased", endpoint=less)
    assert advice.ideal_ns / slower.time_ns < 0.9
    assert advice.to_dict()["area_um2"] == advice.area_um2 > 0 < advice.power_mw
    assert "Use it: --endpoint" in commands.invoke("advise", "ace", "ace:4x2x2", "--bytes", "4MiB").output
    # Four adders are not enough, however much there is of the rest.
    any_part = antiphon.advise_ace("4D-Ring_FC_Ring_SW", "4MiB", chunk="16KiB")
    assert any_part.alus > 4
    assert any_part.reached >= 0.95 > any_part.paper_reached
    assert any_part.limit == "fsms"
    # More machines than 1,024, of microseconds of latency and chunks of a nanosecond.
    many = antiphon.advise_ace("sw2@80000/20us,sw2@80000/20us", "16MiB", share=0.8, chunk="16KiB")
    assert many.fsms > 1024


@pytest.mark.parametrize("share", [0, 1, -1.5])
def test_shares_are_checked(commands: Any, share: float) -> None:
    with pytest.raises(antiphon.AntiphonError, match="above 0 and below 1"):
        antiphon.advise_ace("ace:4x4x4", share=share)
    # One chunk must be loaded first.
    with pytest.raises(antiphon.AntiphonError, match=r"no engine reaches 100% .* at most"):
        antiphon.advise_ace("sw2@8000/0ns", "64KiB", "all-gather", share=0.9999)
    refused = commands.refused("advise", "ace", "ace:4x4x4", "--share", "95%")
    assert "'95%' is not a valid float" in refused


@pytest.mark.parametrize(
    "arguments",
    [["simulate", "ace:2x2x2", "hierarchical"], ["rails", "ace:2x2x2"], ["compare", "ring:4", "--algorithms", "ring"]],
)
def test_every_command_takes_an_endpoint(commands: Any, arguments: list[str]) -> None:
    given = [None, "ideal", "npu:memory_gb_per_s=20", "ace"]
    runs = [
        commands.document(*arguments, "--bytes", "1MiB", *(["--endpoint", each] if each else []))
        for each in given[: 3 if arguments[0] == "compare" else 4]
    ]
    assert [each.get("runs", [each])[0]["endpoint"] for each in runs] == ["system", *given[1 : len(runs)]]


SCHEMA = {"schema": "antiphon-calibrate/1"}


def test_an_endpoint_may_be_in_a_file(commands: Any, tmp_path: Path) -> None:
    path, system = tmp_path / "mine.json", tmp_path / "system.toml"
    path.write_text(json.dumps(SCHEMA | {"endpoint": "npu:memory_gb_per_s=5,sms=1", "measured": []}))
    system.write_text(f'name = "mine"\nendpoint = "{path}"')
    for options in (["--endpoint", path], ["--set", f"endpoint={path}"], ["--system", system]):
        run = commands.document("simulate", "ring:4", "ring", "--bytes", "4KiB", *options)
        assert run["endpoint"] == "npu:memory_gb_per_s=5,sms=1"
        assert run["system"] == ("mine" if "--system" in options else "generic")
    with pytest.raises(antiphon.AntiphonError, match='a file of calibrate has one as "endpoint"'):
        antiphon.System().with_(endpoint="machine.json")


LAW = {
    "endpoint": "npu:memory_gb_per_s=40,sms=2,total_sms=10",
    "contention": {"gemm": [[2, 20, 1.2], [2, 60, 1.4], [4, 120, 2.0]], "copy": [[4, 120, 1.1]]},
}
"""Two of three bytes are read: 40 GB/s are a pace of 60."""


@pytest.mark.parametrize(
    ("options", "slowdown"),
    [
        ("", 1.4),
        (":sms=4", 2.0),
        (":sms=3", 1.7),
        (":sms=1", 1.2),
        (":sms=9", 2.0),
        (":memory_gb_per_s=20", 1.25),
        (":beside=copy,sms=4", 1.1),
        (":slowdown=3", 3.0),
    ],
)
def test_a_law_of_contention(commands: Any, tmp_path: Path, options: str, slowdown: float) -> None:
    path = tmp_path / "law.json"
    path.write_text(json.dumps(SCHEMA | LAW))
    run = commands.document("simulate", "ring:4", "ring", "--bytes", "4KiB", "--endpoint", f"{path}{options}")
    assert float(run["endpoint"].rpartition("slowdown=")[2].partition(",")[0]) == slowdown


def test_computation_takes_as_long_as_was_measured(tmp_path: Path) -> None:
    """Whatever decides its time: of a roofline, a systolic array and measured times alike."""
    path = tmp_path / "law.json"
    path.write_text(json.dumps(SCHEMA | LAW))
    times = {}
    for endpoint in ("ideal", f"{path}:sms=4"):
        system = antiphon.System().with_(endpoint=read_endpoint(endpoint))
        for compute in ("roofline", "systolic"):
            how: Any = {"overlap": "layerwise", "compute": compute, "contention": "static"}
            times[endpoint[0], compute] = antiphon.train("alexnet", "ring:4", "ring", system, **how).compute_ns
    for compute in ("roofline", "systolic"):
        assert times["/", compute] == pytest.approx(2 * times["i", compute], rel=1e-3)


def test_the_law_of_an_h200() -> None:
    """At what was measured, it is what was measured: 16 SMs without a pace, and the least of all."""
    law = "python/antiphon/papers/ace/h200.json"
    for options, slowdown in (("", 1.353), (":beside=copy", 1.075), (":sms=1,memory_gb_per_s=40", 1.178)):
        found = float(read_endpoint(law + options).rpartition("slowdown=")[2])
        assert found == pytest.approx(slowdown, abs=0.02), options


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.json:beside=gemm", json.dumps(SCHEMA | {"endpoint": "npu:sms=2"}), "x.json: has no law of"),
        (
            "x.json:beside=sort",
            json.dumps(SCHEMA | LAW),
            "x.json: nothing is measured beside 'sort'; known: gemm, copy",
        ),
        (
            "x.json",
            json.dumps(SCHEMA | {"endpoint": "npu", "contention": {"a": [[1, 5, 2]]}}),
            "contention is by sms and memory",
        ),
        ("x.json", json.dumps(SCHEMA | LAW | {"contention": {"a": [[1]]}}), "rows of contention are [sms"),
        (
            "x.json",
            json.dumps(SCHEMA | LAW | {"contention": {"a": [[1, 5, 0.5]]}}),
            "slowdowns of 1 to 1000; those beside 'a'",
        ),
        ("x.json", json.dumps(SCHEMA | LAW | {"contention": {}}), "is no object of works"),
        ("no.json", None, "no.json: cannot be read"),
        ("x.json", "[1]", "x.json: says no schema, not antiphon-calibrate/1"),
        ("x.json", '{"schema": "antiphon-simulate/1", "endpoint": "npu"}', "x.json: has antiphon-simulate/1, not"),
        ("x.json", json.dumps(SCHEMA), 'x.json: has no "endpoint" such as'),
        ("x.json", json.dumps(SCHEMA | {"endpoint": "npu:sms=81"}), "x.json: endpoint npu: sms=81 is more"),
        ("x.json", " ", "x.json: is empty"),
        ("x.json", "{", "x.json: Expecting"),
        ("x.txt", "{}", "x.txt: the file of an endpoint must end in .json"),
        (".", None, ": the file of an endpoint must end in .json"),
    ],
)
def test_files_without_an_endpoint(commands: Any, tmp_path: Path, name: str, text: str | None, message: str) -> None:
    path = tmp_path / name
    if text is not None:
        (tmp_path / name.partition(":")[0]).write_text(text)
    for options in (["--endpoint", path], ["--set", f"endpoint={path}"]):
        assert message in commands.refused("simulate", "ring:4", "ring", *options)


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "ring:4", "--bytes", "4KiB", "--algorithms", "ring", "--report", "page.html"],
        ["simulate", "ring:4", "ring", "--bytes", "4KiB"],
        ["tune", "ring:4", "--sizes", "4KiB", "--algorithms", "ring"],
        ["flights", "ring:4", "flights.json"],
        ["train", "alexnet", "ring:4", "ring", "--against", "direct", "--report", "page.html"],
        ["train", "alexnet", "ring:4", "ring"],
    ],
)
def test_titles_say_the_endpoint(
    commands: Any, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("flights.json").write_text('[{"algorithm": "ring", "bytes": "4KiB"}]')
    for options, text in ((["--endpoint", "npu:sms=2"], "generic, endpoint npu:sms=2"), ([], "generic")):
        outcome = commands.invoke(*arguments, *options)
        assert outcome.exit_code == 0, outcome.output
        pages = [Path("page.html").read_text()] if "--report" in arguments else []
        for shown in (outcome.output, *pages):
            assert text in shown
            assert ("endpoint npu" in shown) == bool(options)


def test_trainings_against_endpoints_say_whose_speedup_it_is(commands: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    arguments = ("train", "alexnet", "ring:4", "ring", "--endpoint", "ace", "--against-endpoints", "npu")
    shown = commands.invoke(*arguments, "--report", page).output
    assert "of ring with endpoint ace over the algorithm and endpoint of the row." in shown
    assert "<td>ring</td><td>npu</td>" in page.read_text()
    assert "<th>ring with ace is faster</th>" in page.read_text()


def test_one_endpoint_is_listed(commands: Any) -> None:
    (listed,) = commands.document("endpoints", "ace-baseline-compopt:sms=3")["endpoints"]
    assert listed["stands_for"] == "npu:memory_gb_per_s=128,sms=3"
    values = {option["key"]: option["default"] for option in listed["options"]}
    assert (values["memory_gb_per_s"], values["sms"], values["message"]) == ("128", "3", "8KiB")
    assert "What is stored before it is forwarded." in commands.invoke("endpoints", "npu").output
    assert "What it is" in commands.invoke("endpoints", "system").output
    assert commands.invoke("endpoints", "npx").exit_code == 2


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        ("npx", "did you mean 'npu'"),
        ("npu:sms=0", "sms=0"),
        ("npu:memory_gb_per_s=1000", "more than all there is"),
        ("ace:sram=1KiB", "not even one chunk"),
        ("ace:fsm_split=half", "fsm_split=half"),
        ("npu:chunk=1", "100000000 chunks of 1 bytes; at most 65536"),
    ],
)
def test_mistakes_are_one_line(commands: Any, endpoint: str, message: str) -> None:
    assert message in commands.refused("rails", "ace:4x4x4", "--endpoint", endpoint)


def test_what_computation_lacks() -> None:
    def train(endpoint: str, model: str = MEASURED, fabric: str = "ace:4x4x4", **more: Any) -> antiphon.Training:
        system = antiphon.System().with_(endpoint=endpoint)
        return antiphon.train(model, f"rails:{fabric}", "phased", system, overlap="both", **more)

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
    with pytest.raises(antiphon.AntiphonError, match="1526 chunks take 915609156 steps; at most 33554432"):
        antiphon.rails("ace:100000x2x2", scheduler="phased", endpoint="npu")
    with pytest.raises(antiphon.AntiphonError, match="steps; at most 33554432"):
        train("ace", "vgg16", "ace:1000x2x2")


MEASURED = "astrasim1-resnet50-dataparallel"


BOTH = ("--overlap", "both")


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (MEASURED, ("--endpoint", "npu", "--contention", "static"), "with overlap none nothing is computed beside"),
        (MEASURED, ("--endpoint", "npu", "--memory-bound", "0.5"), "--memory-bound 0.5: with overlap none nothing"),
        ("alexnet", (*BOTH, "--memory-bound", "1", "--endpoint", "npu"), "it is for measured times"),
        (MEASURED, (*BOTH, "--memory-bound", "1"), "--memory-bound: endpoint system takes nothing"),
        (MEASURED, (*BOTH, "--contention", "static"), "contention static: endpoint system takes nothing"),
        (MEASURED, (*BOTH, "--endpoint", "npu"), "give --memory-bound, 0 to 1"),
        (MEASURED, ("--memory-bound", "95%"), "'95%' is not a valid float"),
        (MEASURED, ("--order", "foo"), "no order 'foo'; known: fifo, lifo, priority"),
        (MEASURED, ("--order", "lifo"), "use --in-flight shared"),
    ],
)
def test_what_has_no_effect_is_refused(commands: Any, model: str, options: tuple[str, ...], message: str) -> None:
    assert message in commands.refused("train", model, "ring:4", "ring", *options)


def test_trainings_say_what_was_asked(commands: Any) -> None:
    keys = ("order", "unroll", "contention", "memory_bound")
    given = (*BOTH, "--endpoint", "ideal", "--against-endpoints", "npu:memory_gb_per_s=128,sms=2")
    more = ("--order", "lifo", "--unroll", "2", "--contention", "static", "--memory-bound", "0.5")
    run = commands.document("train", MEASURED, "rails:ace:2x2x2", "phased", *given, *more)
    assert [run[key] for key in keys] == ["lifo", 2, "static", 0.5]
    # What one endpoint takes is enough.
    against = run["against"][0]
    assert (run["endpoint"], against["endpoint"]) == ("ideal", "npu:memory_gb_per_s=128,sms=2")
    assert against["iteration_ns"] > run["iteration_ns"]
    # The default may be given, and is what is said.
    run = commands.document("train", "alexnet", "ring:4", "ring", "--order", "priority", "--contention", "dynamic")
    assert [run[key] for key in keys] == ["priority", 1, "dynamic", None]
    left_out = commands.document("train", MEASURED, "ring:4", "ring", *BOTH, "--against-endpoints", "npu")["refused"]
    assert "give --memory-bound, 0 to 1" in left_out[0]["reason"]
