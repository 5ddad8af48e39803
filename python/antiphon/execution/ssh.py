"""A job of torchrun on several hosts, started over ssh."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import IO

from antiphon.errors import AntiphonError

SSH = "ssh -o BatchMode=yes -o ConnectTimeout=10"
POLL_S = 0.05
SETTLE_S, FAILED_S = 10.0, 2.0
"""After one node has ended, or failed, the others end by themselves within this time, or else by a signal."""
LONGEST_LINE, SHOWN = 400, 4


def run_on(
    hosts: Sequence[str],
    arguments: Sequence[str],
    *,
    python: str,
    port: int,
    ssh: str,
    waiting: Callable[[], object] = lambda: None,
) -> str:
    """Runs a module's command as a job with a rank on each host.

    Args:
        hosts: as ssh takes them; the first is where the others meet, by this name without its user, or at MASTER_ADDR.
        arguments: what follows ``-m``: a module and its arguments.
        python: the interpreter on every host.
        port: on the first host, for the rendezvous.
        ssh: the command that runs another at a host.
        waiting: is called from time to time.

    Returns:
        What the rank on the first host printed.

    Raises:
        AntiphonError: ``stalled`` with the host and its last words where a host fails; ``missing-extra`` without ssh.
    """
    master = os.environ.get("MASTER_ADDR") or hosts[0].rpartition("@")[2]
    try:
        start = shlex.split(ssh)
    except ValueError as error:
        raise AntiphonError(f"--ssh '{ssh:.80}': {error}", "bad-spec") from None
    if not start or not python:
        raise AntiphonError("--ssh and --python: give a command, or leave them out", "bad-spec")
    nodes: list[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]] = []
    files = ExitStack()
    try:
        for number, host in enumerate(hosts):
            job = [python, "-m", "torch.distributed.run", f"--nnodes={len(hosts)}", f"--node-rank={number}"]
            job += ["--nproc-per-node=1", f"--master-addr={master}", f"--master-port={port}", "-m", *arguments]
            out, said = (files.enter_context(tempfile.TemporaryFile()) for _ in range(2))  # noqa: SIM115
            command = [*start, host, remote(job)]
            nodes.append((subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=said), out, said))
        ended_at = None
        while any(node.poll() is None for node, _, _ in nodes):
            statuses = [node.poll() for node, _, _ in nodes]
            if ended_at is None and any(status is not None for status in statuses):
                ended_at = time.monotonic()
            if ended_at is not None and time.monotonic() > ended_at + (FAILED_S if any(statuses) else SETTLE_S):
                break
            waiting()
            time.sleep(POLL_S)
        failed = [number for number, (node, _, _) in enumerate(nodes) if node.poll() not in (0, None)]
        if failed:
            # A command's own words say most; else those of ssh or the interpreter.
            last = [(hosts[number], _last_words(nodes[number][2])) for number in failed]
            own = [each for each in last if each[1].startswith("error: ")][:1]
            reasons = "; ".join(
                f"host {host}: {words.removeprefix('error: ')}" for host, words in (own or last)[:SHOWN]
            )
            lacks = any(sign in reasons for sign in ("No module named", "No such file"))
            more = f"; every host needs antiphon[torch] at {python}, or --python names another" if lacks else ""
            raise AntiphonError(reasons + more, "stalled")
        nodes[0][1].seek(0)
        return nodes[0][1].read().decode("utf-8", "replace")
    except FileNotFoundError as error:
        raise AntiphonError(f"--ssh: no such command '{error.filename}'", "missing-extra") from None
    finally:
        for node, _, _ in nodes:
            node.terminate()
            node.communicate()
        files.close()


def remote(job: Sequence[str]) -> str:
    """What a host's shell runs: the job, with this process's settings and in its folder, until stdin closes.

    >>> remote(["python3", "x.py"]).count("python3 x.py")
    1
    """
    settings = [f"{key}={value}" for key, value in sorted(os.environ.items()) if key.startswith("ANTIPHON_")]
    command = shlex.join(["env", *settings, *job])
    until = '{ cat <&3; kill "$job"; } >/dev/null 2>&1 &'
    return f'cd {shlex.quote(os.getcwd())} 2>/dev/null; exec 3<&0; {command} 3<&- & job=$!; {until} wait "$job"'


def _last_words(error: IO[bytes]) -> str:
    """The line that says why: one that a command ends with, or else the last."""
    error.seek(0)
    lines = [line.strip() for line in error.read().decode("utf-8", "replace").splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("error: ")]
    return (own or lines or ["it ended without a word"])[-1][:LONGEST_LINE]
