"""Explorations: the same front however it is found, and nothing run twice."""

from __future__ import annotations

import html
import operator
import re
import shlex
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon import AntiphonError
from antiphon.deadline import OVER_TIME
from antiphon.exploration import moves
from antiphon.exploration.sites import Survey
from antiphon.exploration.space import Space
from antiphon.papers.aries.designs import ARIES, BUTTERFLY, MESH, TORUS, all_reduce
from antiphon.view.documents.exploration import fabrics_table

ROOT = Path(__file__).resolve().parent.parent.parent
SPACE: dict[str, Any] = {
    "fabrics": {"mesh": "mesh:{side}x{side}@{rate}", "torus": "torus:{side}x{side}@{rate}", "ring": "ring:16@{rate}"},
    "axes": {"side": [4], "set": {"link_latency": ["5ns", "100ns"]}},
    "equal": {"io": ["20GB/s", "80GB/s"]},
    "algorithms": ["ring", "ring-bi", "combs", "multitree", "halving-doubling", "tto"],
    "bytes": ["16KiB", "256KiB"],
    "weights": [4, 1],
}


def front(found: antiphon.Exploration) -> list[tuple[Any, ...]]:
    keys = ("fabric", "algorithm", "set.link_latency", "time_ns", "energy_j", "area_mm2")
    return [tuple(row.get(key) for key in keys) for row in found.front]


def test_the_front_is_the_same_without_bounds() -> None:
    pruned = antiphon.explore(SPACE, sensitivity=False)
    full = antiphon.explore(SPACE, sensitivity=False, prune=False, jobs=1)
    assert front(pruned) == front(full)
    assert pruned.designs == full.designs == 3 * 6 * 2 * 2
    assert (full.pruned, full.simulated + full.refused) == (0, full.designs)
    assert pruned.simulated < 0.6 * full.simulated
    assert pruned.pruned + pruned.simulated == full.simulated
    assert pruned.refusals == full.refusals
    assert {(each.algorithm, each.count) for each in pruned.refusals} == {("tto", 4)}
    bounds = {row["fabric"] + row["algorithm"] + row["set.link_latency"]: row for row in pruned.every.rows()}
    for row in full.points.rows():
        least = bounds[row["fabric"] + row["algorithm"] + row["set.link_latency"]]
        assert least["least_time_ns"] <= row["time_ns"] * (1 + 1e-12)
        assert least["least_energy_j"] <= row["energy_j"] * (1 + 1e-12)


@pytest.mark.slow
def test_the_front_of_300_designs_is_the_same_without_bounds() -> None:
    space = SPACE | {
        "axes": SPACE["axes"] | {"side": [3, 4, 5]},
        "equal": {"area": ["2mm2", "4mm2"]},
        "algorithms": ["ring", "ring-bi", "combs", "multitree", "hierarchical", "forest", "direct", "optimal"],
        "bytes": "256KiB",
        "weights": [1],
    }
    space["fabrics"] = {**SPACE["fabrics"], "butterfly": "fbfly:{side}x{side}@{rate}", "switch": "switch:16@{rate}"}
    pruned, full = (antiphon.explore(space, sensitivity=False, prune=prune) for prune in (True, False))
    assert full.designs >= 300
    assert front(pruned) == front(full)
    assert pruned.simulated < full.simulated / 2


def test_areas_that_are_to_be_equal_are_compared_as_equal() -> None:
    fabrics = {"mesh": "mesh:4x4@{rate}", "torus": "torus:4x4@{rate}", "butterfly": "fbfly:4x4@{rate}"}
    space = {"fabrics": fabrics, "equal": {"area": "3mm2"}, "algorithms": ["combs", "ring"], "bytes": "1MiB"}
    found = antiphon.explore(space, sensitivity=False, prune=False)
    assert {round(row["area_mm2"], 6) for row in found.points.rows()} == {3.0}
    figures = [(row["time_ns"], row["energy_j"]) for row in found.front]
    assert figures == sorted(figures)
    assert [energy for _, energy in figures] == sorted((energy for _, energy in figures), reverse=True)


def test_times_are_those_of_simulate() -> None:
    found = antiphon.explore(SPACE | {"equal": {"io": "80GB/s"}}, sensitivity=False)
    row = found.front[0]
    system = antiphon.System().with_(link_latency_ns=float(row["set.link_latency"].removesuffix("ns")))
    runs = []
    for size in ("16KiB", "256KiB"):
        schedule = antiphon.build(row["fabric"], row["algorithm"], bytes=size, system=system)
        runs.append(antiphon.run(row["fabric"], schedule, system, energy=True))
    assert row["time_ns"] == pytest.approx(4 * runs[0].time_ns + runs[1].time_ns, rel=1e-12)
    energies = [run.energy.total_j for run in runs if run.energy]
    assert row["energy_j"] == pytest.approx(4 * energies[0] + energies[1], rel=1e-12)
    assert row["times_ns.all-reduce 256KiB"] == runs[1].time_ns
    assert row["area_mm2"] == antiphon.cost(row["fabric"], system).area_mm2


def test_a_second_call_runs_nothing(tmp_path: Path) -> None:
    first, again = (antiphon.explore(SPACE, tmp_path / "runs") for _ in range(2))
    assert first.runs > 0
    assert again.runs == 0
    assert again.to_dict() == first.to_dict()
    with sqlite3.connect(tmp_path / "runs" / "runs.sqlite") as database:
        assert database.execute("SELECT count(*) FROM runs").fetchone() == (first.runs,)


def test_an_exploration_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def end(what: str, share: float) -> None:
        if what == "designs" and share > 0.3:
            raise Enough

    with pytest.raises(Enough):
        antiphon.explore(SPACE, tmp_path, sensitivity=False, progress=end)
    with sqlite3.connect(tmp_path / "runs.sqlite") as database:
        (before,) = database.execute("SELECT count(*) FROM runs").fetchone()
    rest = antiphon.explore(SPACE, tmp_path, sensitivity=False)
    whole = antiphon.explore(SPACE, sensitivity=False)
    assert 0 < before < whole.runs
    assert rest.runs == whole.runs - before
    assert rest.to_dict() == whole.to_dict()


@pytest.mark.parametrize(("key", "most"), [("io_gb_per_s", 50), ("time_ns", 100_000), ("power_w", 5.0)])
def test_what_misses_a_constraint_is_not_on_the_front(key: str, most: float) -> None:
    found = antiphon.explore(SPACE | {"constraints": {key: most}}, sensitivity=False, prune=False)
    assert found.over > 0
    assert found.front
    assert all(row[key] <= most for row in found.front)
    missed = [row for row in found.points.rows() if row[key] > most]
    assert all(row["misses"] == key and not row["on_front"] for row in missed)
    assert front(antiphon.explore(SPACE | {"constraints": {key: most}}, sensitivity=False)) == front(found)


def test_links_twice_as_fast_move_the_front() -> None:
    space = SPACE | {"bytes": "1MiB", "weights": [1], "algorithms": ["combs"], "equal": {"io": "40GB/s"}}
    found = antiphon.explore(space)
    rows = {row["parameter"]: row for row in found.sensitivity.rows()}
    assert list(rows) == ["link rate", "link latency", "wire energy", "set.link_latency"]
    best = found.front[0]["time_ns"]
    assert 0.5 * best <= rows["link rate"]["time_ns"] < 0.6 * best
    assert rows["wire energy"]["time_ns"] == best
    assert rows["wire energy"]["energy_j"] < 0.9 * min(row["energy_j"] for row in found.front)
    assert rows["set.link_latency"]["factor"] == 0.5
    assert rows["set.link_latency"]["time_ns"] == rows["link latency"]["time_ns"] < best


def test_what_a_late_run_would_move_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "refusal_of", lambda _record: {"reason": "late", "code": OVER_TIME})
    space = {"fabrics": {"mesh": "mesh:2x2"}, "algorithms": ["ring"], "bytes": "1MiB"}
    assert antiphon.explore(space).sensitivity.rows() == []


def test_the_fastest_of_a_fabric_takes_the_least_energy() -> None:
    space = {"fabrics": {"mesh": "mesh:4x4@25//{pj}"}, "axes": {"pj": ["0.3pJ", "0.1pJ"]}, "algorithms": ["ring"]}
    found = antiphon.explore(space, sensitivity=False)
    assert [row[-1] for row in fabrics_table(found).rows] == ["mesh:4x4@25//0.1pJ"]


def test_links_with_their_own_latency_and_energy_do_not_move() -> None:
    space = {"fabrics": {"own": "mesh:2x2@25/20ns/0.3pJ"}, "algorithms": ["ring"], "bytes": "1MiB"}
    assert antiphon.explore(space).sensitivity.rows() == []
    space["fabrics"] = {"own": "mesh:2x2:pitch=2mm@25/20ns/0.3pJ"}
    rows = {row["parameter"]: row for row in antiphon.explore(space).sensitivity.rows()}
    assert rows["link latency"]["time_ns"] < antiphon.explore(space).front[0]["time_ns"]
    space = {"fabrics": {"own": "mesh:2x2@25"}, "algorithms": ["ring"], "bytes": "1MiB"}
    assert [row["parameter"] for row in antiphon.explore(space).sensitivity.rows()] == ["link latency", "wire energy"]


def test_a_fabric_that_is_no_fabric_is_a_mistake() -> None:
    with pytest.raises(AntiphonError, match=r"space: fabrics.mesh: no fabric kind 'mehs'|fabrics.mesh: .*mehs"):
        antiphon.explore({"fabrics": {"mesh": "mehs:4x4"}, "algorithms": "ring"})


def test_sizes_that_a_fabric_does_not_take_are_refused() -> None:
    space = {
        "fabrics": {"mesh": "mesh:{side}x{side}"},
        "axes": {"side": [2, 1000]},
        "algorithms": "ring",
        "bytes": 4096,
    }
    found = antiphon.explore(space, sensitivity=False)
    (refusal,) = found.refusals
    assert (found.simulated, refusal.fabric, refusal.algorithm, refusal.code) == (1, "mesh:1000x1000", "", "too-large")


def test_designs_that_axes_give_twice_count_once() -> None:
    space = {"fabrics": {"mesh": "mesh:{side}x2@{rate}"}, "algorithms": "ring", "bytes": 4096}
    once = antiphon.explore(space | {"axes": {"side": [2, 3], "rate": [10, 20]}}, sensitivity=False)
    axes = {"side": [2, 3, 2, "3"], "rate": [10, "80Gb/s", "20GB/s"]}
    twice = antiphon.explore(space | {"axes": axes}, sensitivity=False)
    assert [(each.designs, each.repeated) for each in (once, twice)] == [(4, 0), (4, 8)]
    assert [row["time_ns"] for row in twice.points.rows()] == [row["time_ns"] for row in once.points.rows()]
    large = {"fabrics": {"mesh": "mesh:{side}x{side}"}, "axes": {"side": [2, 1000, 1001, 1000]}}
    refused = antiphon.explore(space | large, sensitivity=False)
    assert (refused.refused, refused.repeated) == (2, 1)


def test_pages_have_a_comparison_for_every_fabric_of_the_front() -> None:
    found = antiphon.explore(SPACE)
    page = found.page()
    assert page.count("<details id=") == len({(r["fabric"], r["set.link_latency"]) for r in found.points.rows()})
    assert all(f'href="#c{number}"' in page for number in range(1, 4))
    assert "What would move the front" in page
    assert "antiphon compare torus:4x4@20" in page


def test_lines_of_a_page_make_its_designs_again(commands: Any) -> None:
    own = {"fabric": "ring:4@{rate}", "set": {"router_ejection": "circuit"}}
    space = {
        "fabrics": {"own ring": own, "mesh": "mesh:2x3,slow=0-1:0.5"},
        "axes": {"rate": [12.5], "set": {"header_flits": [1, 2]}},
        "algorithms": ["ring:gather=back", "direct"],
        "collective": ["all-reduce", "all-gather"],
        "bytes": ["16KiB", 3000],
        "weights": [1, 2, 3, 4],
        "system": "aries",
        "set": {"link_latency": "7ns"},
        "fidelity": "alpha-beta",
    }
    found = antiphon.explore(space, sensitivity=False, prune=False)
    groups = re.findall(r"<pre>(.*?)</pre>", found.page(), re.DOTALL)
    times: dict[tuple[str, str, str], list[float]] = {}
    for lines in map(html.unescape, groups):
        for line in lines.splitlines():
            program, *words = shlex.split(line)
            assert program == "antiphon"
            document = commands.document(*words)
            for run in document["runs"]:
                key = (document["fabric"], run["algorithm"], lines)
                times.setdefault(key, []).append(run["time_ns"])
    sums = sorted(sum(map(operator.mul, (1, 2, 3, 4), each)) for each in times.values())
    assert sums == pytest.approx(sorted(row["time_ns"] for row in found.points.rows()), rel=1e-9)
    assert len(sums) == 8


def test_the_command(commands: Any, tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text(
        'bytes = "16KiB"\nalgorithms = ["ring", "combs", "tto"]\n[fabrics]\nclique = "fc:4"\nring = "ring:4"\n'
    )
    table, page = tmp_path / "designs.csv", tmp_path / "front.html"
    document = commands.document("explore", file, "--out", table, "--report", page, "--jobs", "1")
    assert {point["fabric"] for point in document["points"]} == {"fc:4", "ring:4"}
    keys = ("fabric", "algorithm", "time_ns", "energy_j", "area_mm2", "on_front")
    assert all(point[key] is not None for point in document["points"] for key in keys)
    assert (document["designs"], document["refused"]) == (6, 2)
    assert len(table.read_text().splitlines()) == 7
    assert page.read_text().startswith("<!doctype html>")
    assert (tmp_path / "space.runs" / "runs.sqlite").is_file()
    told = commands.invoke("explore", file, "--no-sensitivity", "--jobs", "1").output
    assert "6 designs: " in told
    assert "2 have no result" in told
    file.write_text('algorithms = ["tto"]\n[fabrics]\nring = "ring:4"\n')
    assert "has a result: it needs a two-dimensional mesh" in commands.refused("explore", file, "--jobs", "1")


def test_aries_and_its_rivals_take_what_the_reproduction_says() -> None:
    space = Space.read(ROOT / "examples" / "explore" / "aries.toml")
    assert space.fidelity == "flit"
    found: dict[tuple[str, str], Any] = {}
    survey = Survey(space)
    for variant in space.variants():
        for design in survey.place(variant).designs():
            found[design.name, design.algorithm] = space.points(design)[0]
    for series, name, algorithm in (
        (MESH, "mesh", "dbtree"),
        (TORUS, "torus", "multitree"),
        (BUTTERFLY, "butterfly", "dbtree"),
        (ARIES, "ARIES, dbtree", "dbtree"),
    ):
        case = {"algorithm": algorithm, "series": series, "side": 8, "size": space.workloads[0][1]}
        ours = found[name, algorithm].measure()
        assert ours["time_ns"] == all_reduce(case, series).measure()["time_ns"], name
