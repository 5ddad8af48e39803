"""Runs PyTorch's own tests of process groups, which lie in its wheel, on this one.

    python tests/pytorch/upstream/runner.py SUITE [--backend gloo] [-k REGEX] [--out FILE]

A suite is one of `SUITES`. The tests name backends (``BACKEND == "gloo"``), so the process group takes such a name
over.
Children are forked from a process that has loaded PyTorch.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import logging
import multiprocessing
import os
import re
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
LIMIT_S = 60


class Suite(NamedTuple):
    """Which of the tests, for how many ranks.

    ``backend``: the name that is taken over; ``only``: a pattern of names; ``offers``: the backend whose tests these
    are, where it has another name.
    """

    backend: str
    ranks: int
    module: str = ""
    only: str = "."
    offers: str = ""


SUITES = {
    "four": Suite("gloo", 4),
    # What needs more than four.
    "eight": Suite("gloo", 8, only="(?<!full)_group(_max|_min|_product|_sum)?$|monitored_barrier_(failure|wait)"),
    # A test that wants the group's name to be the one it was asked for by.
    "name": Suite("antiphon", 4, only="ddp_logging_data_cpu"),
    "all-to-all": Suite("gloo", 4, only="all_to_all", offers="mpi"),
    "training": Suite("gloo", 4, "frameworks"),
}


class Outcome(NamedTuple):
    """A test, ``pass``, ``skip`` or ``fail``, how long it took, and why."""

    test: str
    verdict: str
    seconds: float
    note: str


class Forking:
    """In front of PyTorch's test cases of several processes: they are forked, and none is left."""

    processes: list[Any]

    def setUp(self) -> None:
        super().setUp()  # type: ignore[misc]
        if not getattr(self, "processes", None):
            self._start_processes(multiprocessing.get_context("fork").Process)  # type: ignore[attr-defined]

    def _spawn_processes(self) -> None:
        self._start_processes(multiprocessing.get_context("fork").Process)  # type: ignore[attr-defined]

    def tearDown(self) -> None:
        children = list(self.processes)
        super().tearDown()  # type: ignore[misc]
        for child in children:
            child.join(1)
            if child.is_alive():
                child.kill()
                child.join()


class Collected(unittest.TestResult):
    """Outcomes, printed as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[Outcome] = []
        self.began, self.verdict, self.note = 0.0, "", ""

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.began, self.verdict, self.note = time.monotonic(), "pass", ""

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.verdict, self.note = "skip", reason

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.verdict, self.note = "fail", self.cause(str(err[1]))

    addError = addFailure

    @staticmethod
    def cause(text: str) -> str:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
        return " | ".join(errors or lines[-1:] or ["no reason"])[:500]

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        name = test.id().rsplit(".", 2)
        outcome = Outcome(".".join(name[-2:]), self.verdict, time.monotonic() - self.began, self.note)
        self.outcomes.append(outcome)
        if self.verdict != "skip":
            print(f"{outcome.verdict} {outcome.seconds:.1f} {outcome.test} {outcome.note}", flush=True)


def run(suite: Suite, only: str, *, gloo: bool) -> list[Outcome]:
    """Runs a suite's tests that match a pattern, on gloo or on Antiphon; once a process."""
    os.environ.update(
        BACKEND=suite.offers or suite.backend,
        WORLD_SIZE=str(suite.ranks),
        MASTER_ADDR="127.0.0.1",
        OMP_NUM_THREADS="1",
        DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(LIMIT_S),
        TORCH_TEST_SKIP_RETRIES="1",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    sys.path.insert(0, str(HERE))
    with tempfile.TemporaryDirectory(prefix="antiphon") as folder:
        os.environ["TEMP_DIR"] = folder
        logging.disable(logging.INFO)
        import torch

        torch.set_num_threads(1)
        if not gloo:
            _take_over(suite.backend)
        result = Collected()
        for kind in _classes(suite):
            for name in unittest.TestLoader().getTestCaseNames(kind):
                if re.search(suite.only, name) and re.search(only, name):
                    kind(name).run(result)
    return result.outcomes


def _take_over(name: str) -> None:
    """Registers this process group under another's name."""
    import antiphon.torch

    antiphon.torch.register(name)


def _classes(suite: Suite) -> list[Any]:
    if suite.module:
        found: list[Any] = importlib.import_module(suite.module).classes(Forking, suite.ranks)
        return found
    import torch.testing._internal.distributed.distributed_test as upstream

    # Which tests there are was decided when they were loaded.
    os.environ["BACKEND"] = upstream.BACKEND = suite.backend
    # A profiler sees calls of a process group in Python as calls, not as what goes on beside them.
    upstream.PROFILING_SUPPORTED_BACKENDS.clear()
    upstream.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.clear()
    bases = (Forking, upstream.TestDistBackend, upstream.DistributedTest._DistTestBase)
    return [type("Main", bases, {"__module__": __name__})]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("-k", dest="only", default=".", help="a pattern of names of tests")
    parser.add_argument("--backend", choices=["antiphon", "gloo"], default="antiphon")
    parser.add_argument("--out", help="a CSV file: test, verdict, seconds, note")
    given = parser.parse_args()
    outcomes = run(SUITES[given.suite], given.only, gloo=given.backend == "gloo")
    if given.out:
        with open(given.out, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Outcome._fields)
            writer.writerows(outcomes)
    counts = {verdict: sum(each.verdict == verdict for each in outcomes) for verdict in ("pass", "skip", "fail")}
    print(given.suite, given.backend, counts)
    return 1 if counts["fail"] else 0


if __name__ == "__main__":
    sys.exit(main())
