"""Tables of steps, constants fitted on them, and what docs/evidence/large-models.md says of them."""

from __future__ import annotations

import csv
import json
import re
import runpy
import statistics
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import antiphon
from antiphon import AntiphonError
from antiphon.cli import main
from antiphon.llm.fit import least
from antiphon.llm.table import ALL_LAYERS, read_rows, table_steps

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data" / "llm"
ROW = {
    "gpus": "4",
    "global_batch": "8",
    "micro_batch": "1",
    "hidden": "1024",
    "heads": "16",
    "layers": "4",
    "sequence": "1024",
    "tp": "2",
    "dp": "2",
    "pp": "1",
    "iteration_ms": "",
}


def written(path: Path, *rows: dict[str, str]) -> Path:
    """A table of steps."""
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows of a table of the project."""
    return list(csv.DictReader((DATA / name).read_text().splitlines()))


def test_a_row_is_a_step(tmp_path: Path) -> None:
    [row] = antiphon.predict_table(written(tmp_path / "rows.csv", {**ROW, "note": "x"}), "a100")
    assert {key: value for key, value in row.items() if key != "predicted_ms"} == {**ROW, "note": "x"}
    shape = antiphon.ModelShape.gpt("gpt", 1024, 16, 4, 1024, 51200)
    plan = "sp=no,flash=no,recompute=full,zero=0,dp-overlap=no,precision=fp16,tp=2,dp=2,pp=1,mb=1"
    run = antiphon.step(shape, "dgx-a100:1:gpus=4", plan, batch=8, constants="a100")
    assert row["predicted_ms"] == pytest.approx(1e3 * run.iteration_s, rel=1e-9)


def test_layers_at_once_are_exact_for_tables() -> None:
    table = read_rows(DATA / "vtrain_multi.csv")
    text = json.dumps(antiphon.constants("a100"))
    from antiphon._core import time_step

    for each in table_steps(table, "a100", text)[::9]:
        one, all_ = [
            time_step(each.model, each.fabric, each.plan, each.batch, text, layers_at_once=count).iteration_s
            for count in (1, ALL_LAYERS)
        ]
        assert all_ == pytest.approx(one, rel=1e-6), each


def test_what_is_predicted_follows_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    without = {key: value for key, value in ROW.items() if key != "iteration_ms"}
    assert list(antiphon.predict_table(written(path, without), "a100")[0])[-1] == "predicted_ms"
    rate = antiphon.predict_table(written(path, without | {"tflops_per_gpu": ""}), "a100")[0]
    assert 1 < rate["predicted_tflops_per_gpu"] < 312
    llama = antiphon.predict_table(DATA / "calibration.csv", "llama3-h100")[-1]
    assert llama["predicted_tflops_per_gpu"] == pytest.approx(430, rel=0.001)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"micro_batch": "x"}, "row 1: column micro_batch: 'x' is no whole number of at least 1"),
        ({"gpus": ""}, "row 1: column gpus: is empty or missing"),
        ({"gpus": "12"}, "row 1: column gpus: 12 GPUs do not fill boxes of 8"),
        ({"global_batch": ""}, "row 1: column global_batch: is empty or missing"),
        ({"dp": "3"}, "row 1: plan: dp=3 with tp cp pp = 2"),
        ({"tp": "0"}, "row 1: column tp: '0' is no whole number"),
        ({"model": "gpt5"}, "row 1: no model"),
        ({"heads": "1" * 30}, "row 1: column heads"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, change: dict[str, str], what: str) -> None:
    path = written(tmp_path / "rows.csv", ROW | change)
    with pytest.raises(AntiphonError) as raised:
        antiphon.predict_table(path, "a100")
    assert what in raised.value.message
    assert str(path) in raised.value.message
    assert "\n" not in raised.value.message


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "gpus\n", "gpus,gpus\n1,1\n", "gpus\n1,2\n", 'gpus\n"1\n'])
def test_what_is_no_table_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(AntiphonError, match=re.escape(str(path))):
        antiphon.predict_table(path, "a100")


def test_constants_without_rows_are_refused() -> None:
    constants = {key: value for key, value in antiphon.constants("a100").items() if key != "rows"}
    with pytest.raises(AntiphonError, match="has no rows"):
        antiphon.predict_table(DATA / "vtrain_multi.csv", constants)


def test_a_fit_finds_what_rows_were_made_with(tmp_path: Path) -> None:
    rows = [ROW | {"micro_batch": count, "hidden": hidden} for count in "124" for hidden in ("1024", "4096")]
    path = written(tmp_path / "rows.csv", *rows)
    made = antiphon.constants("a100") | {"product_efficiency": 0.7, "host_ms": 4.0}
    predicted = antiphon.predict_table(path, made)
    written(
        path, *[row | {"iteration_ms": str(each["predicted_ms"])} for row, each in zip(rows, predicted, strict=True)]
    )
    run = antiphon.fit([path], "a100", "product_efficiency,host_ms")
    assert run.constants["product_efficiency"] == pytest.approx(0.7, rel=0.01)
    assert run.constants["host_ms"] == pytest.approx(4.0, rel=0.01)
    assert run.files.rows()[0]["steps"] == 6
    assert run.files.rows()[0]["worst_error"] < 0.01
    assert "rows.csv" in run.constants["fitted"][0]


@pytest.mark.parametrize(
    ("free", "code"),
    [
        ("tflops", "unknown-name"),
        ("", "unknown-name"),
        ("product_efficiency,product_half_gflop,host_ms,attention_share", "bad-spec"),
        ("host_ms", "bad-file"),
    ],
)
def test_what_cannot_be_fitted_is_refused(free: str, code: str) -> None:
    with pytest.raises(AntiphonError) as raised:
        antiphon.fit([DATA / "megatron_table5.csv"], antiphon.constants("megatron-a100") | {"host_ms": 0.0}, free)
    assert raised.value.code == code


def test_steps_without_times_are_no_fit(tmp_path: Path) -> None:
    with pytest.raises(AntiphonError, match="no measured times"):
        antiphon.fit([written(tmp_path / "rows.csv", ROW)], "a100")


def test_the_simplex_finds_the_least() -> None:
    found = least(lambda at: (at[0] - 0.3) ** 2 + 2 * (at[1] + 0.2) ** 2 + (at[2] - at[0]) ** 2, [0.0, 0.0, 0.0])
    assert found == pytest.approx([0.3, -0.2, 0.3], abs=0.02)


def test_commands(tmp_path: Path) -> None:
    rows = rows_of("vtrain_multi.csv")[:2]
    path, out, own = written(tmp_path / "rows.csv", *rows), tmp_path / "out.csv", tmp_path / "own.json"
    runner = CliRunner()
    done = runner.invoke(main, ["step", "--table", str(path), "--constants", "a100", "--out", str(out)])
    assert done.exit_code == 0, done.output
    predicted = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["row"] for row in predicted] == ["0", "2"]
    assert all(float(row["predicted_ms"]) > 0 for row in predicted)
    fitted = ["fit", str(path), "--constants", "a100", "--free", "product_efficiency", "--out", str(own), "--json"]
    done = runner.invoke(main, fitted)
    assert done.exit_code == 0, done.output
    assert json.loads(own.read_text()) == json.loads(done.stdout)["constants"]
    done = runner.invoke(main, ["step", "--table", str(path), "--constants", str(own)])
    assert done.exit_code == 0, done.output
    for wrong in (["step"], ["step", "--table", str(path)], ["step", "gpt3-175b", "--table", str(path)]):
        assert runner.invoke(main, wrong).exit_code == 2


def test_errors_are_those_of_the_page() -> None:
    module = runpy.run_path(str(ROOT / "scripts" / "step_tables.py"))
    assert module["page_with"](["table5", "llama", "ranks"]) == module["PAGE"].read_text()


def test_steps_of_vtrain() -> None:
    def sizes(name: str, every: int) -> list[float]:
        rows: list[dict[str, Any]] = antiphon.predict_table(DATA / name, "a100")[::every]
        return [abs(row["predicted_ms"] / float(row["iteration_ms"]) - 1) for row in rows]

    single, multi = sizes("vtrain_single.csv", 1), sizes("vtrain_multi.csv", 1)
    assert len(single) == 720
    assert len(multi) == 55
    assert statistics.fmean(single) < 0.0795
    assert statistics.fmean(multi) < 0.0685
    assert statistics.median(multi) < 0.045


@pytest.mark.parametrize(("row", "name"), [(0, "h100"), (1, "h200"), (2, "gb200")])
def test_constants_are_those_that_were_fitted(tmp_path: Path, row: int, name: str) -> None:
    rows = rows_of("calibration.csv")
    [predicted] = antiphon.predict_table(written(tmp_path / "rows.csv", rows[row]), name)
    assert predicted["predicted_s"] == pytest.approx(float(rows[row]["median_step_s"]), rel=0.002)
