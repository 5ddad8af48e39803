"""The headless browser that the report tests use works on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Browser

PAGE = """<!doctype html><title>page</title><p id=p>before</p>
<script>document.getElementById("p").textContent = "after"; console.error("said");</script>"""


def test_browser_runs_scripts_and_takes_pictures(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "a page.html"
    page.write_text(PAGE, "utf-8")
    assert ">after<" in browser.dump_dom(page)
    assert any("said" in line for line in browser.console(page))
    image = browser.screenshot(page, tmp_path / "page.png", width=320, height=240)
    header = image.read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    assert (int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")) == (320, 240)
