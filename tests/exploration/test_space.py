"""Descriptions of spaces, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon import AntiphonError
from antiphon.exploration.sites import Survey
from antiphon.exploration.space import Space

GIVEN: dict[str, Any] = {"fabrics": {"mesh": "mesh:{side}x{side}"}, "axes": {"side": [2, 3]}, "algorithms": ["ring"]}


def specs(**changes: Any) -> list[str]:
    survey = Survey(Space.of(GIVEN | changes))
    return [survey.place(variant).fabric for variant in survey.space.variants()]


def test_a_fabric_has_the_axes_that_it_names() -> None:
    fabrics = {"mesh": "mesh:{side}x{side}@{rate}", "ring": "ring:4@{rate}", "torus": "torus:{side}x2"}
    axes = {"side": [2, 3], "rate": ["10GB/s", 80, "80Gb/s"]}
    found = specs(fabrics=fabrics, axes=axes)
    assert found[:3] == ["mesh:2x2@10", "mesh:2x2@80", "mesh:2x2@10"]
    assert found[6:] == ["ring:4@10", "ring:4@80", "ring:4@10", "torus:2x2", "torus:3x2"]


def test_workloads_are_every_collective_with_every_size() -> None:
    space = Space.of(
        GIVEN | {"collective": ["all_reduce", "broadcast"], "bytes": ["1KiB", 2048], "weights": [1, 2, 3, 4]}
    )
    assert list(space.workloads) == [
        ("all-reduce", 1024, 1), ("all-reduce", 2048, 2), ("broadcast", 1024, 3), ("broadcast", 2048, 4),
    ]  # fmt: skip
    assert space.sum([1.0, 1.0, 1.0, 1.0]) == 10


def test_settings_of_a_fabric_hold_before_axes_and_those_before_the_rest() -> None:
    fabrics = {"own": {"fabric": "ring:4", "set": {"link_latency": "1ns"}, "algorithms": "direct"}, "all": "ring:4"}
    space = Space.of({"fabrics": fabrics, "axes": {"set": {"link_latency": ["2ns", "3ns"]}}, "set": {"clock_ns": 1}})
    found = [
        (each.template.name, dict(each.settings)["set.link_latency"], each.algorithms) for each in space.variants()
    ]
    assert [each[:2] for each in found] == [("own", "1ns"), ("all", "2ns"), ("all", "3ns")]
    assert found[0][2] == ["direct"]
    assert len(found[1][2]) > 10, "all that are known"
    assert all(dict(each.settings)["set.clock_ns"] == 1 for each in space.variants())


@pytest.mark.parametrize(("key", "figure"), [("io", "io_gb_per_s"), ("area", "area_mm2")])
def test_the_rate_is_solved_for_what_is_equal(key: str, figure: str) -> None:
    value, wanted = {"io": ("100GB/s", 100), "area": ("20mm2", 20)}[key]
    fabrics = {"mesh": "mesh:{side}x{side}@{rate}", "butterfly": "fbfly:{side}x{side}@{rate}"}
    survey = Survey(Space.of(GIVEN | {"fabrics": fabrics, "equal": {key: value}, "axes": {"side": [4]}}))
    places = [survey.place(variant) for variant in survey.space.variants()]
    assert [getattr(place.cost, figure) for place in places] == pytest.approx([wanted, wanted], rel=1e-8)
    mesh, butterfly = (place.rate_gb_per_s or 0 for place in places)
    assert butterfly < mesh
    if key == "io":
        assert (mesh, butterfly) == pytest.approx((25, 100 / 6))


def test_the_rate_inside_packages_is_solved_where_links_between_them_have_their_own() -> None:
    fabrics = {"small": "packages:2x2:of=2x2@{rate}/1ns+25", "large": "packages:2x2:of=3x3@{rate}+25/9ns/2pJ"}
    survey = Survey(Space.of(GIVEN | {"fabrics": fabrics, "equal": {"io": ["200GB/s", "40GB/s"]}, "axes": {}}))
    places = [survey.place(variant) for variant in survey.space.variants()]
    rates = {(place.variant.template.name, place.variant.equal): place.rate_gb_per_s for place in places}
    # Two links inside and two between, or four inside in the middle of a package.
    assert rates["small", ("io", 200.0)] == pytest.approx(75)
    assert rates["large", ("io", 200.0)] == pytest.approx(50)
    assert {place.refused for place in places if place.rate_gb_per_s is None} == {
        ("no rate of links gives io_gb_per_s 40: it is 50 to 2.00005e+06", "not-applicable"),
        ("no rate of links gives io_gb_per_s 40: it is 50 to 4e+06", "not-applicable"),
    }
    equal_area = Survey(Space.of(GIVEN | {"fabrics": fabrics, "equal": {"area": "400mm2"}, "axes": {}}))
    for variant in equal_area.space.variants():
        found = equal_area.place(variant)
        assert found.cost is not None
        assert found.cost.area_mm2 == pytest.approx(400, rel=1e-6)


def test_a_fabric_without_a_place_for_the_rate_is_taken_if_it_is_equal() -> None:
    fabrics = {"same": "mesh:4x4@25", "other": "mesh:4x4@26"}
    survey = Survey(Space.of({"fabrics": fabrics, "equal": {"io": "100GB/s"}}))
    same, other = (survey.place(variant) for variant in survey.space.variants())
    assert same.refused is None
    assert other.refused == ("its io_gb_per_s is 104, not 100; write @{rate} in its specification", "not-applicable")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fabric": {}}, "space: no key 'fabric'; did you mean 'fabrics'?"),
        ({"fabrics": {}}, "space: fabrics is missing"),
        ({"fabrics": {"mesh": {"spec": "mesh:2x2"}}}, "fabrics.mesh: no key 'spec'"),
        ({"fabrics": {"mesh": {"set": {}}}}, "fabrics.mesh: fabric is missing"),
        ({"fabrics": {"mesh": "mesh:{sied}x2"}}, "fabrics.mesh: no axis 'sied'; did you mean 'side'?"),
        ({"fabrics": {"mesh": "mesh:{side}x{2"}}, "has a brace without another"),
        ({"fabrics": {"mesh": 3}}, "fabrics.mesh: 3 is no table of keys"),
        ({"fabrics": "mesh:4x4"}, "fabrics: 'mesh:4x4' is no table of keys"),
        ({"fabrics": {"mesh": "mesh:{side}x2@{rate}"}}, "give an axis rate, or equal.io or equal.area"),
        ({"axes": {"side": [2], "pitch": ["2mm"]}}, "axes: no fabric has a place {pitch}"),
        ({"axes": {"side": []}}, "axes: side is []; give a value or a list of values"),
        ({"axes": {"side": [[2]]}}, "axes: side has [2]; give numbers or texts"),
        ({"axes": {"side": [2], "set": {"link_latncy": ["5ns"]}}}, "'set.link_latncy'; did you mean"),
        ({"set": {"link_latncy": "5ns"}}, "set: no key 'set.link_latncy'; did you mean 'set.link_latency'?"),
        ({"algorithms": ["rng"]}, "algorithms: no algorithm 'rng'; did you mean 'ring'?"),
        ({"algorithms": [3]}, "algorithm 3 is no text"),
        ({"bytes": "1XB"}, "space: bytes: "),
        ({"bytes": [1024, 2048], "weights": [1]}, "1 weights for 2 workloads"),
        ({"bytes": [1024, "1KiB"]}, "a workload is given twice; give it once, with a weight"),
        ({"weights": [-1]}, "weights: -1 is no number above 0"),
        ({"collective": "allreduc"}, "allreduc"),
        ({"collective": 3}, "collective is 3; expected text"),
        ({"fidelity": "packets"}, "no fidelity 'packets'; did you mean 'packet'?"),
        ({"system": "tt0"}, "tt0"),
        ({"equal": {"ios": "1GB/s"}}, "equal: no key 'ios'; did you mean 'io'?"),
        ({"equal": {"io": "1mm2"}}, "equal: io: '1mm2' is no value above 0; write for example 20GB/s"),
        ({"equal": {"area": "nan"}}, "equal: area: 'nan' is no value above 0; write for example 20mm2"),
        ({"equal": {"io": "1GB/s", "area": "1mm2"}}, "io and area cannot both be equal"),
        ({"constraints": {"area": 3}}, "constraints: no constraint 'area'; did you mean 'area_mm2'?"),
        ({"constraints": {"area_mm2": "3"}}, "constraints: area_mm2: '3' is no number above 0"),
        ({"axes": {"side": list(range(2, 2000)), "set": {"interfaces": list(range(1, 1000))}}}, "at most 1,000,000"),
    ],
)  # fmt: skip
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AntiphonError) as caught:
        Space.of(GIVEN | changes)
    assert message in caught.value.message
    assert "\n" not in caught.value.message


def test_files_are_named(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text("algorithms = [")
    with pytest.raises(AntiphonError, match=r"space.toml: is no TOML"):
        Space.read(file)
    file.write_text("fabrisc = 3")
    with pytest.raises(AntiphonError, match=r"space.toml: no key 'fabrisc'; did you mean 'fabrics'"):
        Space.read(file)
