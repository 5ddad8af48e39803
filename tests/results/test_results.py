"""What all results can do: tables, frames, files, pickles, notebooks, charts."""

from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from looked import Looked

import antiphon
from antiphon import AntiphonError, Comparison, Result, plot
from antiphon.view.documents import document_of
from antiphon.view.html import html

RING = antiphon.Fabric("ring:4")
SCHEDULE = antiphon.build(RING, "ring", bytes="64KiB")
FLIGHTS = [antiphon.Flight(SCHEDULE, name="first"), antiphon.Flight(SCHEDULE, 10.0)]
RUN = antiphon.run(RING, SCHEDULE)
COMPARISON = antiphon.compare(
    RING, bytes="64KiB", algorithms="ring,direct,direct:chunk=1KiB,tto", fidelity="packet,alpha-beta"
)
TUNING = antiphon.tune("ring:4", sizes="1KiB,64KiB", algorithms="ring,ring-bi", fidelity="alpha-beta")
EMULATED = {"bytes": 4096, "correct": True, "measured_ns": 5.0, "predicted_ns": 4.5, "least_ns": 4.0, "most_ns": 9.0}
RESULTS: list[Result] = [
    RUN,
    RUN.result,
    RUN.stats,
    COMPARISON,
    TUNING,
    antiphon.limits("ring:4", sizes="1KiB,64KiB", algorithms="ring", fidelity="alpha-beta"),
    antiphon.simulate_flights(RING, FLIGHTS),
    antiphon.train("resnet50", RING, "ring"),
    antiphon.train("resnet50", RING, "ring").iteration,
    antiphon.noc(RING, cycles=200, warm_up_cycles=50),
    antiphon.rails("2D-SW_SW", chunks=4, scheduler="themis"),
    antiphon.rails_flights("2D-SW_SW", [antiphon.RailsFlight("1MB")], "themis"),
    antiphon.advise_rails("2D-SW_SW"),
    antiphon.advise_trees(16, "1MiB"),
    antiphon.advise_ace("ace:2x2x1", "256KiB", share=0.5),
    antiphon.calibrate(seconds=0.01, size="64KiB", gemm=16),
    antiphon.measure(RING, "ring", sizes="4KiB,64KiB", transport="threads"),
    antiphon.Emulated.of(
        RING, SCHEDULE, 10**8, 3, (0.99, 1.0), [EMULATED | {"algorithm": name} for name in ("a", "b")]
    ),
]


def each(result: Result) -> str:
    return type(result).__name__


@pytest.mark.parametrize("result", RESULTS, ids=each)
def test_its_tables_are_frames(result: Result) -> None:
    name, first = next(iter(result.tables.items()))
    for table in result.tables.values():
        assert type(table) is antiphon.Table
        assert not any(column.flags.writeable for column in table.values())
    empty = ("refused", "network", "estimates")
    assert all(table.height for table_name, table in result.tables.items() if table_name not in empty)
    assert pl.DataFrame(result).shape == pl.DataFrame(first).shape == (first.height, len(first))
    assert list(result.to_frame().columns) == list(result.to_frame(name).columns) == list(first)
    with pytest.raises(AntiphonError, match="no table 'rows'; there are: " + name):
        result.table("rows")


@pytest.mark.parametrize("result", RESULTS, ids=each)
def test_it_comes_back_from_a_file_and_a_pickle(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "result.json")
    again = type(result).load(tmp_path / "result.json")
    assert again == result == pickle.loads(pickle.dumps(result))
    assert repr(again) == repr(result)


@pytest.mark.parametrize("result", RESULTS, ids=each)
def test_it_is_shown_in_a_line_and_in_notebooks(result: Result) -> None:
    assert repr(result).startswith(f"<{each(result)}")
    assert len(repr(result)) < 200
    page = result._repr_html_()
    document = document_of(result)
    if document is None:
        assert all(f"<th>{name}</th>" in page for name in result.table())
        assert page.count("<tr>") == min(result.table().height, 20) + 1
    else:
        assert html(document) in page


@pytest.mark.parametrize("result", RESULTS, ids=each)
def test_it_has_a_page(result: Result, tmp_path: Path) -> None:
    result.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page == result.page()
    Looked(page)


def test_a_page_that_draws_the_fabric_needs_it(tmp_path: Path) -> None:
    own = antiphon.Fabric.from_json(RING.to_json(), "mine")
    run = antiphon.run(own, antiphon.build(own, "ring", bytes="64KiB"))
    with pytest.raises(AntiphonError, match="give the fabric, too"):
        run.page()
    assert "mine" in Looked(run.page(own)).text
    part = antiphon.Fabric("mesh:2x3").group("0,1,3,4")
    assert "mesh:2x3[0,1,3,4]" in Looked(antiphon.compare(part, bytes="4KiB", algorithms="ring").page()).text


@pytest.mark.parametrize("result", [each for each in RESULTS if hasattr(each, "plot")], ids=each)
def test_it_is_drawn(result: Any) -> None:
    text = result.plot()._repr_svg_()
    assert text.startswith("<?xml")
    assert text == plot.svg(result.plot())
    assert len(text) < 200_000


def test_what_is_drawn() -> None:
    def ticks(result: Any) -> list[str]:
        return [label.get_text() for label in result.plot().axes[0].get_yticklabels()]

    assert ticks(COMPARISON) == [run.algorithm for run in COMPARISON]
    lines = COMPARISON.plot("utilization").axes[0].lines
    assert [line.get_label() for line in lines] == [run.algorithm for run in COMPARISON]
    assert np.array_equal(lines[0].get_ydata(), COMPARISON.best.result.timeline["utilization"])
    assert {line.get_label() for line in TUNING.plot().axes[0].lines} == {"ring", "ring-bi"}


def test_a_comparison_has_its_runs_by_name() -> None:
    assert COMPARISON.best is next(iter(COMPARISON)) is COMPARISON.ranking[0]
    assert len(COMPARISON) == 3
    assert COMPARISON["direct:chunk=1KiB"].algorithm == "direct:chunk=1KiB"
    assert COMPARISON["ring"].fidelity == "packet"
    with pytest.raises(AntiphonError, match=r"tto was left out: .+"):
        COMPARISON["tto"]
    with pytest.raises(AntiphonError, match="combs has no run; there are: "):
        COMPARISON["combs"]
    assert replace(COMPARISON, ladder=COMPARISON.ladder[:1])[COMPARISON.best.algorithm.partition(":")[0]]
    nothing = replace(COMPARISON, ladder=[])
    assert "best" not in repr(nothing)
    with pytest.raises(AntiphonError, match="no algorithm could do all-reduce on ring:4"):
        nothing.best  # noqa: B018


def test_a_tuning_has_its_choices_by_size() -> None:
    assert [choice.bytes for choice in TUNING] == [1024, 65536]
    assert TUNING["64KiB"] is TUNING[65536] is TUNING.choices[1]
    assert len(TUNING) == 2
    with pytest.raises(AntiphonError, match="2KiB was not tuned for; there are: 1KiB, 64KiB"):
        TUNING["2KiB"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no saved result"),
        ("[]", "is no saved result"),
        ("[" * 100_000, "is no saved result"),
        ('{"schema": "antiphon-result/1", "type": "Tuning"}', "has a Tuning of antiphon-result/1, not a Comparison"),
        ('{"schema": "antiphon-result/1", "type": "Comparison", "result": {}}', "does not fit a Comparison"),
    ],
)
def test_files_of_something_else(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(AntiphonError, match=message):
        Comparison.load(tmp_path / "result.json")
    with pytest.raises(AntiphonError, match="cannot be read"):
        Comparison.load(tmp_path / "missing.json")


def test_a_file_with_a_field_of_another_type(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    COMPARISON.save(path)
    document = json.loads(path.read_text())
    document["result"]["bytes"] = "many"
    path.write_text(json.dumps(document))
    with pytest.raises(AntiphonError, match="'many' is no int"):
        Comparison.load(path)


def test_records_without_tables_are_values() -> None:
    saturation = antiphon.noc_saturation(RING, "neighbor", warm_up_cycles=50, cycles=50)
    records: list[Any] = [
        RUN.bound,
        RUN.result.proof,
        COMPARISON.refused[0],
        saturation,
        saturation.stable,
        saturation.stable.router,
        saturation.stable.packet_latency_cycles,
        *antiphon.System("tto").parameters(),
    ]
    for record in records:
        copy = pickle.loads(pickle.dumps(record))
        assert {record, copy} == {record}
        with pytest.raises(FrozenInstanceError):
            setattr(record, fields(record)[0].name, None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('["<f8"', '["O"'),
        ('["<f8"', '["(2,)f8"'),
        ('["<f8"', '["(01,)f8"'),
        ('["<f8"', '["<f16"'),
        ('["<f8"', '["<U900000000"'),
        ('"bytes":4096', '"bytes":Infinity'),
        ('"bytes":4096', '"bytes":true'),
        ('"bytes":4096', '"bytes":4096.0'),
        ('"bytes":4096', '"more":1,"bytes":4096'),
        ('"time_ns":', '"time_ns":1' + "1" * 400 + ',"time":'),
        ('"time_ns":', '"time_ns":"soon","time":'),
        ('"algorithm":"ring"', '"algorithm":["ring"]'),
    ],
)
def test_only_what_save_writes_is_loaded(tmp_path: Path, old: str, new: str) -> None:
    fabric = antiphon.Fabric("mesh:2x2")
    run = antiphon.run(fabric, antiphon.build(fabric, "ring", bytes=4096))
    run.save(tmp_path / "run.json")
    text = (tmp_path / "run.json").read_text("utf-8")
    assert antiphon.Run.load(tmp_path / "run.json") == run
    assert old in text
    (tmp_path / "other.json").write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(antiphon.AntiphonError, match=r"does not fit a Run|no saved result") as error:
        antiphon.Run.load(tmp_path / "other.json")
    assert len(str(error.value)) < 1000
    assert "\n" not in str(error.value)
