"""What a rank must hold, and what does not fit."""

from __future__ import annotations

import pytest

import antiphon
from antiphon.training.memory import check_memory, memory_of


def train(**given: object) -> antiphon.Training:
    return antiphon.train("alexnet", "ring:4", "ring", **given)  # type: ignore[arg-type]


def test_weights_gradients_and_the_messages_of_a_ring() -> None:
    """A ring adds a quarter of the gradients at a time."""
    training = train()
    memory, gradients = training.memory, training.gradient_bytes
    assert memory.weights_bytes == memory.gradients_bytes == gradients
    assert memory.buffer_bytes is not None
    assert memory.buffer_bytes == pytest.approx(gradients / 4, rel=1e-4)
    assert memory.to_dict()["bytes"] == 2 * gradients + memory.buffer_bytes
    assert training.to_dict()["memory"] == memory.to_dict()


def test_exchanges_in_flight_together_hold_more() -> None:
    serial, shared = (train(overlap="layerwise", in_flight=how).memory.buffer_bytes for how in ("serial", "shared"))
    assert serial is not None
    assert shared is not None
    assert shared >= serial


def test_no_messages_on_rails() -> None:
    memory = antiphon.train("alexnet", "rails:2D-SW_SW", "baseline").memory
    assert memory.buffer_bytes is None
    assert memory.bytes == 2 * memory.weights_bytes


@pytest.mark.parametrize(
    ("model", "memory", "words"),
    [
        ("alexnet", "1MB", "layer Conv2 is the first that does not fit, Conv4 the largest"),
        ("googlenet", "1MB", "FC6 the largest"),
        ("vgg16", "1GB", "is the first that does not fit, fc6 the largest"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_layer(model: str, memory: str, words: str) -> None:
    with pytest.raises(antiphon.AntiphonError) as refused:
        antiphon.train(model, "ring:4", "ring", memory=memory)
    assert refused.value.code == "too-large"
    assert words in str(refused.value)


def test_the_last_byte_decides() -> None:
    """To the byte what is there is enough; buffers count after weights and gradients."""
    training = train()
    needed = training.memory
    train(memory=needed.bytes)
    with pytest.raises(antiphon.AntiphonError, match="not what comes to be added"):
        train(memory=needed.bytes - 1)
    check_memory("x", training.layers, memory_of(training.layers, None), 2 * needed.weights_bytes)
    for wrong in ("0", "many", "-1"):
        with pytest.raises(antiphon.AntiphonError):
            train(memory=wrong)
