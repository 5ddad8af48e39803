"""Plugins: names of one's own, wherever names are."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import antiphon
from antiphon import plugins
from antiphon.studies.workers import Workers

SNAKE = Path(__file__).resolve().parent.parent / "examples" / "snake.py"
HEAD = "import antiphon\n@antiphon.register('mine')\ndef mine(fabric, collective, bytes, system, k: int = 1):\n"
STUDY = """command = "simulate"
fixed.bytes = "64KiB"
axes.fabric = ["mesh:2x2", "mesh:2x3"]
axes.algorithm = ["snake", "ring"]
"""


def written(folder: Path, body: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(body)
    return path


@pytest.fixture
def snake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copy(SNAKE, "snake.py"))


def build(fabric: antiphon.Fabric, collective: str, bytes: int, system: antiphon.System) -> antiphon.Schedule:
    return antiphon.build(fabric, "ring", collective, bytes, system)


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "mesh:2x2", "--bytes", "64KiB"),
        ("compare", "mesh:2x2", "--bytes", "64KiB", "--algorithms", "ring,snake:ways=1", "--all"),
        ("tune", "torus:2x3", "--algorithms", "snake,ring", "--sizes", "64KiB,128KiB"),
        ("train", "alexnet", "mesh:2x2", "snake"),
        ("export", "mesh:2x2", "snake", "--bytes", "64KiB", "--out", "snake.xml"),
        ("verify", "mesh:2x2", "snake"),
        ("replay", "t", "mesh:2x2", "snake"),
        ("algorithms", "snake"),
    ],
    ids=lambda command: command[0],
)
def test_a_plugin_has_a_name_in_commands(commands: Any, command: tuple[str, ...], snake: Path) -> None:
    if command[0] == "replay":
        antiphon.train("alexnet", "mesh:2x2", "ring", chakra="t")
    said = commands.invoke("--plugin", str(snake), *command)
    assert (said.exit_code, "snake" in said.stdout) == (0, True), said.output


def test_the_option_works_anywhere_and_from_a_project(commands: Any, snake: Path, monkeypatch: Any) -> None:
    first = commands.invoke("simulate", "mesh:2x2", "--plugin=snake.py", "snake", "--json").stdout
    plugins.forget("snake")
    assert "no algorithm 'snake'" in commands.invoke("simulate", "mesh:2x2", "snake").output
    Path("pyproject.toml").write_text('[tool.antiphon]\nplugins = ["snake.py"]\n')
    Path("below").mkdir()
    monkeypatch.chdir("below")
    assert commands.invoke("simulate", "mesh:2x2", "snake", "--json").stdout == first
    assert json.loads(first)["verified"]
    for text, wrong in (
        ("plugins = 3", "write plugins = ["),
        ("plugin = []", "write plugins = ["),
        ("=", "is no TOML"),
    ):
        Path("pyproject.toml").write_text(f"[tool.antiphon]\n{text}\n")
        assert wrong in commands.invoke("bound", "ring:4").output


def test_a_study_with_two_workers(snake: Path) -> None:
    """Stored runs depend on the plugin's contents, where they may use it."""
    plugins.load(snake)
    Path("study.toml").write_text(STUDY)

    def made() -> int:
        with Workers(2) as workers:
            found = antiphon.study("study.toml", executor=workers)
        assert not found.refused, found.refused
        return found.made

    assert (made(), made()) == (4, 0)
    snake.write_text(snake.read_text("utf-8") + "# changed\n", "utf-8")
    assert made() == 0  # what is loaded is what ran
    with pytest.raises(antiphon.FileError, match="has changed since it was loaded"):
        plugins.ensure({str(snake): "another digest"})
    plugins.load(snake)
    assert made() == 2


def test_jobs_without_a_name_may_use_any(snake: Path) -> None:
    plugins.load(snake)
    assert [bool(plugins.digests(words)) for words in (["snake"], ["algorithm", "ring"], ["compare"])] == [
        True,
        False,
        True,
    ]


def test_an_error_names_the_line(commands: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, HEAD + "    table = {}\n    return table['x']\n")
    for command in (("compare", "mesh:2x2", "--algorithms", "ring,mine"), ("tune", "mesh:2x2", "--algorithms", "mine")):
        said = commands.invoke(*command, "--plugin", "mine.py")
        assert (said.exit_code, said.stderr) == (2, "error: plugin mine.py, line 5: KeyError: 'x'\n")
    said = commands.invoke("simulate", "mesh:2x2", "mine", "--plugin", "mine.py", "--debug")
    assert "return table['x']" in said.stderr


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def f(:", r"plugin mine.py, line 1: SyntaxError: invalid syntax"),
        ("\n1 / 0", r"plugin mine.py, line 2: ZeroDivisionError"),
        ("import sys\nsys.exit('x')", r"plugin mine.py, line 2: SystemExit: x"),
        ("x = 1", r"plugin mine.py registers nothing; call antiphon.register"),
        (HEAD.replace("mine", "ring") + " ...", r"line 2: there is algorithm 'ring' already; choose another name"),
        (HEAD.replace("'mine'", "'a:b'") + " ...", r"algorithm 'a:b': a name has letters"),
        (HEAD.replace("system, k: int = 1", "") + " ...", r"too many positional arguments; write build\(fabric"),
        (HEAD.replace("k: int = 1", "k") + " ...", r"missing a required argument: 'k'; write build"),
        ("import antiphon\nantiphon.register_fabric('rails', print)", r"there is fabric 'rails' already"),
        ("import antiphon\nantiphon.register_scheduler('a', 3)", r"TypeError: scheduler a: expected a function"),
    ],
)
def test_a_wrong_file_is_one_line(body: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(antiphon.AntiphonError, match=message):
        plugins.load(written(tmp_path, body))


@pytest.mark.parametrize(
    ("body", "spec", "message"),
    [
        ("return 3", "mine", r"line 2: mine returned 3, which is no Schedule"),
        (
            "return antiphon.build(fabric, 'ring', 'all-gather', bytes)",
            "mine",
            r"for all-gather of 4KiB, not for all-r",
        ),
        ("return antiphon.build(fabric, 'ring', bytes=8)", "mine", r"all-reduce of 8B, not for all-reduce of 4KiB"),
        ("return antiphon.build('ring:8', 'ring', bytes=bytes)", "mine", r"plugin mine.py: schedule: it is for ring:8"),
        ("raise antiphon.NotApplicable('too few')", "mine", r"^mine does not apply to mesh:2x2: too few$"),
        ("...", "mine:l=1", r"mine has no option 'l'; did you mean 'k'\?"),
        ("...", "mine:k=x", r"mine: k=x; expected a whole number or a size"),
    ],
)
def test_what_an_algorithm_may_not_do(
    body: str, spec: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plugins.load(written(tmp_path, f"{HEAD}    {body}\n"))
    with pytest.raises(antiphon.AntiphonError, match=message):
        antiphon.build("mesh:2x2", spec, bytes=4096)


def test_a_wrong_schedule_is_not_timed() -> None:
    def half(fabric: antiphon.Fabric, collective: str, bytes: int, system: antiphon.System) -> antiphon.Schedule:
        builder = antiphon.ScheduleBuilder(fabric, collective, bytes)
        builder.copy(0, 1, builder.lane(0, bytes), 0)
        return builder.finish()

    antiphon.register("half", half)
    (refused,) = antiphon.compare("ring:4", bytes=4096, algorithms="ring,half").refused
    assert (refused.algorithm, refused.code) == ("half", "not-proven")


def test_options_have_the_types_of_the_signature() -> None:
    seen: dict[str, Any] = {}

    @antiphon.register("typed")
    def typed(fabric, collective, bytes, system, a=1, b: float = 1, c: int | None = None, d=True, e="x", root=0):  # type: ignore[no-untyped-def]
        """Notes what it gets.

        a: the first.
        """
        seen.update(a=a, b=b, c=c, d=d, e=e, root=root)
        return antiphon.build(fabric, "multitree", collective, bytes, system, root)

    antiphon.build("ring:4", "typed:a=-2,b=0.5,c=64KiB,d=no,e=y z", "broadcast", 4096, root=3)
    assert seen == {"a": -2, "b": 0.5, "c": 65536, "d": False, "e": "y z", "root": 3}
    (entry,) = (each for each in antiphon.algorithms() if each == "typed")
    assert entry.summary == "Notes what it gets."
    assert [(each.key, each.default) for each in entry.options][:4] == [
        ("a", "1"),
        ("b", "1"),
        ("c", "none"),
        ("d", "yes"),
    ]
    assert entry.options[0].meaning == "the first."
    assert antiphon.Algorithm("typed", a=3) == "typed:a=3"


def test_a_name_is_registered_again_from_where_it_was(tmp_path: Path) -> None:
    path = written(tmp_path, f"{HEAD}    return antiphon.build(fabric, 'ring', collective, bytes, system)\n")
    plugins.load(path)
    plugins.load(path)
    path.write_text(path.read_text().replace("'mine'", "'other'"))
    plugins.load(path)
    assert [name for _, name in plugins.registered] == ["other"]
    with pytest.raises(antiphon.InputError, match=r"there is algorithm 'other' already, of .*mine.py"):
        antiphon.register("other", build)
    with pytest.raises(antiphon.NotApplicable, match="it knows no root but rank 0"):
        antiphon.build("ring:4", "other", "broadcast", 4096, root=1)


def test_what_needs_more_than_a_schedule_is_refused(snake: Path) -> None:
    plugins.load(snake)
    before = antiphon.build("mesh:2x2", "snake", bytes=4096)
    with pytest.raises(antiphon.NotApplicable, match="only schedules of optimal have a plan to start from"):
        antiphon.replan(before, "mesh:2x2", "0-1")
    antiphon.register("any", build)
    with pytest.raises(antiphon.NotApplicable, match="any cannot do an all-to-all with a matrix"):
        antiphon.build("ring:4", "any", "all-to-all", matrix=np.ones((4, 4), np.uint64))


def test_a_fabric_is_one_like_all_others(tmp_path: Path) -> None:
    @antiphon.register_fabric("ladder", example="ladder:4")
    def ladder(size: str) -> antiphon.Fabric:
        """Two lines and rungs."""
        return antiphon.Fabric(f"mesh:{int(size)}x2")

    fabric = antiphon.Fabric("ladder:4@100/20ns")
    assert (fabric.name, pickle.loads(pickle.dumps(fabric))) == ("ladder:4@100/20ns", fabric)
    assert set(fabric.links["rate_gb_per_s"]) == {100.0}
    assert antiphon.Fabric("ladder:4,drop=0-1[0-3]").ranks == 4
    assert antiphon.compare("ladder:4", bytes=4096, algorithms="ring-bi,tto").runs[0].fabric == "ladder:4"
    assert antiphon.ScheduleBuilder("ladder:3", "all-reduce", 64) is not None
    assert [each.summary for each in antiphon.fabrics() if each == "ladder"] == ["Two lines and rungs."]
    with pytest.raises(antiphon.FileError, match=r"line \d+: ValueError: invalid literal for int"):
        antiphon.Fabric("ladder:x")
    with pytest.raises(antiphon.InputError, match="did you mean 'ladder'"):
        antiphon.Fabric("lader:4")
    antiphon.register_fabric("part", lambda size: antiphon.Fabric("mesh:2x2[0,1]"))
    with pytest.raises(antiphon.FileError, match="which is no whole Fabric"):
        antiphon.Fabric("part:3")


def test_a_scheduler_orders_chunks() -> None:
    @antiphon.register_scheduler("own")
    def own(chunk: int, bytes: int, busy_ns: list[float], dimensions: list[str]) -> Any:
        """By turns."""
        assert (len(dimensions), bytes, any(busy_ns)) == (2, 1_000_000 // 4, chunk > 0)
        return [[1, 0], [0, 1], ([0, 1], [0, 1])][chunk % 3]

    topology = "ring4@1000/20ns,sw8@800/700ns"
    run = antiphon.rails(topology, "1MB", scheduler="own", chunks=4)
    assert run.orders == [([2, 1], [1, 2]), ([1, 2], [2, 1]), ([1, 2], [1, 2]), ([2, 1], [1, 2])]
    assert (run.scheduler, run.intra, run.proof is not None) == ("own", "scf", True)
    gather = antiphon.rails(topology, "1MB", "all-gather", "own", chunks=4)
    assert gather.orders[0] == ([], [2, 1])
    assert antiphon.rails_schedulers()[-1].summary == "By turns."
    fabric, schedule = antiphon.rails_messages(topology, "1MB", scheduler="own", chunks=4)
    assert antiphon.verify(fabric, schedule).complete
    with pytest.raises(antiphon.InputError, match="did you mean 'own'"):
        antiphon.rails(topology, scheduler="owm")
    for wrong in ([0], [0, 2], 3, (), [0.0, 1.0], ([0, 1], [0])):
        antiphon.register_scheduler("own", lambda *_, wrong=wrong: wrong)
        with pytest.raises(antiphon.FileError, match="for chunk 0; expected each of 0 to 1 once"):
            antiphon.train("alexnet", f"rails:{topology}", "own")


def test_ctrl_c_ends_a_plugin(tmp_path: Path) -> None:
    path = written(tmp_path, f"{HEAD}    while True:\n        abs(1)\nprint('ready', flush=True)\n")
    command = [
        sys.executable,
        "-m",
        "antiphon",
        "compare",
        "mesh:2x2",
        "--algorithms",
        "mine,ring",
        "--plugin",
        str(path),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)
        os.kill(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, "interrupted\n")


def test_a_program_registers_for_its_workers(tmp_path: Path) -> None:
    """As Python imports the main file there, no plugin file is needed."""
    body = HEAD + "    return antiphon.build(fabric, 'ring', collective, bytes)\n"
    body += "if __name__ == '__main__':\n    from antiphon.studies.jobs import Point\n"
    body += "    from antiphon.studies.workers import Workers\n    with Workers(1) as workers:\n"
    body += "        print(antiphon.study([Point('ring:4', 'mine', 4096)], executor=workers).refused)\n"
    done = subprocess.run([sys.executable, str(written(tmp_path, body))], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("{}\n", "")
