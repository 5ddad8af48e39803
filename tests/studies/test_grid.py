"""Grids of points: what a file says, and what is wrong with it, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from antiphon.cli import main
from antiphon.errors import AntiphonError
from antiphon.studies import Grid
from antiphon.studies.commands import COMMANDS

FILE = """
command = "simulate"

[fixed]
system = "tto"

[axes]
algorithm = ["ring", "tto"]
bytes = "64KiB..256KiB"
set.link_rate = ["25GB/s", "50GB/s"]

[[case]]
fabric = "mesh:4x4"

[[case]]
fabric = "switch:16"
system = "generic"
"""
NOT_STUDIED = {
    "json": "the form of the output",
    "output": "the form of the output",
    "report": "a file about one run",
    "open": "shows a page about one run",
    "picture": "a file about one run",
    "out": "a file about one run",
    "jobs": "points run at the same time",
    "groups": "an axis of groups",
    "placement": "of files of other tools, which are no points",
    "trace": "a file about one run",
    "chakra": "files about one run",
    "flights": "a file that one run reads",
    "shared_loads": "of a file of flights",
    "against": "an axis of algorithms",
    "against_endpoints": "an axis of algorithms",
    "settings": "keys set.NAME",
    "time_limit": "the study has one, for all points",
    "all": "a point may name its algorithms",
    "library": "no schedule, so no point",
    "help": "",
}
"""Options of commands that are no keys, and what is in their place."""


def test_every_combination_of_axes_and_cases_is_a_point(tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(FILE)
    grid = Grid.read(file)
    points = [dict(point.values) for point in grid.points()]
    assert len(points) == len(grid) == 2 * 2 * 3 * 2
    assert grid.columns == ["fabric", "system", "algorithm", "bytes", "set.link_rate"]
    assert points[0] == {
        "fabric": "mesh:4x4",
        "system": "tto",
        "algorithm": "ring",
        "bytes": 65536,
        "set.link_rate": "25GB/s",
    }
    assert [point["set.link_rate"] for point in points[:2]] == ["25GB/s", "50GB/s"], "the last axis is the fastest"
    assert {(point["fabric"], point["system"]) for point in points} == {("mesh:4x4", "tto"), ("switch:16", "generic")}


def test_ranges_of_sizes_stand_in_lists_too() -> None:
    axes = {"topology": ["2D-SW_SW"], "bytes": [4096, "1MiB..4MiB", "1GiB"]}
    sizes = [4096, 1 << 20, 1 << 21, 1 << 22, 1 << 30]
    assert Grid.of({"command": "rails", "axes": axes}).axes["bytes"] == sizes


@pytest.mark.parametrize("name", COMMANDS)
def test_keys_are_the_options_of_the_command(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    options = set()
    for parameter in command.params:
        # The long option, in the singular where a point has one of what the command takes several of.
        long = max((text for text in parameter.opts if text.startswith("--")), key=len, default=parameter.name or "")
        options.add({"fabrics": "fabric"}.get(long, long).removeprefix("--").replace("-", "_"))
    assert set(COMMANDS[name].keys) == (options - NOT_STUDIED.keys() - {"format", "set"})


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"command": "simulat"}, "no command 'simulat'; did you mean 'simulate'?"),
        ({}, "command is missing; name one of simulate, compare"),
        ({"command": "rails", "axis": {}}, "no part 'axis'; did you mean 'axes'?"),
        ({"command": "rails", "axes": {"topolgy": ["x"]}}, "axes: no key 'topolgy'; did you mean 'topology'?"),
        ({"command": "train", "fixed": {"globalbatch": 1}}, "no key 'globalbatch'; did you mean 'global_batch'?"),
        ({"command": "simulate", "axes": {"set": {"link_rat": [1]}}}, "'set.link_rat'; did you mean 'set.link_rate'?"),
        ({"command": "rails", "axes": {"topology": "2D-SW_SW"}}, "topology is '2D-SW_SW'; give a list of values"),
        ({"command": "rails", "axes": {"topology": []}}, "topology is []; give a list of values"),
        ({"command": "rails", "axes": {"topology": [3]}}, "topology is 3; expected text"),
        ({"command": "rails", "fixed": {"seed": True}}, "seed is True; expected a whole number"),
        ({"command": "rails", "fixed": {"seed": 1.5}}, "seed is 1.5; expected a whole number"),
        ({"command": "rails", "fixed": {"bytes": "64XiB"}}, "bytes: size '64XiB'"),
        ({"command": "rails", "fixed": {"bytes": []}}, "bytes: "),
        ({"command": "rails", "fixed": []}, "fixed: [] is no table of keys"),
        ({"command": "rails", "case": {}}, "write [[case]] above each"),
        ({"command": "rails", "case": [3]}, "case 1: 3 is no table of keys"),
        ({"command": "rails"}, "rails needs topology: an axis, or fixed"),
        ({"command": "rails", "axes": {"topology": ["x"]}, "fixed": {"topology": "x"}}, "an axis, and given in fixed"),
        ({"command": "rails", "axes": {"topology": ["x"]}, "case": [{"topology": "x"}]}, "and given in a case too"),
        (
            {"command": "rails", "fixed": {"topology": "x"}, "axes": {"seed": [1] * 2000, "sharing": [1] * 2000}},
            "4,000,000 points; at most 1,000,000",
        ),
    ],
)  # fmt: skip
def test_a_grid_that_means_nothing_is_refused(description: Any, message: str) -> None:
    with pytest.raises(AntiphonError) as refused:
        Grid.of(description)
    assert message in refused.value.message
    assert refused.value.message.startswith("grid: ")


def test_files_that_are_no_grid(tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text("command = ")
    with pytest.raises(AntiphonError, match=r"grid\.toml: is no TOML: Invalid value"):
        Grid.read(file)
    with pytest.raises(AntiphonError, match="No such file"):
        Grid.read(tmp_path / "none.toml")
