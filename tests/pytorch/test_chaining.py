"""Chained training ends with the weights of training that waits for all, to the bit; what cannot be chained is refused
by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytorch.lab import local

pytest.importorskip("torch", reason="torch is too large for the development environment")

SCRIPT = str(Path(__file__).with_name("chaining.py"))
EQUAL = (
    "cnn",
    "transformer",
    "clipped",
    "frozen",
    "accumulated",
    "autocast",
    "scaled",
    "checkpointed",
    "compiled layers",
    "evaluated",
)
REFUSED = {
    "compiled": "cannot look into a OptimizedModule; compile its layers",
    "compiled in place": "a model compiled as a whole; compile its layers",
    "wrapped": "cannot look into a DistributedDataParallel; give the model in it",
    "sparse": "gives sparse gradients; make it with sparse=False",
    "lbfgs": "LBFGS needs all gradients at once",
    "lacking": "the optimizer lacks parameter body.0.weight",
    "unused": "2 parameters got no gradient, first second.weight",
    "changed": "parameter second.bias was used before its step",
    "inner": "call the chained model for the forward pass",
}


@pytest.mark.covers_processes
@pytest.mark.parametrize("ranks", [4, 8])
def test_weights_are_equal_to_the_bit(ranks: int, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    for ended in local([SCRIPT, str(out), "50"], tmp_path, ranks).wait():
        assert ended.status == 0, ended.text
    for found in json.loads(out.read_text("utf-8")):
        assert {name: found.pop(name) for name in EQUAL} == dict.fromkeys(EQUAL, True)
        assert found.keys() == REFUSED.keys()
        for name, words in REFUSED.items():
            assert words in found[name], name
