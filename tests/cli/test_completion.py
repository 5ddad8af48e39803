"""Shell completion: of commands, names, names in lists, settings and files."""

from __future__ import annotations

import pytest
from click.shell_completion import CompletionItem, ShellComplete

from antiphon.cli import main


def completed(words: str) -> list[CompletionItem]:
    """What completes the last of the words."""
    *before, typed = words.split(" ")
    return ShellComplete(main, {}, "antiphon", "_ANTIPHON_COMPLETE").get_completions(before[1:], typed)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("antiphon stu", ["study"]),
        ("antiphon study mer", ["merge"]),
        ("antiphon compare tor", ["torus"]),
        ("antiphon simulate mesh:4x4 tto:ch", ["tto:chunk="]),
        ("antiphon compare mesh:4x4 --algorithms ring,halv", ["ring,halving-doubling"]),
        ("antiphon train resnet50,alexn", ["resnet50,alexnet"]),
        ("antiphon bound ring:4 --set link_rate", ["link_rate_gb_per_s=", "link_rate="]),
        ("antiphon bound ring:4 --system tt", ["tto"]),
        ("antiphon bound ring:4 --format mark", ["markdown"]),
        ("antiphon rails 2D-SW_S", ["2D-SW_SW"]),
        ("antiphon advise ra", ["rails"]),
        ("antiphon reproduce tto/fig1", ["tto/fig10", "tto/fig14"]),
        ("antiphon systems t", ["tto"]),
        ("antiphon cal", ["calibrate"]),
        ("antiphon calibrate --device c", ["cpu", "cuda"]),
    ],
)
def test_names(words: str, expected: list[str]) -> None:
    names = [item.value for item in completed(words) if item.type == "plain"]
    assert set(expected) <= set(names)
    assert all(name.startswith(words.rpartition(" ")[2]) for name in names)


@pytest.mark.parametrize(
    "words",
    [
        "antiphon verify mesh:4x4 --schedule ",
        "antiphon compare mesh:4x4 --schedule ",
        "antiphon compare mesh:4x4 --report ",
        "antiphon show mesh:4x4 ring --out ",
        "antiphon flights mesh:4x4 ",
        "antiphon train ",
        "antiphon replay ",
        "antiphon bound ring:4 --system ",
        "antiphon study ",
        "antiphon study x.toml --store ",
        "antiphon study x.toml --out ",
        "antiphon tune ring:4 --out ",
        "antiphon calibrate --out ",
    ],
)
def test_files(words: str) -> None:
    assert "file" in [item.type for item in completed(words)]
