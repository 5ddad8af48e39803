"""What is imported when: the help and ``import antiphon`` come at once, every name is there all the same."""

from __future__ import annotations

import ast
import json
import os
import pydoc
import subprocess
import sys
from pathlib import Path

import click
import pytest

import antiphon
from antiphon.cli import main
from antiphon.cli.commands import SECTIONS

HEAVY = {"numpy", "rich", "jinja2", "pandas", "matplotlib", "networkx", "antiphon._core", "antiphon.files"}


def loaded(code: str) -> set[str]:
    """Modules that are loaded in a new process after ``code``."""
    code += "\nimport json, sys; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import antiphon",
        "import antiphon.cli",
        "from antiphon.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass",
        "from click.shell_completion import ShellComplete\nfrom antiphon.cli import main\n"
        "assert len(ShellComplete(main, {}, 'antiphon', '').get_completions([], 's')) == 7",
    ],
    ids=["package", "commands", "help", "completion"],
)
def test_nothing_heavy_is_imported_before_it_is_used(code: str) -> None:
    assert not loaded(code) & HEAVY


def test_a_short_command_needs_no_tables() -> None:
    code = "from antiphon.cli import main\ntry:\n    main(['noc', 'ring:4', '--cycles', '500', '--json'])\n"
    code += "except SystemExit:\n    pass"
    assert not loaded(code) & (HEAVY - {"antiphon._core", "antiphon.files"})


@pytest.mark.parametrize("own", [{}, {"OMP_NUM_THREADS": "2"}, {"OPENBLAS_NUM_THREADS": "2"}])
def test_commands_start_no_threads_of_linear_algebra(own: dict[str, str]) -> None:
    code = "import runpy, sys; sys.argv[1:] = ['bound', 'ring:4']\n"
    code += "try:\n    runpy.run_module('antiphon', run_name='__main__')\nexcept SystemExit:\n    pass\n"
    code += "import numpy, os; print(len(os.listdir('/proc/self/task')))"
    tells = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in tells}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment | own, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == str(min(2, os.cpu_count() or 1) if own else 1)


def test_the_allocator_reserves_little() -> None:
    """A limit of addresses, as batch systems set it, leaves room for work."""
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))\nimport antiphon\n"
    code += "antiphon.compare('mesh:4x4', bytes='1MiB')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_core_outlives_the_thread_that_imported_it() -> None:
    """Workers of Dask and of notebooks are such threads."""
    work = "import antiphon; antiphon.compare('mesh:2x2', bytes=4096)"
    code = f"import threading\nfor _ in range(3):\n    thread = threading.Thread(target=exec, args=[{work!r}])\n"
    code += f"    thread.start()\n    thread.join()\n{work}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_stub_names_what_there_is() -> None:
    stub = ast.parse(Path(antiphon.__file__).with_suffix(".pyi").read_text("utf-8"))
    (names,) = (ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign))
    assert names == antiphon.__all__ == sorted(names)
    assert all(getattr(antiphon, name) is not None for name in names)
    assert set(names) <= set(dir(antiphon))


@pytest.mark.parametrize("own", ["", "7"])
def test_freed_memory_is_kept_for_a_second_unless_one_says_otherwise(own: str) -> None:
    code = "import antiphon, os; print(os.environ['MIMALLOC_PURGE_DELAY'])"
    environment = {name: value for name, value in os.environ.items() if name != "MIMALLOC_PURGE_DELAY"}
    given = {"MIMALLOC_PURGE_DELAY": own} if own else {}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment | given, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == (own or "1000")


def test_help_shows_every_name() -> None:
    text = pydoc.plain(pydoc.render_doc(antiphon))
    assert not [name for name in antiphon.__all__ if name not in text and name != "__version__"]
    assert "class Fabric" in text
    assert "The time of training" in text


def test_the_help_of_all_commands_says_what_each_says_of_itself() -> None:
    context = click.Context(main)
    listed = {name: command.summary for section in SECTIONS.values() for name, command in section.items()}
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    assert {name: command and command.get_short_help_str(1000) for name, command in commands.items()} == listed
    assert set(main.commands) == set(listed)
