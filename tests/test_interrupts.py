"""Ctrl-C is heard at once, whatever is under way."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType

import pytest
from click.testing import CliRunner

import antiphon
from antiphon import _core
from antiphon.cli import main
from antiphon.parallel import in_parallel

AFTER_S = 0.3
"""How long work is under way before it is interrupted."""
SOON_S = 1.5
"""So soon work ends, in time of the processor: tests share cores."""


@contextmanager
def interrupted() -> Iterator[None]:
    """The block takes long, is interrupted, and ends soon."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        start = time.process_time()
        signal.setitimer(signal.ITIMER_REAL, AFTER_S)
        with pytest.raises(KeyboardInterrupt):
            yield
        assert time.process_time() - start < 2 * AFTER_S + SOON_S
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@cache
def clique() -> antiphon.Fabric:
    return antiphon.Fabric("fc:1200")


@cache
def ring() -> antiphon.Schedule:
    return antiphon.build("dgx-h100:128", "ring", bytes="64MiB")


@cache
def texts() -> tuple[str, str]:
    """A schedule of our own and a plan of MSCCL++."""
    trees = (antiphon.build(spec, "multitree", bytes="64MiB") for spec in ("mesh:20x20", "mesh:9x9"))
    return next(trees).to_json(), antiphon.export(next(trees), format="mscclpp")


def rails(jitter_ns: float | None) -> object:
    return antiphon.rails("ring16@1000/20ns,fc16@200/7ns", "1GiB", chunks=65536, jitter_ns=jitter_ns)


WORK: dict[str, Callable[[], object]] = {
    "bound of all-reduce": lambda: antiphon.lower_bound(clique()),
    "bound of broadcast": lambda: antiphon.lower_bound(clique(), "broadcast"),
    "bound of all-to-all": lambda: antiphon.lower_bound(clique(), "all-to-all"),
    "fabric": lambda: antiphon.Fabric.from_json(clique().to_json()),
    "Execution": lambda: _core.Execution(ring()),
    "Executor": lambda: _core.Executor(ring(), rank=0, element="float32"),
    "program": lambda: ring().program(),
    "to_json": lambda: ring().to_json(),
    "pickle": lambda: pickle.dumps(ring()),
    "stats": lambda: ring().stats(antiphon.Fabric("dgx-h100:128")),
    "lower_bound": lambda: ring().lower_bound(antiphon.Fabric("dgx-h100:128")),
    "verify": lambda: antiphon.verify("dgx-h100:128", ring()),
    "plan": lambda: antiphon.build("dgx-h100:128", "optimal", bytes="64MiB"),
    "rails": lambda: rails(None),
    "jitter": lambda: rails(10),
    "export": lambda: antiphon.export(antiphon.build("mesh:10x10", "multitree", bytes="64MiB"), format="mscclpp"),
    "prove_file": lambda: antiphon.prove_file(text=texts()[1]),
    "load": lambda: antiphon.load(text=texts()[1]),
    "load one of our own": lambda: antiphon.load(text=texts()[0]),
    "from_json": lambda: antiphon.Schedule.from_json(texts()[0]),
}


@pytest.mark.parametrize("name", WORK)
def test_work_ends(name: str) -> None:
    _ = clique(), ring(), texts()
    with interrupted():
        while True:  # where one call is over too soon
            WORK[name]()


def test_what_threads_compute_ends_with_them() -> None:
    with interrupted():
        in_parallel(lambda _: antiphon.lower_bound(clique()), [1, 2], jobs=2)

    def work(first: bool) -> None:
        if first:
            raise ValueError("first")
        antiphon.lower_bound(clique())

    start = time.process_time()
    with pytest.raises(ValueError, match="first"):
        in_parallel(work, [False, True], jobs=2)
    assert time.process_time() - start < SOON_S


class Interrupting(int):
    """A number that is interrupted when it is printed, which the interpreter may be at any time."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


def test_an_interrupt_while_arguments_are_taken_is_not_lost() -> None:
    with pytest.raises(KeyboardInterrupt):
        antiphon.lower_bound("ring:4", root=Interrupting(0))


IN_AN_IMPORT = """
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "antiphon.cli.commands":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder())
from antiphon.__main__ import run
run()
"""


def test_commands_are_interrupted_while_they_are_imported() -> None:
    done = subprocess.run([sys.executable, "-c", IN_AN_IMPORT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


SLOW_IMPORT = """
import sys, time

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "antiphon.cli.commands":
            try:
                print("importing", flush=True)
                time.sleep(0.5)
            except KeyboardInterrupt:
                pass  # as compiled modules do

sys.meta_path.insert(0, Finder())
from antiphon.__main__ import run
sys.argv[1:] = ["noc", "mesh:16x16", "--rate", "0.1"]
run()
"""


def test_an_interrupt_that_an_import_would_lose_is_heard_after_it() -> None:
    command = [sys.executable, "-c", SLOW_IMPORT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "importing\n"
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=30) == ("", "interrupted\n")
        finally:
            process.kill()
    assert process.returncode == 130


def test_an_interrupt_while_arguments_are_read_is_told_as_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "parse_args", interrupt)
    result = CliRunner().invoke(main, ["--help"])
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_for_a_reader_that_is_gone_ends_as_elsewhere(option: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "antiphon", option]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
