"""What a terminal shows beside documents: progress bars, and JSON."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

import antiphon

# Rich is imported when something is printed for people: it takes longer than a short command.
if TYPE_CHECKING:
    from rich.progress import TaskID

PATIENCE_S = 2.0
"""Progress is shown on runs that take longer."""


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """A progress bar on stderr, if that is a terminal and the work takes long."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _name, _share: None
        return
    from rich import progress as rich_progress

    from antiphon.view.terminal.render import Plain

    columns = (
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.TaskProgressColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    start = time.monotonic()
    with rich_progress.Progress(*columns, console=Plain(stderr=True), transient=True, auto_refresh=False) as bar:
        tasks: dict[str, TaskID] = {}
        lock = threading.Lock()

        def update(name: str, share: float) -> None:
            if time.monotonic() - start > PATIENCE_S and lock.acquire(blocking=False):
                for other, task in tasks.items():
                    bar.update(task, visible=other == name)
                if name not in tasks:
                    tasks[name] = bar.add_task(name, total=1.0)
                bar.update(tasks[name], completed=share)
                bar.refresh()
                lock.release()

        yield update


def print_json(command: str, document: dict[str, Any]) -> None:
    """The object of a command as documented in docs/reference/json.md."""
    click.echo(json_text(command, document))


def json_text(command: str, document: dict[str, Any]) -> str:
    """The text of such an object."""
    head = {"schema": f"antiphon-{command}/1", "version": antiphon.__version__}
    return json.dumps(head | document, indent=2, allow_nan=False)
