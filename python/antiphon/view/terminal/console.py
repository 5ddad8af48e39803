"""What people see on a terminal: the console, progress bars, and JSON."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import click

import antiphon

# Rich is imported when something is printed for people: it takes longer than a short command.
if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID
    from rich.table import Column

PATIENCE_S = 2.0
"""Progress is shown on runs that take longer."""


_markdown = ContextVar("markdown", default=False)


@contextmanager
def in_markdown() -> Iterator[None]:
    """What is printed in the block is Markdown."""
    token = _markdown.set(True)
    try:
        yield
    finally:
        _markdown.reset(token)


def open_console() -> Console:
    """What people read; wide where nobody's window limits it."""
    if _markdown.get():
        from antiphon.view.terminal.markdown import Markdown

        return Markdown(width=10_000)
    from antiphon.view.terminal.plain import Plain

    return Plain(width=None if sys.stdout.isatty() else 160)


def print_verbatim(console: Console, text: str) -> None:
    """Text whose blanks and signs count."""
    console.print(f"```\n{text}\n```" if _markdown.get() else text, soft_wrap=True, highlight=False)


def right_aligned(header: str) -> Column:
    """A column of figures."""
    from rich.table import Column

    return Column(header, justify="right")


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """A progress bar on stderr, if that is a terminal and the work takes long."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _name, _share: None
        return
    from rich import progress as rich_progress

    from antiphon.view.terminal.plain import Plain

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
    """The object of a command as documented in docs/json.md."""
    click.echo(json_text(command, document))


def json_text(command: str, document: dict[str, Any]) -> str:
    """The text of such an object."""
    head = {"schema": f"antiphon-{command}/1", "version": antiphon.__version__}
    return json.dumps(head | document, indent=2, allow_nan=False)
