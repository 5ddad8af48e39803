"""A rank of a job that begins in a process which has loaded PyTorch, and moves to the host where it belongs."""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import socket
import sys
import traceback
from collections.abc import Mapping, Sequence
from multiprocessing import util
from pathlib import Path
from typing import Any, NoReturn

Place = tuple[str, str, Mapping[str, str]]
"""A host's name and network, and the namespaces of its lab by kind."""
KINDS = {"user": 0x1000_0000, "mount": 0x2_0000, "net": 0x4000_0000, "pid": 0x2000_0000, "uts": 0x400_0000}
PRIVATE, BIND = 1 << 18 | 1 << 14, 1 << 12
"""Mounts of this process alone, and of a folder."""


def call(name: str, *given: Any) -> None:
    """Calls the system."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*given):
        raise OSError(ctypes.get_errno(), name)


def end_with_parent() -> None:
    call("prctl", 1, signal.SIGKILL)


def enter(place: Place) -> None:
    """Goes on as a child of this process, at a host."""
    name, network, spaces = place
    folder = Path.cwd()
    opened = [(os.open(path, os.O_RDONLY), kind) for kind, path in spaces.items()]
    for space, kind in opened:
        call("setns", space, KINDS[kind])
    with open(network, "rb") as file:
        call("setns", file.fileno(), KINDS["net"])
    call("unshare", KINDS["uts"] | KINDS["mount"])
    socket.sethostname(name)
    call("mount", b"none", b"/", None, PRIVATE, None)
    shared = Path(f"{network}.shm")
    shared.mkdir(exist_ok=True)
    call("mount", os.fsencode(shared), b"/dev/shm", None, BIND, None)
    os.chdir(folder)
    if child := os.fork():
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
    end_with_parent()


def _renew_threads() -> None:
    import torch

    torch.set_num_threads(torch.get_num_threads())


def run(script: Sequence[str], output: str, environment: Mapping[str, str], place: Place | None) -> NoReturn:
    """Runs a script of Python, or ``-m`` and a module, with its arguments, as a rank that prints into a file."""
    end_with_parent()
    file = os.open(output, os.O_WRONLY | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    status, coverage = 0, None
    try:
        if place is not None:
            enter(place)
        os.environ.clear()
        os.environ.update(environment)
        if "COVERAGE_PROCESS_CONFIG" in environment:
            from coverage import process_startup

            coverage = process_startup(force=True)
        # Threads that a fork has lost are made anew by whoever needs them first; two at once fail in PyTorch 2.15.
        _renew_threads()
        os.register_at_fork(after_in_child=_renew_threads)
        sys.argv = [*script[script[0] == "-m" :]]
        if script[0] == "-m":
            runpy.run_module(script[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script[0], run_name="__main__")
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        status = 1
    if coverage is not None:
        coverage.stop()
        coverage.save()
    util._exit_function()  # type: ignore[attr-defined]
    sys.stdout.flush()
    os._exit(status)
