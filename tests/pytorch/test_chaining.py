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
    "fused",
    "turned",
    "interrupted",
    "parts",
)
REFUSED = {
    "compiled": "cannot look into OptimizedModule; compile its layers",
    "compiled in place": "a model compiled as a whole; compile its layers",
    "wrapped": "cannot look into DistributedDataParallel; give the model in it",
    "sparse": "gives sparse gradients; make it with sparse=False",
    "lbfgs": "LBFGS needs all gradients at once",
    "lacking": "the optimizer lacks parameter body.0.weight",
    "unused": "2 parameters got no gradient, first second.weight",
    "changed": "parameter second.bias was used before its step",
    "own optimizer": "does Own step each parameter by its own gradient alone? If so, say by_layer=True",
    "counting": "Counting keeps a state of all layers in its groups of parameters",
    "unfrozen": "parameter first.weight was frozen when it was chained",
    "in vain": "2 parameters got no gradient, first second.weight",
    "twice": "the optimizer is chained already",
    "another group": "the optimizer has got another group of parameters",
    "graph": "backward(create_graph=True) is not offered",
    "algorithm": "no algorithm 'nonsense'",
    "nothing": "give a torch.nn.Module and a torch.optim.Optimizer",
    "inner": "call the chained model for the forward pass",
}


def found(ranks: int, which: str, folder: Path) -> list[dict[str, object]]:
    """What every rank found of some cases."""
    out = folder / "found.json"
    for ended in local([SCRIPT, str(out), "50", which], folder, ranks).wait():
        assert ended.status == 0, ended.text
    return list(json.loads(out.read_text("utf-8")))


@pytest.mark.covers_processes
def test_weights_are_equal_to_the_bit(tmp_path: Path) -> None:
    for cases in found(4, "all", tmp_path):
        assert {name: cases.pop(name) for name in EQUAL} == dict.fromkeys(EQUAL, True)
        assert cases.keys() == REFUSED.keys()
        for name, words in REFUSED.items():
            assert words in str(cases[name]), name


def test_so_they_are_on_eight_ranks(tmp_path: Path) -> None:
    assert found(8, "models", tmp_path) == [{"cnn": True, "transformer": True}] * 8
