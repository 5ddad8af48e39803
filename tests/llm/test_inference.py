"""Inference of large models: prompts and next tokens."""

from __future__ import annotations

from typing import Any

import pytest

import antiphon
from antiphon.errors import AntiphonError

MEMORY_ONLY = antiphon.constants("h100") | {"tflops": 1e9, "fp8_tflops": 1e9, "memory_gb_per_s": 2000}
"""An accelerator whose memory is all that takes time."""
GPT = antiphon.ModelShape.gpt("gpt", 1024, 16, 24, 2048, 50_000)


def infer(*given: Any, **options: Any) -> antiphon.Inference:
    return antiphon.infer(*given, **{"constants": MEMORY_ONLY} | options)


def test_decode_of_a_dense_model_reads_it_once() -> None:
    found = infer(GPT, "fc:2", batch=2, prompt=1)
    least = 2 * 24 * 12 * 1024**2 + 2 * 50_000 * 1024  # weights of layers, and the output
    cache = 24 * 2 * 2 * 1024  # of the token itself
    assert found.token_s == pytest.approx((least + cache) / 2e12, rel=0.005)
    assert found.token_s >= (least + cache) / 2e12
    assert (sum(found.exposed_s.values()), found.waiting_s, found.copies) == (0, 0, 2)
    assert found.slowest_link_gb_per_s is found.smallest_link_gb_per_s is None
    assert found.cache_gib * 2**30 == cache
    longer = infer(GPT, "fc:2", batch=2, prompt=1, context=1001)
    assert (longer.token_s - found.token_s) * 2e12 == pytest.approx(1000 * cache, rel=1e-4)


def test_two_all_reduces_a_layer() -> None:
    found = infer(GPT, "fc:2@100/3us", "tp=2", batch=8, prompt=64)
    tokens = 24 * 2 * (2 * 3e-6 + 8 * 1024 * 2 / 100e9)
    assert found.exposed_s["tp"] == sum(found.exposed_s.values()) == pytest.approx(tokens, rel=1e-5)
    assert found.ttft_exposed_s["tp"] == pytest.approx(24 * 2 * (2 * 3e-6 + 64 * 1024 * 2 / 100e9), rel=1e-5)
    best = found.compute_s + 24 * 2 * 2 * 3e-6
    smallest = 24 * 2 * 8 * 1024 * 2 / (0.1 * best) / 1e9
    assert found.smallest_link_gb_per_s == pytest.approx(smallest, rel=2e-3)
    assert found.slowest_link_gb_per_s == 100


@pytest.mark.parametrize("rate", [0.01, 1, 10, 1000])
@pytest.mark.parametrize("plan", ["tp=4", "pp=4", "tp=2,pp=2", "tp=4,ep=4"])
def test_links_below_the_smallest_useful_one_cost_a_tenth(plan: str, rate: float) -> None:
    found, best = (infer("mixtral-8x7b", f"ring:4@{each}/1us", plan, batch=8) for each in (rate, 10**6))
    assert best.smallest_link_gb_per_s is not None
    assert found.smallest_link_gb_per_s == pytest.approx(best.smallest_link_gb_per_s, rel=2e-3)
    assert (found.token_s > 1.1 * best.token_s) == (rate < best.smallest_link_gb_per_s)
    assert found.token_s >= best.token_s


def test_a_ring_of_four_machines() -> None:
    """Tensor groups go round the ring twice a layer, stages only at their ends, but all four read memory at once."""
    tensor, stages = (
        antiphon.infer("llama3-70b", "dgx-spark:ring4", plan, constants="gb10") for plan in ("tp=4", "pp=4")
    )
    weights = 2 * (antiphon.ModelShape("llama3-70b").parameters - 128_256 * 8192)
    assert stages.token_s == pytest.approx(weights / 273e9, rel=0.02)
    assert weights / 4 / 273e9 < tensor.token_s < 1.2 * weights / 4 / 273e9
    assert tensor.ttft_exposed_s["tp"] > 0.1 * tensor.ttft_s


def test_published_bounds() -> None:
    """Llama 2 70B on eight A100 of 2.0 TB/s: its 140 GB take at least 8.6 ms (Databricks, "LLM Inference Performance
    Engineering", 2023, has that way to count)."""
    a100 = antiphon.constants("a100") | {"memory_gb_per_s": 2039}
    found = antiphon.infer("llama2-70b", "dgx-a100:1", "tp=8", prompt=128, constants=a100)
    assert 8.4e-3 < found.compute_s < 8.8e-3
    assert found.token_s > found.compute_s


@pytest.mark.parametrize(
    ("options", "code", "part"),
    [
        ({"plan": "tp=8,v=2"}, "bad-spec", "v is for training"),
        ({"plan": "tp=3"}, "bad-spec", "does not divide"),
        ({"plan": "tp=8", "batch": 4096}, "not-applicable", "a smaller batch"),
        ({"plan": "tp=1", "batch": 8, "memory": "8GiB"}, "not-applicable", "a larger tp"),
        ({"plan": "tp=8", "prompt": 0}, "bad-size", "prompt is 0"),
        ({"plan": "tp=8", "context": 10}, "bad-size", "shorter than prompt"),
        ({"plan": "tp=8", "host_us": -1.0}, "bad-size", "host_us is -1"),
        ({"plan": "tp=8", "host_us": float("nan")}, "bad-size", "host_us is NaN"),
    ],
)
def test_what_is_wrong_is_told(options: dict[str, Any], code: str, part: str) -> None:
    with pytest.raises(AntiphonError, match=part) as raised:
        antiphon.infer("llama3-8b", "dgx-h100:1", **options)
    assert raised.value.code == code


def test_the_host_is_at_least_so_slow() -> None:
    found = antiphon.infer("llama3-8b", "dgx-h100:1", "tp=8", host_us=100)
    fast = antiphon.infer("llama3-8b", "dgx-h100:1", "tp=8")
    assert fast.compute_s < 32 * 100e-6 < found.compute_s


def test_the_command(commands: Any) -> None:
    arguments = ("infer", "mixtral-8x7b", "dgx-h100:1", "--plan", "tp=8,ep=8", "--batch", "32", "--context", "8192")
    document = commands.document(*arguments)
    found = antiphon.infer("mixtral-8x7b", "dgx-h100:1", "tp=8,ep=8", batch=32, context=8192)
    assert {key: document[key] for key in found.to_dict()} == found.to_dict()
    assert document["token_s"] == pytest.approx(
        document["compute_s"] + document["waiting_s"] + sum(document["exposed_s"].values())
    )
    assert {"tp", "ep"} == {kind for kind, value in document["exposed_s"].items() if value}
    told = " ".join(commands.invoke(*arguments).stdout.split())
    for said in ("the first token after", "waiting for experts (ep)", "keys and values", "A token takes 10 % longer"):
        assert said.lower() in told.lower()
    assert "Ranks exchange nothing" in commands.invoke("infer", "llama3-8b", "dgx-h100:1", "--batch", "8").stdout
