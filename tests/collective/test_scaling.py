"""Collectives without a list of transfers."""

from __future__ import annotations

from typing import Any

import pytest

import antiphon


@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter", "all-to-all", "all-reduce"])
def test_a_line_stands_for_all(collective: str) -> None:
    found = antiphon.at_scale("torus:4x4", "64MiB", collective, algorithms="staged")
    (run,) = found.runs.rows()
    assert run["bound_ns"] == antiphon.lower_bound("torus:4x4", collective, "64MiB").time_ns
    assert 0.95 < run["efficiency"] == run["bound_ns"] / run["time_ns"] <= 1
    assert "message by message" in run["proof"]
    assert "stands for all" in run["in_place"]
    assert run["messages"] > 0
    assert run["dynamic_j"] > 0


def test_a_small_product_is_as_fast_as_listed() -> None:
    listed = antiphon.run("torus:4x4", antiphon.build("torus:4x4", "hierarchical", "all-gather", "64MiB"))
    staged = antiphon.at_scale("torus:4x4", "64MiB", "all-gather", algorithms=["staged"]).runs["time_ns"][0]
    assert staged == pytest.approx(listed.time_ns, rel=0.02)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
@pytest.mark.parametrize(("fabric", "trees"), [("torus:4x4x4", 6), ("dgx-h100:8", 16)])
def test_trees_of_a_root_are_listed(fabric: str, trees: int, collective: str) -> None:
    run, all_reduce = antiphon.at_scale(fabric, "4GiB", collective).runs.rows()
    assert run["algorithm"] == f"optimal:trees={trees}"
    assert 0.97 < run["efficiency"] <= 1
    assert f"all messages of {trees} trees" in run["proof"]
    assert all_reduce["algorithm"].startswith("staged")
    assert all_reduce["proof"].startswith("an all-reduce")


def test_what_does_not_apply_is_said() -> None:
    with pytest.raises(antiphon.AntiphonError, match="no intact product"):
        antiphon.at_scale("bigraph:2x4", "1MiB", algorithms="staged")
    with pytest.raises(antiphon.AntiphonError, match="nothing describes 'stagd'; did you mean 'staged'"):
        antiphon.at_scale("torus:4x4", algorithms="stagd")
    with pytest.raises(antiphon.AntiphonError, match="staged has no options"):
        antiphon.at_scale("torus:4x4", algorithms="staged:chunks=2")


def test_the_command_says_what_stands_for_a_list(commands: Any) -> None:
    document = commands.document("scale", "torus:4x4", "--collective", "all-to-all", "--bytes", "16MiB")
    (run,) = document["runs"]
    assert run["algorithm"].startswith("staged:chunks=")
    assert {each["algorithm"] for each in document["refused"]} == {"combs", "ring"}
    refused = {each["reason"] for each in document["refused"]}
    assert any("only meshes of two dimensions" in reason for reason in refused)
    shown = commands.invoke("scale", "torus:4x4", "--collective", "all-gather", "--bytes", "16MiB").output
    assert "In place of a list, staged" in shown
    assert "Left out:" in shown


def test_refusals_name_the_command(commands: Any) -> None:
    assert "antiphon scale takes meshes" in commands.refused("simulate", "mesh:256x256", "combs")


def test_a_mesh_of_more_ranks_than_a_fabric_has() -> None:
    found = antiphon.at_scale("mesh:80x80", "16MiB")
    assert found.ranks == 6400
    assert found.runs.rows()[0]["algorithm"].startswith("combs")
    assert {each["algorithm"] for each in found.refused.rows()} == {"staged"}
    for spec in ("torus:32x32x32", "mesh:1000x1000"):
        with pytest.raises(antiphon.AntiphonError, match="mesh"):
            antiphon.at_scale(spec)


def test_combs_at_scale_are_those_that_are_listed() -> None:
    (described,) = antiphon.at_scale("mesh:8x8", "16MiB", algorithms="combs").runs.rows()
    listed = antiphon.run("mesh:8x8", antiphon.build("mesh:8x8", described["algorithm"], "all-reduce", "16MiB"))
    assert described["time_ns"] == listed.time_ns
