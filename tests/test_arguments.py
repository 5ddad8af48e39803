"""Arguments of wrong types and extreme values: what the documentation names, never another exception."""

from __future__ import annotations

import inspect
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import antiphon
from antiphon.execution.testbed import emulation

MESH = antiphon.Fabric("mesh:2x2")
RING = antiphon.build(MESH, "ring", bytes=4096)
PROGRAM = antiphon.export(RING)
TRACE = os.path.join(tempfile.mkdtemp(), "alexnet")
antiphon.train("alexnet", MESH, "ring", chakra=TRACE)
STEPS = os.path.join(tempfile.mkdtemp(), "steps.csv")
with open(STEPS, "w") as steps:
    steps.write("model,gpus,tp,global_batch,iteration_ms\nllama2-7b,8,8,8,1000\n")
WRONG = [
    None, True, -1, 0, 1, 1.5, math.nan, math.inf, 2**31, 2**63, 2**64, 10**30, 10**5000, -(10**5000), "", "x", "\0",
    "x" * 3000, b"x", [], [3], ["ring", 3], [None], {}, {"a": 1}, (1, 2), object(), object, len, MESH, RING,
    antiphon.System(), ...,
]  # fmt: skip
LAYERS = antiphon.Workload.from_csv(
    "layers", "layer,params,macs,input_elements,output_elements\na,64,64,1,1\nb,64,64,1,1\n"
)
SURROGATE = "\ud800"
GIVEN: dict[str, Any] = {
    "fabric": MESH,
    "schedule": RING,
    "collective": "all-reduce",
    "bytes": 4096,
    "algorithm": "ring",
    "algorithms": ["ring"],
    "sizes": [4096],
    "fidelity": "packet",
    "system": "generic",
    "jobs": 1,
    "root": 0,
    "ranks": 4,
    "parts": 4,
    "index": 0,
    "topology": "ring2@1000/20ns,sw2@800/700ns",
    "model": "alexnet",
    "flights": [antiphon.Flight(RING)],
    "grid": {"command": "rails", "axes": {"topology": ["2D-SW_SW"], "chunks": [4]}},
    "graph": antiphon.to_networkx(MESH),
    "text": '[{"algorithm": "ring"}]',
    "dataset": 1000,
    "batch": 4,
}
"""Arguments with which every function works, and soon."""
ALSO: dict[str, dict[str, Any]] = {
    "step": {"model": "llama3-8b", "fabric": "dgx-h100:1", "plan": "tp=8", "batch": 8, "sequence": 2048},
    "plan": {"model": "llama3-8b", "fabric": "dgx-h100:1", "plan": "tp=8,zero=1", "batch": 8, "sequence": 2048},
    "infer": {"model": "llama3-8b", "fabric": "dgx-h100:1", "plan": "tp=8", "batch": 8, "prompt": 512},
    "constants": {"name": "h100"},
    "predict_table": {"rows": STEPS, "constants": "a100"},
    "fit": {"rows": [STEPS], "constants": "a100", "free": "product_efficiency"},
    "noc": {"rate": 0.1, "warm_up_cycles": 100, "cycles": 100},
    "noc_saturation": {"traffic": "neighbor", "warm_up_cycles": 100, "cycles": 100},
    "train": {"collectives": None, "chunks": None, "compute": None, "global_batch": None, "batch": None},
    "advise_ace": {"chunk": "32MiB"},
    "rails": {"chunks": 4, "collective": "all-reduce"},
    "rails_flights": {"flights": [antiphon.RailsFlight(4096)], "scheduler": "themis"},
    "beside": {"traffic": "neighbor", "message": "1KiB"},
    "vary": {"slow": "0.5", "draws": 2},
    "limits": {"schedule": None},
    "replan": {"schedule": antiphon.build(MESH, "optimal", bytes=4096), "fail": "0-1"},
    "survive": {"fail": "2", "draws": 4},
    "at_scale": {"algorithms": "staged"},
    "load": {"text": PROGRAM, "fabric": None},
    "prove_file": {"text": PROGRAM},
    "export": {"format": "msccl", "path": None, "consumer": "rccl", "instances": 2, "channels": 2, "protocol": "LL"},
    "configure": {"fabric": antiphon.Fabric("aries:2x2"), "schedule": None, "steps": 4},
    "calibrate": {"seconds": 0.01, "size": "64KiB", "gemm": 16},
    "execute": {"arrays": [np.zeros(1024, np.float32) for _ in range(4)], "threads": 2},
    "replay": {"trace": TRACE, "compute": None, "groups": None},
    **{key: {"name": "my-own"} for key in ("register", "register_fabric", "register_scheduler")},
    "explore": {"space": {"fabrics": {"ring": "ring:2"}, "algorithms": "ring", "bytes": 64}, "sensitivity": False},
    "expect": {"cluster": "dgx-h100:1", "collective": None, "log": None, "library": None, "system": None},
    "picture": {"what": RING},
    "measure": {"transport": "threads", "iterations": 1, "matrix": None},
    "measure_chain": {"model": LAYERS, "iterations": 1, "transport": "threads", "compute": None, "link_rate": None},
}
FUNCTIONS = [name for name in antiphon.__all__ if inspect.isroutine(getattr(antiphon, name))]
EXPENSIVE = {("noc", "cycles"), ("noc", "warm_up_cycles"), ("calibrate", "size"), ("measure", "sizes")}
EXPENSIVE |= {("measure_chain", "iterations")}
"""Parameters whose larger values take long, and are checked by the core as the others are."""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is taken for the name of a file or folder is in one that is removed."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _nothing_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every machine can, and it takes seconds: what would be emulated has results at once."""

    def results(_job: object, _command: object, wanted: int, *_others: object) -> list[dict[str, Any]]:
        runs = [{"schedule": 0, "time_ns": 1, "wrong": 0}] * wanted
        return [{"slowest_link": 1.0, "fastest_link": 1.0}, *runs]

    monkeypatch.setattr(emulation, "_host_command", list)
    monkeypatch.setattr(emulation, "_results", results)


def arguments_of(name: str) -> dict[str, Any]:
    """All parameters of a function that are known here or needed."""
    parameters = inspect.signature(getattr(antiphon, name)).parameters.values()
    named = [each.name for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    return {key: GIVEN[key] for key in named if key in GIVEN} | ALSO.get(name, {})


def parameters() -> Iterator[Any]:
    for name in FUNCTIONS:
        for each in inspect.signature(getattr(antiphon, name)).parameters.values():
            if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL) and (name, each.name) not in EXPENSIVE:
                yield pytest.param(name, each.name, id=f"{name}-{each.name}")


def accepted(function: Callable[..., object], *positional: Any, **named: Any) -> str:
    """What is wrong with how a call ended; empty if nothing is."""
    try:
        function(*positional, **named)
    except antiphon.AntiphonError as error:
        if "\n" in error.message or len(error.message) > 3500 or error.code == "internal":
            return f"{error.code}: {error.message}"
    except TypeError:
        pass  # of the wrong type
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_arguments_of_this_test_are_good(name: str) -> None:
    getattr(antiphon, name)(**arguments_of(name))


@pytest.mark.parametrize(("name", "parameter"), list(parameters()))
def test_functions(name: str, parameter: str) -> None:
    function, arguments = getattr(antiphon, name), arguments_of(name)
    wrong = {}
    for value in [*WRONG, SURROGATE]:
        if said := accepted(function, **arguments | {parameter: value}):
            wrong[repr(value)[:40] if not isinstance(value, int) else "an int"] = said
    assert not wrong


def methods() -> Iterator[Any]:
    fabric, system, builder = MESH, antiphon.System(), antiphon.ScheduleBuilder(MESH, "all-reduce", 4096)
    builder.lane(0, 4096)
    builder.copy(0, 1, 0, 0)
    plan = antiphon.TrainingPlan(antiphon.Workload("alexnet"), "roofline", 4)
    ints: dict[str, Any] = {"offset": 0, "bytes": 16, "from_": 0, "to": 1, "lane": 0, "step": 1, "lanes": 1}
    for method, given in (
        (fabric.group, {"ranks": [0, 1]}),
        (fabric.groups, {"which": "rows"}),
        (system.with_, {"interfaces": 1, "link_rate_gb_per_s": 1.0, "processor": "roofline", "name": "x"}),
        (builder.lane, {"offset": 0, "bytes": 16, "chunks": 1, "chunk_bytes": 1, "stride": 1, "source": 0, "owner": 0}),
        (builder.copy, {key: ints[key] for key in ("from_", "to", "lane", "step", "lanes")} | {"route": [0]}),
        (builder.start_after, {"transfer": 0, "other": 0, "event": "sent", "lag": 0}),
        (RING.execute, {"buffers": [], "seed": 1, "threads": False}),
        (RING.lower_bound, {"fabric": MESH, "system": "generic"}),
        (plan.run, {"times_ns": [1.0], "chunks": []}),
        (plan.trace, {"ranks": 4}),
        (plan.run_on_rails, {"topology": "2D-SW_SW", "scheduler": "themis", "intra": "fifo", "chunks": 4}),
        (antiphon.Fabric, {"spec": "ring:4"}),
        (antiphon.System, {"name": "tto"}),
        (antiphon.Workload, {"name": "alexnet"}),
        (antiphon.Workload.from_csv, {"name": "a", "text": "b"}),
        (antiphon.Fabric.from_json, {"text": "{}", "name": "a"}),
        (antiphon.Fabric.from_text, {"text": "{}", "name": "a"}),
        (antiphon.Fabric.from_graphml, {"path": "none.graphml", "name": "a"}),
        (antiphon.Fabric.from_networkx, {"graph": None, "name": "a"}),
        (antiphon.Fabric.from_rails, {"topology": "2D-SW_SW"}),
        (antiphon.Schedule.from_json, {"text": "{}", "fabric": MESH}),
        (antiphon.ScheduleBuilder, {"fabric": MESH, "collective": "all-reduce", "bytes": 4, "root": 0, "excluded": []}),
        (antiphon.TrainingPlan, {"workload": antiphon.Workload("alexnet"), "compute": "roofline", "batch": 4}),
    ):
        yield pytest.param(method, given, id=getattr(method, "__qualname__", str(method)))


@pytest.mark.parametrize("made", [antiphon.Fabric, antiphon.System, antiphon.Workload])
def test_text_that_is_no_unicode(made: Callable[[str], object]) -> None:
    with pytest.raises(antiphon.InputError, match=r"'.ud800x' is not valid Unicode") as caught:
        made(SURROGATE + "x")
    assert caught.value.code == "bad-spec"


@pytest.mark.parametrize(("method", "given"), list(methods()))
def test_methods(method: Callable[..., object], given: dict[str, Any]) -> None:
    wrong = {}
    for parameter in given:
        for value in [*WRONG, SURROGATE]:
            if said := accepted(method, **given | {parameter: value}):
                wrong[parameter, repr(value)[:40] if not isinstance(value, int) else "an int"] = said
    assert not wrong


def test_compare_names_what_is_no_algorithm() -> None:
    with pytest.raises(antiphon.AntiphonError, match="algorithm 3 is no text"):
        antiphon.compare(MESH, algorithms=["ring", 3])  # type: ignore[list-item]
    for jobs in (0, -1, 1.5, math.nan, True):
        with pytest.raises(antiphon.AntiphonError, match="jobs is "):
            antiphon.compare(MESH, bytes=4096, algorithms="ring", jobs=jobs)  # type: ignore[arg-type]


def test_true_is_no_size() -> None:
    for given in (True, False):
        with pytest.raises(antiphon.AntiphonError, match=f"size '{given}' is not a whole number of bytes"):
            antiphon.build(MESH, "ring", bytes=given)


def test_none_leaves_a_parameter_of_a_system_as_it_is() -> None:
    system = antiphon.System("tto")
    assert system.with_(interfaces=None, link_switching=None, name=None) == system
