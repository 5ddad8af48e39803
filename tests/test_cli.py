"""The command line: its contract (arguments, JSON keys, exit status) and its answers to bad input."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import json_keys
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from records import has_keys
from rich.console import Console

import antiphon
from antiphon import files
from antiphon.cli import main
from antiphon.collective.specs import split_specs
from antiphon.papers.tto.artifact import built

SMALL = ("--bytes", "64KiB")
GONE = 141
"""Exit status where the reader of the output is gone."""
RUN_KEYS: dict[type, str] = {
    str: "fabric algorithm collective system fidelity lower_bound_of known_gaps",
    int: "bytes flit_hops packet_hops steps",
    float: "time_ns lower_bound_ns efficiency algorithm_bandwidth_gb_per_s algorithm_bandwidth_gib_per_s "
    "bus_bandwidth_gb_per_s link_utilization_mean link_utilization_max first_chunk_ns last_chunk_ns "
    "slowest_link_gb_per_s",
    bool: "verified",
    list: "excluded_ranks rounded_rates",
    dict: "bound",
}


def antiphon_process(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "antiphon", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def run_without_reader(*arguments: str) -> None:
    """Runs a command whose output nobody reads: it ends without a word."""
    process = antiphon_process(*arguments)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) in (0, GONE)


def test_rates_that_a_clock_rounds_are_said(commands: Any) -> None:
    simulate = ("simulate", "fc:2@900/5ns", "direct", *SMALL, "--system")
    assert commands.document(*simulate, "tto")["rounded_rates"] == [{"rate_gb_per_s": 900, "effective_gb_per_s": 512}]
    assert commands.document(*simulate, "generic")["rounded_rates"] == []
    assert "links of 900 GB/s carry 512; --set clock_ns=0 sends" in commands.invoke(*simulate, "tto").output
    for system, rate in ((["tto"], 512), (["tto", "--set", "clock_ns=0"], 900), (["generic"], 900)):
        assert commands.document(*simulate, *system)["slowest_link_gb_per_s"] == rate
    assert "Endpoint npu stands in" in commands.invoke(*simulate, "tto", "--endpoint", "npu").output


def test_compare(commands: Any) -> None:
    comparison = commands.document("compare", "mesh:4x4", *SMALL)
    assert comparison["runs"]
    order = [(run["lower_bound_of"] != "all-ranks", run["time_ns"]) for run in comparison["runs"]]
    assert order == sorted(order)
    for run in comparison["runs"]:
        has_keys(run, RUN_KEYS)
        assert run["verified"]
        assert run["efficiency"] == pytest.approx(run["lower_bound_ns"] / run["time_ns"])
        assert run["root"] is None
    for refusal in comparison["refused"]:
        assert refusal["algorithm"]
        assert refusal["reason"]
        assert "\n" not in refusal["reason"]
    rooted = commands.document("compare", "ring:4", *SMALL, "--collective", "reduce", "--root", "1")
    assert {run["root"] for run in rooted["runs"]} == {1}
    assert len(rooted["runs"]) + len(rooted["refused"]) == len(antiphon.algorithms())
    result = commands.invoke("compare", "mesh:3x3", *SMALL, "--algorithms", "ring-2d,tto", "--algorithms", "dbtree")
    for text in ("ring-2d", "tto", "dbtree", "Lower bound", "✓"):
        assert text in result.stdout
    nothing = commands.invoke("compare", "switch:4", *SMALL, "--algorithms", "tto", "--json")
    assert (nothing.exit_code, "no algorithm" in nothing.stderr) == (1, True)
    assert json.loads(nothing.stdout)["refused"][0]["algorithm"] == "tto"


def test_runs_without_some_ranks_come_last(commands: Any) -> None:
    problem = ("mesh:2x2", "--bytes", "64MiB", "--system", "tto")
    comparison = commands.document("compare", *problem, "--algorithms", "tto,ring,dbtree")
    runs = comparison["runs"]
    assert [run["algorithm"] for run in runs] == ["ring", "dbtree", "tto"]
    assert runs[2]["time_ns"] < runs[1]["time_ns"], "apart, though faster"
    assert [run["lower_bound_of"] for run in runs] == ["all-ranks", "all-ranks", "participants"]
    assert [run["lower_bound_ns"] == comparison["lower_bound_ns"] for run in runs] == [True, True, False]
    assert runs[2] == {key: commands.document("simulate", *problem[:1], "tto", *problem[1:])[key] for key in runs[2]}
    printed = commands.invoke("simulate", *problem[:1], "tto", *problem[1:]).stdout
    assert "for the ranks that take part; reached to" in printed
    assert "come after the others" in commands.invoke("compare", *problem, "--algorithms", "tto,ring").stdout


def test_ranks_on_one_node_have_no_bound(commands: Any, tmp_path: Path) -> None:
    fabric, file = antiphon.Fabric("mesh:2x2"), tmp_path / "crowded.json"
    file.write_text(built(fabric, "artifact-dbtree", "all-reduce", 33333, antiphon.System("ideal")).to_json())
    problem = ("mesh:2x2", "--schedule", str(file), "--system", "ideal")
    run = commands.document("simulate", *problem)
    assert (run["lower_bound_of"], run["lower_bound_ns"], run["efficiency"]) == ("placement", 0, None)
    assert "none: its ranks share a node" in commands.invoke("simulate", *problem).stdout
    assert " - │" in commands.invoke("compare", *problem, "--algorithms", "ring").stdout


def test_latency_is_the_limit_of_little_data(commands: Any) -> None:
    """14 hops of 17 flits of 21 ns, and a hand-off of 12 ns: what packets need by themselves."""
    problem = ("mesh:6x10", "--bytes", "4KiB", "--system", "tto")
    compared = commands.document("compare", *problem, "--algorithms", "optimal")
    assert compared["lower_bound_ns"] == 14 * 357 + 12 == commands.document("bound", *problem)["lower_bound_ns"]
    assert (compared["bound"]["binding"], compared["bound"]["fidelity"]) == ("latency", "packet")
    done = commands.invoke("compare", *problem, "--algorithms", "optimal")
    assert "Lower bound: 5.01 µs (latency; by rates 101 ns)" in done.stdout
    assert "Limit: latency, of a packet on its way between the ranks farthest apart" in done.stdout
    assert "its busiest link needs 178 ns of its 5.91 µs, the rest is what rates leave out" in done.stdout
    several = commands.document("compare", *problem, "--algorithms", "direct", "--fidelity", "alpha-beta,packet")
    assert [run["bound"]["fidelity"] for run in several["runs"]] == ["packet", "alpha-beta"]
    compared = commands.invoke("compare", "mesh:8x8", "--bytes", "256KiB", "--system", "tto", "--algorithms", "combs")
    assert "(strength and latency, 5.01 µs)" in compared.stdout


@pytest.mark.parametrize("width", [60, 80, 200])
def test_narrow_terminals_get_fewer_columns(commands: Any, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "antiphon.view.terminal.render.Plain", lambda **_: Console(width=width, markup=False, highlight=False)
    )
    result = commands.invoke("compare", "mesh:8x8", *SMALL, "--system", "tto")
    assert "…" not in result.stdout
    assert width == 60 or "halving-doubling │" in result.stdout
    assert ("without rank 56 │" in result.stdout) == (width >= 80)  # folded below
    assert ("Bus bandwidth" in result.stdout) == (width == 200)


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "resnet50", "ring:4", "ring", "--against", "direct", "--energy"),
        ("compare", "mesh:3x3", *SMALL, "--energy"),
        ("simulate", "ring:4", "ring", *SMALL, "--energy"),
        ("tune", "ring:4", "--sizes", "1MiB", "--energy"),
        ("rails", "ring4@1000/20ns,sw8@800/700ns", "--energy"),
        ("study", str(Path(__file__).parents[1] / "examples" / "study.toml"), "--dry-run"),
        ("algorithms",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_tables_fit_80_columns(commands: Any, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    def narrow(**_given: Any) -> Console:
        return Console(markup=False, highlight=False, width=80)

    monkeypatch.setattr("antiphon.view.terminal.render.Plain", narrow)
    printed = commands.invoke(*arguments).stdout
    # Sentences are wrapped by the terminal.
    tables = [line for line in printed.splitlines() if line[:1] in "┏┡│└┃" or arguments == ("algorithms",)]
    assert tables
    assert max(map(len, tables)) <= 80
    assert "…" not in printed


def test_what_switches_do_is_said(commands: Any) -> None:
    assert "Switches add and multicast here (on-read)" in commands.invoke("bound", "dgx-h100:1", *SMALL).stdout
    said = "Switches only forward here"
    for command in (
        ("bound", "dgx-a100:1"),
        ("compare", "switch:4", "--algorithms", "ring"),
        ("simulate", "dgx1v", "ring"),
    ):
        printed = commands.invoke(*command, *SMALL).stdout
        assert (said in printed) == (command[1] != "dgx1v")
    assert said in commands.invoke("tune", "switch:4", "--sizes", "1KiB").stdout
    assert said in commands.invoke("train", "alexnet", "switch:4", "ring").stdout
    assert said not in commands.invoke("bound", "mesh:3x3", "--group", "0-2", *SMALL).stdout


def test_show_and_verify_a_written_schedule(commands: Any, tmp_path: Path) -> None:
    file = tmp_path / "ring.json"
    shown = commands.document("show", "mesh:4x4", "ring", *SMALL, "--out", str(file))
    assert shown["steps"] == sum(phase["steps"] for phase in shown["phases"])
    assert (len(shown["links"]), shown["verified"], os.listdir(tmp_path)) == (48, True, ["ring.json"])
    verified = commands.document("verify", "mesh:4x4", "--schedule", str(file))
    assert (verified["verified"], verified["algorithm"]) == (True, shown["algorithm"])
    assert commands.document("verify", "mesh:4x4", "ring", *SMALL) == verified
    assert "proven; every rank ends" in commands.invoke("verify", "mesh:4x4", "ring", *SMALL).stdout
    assert "without rank 12, every other rank ends" in commands.invoke("verify", "mesh:4x4", "tto", *SMALL).stdout
    timed = commands.document("simulate", "mesh:4x4", "--schedule", str(file))
    assert timed == commands.document("simulate", "mesh:4x4", "ring", *SMALL)
    schedule = json.loads(file.read_text())
    schedule["transfers"][0]["op"] = "copy"
    file.write_text(json.dumps(schedule))
    result = commands.invoke("verify", "mesh:4x4", "--schedule", str(file), "--json")
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["verified"]) == (1, False)
    assert "rank" in answer["counter_example"]
    assert "rank" in commands.refused("verify", "mesh:4x4", "--schedule", str(file))


def test_pictures_are_drawn(commands: Any, tmp_path: Path) -> None:
    """Of a fabric alone, of the trees of a schedule, of the links of a run."""
    drawn = {
        ("show", "dgx-h100:2"): "box 0",
        ("show", "mesh:4x4", "tto", *SMALL): "tree, lane 0",
        ("simulate", "mesh:4x4", "ring", *SMALL): "ring: all-reduce of 64KiB on mesh:4x4",
        ("compare", "mesh:4x4", "--algorithms", "ring,direct", *SMALL): "busy 30 %",
    }
    for number, (arguments, text) in enumerate(drawn.items()):
        file = tmp_path / f"{number}.svg"
        said = commands.invoke(*arguments, "--picture", str(file)).stdout
        assert said.endswith(f"Picture: {file}\n")
        assert text in file.read_text("utf-8")
    alone = commands.document("show", "dgx-h100:2", "--picture", str(tmp_path / "alone.svg"))
    assert (alone["ranks"], alone["node_count"], alone["link_count"]) == (16, 26, 64)


def test_slots_of_a_timetable_are_no_steps(commands: Any) -> None:
    command = ("mesh:4x4", "optimal", "--bytes", "1MiB")
    figures = commands.document("show", *command)
    assert figures["steps"] > figures["messages"]
    shown = commands.invoke("show", *command).stdout
    assert "Links without traffic" in shown
    assert "Links in use" not in shown
    for text in (shown, commands.invoke("simulate", *command).stdout):
        assert "Steps" not in text
        assert f"{figures['steps']:,}" not in text
    compared = commands.invoke("compare", *command[:1], "--algorithms", "optimal,ring", "--bytes", "1MiB").stdout
    assert f"{figures['steps']:,}" not in compared


def test_show_prints_dimensions(commands: Any) -> None:
    spec = "torus:2x4@50/90ns+25"
    shown = commands.document("show", spec, "ring", *SMALL, "--system", "generic")["dimensions"]
    assert shown == [
        {"shape": "ring", "size": 2, "rate_gb_per_s": 50, "latency_ns": 90},
        {"shape": "ring", "size": 4, "rate_gb_per_s": 25, "latency_ns": antiphon.System("generic").link_latency_ns},
    ]
    assert "ring of 2, 50 GB/s, 90 ns" in commands.invoke("show", spec, "ring", *SMALL).stdout
    assert commands.document("show", "dgx1v", "ring", *SMALL)["dimensions"] == []
    refused = commands.refused("show", "torus:2x4@1+2+3", "ring", *SMALL)
    assert "3 rates for 2 dimension(s); write one for all or one for each, joined by +" in refused


@pytest.mark.parametrize("command", ["fabrics", "algorithms", "systems"])
def test_lists(commands: Any, command: str) -> None:
    rows = commands.document(command)[command]
    printed = commands.invoke(command).stdout
    assert rows
    for row in rows:
        assert row.get("name", row.get("kind")) in printed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(commands: Any, shell: str) -> None:
    result = commands.invoke("completion", shell)
    assert (result.exit_code, "_ANTIPHON_COMPLETE" in result.stdout) == (0, True)
    words = "antiphon simulate mesh:4x4 tt"
    given = {
        "_ANTIPHON_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": "tt" if shell == "fish" else "3",
    }
    stdout, _ = antiphon_process(env=os.environ | given).communicate(timeout=60)
    assert re.search(r"plain[,\n]tto", stdout)


def test_algorithm_lists() -> None:
    assert split_specs(["ring,tto:chunk=96KiB,barrier=no,direct", "dbtree:mapping=x"]) == [
        "ring",
        "tto:chunk=96KiB,barrier=no",
        "direct",
        "dbtree:mapping=x",
    ]
    assert split_specs(["a=b"]) == ["a=b"]
    assert split_specs([","]) == ["", ""]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frobnicate"], "frobnicate"),
        (["compare"], "FABRIC"),
        (["compare", "msh:4x4"], "did you mean 'mesh'"),
        (["compare", "mesh:0x4"], ""),
        (["compare", ""], ""),
        (["compare", "file:"], ""),
        (["compare", "file:nowhere.json"], "nowhere.json"),
        (["compare", "file:."], "file"),
        (["compare", "mesh:4x4", "--algorithms", "rign"], "did you mean 'ring'"),
        (["compare", "mesh:4x4", "--algorithms", "tto:chunk"], "chunk"),
        (["compare", "mesh:4x4", "--algorithms", ","], ""),
        (["compare", "mesh:4x4", "--collective", "allredcue"], "did you mean 'all-reduce'"),
        (["compare", "mesh:4x4", "--system", "genric"], "did you mean 'generic'"),
        (["compare", "mesh:4x4", "--fidelity", "pakcet"], "did you mean 'packet'"),
        (["compare", "mesh:4x4", "--collective", "broadcast", "--root", "16"], "root 16"),
        (["compare", "mesh:4x4", "--root", "-1"], "root"),
        (["compare", "mesh:4x4", "--root", "x"], "root"),
        (["compare", "mesh:4x4", "--bytes", "0"], "positive"),
        (["compare", "mesh:4x4", "--bytes", "-5"], "positive"),
        (["compare", "mesh:4x4", "--bytes", "9" * 5000], "large"),
        (["compare", "mesh:4x4", "--bytes"], "--bytes"),
        (["compare", "mesh:4x4", "--report", "out.pdf"], ".html"),
        (["compare", "mesh:4x4", "--report", "no/such/folder.html"], "No such file"),
        (["compare", "mesh:4x4", "--report", ""], ".html"),
        (["compare", "mesh:4x4", "surplus"], "surplus"),
        (["show", "mesh:4x4"], "give an ALGORITHM, or --picture OUT.svg"),
        (["show", "mesh:4x4", "ring", "--picture", "ring.png"], "a page of --report saves them as PNG"),
        (["show", "mesh:4x4", "ring", "--picture", "ring.html"], ".svg"),
        (["compare", "mesh:4x4", "ring:4", "--picture", "x.svg"], "--picture is for one fabric"),
        (["simulate", "mesh:4x4"], "ALGORITHM"),
        (["verify", "mesh:4x4", "--schedule", "x.json", "--bytes", "1MiB"], "x.json: cannot be read"),
        (["simulate", "mesh:4x4", "--schedule", "x.json", "--root", "0"], "--root is what the schedule says"),
        (["bound", "mesh:4x4", "--group", "0,1", "--group", "2,3"], "--group is given twice"),
        (["verify", "mesh:4x4"], "--schedule"),
        (["verify", "mesh:4x4", "ring", "--schedule", "x"], "--schedule"),
        (["verify", "mesh:4x4", "--schedule", "."], "directory"),
        (["verify", "mesh:4x4", "--schedule", "/dev/zero"], "not a regular file"),
        (["show", "mesh:4x4", "ring", "--out", "x.yaml"], ".json"),
        (["completion", "tcsh"], "tcsh"),
        (["compare", "mesh:4x4", "--bogus"], "--bogus"),
        (["compare", "mesh:4\udcff"], "UTF-8"),
    ],
)
def test_bad_input(
    commands: Any, arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in commands.refused(*arguments)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "hostile.json: schedule: EOF"),
        (b"{", "hostile.json: "),
        (b"[]", "hostile.json: "),
        (b'{"schema": "antiphon-schedule/1"}', "schema is 'antiphon-schedule/1', expected 'antiphon-schedule/2'"),
        (b'{"schema": "antiphon-schedule/2", "surplus": 1}', "hostile.json: schedule: unknown field"),
        (b"\x00", "hostile.json: "),
        (b"[" * 100_000, "hostile.json: "),
        (b"\xff\xfe\x00", "UTF-8"),
    ],
)
def test_bad_files(commands: Any, text: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "hostile.json"
    file.write_bytes(text)
    assert message in commands.refused("verify", "mesh:4x4", "--schedule", str(file))
    commands.refused("compare", f"file:{file}")


@pytest.mark.parametrize("fabric", ["torus:4x4", "mesh:4x5"])
def test_a_schedule_for_another_fabric_is_no_finding(commands: Any, tmp_path: Path, fabric: str) -> None:
    file = str(tmp_path / "ring.json")
    commands.invoke("show", "mesh:4x4", "ring", *SMALL, "--out", file)
    for command in (
        ("verify", fabric, "--schedule", file),
        ("verify", file, "--fabric", fabric),
        ("simulate", fabric, "--schedule", file),
        ("compare", fabric, "--schedule", file),
        ("replan", file, "--fabric", fabric, "--fail", "0-1"),
    ):
        result = commands.invoke(*command)
        assert result.exit_code == 2
        assert f"{file}: schedule: it is for mesh:4x4, not for {fabric} (" in result.stderr.replace("\n", " ")


KNOWN_WORDS = """
    ring:4 mesh:3x3 switch:3 dgx1v mesh: file: torus:2x2,drop=0-1 mesh:3x3@ ring tto dbtree:mapping=x tto:chunk=1
    all-gather broadcast generic tto packet alpha-beta --json --bytes --root --collective --algorithms --system
    --fidelity --report --schedule --schedule-json 1 64KiB 0 -1 a.html a.json ./b.html -- --help = , :
    --rate --vcs --traffic uniform
"""
# --debug prints tracebacks.
WORDS = st.one_of(st.sampled_from(KNOWN_WORDS.split()), st.text(max_size=12).filter(lambda word: word != "--debug"))
COMMANDS = st.sampled_from([*main.commands, "--version", "--help"])
SOON = {
    "calibrate": ("--seconds", "0.01", "--size", "64KiB", "--gemm", "16"),
    "beside": ("--message", "16MiB"),
    "vary": ("--draws", "2"),
}
"""What commands are given that else work for seconds."""


@given(command=COMMANDS, words=st.lists(WORDS, max_size=7))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_arguments_never_crash(
    commands: Any, command: str, words: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("fuzz"))
        result = commands.invoke(command, *SOON.get(command, ()), *words)
        left = [name for name in os.listdir() if name.endswith(".tmp")]
    assert result.exit_code in (0, 1, 2), result.output
    assert "Traceback" not in result.output
    assert "internal error" not in result.output
    assert not left
    # A former name of an option has a hint above the line of the error.
    if result.exit_code and not result.stderr.startswith(("Usage", "hint: ")):
        commands.error(result)


def test_unexpected_failures_are_one_line(commands: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr(antiphon, "fabrics", broken)
    assert "internal error: RuntimeError: first line second line" in commands.refused("fabrics")
    debugged = commands.invoke("fabrics", "--debug")
    assert debugged.exit_code == 2
    assert "Traceback" in debugged.stderr


def test_reports_replace_files_only_when_complete(
    commands: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "out.html"
    page.write_text("old")

    def broken(*_: Any) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("antiphon.view.pages.comparison.render", broken)
        result = commands.invoke("compare", "ring:4", *SMALL, "--report", str(page))
    assert result.exit_code == 130
    assert result.stderr == "interrupted\n"
    assert page.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.html"]
    assert commands.invoke("compare", "ring:4", *SMALL, "--report", str(page)).exit_code == 0
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert os.listdir(tmp_path) == ["out.html"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user who can be refused")
def test_read_only_folder(commands: Any, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "Permission denied" in commands.refused("compare", "ring:4", *SMALL, "--report", str(tmp_path / "out.html"))


def test_ctrl_c_ends_a_long_run(commands: Any, tmp_path: Path) -> None:
    """In a simulation and outside."""
    commands.interrupt("simulate", "mesh:8x8", "multitree", "--bytes", "1GiB", "--fidelity", "flit")
    commands.interrupt("compare", "fc:700", "--report", tmp_path / "out.html", when="before")
    assert os.listdir(tmp_path) == []


def test_exit_status_tells_findings_from_mistakes(commands: Any, tmp_path: Path) -> None:
    lost = json.loads(antiphon.build(antiphon.Fabric("ring:4"), "ring", bytes="64KiB").to_json())
    lost["transfers"].pop()
    (tmp_path / "lost.json").write_text(json.dumps(lost))
    for status, arguments in (
        (0, ("verify", "ring:4", "ring", *SMALL)),
        (1, ("verify", "ring:4", "--schedule", str(tmp_path / "lost.json"))),
        (1, ("simulate", "mesh:3x3", "ring-bi", *SMALL)),
        (1, ("compare", "mesh:3x3", "--algorithms", "ring-bi", *SMALL)),
        (2, ("simulate", "mesh:3x3", "rnig", *SMALL)),
        (2, ("simulate", "mesh:3x3")),
        (2, ("verify", "ring:4", "--schedule", str(tmp_path / "none.json"))),
        (2, ("simulate", "mesh:9999x9999", "ring")),
    ):
        result = commands.invoke(*arguments)
        assert result.exit_code == status, (arguments, result.output)


def test_a_report_is_there_though_the_reader_is_gone(tmp_path: Path) -> None:
    files = {
        ("compare", "ring:4", *SMALL, "--report"): tmp_path / "out.html",
        ("tune", "ring:4", "--sizes", "64KiB", "--algorithms", "ring", "--out"): tmp_path / "table.json",
        ("show", "ring:4", "ring", *SMALL, "--out"): tmp_path / "schedule.json",
        ("train", "alexnet", "ring:4", "ring", "--report"): tmp_path / "train.html",
    }
    for arguments, file in files.items():
        run_without_reader(*arguments, str(file))
        assert file.stat().st_size > 1000 or file.suffix == ".json"
    assert {path.name for path in tmp_path.iterdir()} == {file.name for file in files.values()}


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="needs files without names")
def test_a_killed_command_leaves_no_file_behind(tmp_path: Path) -> None:
    code = """
from antiphon.files import written_whole
with written_whole("out.html", ".html") as file:
    file.write("half")
    file.flush()
    print("writing", flush=True)
    input()
"""
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == b"writing\n"
    process.kill()
    process.communicate()
    assert os.listdir(tmp_path) == []


def test_files_where_all_files_need_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        with files.written_whole(tmp_path / "out.html", ".html") as file:
            file.write("half")
            raise ZeroDivisionError

    for nameless in (files._nameless, lambda _folder: None):
        monkeypatch.setattr(files, "_nameless", nameless)
        with files.written_whole(tmp_path / "out.html", ".html") as file:
            file.write("µ")
        with pytest.raises(ZeroDivisionError):
            broken()
        assert (tmp_path / "out.html").read_text("utf-8") == "µ"
        assert (tmp_path / "out.html").stat().st_mode & 0o777 == 0o666 & ~files._umask()
        assert os.listdir(tmp_path) == ["out.html"]


def test_left_out_is_grouped_by_reason(commands: Any) -> None:
    problem = ("--collective", "broadcast", "--bytes", "64KiB")
    for arguments in (("compare", "mesh:2x2", *problem), ("tune", "mesh:2x2", *problem[:2], "--sizes", "64KiB")):
        lines = commands.invoke(*arguments).stdout.splitlines()
        left_out = [line.strip() for line in lines[lines.index("Left out:") + 1 :]]
        (others,) = (line for line in left_out if line.endswith(": for other collectives than broadcast"))
        assert {"ring", "bruck", "halving-doubling"} <= set(others.partition(":")[0].split(", "))
        reasons = [line.partition(": ")[2] for line in left_out]
        assert len(reasons) == len(set(reasons))


@pytest.mark.parametrize(
    ("redirection", "status", "said"),
    [
        ("", 0, ""),  # an encoding without the characters of the tables
        (">&-", 2, "error: the output cannot be written: standard output is closed\n"),
        (">/dev/full", 2, "error: the output cannot be written: No space left on device\n"),
    ],
)
def test_poor_outputs(redirection: str, status: int, said: str) -> None:
    script = f'"{sys.executable}" -m antiphon simulate ring:4 ring --bytes 64KiB {redirection}'
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stderr) == (status, said)
    assert ("ring on ring:4" in done.stdout) == (status == 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", f"mesh:{'9' * 300}"),
        ("compare", "mesh:2x2", "--root", "9" * 300),
        ("noc", "mesh:2x2", "--rate", "9" * 300),
    ],
)
def test_endless_numbers_are_not_repeated_whole(commands: Any, arguments: tuple[str, ...]) -> None:
    said = commands.refused(*arguments)
    assert "..." in said
    assert len(said) < 150


def test_a_byte_order_mark_is_no_content(commands: Any, tmp_path: Path) -> None:
    texts = {
        "schedule.json": antiphon.build("ring:4", "ring").to_json(),
        "fabric.json": antiphon.Fabric("ring:4").to_json(),
        "system.json": '{"preset": "tto"}',
        "system.toml": 'preset = "tto"',
        "flights.json": '[{"algorithm": "ring"}]',
        "study.toml": 'command = "rails"\nfixed.topology = "2D-SW_SW"',
    }
    files = {name: tmp_path / name for name in texts}
    for name, text in texts.items():
        files[name].write_text(text, "utf-8-sig")
    for command in (
        ("verify", f"file:{files['fabric.json']}", "--schedule", files["schedule.json"]),
        ("bound", "ring:4", "--system", files["system.json"]),
        ("bound", "ring:4", "--system", files["system.toml"]),
        ("flights", "ring:4", files["flights.json"]),
        ("study", files["study.toml"], "--dry-run"),
    ):
        done = commands.invoke(*command)
        assert done.exit_code == 0, (command, done.output)


def keys_of(value: Any) -> set[str]:
    """The keys of all objects in a value."""
    if isinstance(value, list):
        return set().union(*map(keys_of, value))
    return set(value).union(*map(keys_of, value.values())) if isinstance(value, dict) else set()


def documented(page: str, heading: str) -> set[str]:
    """What the page of JSON keys has in code under a heading, and under those that this one refers to."""
    sections = {part.partition("\n")[0].lower(): part for part in page.split("\n## ")}
    found = sections[heading]
    found += "".join(sections.get(name.replace("-", " "), "") for name in re.findall(r"\(#([\w-]+)\)", found))
    return {key for code in re.findall(r"`([^`\n]+)`", found) for key in code.split(".")} | {"schema", "version"}


def test_every_key_is_documented(commands: Any, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parent.parent
    page = json_keys.page()
    problem = ("ring:4", *SMALL)
    (tmp_path / "flights.json").write_text('[{"algorithm": "ring"}, {"algorithm": "direct"}]', "utf-8")
    (tmp_path / "rails.json").write_text('[{"bytes": "1MiB"}]', "utf-8")
    space = 'algorithms = ["ring", "tto"]\nbytes = ["1KiB", "2KiB"]\n[fabrics]\nring = "ring:4"\n'
    (tmp_path / "space.toml").write_text(space, "utf-8")
    found: dict[str, set[str]] = {}
    for command in (
        ("compare", *problem),
        ("compare", "dgx-h100:1", "--bytes", "1MiB", "--algorithms", "ring,tto", "--library", "nccl"),
        ("simulate", "ring:4", "ring", *SMALL, "--energy", "--endpoint", "ace"),
        ("verify", "ring:4", "ring", *SMALL),
        ("show", "ring:4", "ring", *SMALL),
        ("show", "aries:4x4", "ring", *SMALL),
        ("show", "ring:4", "--picture", str(tmp_path / "ring.svg")),
        ("export", "ring:4", "ring", *SMALL, "--out", str(tmp_path / "ring.xml")),
        ("export", "ring:4", "ring", *SMALL, "--format", "chakra", "--out", str(tmp_path / "ring")),
        ("export", "ring:4", "--format", "dot", "--out", str(tmp_path / "ring.dot")),
        ("verify", str(tmp_path / "ring.xml")),
        ("bound", *problem),
        ("flights", "ring:4", str(tmp_path / "flights.json"), "--energy"),
        ("beside", "ring:4", "ring", *SMALL),
        ("vary", "ring:4", "ring", *SMALL, "--slow", "uniform:0.5..1", "--draws", "4", "--replan"),
        ("noc", "ring:4", "--rate", "0.1,0.2"),
        ("noc", "ring:4", "--saturation", "--warm-up-cycles", "500", "--cycles", "500"),
        ("area", "ring:4"),
        ("configure", "aries:4x4", "ring", *SMALL),
        ("train", "alexnet", "ring:4", "ring", "--against", "direct"),
        ("replay", str(tmp_path / "ring"), "ring:4", "ring", "--fidelity", "alpha-beta"),
        ("tune", "ring:4", "--sizes", "1KiB,1MiB"),
        ("limits", "ring:4", "--sizes", "1KiB,1MiB", "--algorithms", "ring"),
        ("tune", "dgx-h100:1", "--sizes", "1KiB,1MiB", "--out", str(tmp_path / "rows.csv")),
        ("run", "ring:2", "ring", "--bytes", "1KiB", "--transport", "threads"),
        ("expect", "dgx-h100:2"),
        ("rails", "2D-SW_SW"),
        ("rails", "2D-SW_SW", "--flights", str(tmp_path / "rails.json")),
        ("advise", "rails", "2D-SW_SW"),
        ("advise", "ace", "ace:4x2x2", "--bytes", "1MiB", "--share", "0.5"),
        ("advise", "trees"),
        ("study", str(root / "examples" / "study.toml"), "--dry-run"),
        ("explore", str(tmp_path / "space.toml")),
        ("reproduce", "tto", "--list"),
        ("step", "llama3-8b", "dgx-h100:2", "--plan", "tp=2,pp=2,cp=2", "--batch", "16"),
        ("plan", "llama3-8b", "dgx-h100:2", "--batch", "16"),
        ("infer", "llama3-8b", "dgx-h100:1", "--plan", "tp=8", "--batch", "16"),
        ("models",),
        ("models", "llama3-8b"),
        ("workloads",),
        ("fabrics",),
        ("algorithms",),
        ("endpoints",),
        ("systems", "tto"),
    ):
        heading = " ".join(command[:2]) if command[0] == "advise" else command[0]
        heading = "lists" if len(command) == 1 or heading in ("systems", "models") else heading
        printed = keys_of(commands.document(*command))
        missing = printed - documented(page, heading)
        if command[0] == "systems":  # parameters say their places themselves
            models = antiphon.compute_models()
            options = antiphon.System("tto").parameters() + [each for model in models for each in model.options]
            missing -= {key for each in options for key in each.json.split(".")} | {model.name for model in models}
        if command[0] == "study":
            missing -= {"algorithm", "bytes", "set.link_rate", "fabric"}  # what varies in this one
        if command[0] == "explore":
            missing -= {"all-reduce 1KiB", "all-reduce 2KiB"}  # its workloads
        assert not missing, f"scripts/site/json_keys.py says nothing about {missing} of {' '.join(command)}"
        found.setdefault(heading, set()).update(printed)
    for heading in ("bound", "show", "flights"):
        told = {part for names in json_keys.ASSEMBLED[heading] for part in re.split(r", |\.", names)}
        assert told <= found[heading], f"scripts/site/json_keys.py has keys of {heading} that are not printed"
    schedule = antiphon.build(antiphon.Fabric("ring:4"), "ring").to_json()
    text = (root / "docs" / "reference" / "schedule.md").read_text("utf-8")
    assert not [key for key in keys_of(json.loads(schedule)) if f"`{key}`" not in text]


def test_same_command_same_bytes() -> None:
    arguments = ("compare", "mesh:3x4", *SMALL, "--json")
    printed = [antiphon_process(*arguments).communicate(timeout=120)[0] for _ in range(2)]
    assert len({re.sub(r'"seconds": [0-9.e-]+', "", text) for text in printed}) == 1


def test_rails_topologies_are_no_fabrics(commands: Any) -> None:
    dimensions = "ring2@1000/20ns,sw8@800/700ns"
    for arguments in (("train", "resnet50", "2D-SW_SW", "themis"), ("simulate", "rails:2D-SW_SW", "ring")):
        assert "'2D-SW_SW' is no fabric but a rails topology; write train MODEL rails:2D-SW_SW" in commands.refused(
            *arguments
        )
    assert f"rails:{dimensions}" in commands.refused("train", "resnet50", dimensions, "themis")
    assert "no fabric 'rong'" in commands.refused("simulate", "rong:4", "ring")
    assert "there is no such file" in commands.refused("bound", "nofile.yml")
    assert "is a folder" in commands.refused("bound", "./")
    large = commands.refused("simulate", "ace:64x64x64", "ring")
    assert "more than 4096 ranks, but a rails topology may have them" in large


def test_parameters_of_the_system_are_replaced(commands: Any) -> None:
    run = ("simulate", "ring:4", "ring", *SMALL, "--system", "tto")
    settings = ("--set", "link_rate_gb_per_s=50", "--set", "packet_payload_bytes=4KiB", "--set", "clock_ns=0")
    changed = commands.document(*run, *settings)
    assert changed["system"] == "tto, link_rate_gb_per_s=50, packet_payload_bytes=4KiB, clock_ns=0"
    system = antiphon.System("tto").with_(link_rate_gb_per_s=50, packet_payload_bytes=4096, clock_ns=0)
    fabric = antiphon.Fabric("ring:4")
    schedule = antiphon.build(fabric, "ring", bytes=SMALL[1], system=system)
    assert changed["time_ns"] == antiphon.run(fabric, schedule, system).time_ns
    assert changed["time_ns"] < commands.document(*run)["time_ns"]
    assert commands.document("bound", "ring:4", "--set", "name=mine")["system"] == "mine"
    for setting, message in (
        ("link_rate=50", "no parameter 'link_rate'; did you mean 'link_rate_gb_per_s'?"),
        ("interfaces=0", "interfaces=0; expected a whole number from 1 to 65536"),
        ("interfaces", "--set takes KEY=VALUE, not 'interfaces'"),
        ("router_allocator=agge", "did you mean 'age'"),
        ("processor=systolic:rows=0", "processor: systolic: rows=0; expected a whole number from 1 to 65536"),
    ):
        assert message in commands.refused(*run, "--set", setting)
    assert "gives 'interfaces' twice" in commands.refused(*run, "--set", "interfaces=1", "--set", "interfaces=2")


def test_simulate(commands: Any) -> None:
    command = ("simulate", "mesh:4x4", "ring", *SMALL)
    run = commands.document(*command, "--system", "tto", "--fidelity", "alpha-beta")
    has_keys(run, RUN_KEYS)
    assert (run["fidelity"], run["system"], run["ranks"]) == ("alpha-beta", "tto", 16)
    tables = run["tables"]
    assert (len(tables["links"]), len(tables["ranks"])) == (48, 16)
    assert set(tables["links"][0]) == {"from", "to", "busy_ns", "utilization", "bytes", "packets"}
    assert tables["timeline"]
    assert "Busiest links" in commands.invoke(*command).stdout
    # Nodes have names; equally busy links are in order.
    assert "gpu0.0 → nvswitch0" in commands.invoke("simulate", "dgx-h100:1", "ring", *SMALL).stdout
    printed = commands.invoke("simulate", "ring:4", "ring-bi", *SMALL).stdout
    rows = [line.split("│")[1] for line in printed[printed.index("Busiest") :].splitlines() if line.startswith("│")]
    assert rows == [f"{link:5} " for link in range(8)]


def test_one_of_a_list(commands: Any) -> None:
    printed = commands.invoke("algorithms", "combs").stdout
    assert printed.startswith("combs: ")
    assert "piece: " in printed
    assert [each["name"] for each in commands.document("algorithms", "ring")["algorithms"]] == ["ring"]
    assert "no algorithm 'comb'; known: combs" in commands.refused("algorithms", "comb")
    settings = {row["key"]: row for row in commands.document("systems", "tto")["settings"]}
    assert settings["packet_payload_bytes"]["default"] == "8KiB"
    assert settings["router_virtual_channels"]["least"] == 1
    printed = commands.invoke("systems", "tto").stdout
    assert all(key in printed for key in settings)
    assert "did you mean 'tto'" in commands.refused("systems", "tt0")


def test_certificates(commands: Any) -> None:
    """Of a system, the schedule's at all fidelities; with little data latencies leave little of what rates allow."""
    done = commands.invoke("verify", "mesh:4x4", "optimal", "--collective", "all-gather", "--system", "ideal")
    assert re.search("no schedule takes less than .* on system ideal$", done.stdout, re.MULTILINE)
    fidelities = ("--fidelity", "alpha-beta,packet")
    done = commands.invoke("compare", "mesh:2x2", *SMALL, "--algorithms", "optimal", *fidelities)
    assert done.stdout.count("Certificate: ") == 1
    arguments = ("compare", "mesh:4x4", "--bytes", "64KiB", "--algorithms", "optimal")
    run = commands.document(*arguments)["runs"][0]
    least = antiphon.verify("mesh:4x4", antiphon.build("mesh:4x4", "optimal", bytes="64KiB")).certified_ns
    assert run["reached_share_of_optimum"] == pytest.approx((least or 0.0) / run["time_ns"])
    assert run["reached_share_of_optimum"] < 0.9 * run["share_of_optimum"]
    said = commands.invoke(*arguments, "--format", "table").stdout
    assert re.search(r"of the optimum by the rates of links, .*; [\d.]+ % are reached", said)
