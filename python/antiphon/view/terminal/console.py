"""What people see on a terminal: the console, progress bars, and JSON."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import click

import antiphon

# Rich is imported when something is printed for people: it takes longer than a short command.
if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID
    from rich.table import Column, Table

SWITCHES = "Switches do not reduce in this model (no NVLS, no SHARP): they only forward."
"""Of all fabrics that have any."""
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


def is_markdown() -> bool:
    """Whether what is printed is Markdown."""
    return _markdown.get()


def open_console() -> Console:
    """What people read: plain text (no markup, no guesses); wide where nobody's window limits it."""
    if is_markdown():
        from antiphon.view.terminal.markdown import Markdown

        return Markdown(width=10_000)
    from antiphon.view.terminal.plain import Plain

    return Plain(width=None if sys.stdout.isatty() else 160)


def print_verbatim(console: Console, text: str) -> None:
    """Text whose blanks and signs count."""
    console.print(f"```\n{text}\n```" if _markdown.get() else text, soft_wrap=True, highlight=False)


def noting_switches(show: Callable[[], None], *fabrics: antiphon.Fabric) -> Callable[[], None]:
    """What shows times or bounds, and says what switches of any of the fabrics do not do here."""

    def both() -> None:
        show()
        if any(map(_has_switches, fabrics)):
            open_console().print(SWITCHES, style="dim")

    return both


def _has_switches(fabric: antiphon.Fabric) -> bool:
    """Whether there are nodes that never hold a rank: ranks have numbers for names, left out of a group or not."""
    nodes = zip(fabric.nodes["rank"].tolist(), fabric.nodes["name"].tolist(), strict=True)
    return any(rank < 0 and not name.isdigit() for rank, name in nodes)


def right_aligned(header: str) -> Column:
    """A column of figures."""
    from rich.table import Column

    return Column(header, justify="right")


def print_columns(
    console: Console,
    names: Sequence[str],
    figures: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str,
    styles: Sequence[str] = (),
) -> None:
    """A table of rows with ``names`` and ``figures``; where it is wider than the console, the names stand again before
    the figures that do not fit beside the others."""
    from rich.table import Column, Table

    styles = styles or [""] * len(rows)
    unlimited = console.options.update(max_width=10_000)
    # Room for figures beside long names, which are folded.
    widest = max(console.width // (2 * max(len(names), 1)), 8)

    def table_of(places: Sequence[int]) -> Table:
        left = (Column(name, overflow="fold", max_width=widest) for name in names)
        table = Table(*left, *(right_aligned(figures[place]) for place in places), title=title)
        for row, style in zip(rows, styles, strict=True):
            table.add_row(*row[: len(names)], *(row[len(names) + place] for place in places), style=style)
        return table

    parts: list[list[int]] = [[]]
    for place in range(len(figures)):
        if parts[-1] and console.measure(table_of([*parts[-1], place]), options=unlimited).maximum > console.width:
            parts.append([])
        parts[-1].append(place)
    for part in parts:
        console.print(table_of(part))


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
