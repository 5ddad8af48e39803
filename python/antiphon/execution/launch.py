"""Starts the ranks of a run by ``mpiexec``, and says what went wrong where they do not end as they should."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from antiphon._core import Schedule
from antiphon.errors import AntiphonError
from antiphon.execution.job import LEAVE_S, Job
from antiphon.execution.measure import Measured, Plan, Timing


def launch(
    schedules: Sequence[Schedule], plan: Plan, timeout_s: float, progress: Callable[[float], object] | None = None
) -> list[Measured]:
    """Runs schedules for the same ranks by a process each, and returns what each took.

    Raises:
        AntiphonError: ``missing-extra`` without MPI; ``stalled`` if a rank was killed or hangs, naming it and what
            others waited for.
    """
    task = {"element": plan.element, "warmup": plan.warmup, "iterations": plan.iterations, "timeout_s": timeout_s}
    return [_measured(result) for result in launched(task, schedules, timeout_s, progress)]


def launched(
    task: dict[str, Any],
    schedules: Sequence[Schedule],
    timeout_s: float,
    progress: Callable[[float], object] | None = None,
) -> list[dict[str, Any]]:
    """Does a task with schedules by a process a rank, and returns what rank 0 found of each.

    Raises:
        AntiphonError: as ``launch``.
    """
    command = [*mpiexec(schedules[0].ranks), sys.executable, "-m", "antiphon.execution.worker"]
    with Job(task, [schedule.to_json() for schedule in schedules]) as job:
        process = job.start(command)
        try:
            while (code := process.status(within_s=0.1)) is None:
                if progress is not None:
                    progress(len(job.results()) / len(schedules))
                _check_beats(job, timeout_s)
        except BaseException:
            process.end()
            raise
        results = job.results()
        if code == 0 and len(results) == len(schedules):
            return results
        raise _failure(job, results, job.printed(), code)


def mpiexec(ranks: int) -> list[str]:
    """The command that starts so many processes.

    Raises:
        AntiphonError: ``missing-extra``.
    """
    # The one installed beside this Python goes with its mpi4py.
    beside = Path(sys.executable).parent / "mpiexec"
    path = str(beside) if beside.exists() else shutil.which("mpiexec")
    if path is None:
        raise AntiphonError(
            "running by MPI needs mpiexec, which is not there: pip install 'antiphon[mpi]'", "missing-extra"
        )
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    if "Open MPI" not in version and "OpenRTE" not in version and "prte" not in version.lower():
        return [path, "-n", str(ranks)]
    # There may be more ranks than cores: they give way while they wait. All are on this machine: they share memory, and
    # none listens on its network.
    options = ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "--mca", "btl", "^tcp"]
    if os.name == "posix" and os.geteuid() == 0:
        options.append("--allow-run-as-root")
    return [path, *options, "-n", str(ranks)]


def _check_beats(job: Job, timeout_s: float) -> None:
    """Refuses to wait for a rank that does not run, wherever it stopped."""
    for rank, state in job.states().items():
        # By then the others have said what they wait for, if that is how long they wait.
        if state["age_s"] > timeout_s + LEAVE_S:
            message = f"rank {rank} hangs: it has said nothing for {state['age_s']:.0f} s{_waiting(job.states(), rank)}"
            raise AntiphonError(message, "stalled")


def _measured(result: dict[str, Any]) -> Measured:
    return Measured(result["schedule"], Timing(**result["out_of_place"]), Timing(**result["in_place"]))


def _failure(job: Job, results: list[dict[str, Any]], output: str, code: int) -> AntiphonError:
    """Which rank failed, and what the others waited for."""
    states = job.states()
    errors = [result for result in results if "error" in result]
    for error in errors:  # whose states may be older
        states[error["rank"]] = states.get(error["rank"], {"pid": None}) | {"waits_for": error["waits_for"]}
    killed = _killed(output, states)
    if killed is not None:
        rank, signal = killed
        waiting = _waiting(states, rank)
        return AntiphonError(f"rank {rank} was killed by signal {signal}{waiting}", "stalled")
    if errors and errors[0]["code"] != "stalled":
        return AntiphonError(f"rank {errors[0]['rank']}: {errors[0]['error']}", errors[0]["code"])
    if errors and errors[0]["silent"]:
        rank = errors[0]["silent"][0]
        return AntiphonError(f"rank {rank} hangs{_waiting(states, rank)}; --timeout allows more", "stalled")
    if errors:
        return AntiphonError(errors[0]["error"], "stalled")
    last = next((line for line in reversed(output.splitlines()) if line.strip().strip("-")), "it printed nothing")
    return AntiphonError(f"mpiexec ended with status {code}: {last.strip()[:200]}", "stalled")


def _killed(output: str, states: dict[int, dict[str, Any]]) -> tuple[int, int] | None:
    """The rank that a signal ended, as mpiexec says, and the signal."""
    if found := re.search(r"process rank (\d+) .*?signal (\d+)", output, re.DOTALL):
        return int(found[1]), int(found[2])
    if found := re.search(r"PID (\d+).*?EXIT CODE: (\d+)", output, re.DOTALL):
        ranks = [rank for rank, state in states.items() if state["pid"] == int(found[1])]
        return (ranks[0], int(found[2])) if ranks else None
    return None


def _waiting(states: dict[int, dict[str, Any]], rank: int) -> str:
    """What another rank waited for, best of the one that is gone."""
    waits = [(other, state["waits_for"]) for other, state in sorted(states.items()) if state["waits_for"]]
    waits = [(other, what) for other, what in waits if other != rank]
    waits.sort(key=lambda wait: f"(rank {rank} to" not in wait[1])
    return f"; rank {waits[0][0]} waited for {waits[0][1]}" if waits else ""
