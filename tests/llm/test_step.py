"""Training steps of large models: API, command, contract of its JSON, page, bad input."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from looked import Looked
from records import has_keys

import antiphon
from antiphon import AntiphonError, Fabric, ModelShape
from antiphon.llm.given import read_constants

SIMPLE = antiphon.constants("h100") | {
    "name": "simple",
    "tflops": 1000.0,
    "product_efficiency": 1.0,
    "product_half_gflop": 0.0,
    "attention_share": 1.0,
    "memory_gb_per_s": 1e9,
    "host_ms": 0.0,
    "optimizer_bytes": 0.0,
    "power_w": 500.0,
}
"""Products run at the peak, and all else takes no time."""
RUN_KEYS: dict[type, str] = {
    str: "model fabric constants endpoint plan",
    bool: "priorities",
    float: "iteration_s compute_s bubble_s memory_gib capacity_gib tokens_per_s tflops_per_gpu mfu energy_mj",
    int: "ranks batch sequence micro_batches parameters active_parameters layers_at_once operations",
    dict: "exposed_s",
    list: "stages memory links exchanges layers",
}
PLANS = [
    ("llama3-8b", "dgx-h100:1", "tp=8", 8),
    ("llama3-8b", "dgx-h100:2", "tp=2,pp=2,cp=2", 16),
    ("llama3-8b", "dgx-h100:2", "tp=2,pp=4,v=2", 32),
    ("llama3-8b", "dgx-a100:2", "tp=2,pp=2,zero=3,sp=no", 32),
    ("mixtral-8x7b", "dgx-h100:4", "tp=2,pp=2,ep=8", 32),
    ("gpt3-175b", "dgx-h100:8", "tp=4,pp=8,schedule=zb-h1", 64),
]


def test_result_is_a_record() -> None:
    run = antiphon.step("llama3-8b", "dgx-h100:2", "tp=2,pp=2", batch=16)
    assert pickle.loads(pickle.dumps(run)) == run == antiphon.step("llama3-8b", "dgx-h100:2", "tp=2,pp=2", batch=16)
    assert run != antiphon.step("llama3-8b", "dgx-h100:2", "tp=2,pp=2", batch=32)
    document = run.to_dict()
    has_keys(document, RUN_KEYS)
    json.dumps(document)
    assert list(run.tables) == ["stages", "memory", "links", "exchanges", "layers", "spans"]
    assert (run.ranks, run.micro_batches, run.sequence) == (16, 4, 8192)
    assert repr(run).startswith("<StepRun llama3-8b on dgx-h100:2: ")


@pytest.mark.parametrize(("model", "fabric", "plan", "batch"), PLANS)
def test_times_add_up(model: str, fabric: str, plan: str, batch: int) -> None:
    run = antiphon.step(model, fabric, plan, batch=batch, memory="none")
    whole = pytest.approx(run.iteration_s, rel=1e-9)
    assert run.compute_s + run.bubble_s + sum(run.exposed_s.values()) == whole
    for row in run.stages.rows():
        assert sum(value for key, value in row.items() if key.endswith("_s")) == whole
    assert run.memory["total_bytes"].max() / 2**30 == pytest.approx(run.memory_gib)
    for row in run.memory.rows():
        parts = sum(value for key, value in row.items() if key not in ("stage", "total_bytes"))
        assert parts == pytest.approx(row["total_bytes"])
    assert sum(run.links["exposed_s"].tolist()) == pytest.approx(sum(run.exposed_s.values()), rel=1e-9)
    assert run.links["busy_s"].max() <= run.iteration_s * (1 + 1e-9)
    assert run.spans["end_s"].max() <= run.iteration_s * (1 + 1e-9)
    assert set(run.spans["work"].tolist()) <= {"forward", "backward", "weights", "optimizer", "dp", "edp", "embedding"}


def test_one_layer_is_what_a_hand_computes() -> None:
    """Two ranks, each with all of the model: only products take time, and 2 ranks halve the batch."""
    hidden, sequence, vocab = 1024, 512, 32_768
    shape = ModelShape.gpt("tiny", hidden, 8, 1, sequence, vocab)
    run = antiphon.step(shape, "dgx-h100:1:gpus=2", "dp-overlap=no", batch=4, constants=SIMPLE)
    forward = 24 * sequence * hidden**2 + 2 * sequence**2 * hidden + 2 * sequence * hidden * vocab
    model_flops = 3 * forward  # of a sequence; of attention the causal half
    computed = 2 * model_flops / 1e15
    assert run.compute_s == pytest.approx(computed, rel=1e-3)
    assert (run.micro_batches, {kind for kind, value in run.exposed_s.items() if value}) == (2, {"dp"})
    assert run.bubble_s == pytest.approx(0, abs=1e-9)
    assert run.mfu == pytest.approx(2 * model_flops / run.iteration_s / 1e15)
    assert run.tflops_per_gpu == pytest.approx(1000 * run.mfu)
    assert run.tokens_per_s == pytest.approx(4 * sequence / run.iteration_s)
    assert run.energy_mj == pytest.approx(2 * 500 * run.iteration_s / 1e6)
    layer = run.layers.rows()[0]
    assert layer["parameters"] == 12 * hidden**2 + 13 * hidden
    assert layer["forward_flops"] == 24 * sequence * hidden**2 + 2 * sequence**2 * hidden


def test_models_are_names_shapes_and_files(tmp_path: Path) -> None:
    shape = ModelShape("llama3-8b")
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14_336,
        "vocab_size": 128_256,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": False,
    }
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    how: dict[str, Any] = {"fabric": "dgx-h100:1", "plan": "tp=8", "batch": 8}
    runs = [antiphon.step(model, **how) for model in ("llama3-8b", shape, file, str(file))]
    assert len({run.iteration_s for run in runs}) == 1
    assert runs[2].model == str(file)
    short = antiphon.step(shape, sequence=2048, **how)
    assert short.sequence == 2048
    assert short.iteration_s < runs[0].iteration_s


def test_a_fabric_is_a_specification_or_an_object() -> None:
    spec, whole = (
        antiphon.step("llama3-8b", fabric, "tp=2", batch=16, memory="none")
        for fabric in ("dgx-h100:2", Fabric("dgx-h100:2"))
    )
    assert whole.iteration_s == pytest.approx(spec.iteration_s, rel=0.02)
    ring = antiphon.step("llama3-8b", "ring:4@25/1us", "tp=4", batch=4, constants="h100")
    assert ring.fabric == "ring:4@25/1us"
    assert antiphon.step("llama3-8b", "dgx-h100:512", "tp=8,pp=4", batch=512).ranks == 4096


@pytest.mark.parametrize(
    ("fabric", "name"),
    [("dgx-a100:2", "a100"), ("h800:2", "h100"), ("dgx-h200:2", "h200"), ("gb200-nvl72:1", "gb200")],
)
def test_constants_are_those_of_the_boxes(fabric: str, name: str) -> None:
    assert read_constants(None, fabric)[0] == name
    assert json.loads(read_constants(None, fabric)[1]) == antiphon.constants(name)


def test_constants_are_names_files_and_dictionaries(tmp_path: Path) -> None:
    file = tmp_path / "slow.json"
    file.write_text(json.dumps(SIMPLE | {"name": "slow", "tflops": 100.0}))
    how: dict[str, Any] = {"model": "llama3-8b", "fabric": "dgx-h100:1", "plan": "tp=8", "batch": 8}
    fast, slow = (antiphon.step(**how, constants=each) for each in (SIMPLE, file))
    assert (fast.constants, slow.constants) == ("simple", "slow")
    assert slow.compute_s == pytest.approx(10 * fast.compute_s, rel=1e-2)


def test_endpoints_take_something_from_computation() -> None:
    how: dict[str, Any] = {"model": "llama3-8b", "fabric": "dgx-h100:2", "plan": "zero=3", "batch": 16}
    free = antiphon.step(**how, memory="none")
    taken = antiphon.step(**how, memory="none", endpoint="npu:slowdown=2", priorities=True)
    assert taken.compute_s > free.compute_s
    assert (taken.endpoint, taken.priorities, free.endpoint, free.priorities) == (
        "npu:slowdown=2",
        True,
        "system",
        False,
    )


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(AntiphonError, match=r"stage 0 takes \d+\.\d GiB a rank of 80\.0 GiB") as refused:
        antiphon.step("gpt3-175b", "dgx-h100:1", "tp=8", batch=8)
    assert refused.value.code == "not-applicable"
    assert antiphon.step("gpt3-175b", "dgx-h100:1", "tp=8", batch=8, memory="none").capacity_gib is None
    small = {"model": "llama3-8b", "fabric": "dgx-h100:1", "plan": "tp=8", "batch": 8}
    assert antiphon.step(**small, memory="60GiB").capacity_gib == 60  # type: ignore[arg-type]
    with pytest.raises(AntiphonError, match=r"of 4\.0 GiB"):
        antiphon.step(**small, memory="4GiB")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"plan": "tpp=8"}, "plan has no option 'tpp'; did you mean 'pp'?"),
        ({"plan": "tp=3"}, "does not divide 8 ranks"),
        ({"batch": 7, "plan": "tp=4"}, "does not divide a batch of 7 sequences"),
        ({"model": "llama3-8B"}, "did you mean 'llama3-8b'?"),
        ({"fabric": "ring:4"}, "fabric ring:4: does not say which accelerators it joins; give constants: a100, h100"),
        ({"constants": "h1000"}, "no constants 'h1000'; known: a100, h100"),
        ({"constants": {"name": "x"}}, "constants given: missing field"),
        ({"constants": {"name": object()}}, "constants: is no dictionary of texts and numbers"),
        ({"memory": "80 apples"}, "80 apples"),
        ({"sequence": 0}, "sequence is 0"),
    ],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any], message: str) -> None:
    right: dict[str, Any] = {"model": "llama3-8b", "fabric": "dgx-h100:1", "plan": "tp=8", "batch": 8}
    with pytest.raises(AntiphonError) as refused:
        antiphon.step(**right | wrong)
    assert message in refused.value.message
    assert "\n" not in refused.value.message


def test_command(commands: Any) -> None:
    arguments = ("step", "llama3-8b", "dgx-h100:2", "--plan", "tp=2,pp=2", "--batch", "16")
    document = commands.document(*arguments)
    run = antiphon.step("llama3-8b", "dgx-h100:2", "tp=2,pp=2", batch=16)
    assert {key: document[key] for key in run.to_dict()} == run.to_dict()
    shown = " ".join(commands.invoke(*arguments).stdout.split())
    for said in ("tokens a second", "Where the time goes", "Memory of a rank in GiB", "busiest links", "Projections"):
        assert said in shown
    rows = commands.invoke(*arguments, "--format", "csv").stdout.splitlines()
    assert len(rows) == 3
    assert "exposed_s.tp" in rows[0]


def test_help_has_every_key_of_a_plan(commands: Any) -> None:
    told = commands.invoke("step", "--help").stdout.replace(",", " ").replace(";", " ").split()
    assert not {option.key for option in antiphon.plan_options()}.difference(told)


def test_models_are_listed(commands: Any) -> None:
    document = commands.document("models")
    assert [row["name"] for row in document["models"]] == antiphon.large_models()
    parameters = {row["name"]: row["parameters"] for row in document["models"]}
    assert parameters["llama3-405b"] == ModelShape("llama3-405b").parameters
    assert [row["key"] for row in document["plan_options"]] == [option.key for option in antiphon.plan_options()]
    assert antiphon.constants("h100") in document["constants"]
    layers = commands.document("models", "deepseek-v3")["layers"]
    assert [(row["first_layer"], row["last_layer"]) for row in layers] == [(0, 2), (3, 60)]
    assert "embedding, output, last norm" in commands.invoke("models", "deepseek-v3").stdout


def test_page_shows_every_stage() -> None:
    run = antiphon.step("llama3-8b", "dgx-h100:2", "tp=2,pp=4,v=2", batch=16)
    looked = Looked(run.page())
    text = " ".join(looked.text.split())
    for said in ("stage 3", "stage 3 exchanges", "forward", "bubble", "80.0 GiB", "model FLOPs utilization"):
        assert said in text
    assert "only the first and the last are drawn" not in text


def test_long_steps_are_drawn_at_both_ends() -> None:
    run = antiphon.step("llama3-8b", "dgx-h100:1", "tp=2,pp=4", batch=1200)
    assert run.spans.height > 4000
    page = run.page()
    assert "only the first and the last are drawn" in " ".join(Looked(page).text.split())
    assert page.count("<rect") < 6000
