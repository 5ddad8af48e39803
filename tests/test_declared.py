"""Inputs of functions: each declared once, in the core or by the function."""

from __future__ import annotations

import inspect

import pytest

import antiphon
from antiphon import AntiphonError
from antiphon.declared import REQUIRED, core_options, inputs
from antiphon.studies.commands import COMMANDS


@pytest.mark.parametrize(
    ("function", "command"),
    [(antiphon.train, "train"), (antiphon.noc, "noc"), (antiphon.noc, "routers"), (antiphon.rails, "rails")],
)
def test_what_the_core_declares_is_an_argument_with_its_meaning(function: object, command: str) -> None:
    assert callable(function)
    signature, text = inspect.signature(function).parameters, inspect.getdoc(function) or ""
    for option in core_options(command):
        assert signature[option.key].default == option.default
        assert option.meaning[1:].replace("`", "``") in " ".join(text.split())


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_key_of_a_study_has_a_meaning(command: object) -> None:
    for function in command.of:  # type: ignore[attr-defined]
        assert all(each.meaning for each in inputs(function).values()), function


def test_inputs_of_both_kinds() -> None:
    found = inputs(antiphon.train)
    assert found["model"].default is REQUIRED
    assert found["in_flight"].choices == ("serial", "shared")
    assert found["overlap"].choices == ("none", "layerwise", "ccube", "both")
    assert found["memory_bound"].needs == "endpoint"
    assert found["progress"].called


def test_mistakes_name_the_option() -> None:
    with pytest.raises(AntiphonError, match="train has no parameter 'overlapp'; did you mean 'overlap'"):
        antiphon.train("alexnet", "ring:4", "ring", overlapp="none")  # type: ignore[call-arg]
    with pytest.raises(AntiphonError, match="noc has no parameter 'vcss'; did you mean 'vcs'"):
        antiphon.noc("ring:4", vcss=2)  # type: ignore[call-arg]
    with pytest.raises(AntiphonError, match="unroll=0; expected a whole number from 1 to 64"):
        antiphon.train("alexnet", "ring:4", "ring", unroll=0)
