"""Shared fixtures."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from click.testing import CliRunner, Result

import antiphon
from antiphon.cli import main
from antiphon.parallel import cores

ON_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

# A shared machine is slow now and then, so no deadlines; on CI the same examples every time.
hypothesis.settings.register_profile("antiphon", deadline=None, derandomize=ON_CI, print_blob=True)
hypothesis.settings.load_profile("antiphon")


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores, since some tests wait for others' processes."""
    return cores() + 1


COVERED = "COVERAGE_PROCESS_CONFIG"
"""What tells a process that a test starts to measure its coverage."""
CONFIG = pytest.StashKey[str | None]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Processes are measured only for tests marked ``covers_processes``: it costs each of them a tenth of a second and
    more, and coverage has a lock that an interrupt may leave taken, for which a process then waits forever."""
    config = item.config.stash.setdefault(CONFIG, os.environ.get(COVERED))
    os.environ.pop(COVERED, None)
    if config is not None and item.get_closest_marker("covers_processes"):
        os.environ[COVERED] = config


@pytest.fixture(autouse=True)
def _plugins_are_forgotten() -> Iterator[None]:
    """What a test registers is of no other test."""
    yield
    plugins: Any = sys.modules.get("antiphon.plugins")
    for _, name in list(plugins.registered) if plugins else ():
        plugins.forget(name)


@dataclass(frozen=True)
class Browser:
    """A headless Chromium. Each call runs it once with a fresh profile and no network habits of its own."""

    executable: str
    scratch: Path

    def dump_dom(self, page: Path, budget_ms: int = 5000) -> str:
        """The document after its scripts ran for `budget_ms` of virtual time."""
        return self._run("--dump-dom", f"--virtual-time-budget={budget_ms}", page.resolve().as_uri()).stdout

    def screenshot(self, page: Path, image: Path, width: int = 1280, height: int = 1600) -> Path:
        """Writes the page as it looks to `image` (PNG)."""
        self._run(f"--screenshot={image.resolve()}", f"--window-size={width},{height}", page.resolve().as_uri())
        assert image.is_file(), f"{self.executable} wrote no screenshot of {page}"
        return image

    def console(self, page: Path, budget_ms: int = 5000) -> list[str]:
        """What the page's scripts said to the console, errors included."""
        flags = ("--enable-logging=stderr", "--dump-dom", f"--virtual-time-budget={budget_ms}")
        stderr = self._run(*flags, page.resolve().as_uri()).stderr
        return [line for line in stderr.splitlines() if "CONSOLE" in line]

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        profile = self.scratch / f"profile-{len(list(self.scratch.iterdir()))}"
        profile.mkdir()
        command = [
            self.executable,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            *arguments,
        ]
        return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=True)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    """A headless browser; where none is installed, the test skips, and on CI it fails."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if executable := shutil.which(name):
            browser = Browser(executable, tmp_path_factory.mktemp("browser"))
            # Tests look for nothing on the console: it must be one on which something would be heard.
            page = tmp_path_factory.mktemp("heard") / "page.html"
            page.write_text("<!doctype html><title>page</title><script>console.error('said')</script>", "utf-8")
            assert any("said" in line for line in browser.console(page)), f"{executable} runs no scripts"
            return browser
    reason = "no chromium or google-chrome on PATH"
    if ON_CI:
        pytest.fail(f"{reason}, and CI must look at the report in one")
    pytest.skip(reason)


TOLD_WHEN_COMPUTING = """
import contextlib, sys
import antiphon.view.terminal.console

untold = iter([True])

def tell():
    if next(untold, False):
        print("computing", flush=True)

@contextlib.contextmanager
def progress_bar():
    yield lambda _name, share: tell() if share > 0 else None

def read_fabric(*given):
    fabric = read(*given)
    tell()
    return fabric

when = sys.argv.pop(1)
if when == "simulating":
    antiphon.view.terminal.console.progress_bar = progress_bar
else:
    from antiphon.cli import groups
    read, groups.read_fabric = groups.read_fabric, read_fabric
from antiphon.__main__ import run
run()
"""
"""The command line, which prints a line when a simulation is under way, or before, when the fabric is there."""


class Commands:
    """The command line in this process."""

    def invoke(self, *arguments: str | Path) -> Result:
        """Runs a command, whatever comes of it."""
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    def document(self, *arguments: str | Path) -> dict[str, Any]:
        """What a command prints with ``--json``."""
        result = self.invoke(*arguments, "--json")
        assert result.exit_code == 0, result.stderr
        assert not result.stderr
        parsed = json.loads(result.stdout)
        assert parsed["schema"] == f"antiphon-{arguments[0]}/1"
        assert parsed["version"] == antiphon.__version__
        return dict(parsed)

    def interrupt(self, *arguments: str | Path, when: str = "simulating") -> None:
        """Sends Ctrl-C to a command that runs long, and asserts that it ends soon and says so; ``when`` is
        ``simulating`` or ``before``."""
        command = [sys.executable, "-c", TOLD_WHEN_COMPUTING, when, *map(str, arguments)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Shells make background jobs, and so their children, deaf to it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        with process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "computing\n"
                assert process.poll() is None, "the run was too short for this test"
                process.send_signal(signal.SIGINT)
                start = time.monotonic()
                assert process.communicate(timeout=30) == ("", "interrupted\n")
                assert time.monotonic() - start < 5
            finally:
                process.kill()
        assert process.returncode == 130

    def refused(self, *arguments: str | Path) -> str:
        """The one clear line with which a command ends that must fail with status 1 or 2."""
        return self.error(self.invoke(*arguments))

    def error(self, result: Result) -> str:
        """The one clear line of a command that failed with status 1 or 2."""
        assert result.exit_code in (1, 2), result.output
        lines = result.stderr.splitlines()
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith("error: ")
        assert len(lines[0]) < 1000
        return lines[0]


@pytest.fixture(scope="session")
def commands() -> Commands:
    """The command line."""
    return Commands()
