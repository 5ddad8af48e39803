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
from functools import partial
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


@pytest.fixture(scope="module")
def clique() -> antiphon.Fabric:
    return antiphon.Fabric("fc:1200")


@pytest.fixture(scope="module")
def ring() -> antiphon.Schedule:
    return antiphon.build("dgx-h100:128", "ring", bytes="64MiB")


def again(work: Callable[[], object]) -> None:
    """Where one call is over too soon."""
    while True:
        work()


@pytest.mark.parametrize("collective", ["all-reduce", "all-to-all", "broadcast"])
def test_bounds(clique: antiphon.Fabric, collective: str) -> None:
    with interrupted():
        antiphon.lower_bound(clique, collective)


def test_fabrics(clique: antiphon.Fabric) -> None:
    with interrupted():
        again(lambda: antiphon.Fabric.from_json(clique.to_json()))


@pytest.mark.parametrize(
    "work",
    [
        _core.Execution,
        partial(_core.Executor, rank=0, element="float32"),
        antiphon.Schedule.program,
        antiphon.Schedule.to_json,
        pickle.dumps,
        lambda ring: ring.stats(antiphon.Fabric("dgx-h100:128")),
        lambda ring: ring.lower_bound(antiphon.Fabric("dgx-h100:128")),
        lambda ring: antiphon.verify("dgx-h100:128", ring),
    ],
    ids=["Execution", "Executor", "program", "to_json", "pickle", "stats", "lower_bound", "verify"],
)
def test_schedules(ring: antiphon.Schedule, work: Callable[[antiphon.Schedule], object]) -> None:
    with interrupted():
        again(lambda: work(ring))


def test_plans() -> None:
    with interrupted():
        again(lambda: antiphon.build("dgx-h100:128", "optimal", bytes="64MiB"))


@pytest.mark.parametrize("jitter_ns", [None, 10])
def test_rails(jitter_ns: float | None) -> None:
    with interrupted():
        again(lambda: antiphon.rails("ring16@1000/20ns,fc16@200/7ns", "1GiB", chunks=65536, jitter_ns=jitter_ns))


def test_what_threads_compute_ends_with_them(clique: antiphon.Fabric) -> None:
    with interrupted():
        in_parallel(lambda _: antiphon.lower_bound(clique), [1, 2], jobs=2)

    def work(first: bool) -> None:
        if first:
            raise ValueError("first")
        antiphon.lower_bound(clique)

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
