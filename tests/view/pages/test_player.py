"""What pages play: the data is that of the run, and a browser plays it."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import antiphon
from antiphon.view.pages import comparison as page
from antiphon.view.pages.player import LEVELS, MOST_BYTES, NO_LANE, gantt, played, rails_gantt, steps_of

if TYPE_CHECKING:
    from conftest import Browser

PAGE_BYTES = 1_000_000


def run_of(fabric: antiphon.Fabric, algorithm: str, size: str = "256KiB", fidelity: str = "packet") -> antiphon.Run:
    schedule = antiphon.build(fabric, algorithm, bytes=size)
    return antiphon.run(fabric, schedule, "generic", fidelity, playback=True)


def unpacked(player: dict[str, Any], fabric: antiphon.Fabric, number: int = 0) -> dict[str, Any]:
    """The data of a run as the script of the page unpacks it."""
    run: dict[str, Any] = player["runs"][number]
    frames = np.frombuffer(zlib.decompress(base64.b64decode(run["frames"])), np.uint8).reshape(-1, run["windows"])
    assert len(frames) == 2 * player["shapes"] + fabric.ranks
    levels, groups, steps = np.split(frames, [player["shapes"], 2 * player["shapes"]])
    messages = json.loads(zlib.decompress(base64.b64decode(run["messages"])))
    shares = np.cumsum(steps, axis=1, dtype=np.uint8)
    return {**run, "levels": levels, "groups": groups, "shares": shares, "messages": messages}


@pytest.mark.parametrize("fidelity", antiphon.fidelities())
@pytest.mark.parametrize("algorithm", ["tto", "ring", "multitree"])
def test_a_playback_adds_up(algorithm: str, fidelity: str) -> None:
    fabric = antiphon.Fabric("mesh:3x3")
    run = run_of(fabric, algorithm, "288KiB", fidelity)
    plain = antiphon.run(fabric, antiphon.build(fabric, algorithm, bytes="288KiB"), "generic", fidelity)
    assert plain.result.playback is None
    assert (run.time_ns, run.result.links) == (plain.time_ns, plain.result.links)
    playback = run.result.playback
    assert playback is not None
    busy = np.zeros(len(fabric.links["from"]))
    np.add.at(busy, playback.links["link"], playback.links["busy_ns"])
    np.testing.assert_allclose(busy, run.result.links["busy_ns"], atol=0.01)
    assert ((playback.links["lane"] < 0) == (fidelity == "flit")).all()
    assert playback.ranks["share"][playback.ranks["window"] == playback.windows - 1].tolist() == [1.0] * fabric.ranks
    assert np.isnan(playback.messages["start_ns"]).all() == (fidelity == "flit")
    assert playback.phases["finish_ns"].max() == playback.messages["finish_ns"].max() == run.time_ns


def test_packed_data_is_that_of_the_run() -> None:
    fabric = antiphon.Fabric("mesh:3x3")
    run = run_of(fabric, "tto")
    playback, player = run.result.playback, played(fabric, [run])
    assert player is not None
    assert playback is not None
    data = unpacked(player, fabric)
    assert (data["windows"], data["window"], data["length"]) == (playback.windows, playback.window_ns, run.time_ns)
    for row in playback.links.rows():
        level = data["levels"][row["link"], row["window"]]
        assert 0 < level <= LEVELS
        assert level >= LEVELS * row["busy_ns"] / playback.window_ns - 1e-3
        assert data["groups"][row["link"], row["window"]] == row["lane"] // playback.lanes_a_group
    assert (data["levels"] > 0).sum() == playback.links.height
    assert data["shares"][:, -1].tolist() == [255] * fabric.ranks
    rows = iter(playback.messages.rows())
    for lane, chunk, messages in data["messages"]:
        for message, row in zip(messages, rows, strict=False):
            assert (lane, chunk) == (row["lane"], row["chunk"])
            assert message[:3] == [row["from"], row["to"], row["adds"]]
            assert message[3:5] == pytest.approx([row["start_ns"], row["finish_ns"]], abs=0.1)
            assert len(message[5]) == 1
    assert next(rows, None) is None


def test_longer_windows_and_fewer_messages_fit_in_fewer_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = antiphon.Fabric("mesh:4x4")
    run = run_of(fabric, "tto", "4MiB")
    rich = played(fabric, [run])
    assert rich is not None
    size = len(rich["runs"][0]["frames"]) + len(rich["runs"][0]["messages"])
    monkeypatch.setattr("antiphon.view.pages.player.MOST_BYTES", size - 1)
    poor = played(fabric, [run])
    assert poor is not None
    before, after = unpacked(rich, fabric), unpacked(poor, fabric)
    assert after["windows"] < before["windows"] or len(after["messages"]) < len(before["messages"])
    assert (after["levels"].max(axis=1) > 0).tolist() == (before["levels"].max(axis=1) > 0).tolist()
    monkeypatch.setattr("antiphon.view.pages.player.MOST_BYTES", 100)
    none = played(fabric, [run])
    assert none is not None
    assert none["runs"] == [None]


def test_nothing_is_played_of_what_was_not_recorded() -> None:
    fabric = antiphon.Fabric("ring:4")
    assert played(fabric, [antiphon.run(fabric, antiphon.build(fabric, "ring", bytes="4KiB"))]) is None


def test_large_fabrics_are_played_by_node() -> None:
    fabric = antiphon.Fabric("mesh:32x32")
    schedule = antiphon.build(fabric, "tto", bytes="256KiB")
    player = steps_of(fabric, schedule)
    assert player is not None
    assert player["heat"]
    assert player["shapes"] == 1024
    data = unpacked(player, fabric)
    assert 0 < (data["levels"] > 0).mean() < 1
    assert len(player["runs"][0]["frames"]) + len(player["runs"][0]["messages"]) < MOST_BYTES


def test_the_steps_of_a_schedule() -> None:
    fabric = antiphon.Fabric("ring:4")
    player = steps_of(fabric, antiphon.build(fabric, "ring", bytes="4KiB"))
    assert player is not None
    data = unpacked(player, fabric)
    assert data["phases"] == [["reduce-scatter", 0, 3], ["all-gather", 3, 6]]
    assert (data["length"], data["window"], data["windows"]) == (6, 1, 6)
    used = (data["levels"] > 0).sum(axis=0)
    assert used.tolist() == [4] * 6
    assert ((data["groups"] == NO_LANE) == (data["levels"] == 0)).all()
    lane, chunk, messages = data["messages"][0]
    assert (lane, chunk, len(messages)) == (0, 0, 6)
    for step, (start, end, adds, first, last, links) in enumerate(messages):
        assert (adds, first, last) == (step < 3, step, step + 1)
        assert [(fabric.links["from"][link], fabric.links["to"][link]) for link in links] == [(start, end)]


def test_chunks_in_dimensions_are_bars() -> None:
    run = antiphon.rails("2D-SW_SW", chunks=4, scheduler="baseline")
    chart = rails_gantt(run)
    assert len(chart["tracks"]) == 2
    blocks = [block for track in chart["tracks"] for block in track["blocks"]]
    assert len(blocks) == run.stages.height
    # The last stage's latency comes after it has sent.
    sent_share = run.stages["finish_ns"].max() / run.time_ns
    assert max(block["x"] + block["width"] for block in blocks) == pytest.approx(chart["width"] * sent_share, abs=1)
    assert chart["length_ns"] == run.time_ns
    # What overlaps lies in rows of its own.
    chart = gantt({"a": [(0, 2, "x", 0), (1, 3, "y", 1), (2, 4, "z", 2)]})
    rows = [block["y"] for block in chart["tracks"][0]["blocks"]]
    assert rows[0] == rows[2] != rows[1]


SCRIPT = """
<script>
addEventListener("load", async () => {
  const player = document.querySelector(".player"), said = [];
  const part = (name) => player.querySelector(".player-" + name);
  const say = () => said.push(part("seek").getAttribute("aria-valuetext"));
  const press = (key) => part("seek").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const isBright = (link) => link.style.stroke.includes("color-mix");
  const bright = () => [...document.querySelectorAll("#picture [data-link]")].filter(isBright).length;
  while (player.dataset.ready === undefined) await new Promise((done) => setTimeout(done, 10));
  say();
  press("ArrowRight"); say(); said.push(bright());
  part("seek").value = 500; part("seek").dispatchEvent(new Event("input")); say(); said.push(bright());
  press(" "); said.push(part("play").getAttribute("aria-label"));
  press(" "); said.push(part("play").getAttribute("aria-label"));
  part("lane").value = "1"; part("lane").dispatchEvent(new Event("change"));
  part("steps").children[3].click(); say(); said.push(part("steps").children.length);
  part("off").click(); said.push(bright()); say();
  document.body.dataset.said = JSON.stringify(said);
});
</script></body>
"""


def test_keys_and_buttons_play(browser: Browser, tmp_path: Path) -> None:
    fabric = antiphon.Fabric("mesh:4x4")
    comparison = antiphon.compare(fabric, bytes="256KiB", algorithms="tto", playback=True)
    file = tmp_path / "page.html"
    file.write_text(page.render(fabric, comparison).replace("</body>", SCRIPT), "utf-8")
    assert browser.console(file) == []
    found = re.search(r'data-said="([^"]*)"', browser.dump_dom(file, 20_000))
    assert found is not None
    whole, first, few, middle, more, playing, paused, step, messages, none, again = json.loads(
        found[1].replace("&quot;", '"')
    )
    assert whole == again
    assert whole.startswith("The picture shows the whole run")
    assert "phase reduce-scatter" in first
    assert few > 0 < more
    assert middle != first
    assert (playing, paused) == ("Pause", "Play")
    assert re.search(r"· \d+: rank \d+ → rank \d+ (adds|stores), ", step)
    playback = comparison.best.result.playback
    assert playback is not None
    of = (playback.messages["lane"] == 1) & (playback.messages["chunk"] == 0)
    assert messages == of.sum() > 0
    assert none == 0


FRAMES = """
<img src="/hold" alt="">
<script>
(async () => {
  const player = document.querySelector(".player");
  while (player.dataset.ready === undefined) await new Promise((done) => setTimeout(done, 10));
  let frames = 0, over = false;
  const count = () => { frames += 1; if (!over) requestAnimationFrame(count); };
  player.querySelector(".player-speed").value = "4";
  player.querySelector(".player-play").click();
  requestAnimationFrame(count);
  setTimeout(() => { over = true; document.body.dataset.frames = frames / 3;
    document.body.dataset.reached = player.querySelector(".player-seek").value; }, 3000);
})();
</script></body>
"""


@pytest.mark.slow
def test_thirty_frames_a_second(browser: Browser) -> None:
    """At the highest speed, which draws most windows; while the page loads, which an image holds up."""
    fabric = antiphon.Fabric("mesh:8x8")
    comparison = antiphon.compare(fabric, bytes="4MiB", algorithms="tto", playback=True)
    html = page.render(fabric, comparison).replace("</body>", FRAMES)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/hold":
                time.sleep(6)
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(b"" if self.path == "/hold" else html.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        dom = browser._run("--dump-dom", f"http://127.0.0.1:{server.server_address[1]}/page.html").stdout
        server.shutdown()
    found = re.search(r'data-frames="([\d.]+)"', dom)
    assert found is not None
    print(f"{float(found[1]):.1f} frames a second")
    assert float(found[1]) >= 30
    reached = re.search(r'data-reached="(\d+)"', dom)
    assert reached is not None
    assert int(reached[1]) > 500  # of 1,000: 12 s at this speed are 3 s


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "size", "algorithms"),
    [
        ("mesh:8x8", "64MiB", None),
        ("torus:4x4x4", "64MiB", None),
        ("dgx-h100:4", "64MiB", None),
        ("aries:8x8", "64MiB", None),
        ("mesh:6x10,drop=0-1,drop=22-32", "16MiB", None),
        ("mesh:32x32", "1MiB", "tto,ring,hierarchical,multitree,dbtree"),
    ],
)
def test_pages_with_players_stay_small(spec: str, size: str, algorithms: str | None) -> None:
    fabric = antiphon.Fabric(spec)
    comparison = antiphon.compare(fabric, bytes=size, algorithms=algorithms, playback=True)
    html = page.render(fabric, comparison)
    assert 'class="player no-print"' in html
    print(f"{spec}: {len(html.encode()):,} bytes")
    assert len(html.encode()) < PAGE_BYTES
