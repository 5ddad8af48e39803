"""Pages of results: where commands write them, and how they are shown."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from antiphon.cli.options import OPENED
from antiphon.cli.output import note, writing
from antiphon.errors import AntiphonError


@contextmanager
def paged(report: str | None, output: str) -> Iterator[Callable[[Callable[[], str]], None]]:
    """As ``writing``, of a page: at the end it says where the page is, and with ``--open`` shows it.

    So it does where the command ends with a finding, such as a counter-example, that the page has.
    """
    written = False

    with writing(report, ".html") as write:

        def page(text: Callable[[], str]) -> None:
            nonlocal written
            write(text)
            written = report is not None

        try:
            yield page
        except AntiphonError:
            if written and report is not None:
                tell_page(report, output)
            raise
        if written and report is not None:
            tell_page(report, output)


def tell_page(path: str, output: str) -> None:
    """Says where a page is, to people, and shows it if that was asked for."""
    note(output, f"Report: {path}")
    if click.get_current_context().meta[OPENED]:
        if output != "table":
            click.echo(f"Report: {path}", err=True)
        show_page(path)


def show_page(path: str) -> None:
    """Shows a page in a browser; where there is none, says where it is."""
    if not _in_browser(path):
        click.echo(f"note: no browser can be opened here; open {Path(path).resolve()} in one", err=True)


def _in_browser(path: str) -> bool:
    """Shows a page; false where there is no display, as browsers in a terminal would take it over."""
    named = os.environ.get("BROWSER")
    has_display = sys.platform in ("win32", "darwin") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    try:
        return bool(named or has_display) and webbrowser.open(Path(path).resolve().as_uri())
    except webbrowser.Error:
        return False
