"""Files that are written: in their place whole, as they were but for what they say, and never over what is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from antiphon.cli import main
from antiphon.errors import AntiphonError
from antiphon.files import parse_json, parse_toml, write_together, written_whole


def write(path: Path, text: str = "new") -> None:
    with written_whole(path, ".json") as file:
        file.write(text)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664])
def test_a_replaced_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    for name, replace in (("a.json", write), ("b.json", lambda path: write_together([(str(path), b"new")]))):
        path = tmp_path / name
        path.write_text("old")
        path.chmod(mode)
        replace(path)
        assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", mode)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "file.json"
    for name in ("link.json", "again.json"):
        link = tmp_path / name
        link.symlink_to(target if name == "link.json" else tmp_path / "link.json")
        write(link, name)
        assert link.is_symlink()
        assert target.read_text() == name
        assert [each.name for each in target.parent.iterdir()] == ["file.json"]


def test_an_output_that_is_an_input_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    nodes, links = '[{"rank": true}, {"rank": true}]', '[{"from": "0", "to": "1", "both": true}]'
    fabric = f'{{"schema": "antiphon-fabric/1", "nodes": {nodes}, "links": {links}}}'
    (tmp_path / "fabric.json").write_text(fabric)
    (tmp_path / "other.json").symlink_to("fabric.json")
    os.link("fabric.json", "hard.json")
    (tmp_path / "system.json").write_text('{"preset": "tto"}')
    assert run(main, ["show", "mesh:2x2", "ring", "--bytes", "4KiB", "--out", "s.json"]).exit_code == 0
    schedule = (tmp_path / "s.json").read_text()
    (tmp_path / "flights.json").write_text('[{"schedule": "s.json"}]')
    simulate = ["simulate", "fabric.json", "ring", "--bytes", "4KiB"]
    for command, out in (
        ([*simulate], "fabric.json"),
        ([*simulate], "./other.json"),
        ([*simulate], "hard.json"),
        ([*simulate, "--system", "system.json"], "system.json"),
        (["simulate", "mesh:2x2", "--schedule", "s.json"], "s.json"),
        (["flights", "mesh:2x2", "flights.json"], "flights.json"),
        (["flights", "mesh:2x2", "flights.json"], "s.json"),  # which only the file names
    ):
        found = run(main, [*command, "--trace", out])
        assert found.exit_code == 2, found.output
        assert f"{Path(out)}: is read by the same command; write another file" in found.output.replace("./", "")
    assert (tmp_path / "fabric.json").read_text() == fabric
    assert (tmp_path / "s.json").read_text() == schedule
    expected = ["expect", "dgx-h100:2", "--log", str(Path(__file__).parent.parent / "examples" / "h100x16.log")]
    for command in ([*simulate, "--trace", "new.json", "--picture", "new.svg"], [*expected, "--fit", "new.toml"]):
        assert run(main, command).exit_code == 0
        assert run(main, command).exit_code == 0, "what it wrote itself may be replaced"


def test_keys_that_are_there_twice_are_refused() -> None:
    for text in ('{"a": 1, "a": 2}', '[{"b": {"a": 1, "c": 2, "a": 1}}]'):
        with pytest.raises(ValueError, match="key 'a' is there twice"):
            parse_json(text)
    for parse, text in ((parse_json, "[" * 100_000), (parse_toml, "a = " + "[" * 100_000)):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse(text)


def test_what_cannot_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(AntiphonError, match="exists and is not a file"):
        write(tmp_path / "folder.json")
    with pytest.raises(AntiphonError, match="cannot be written"):
        write(tmp_path / "nowhere" / "file.json")
