"""What limits at an endpoint: it is named from a run, and doubling it gains most."""

from __future__ import annotations

from typing import Any

import pytest

import antiphon

SHAPES = {"64": (4, 4, 4), "16": (4, 2, 2), "128": (4, 8, 4), "32": (4, 4, 2)}
RATES, LATENCIES = (3008, 376, 376), (72.289, 401.606, 401.606)
"""Of the ACE paper's torus."""
SLOW = ("memory_gb_per_s=60", "fsms=6", "bus_gb_per_s=50", "alus=1,alu_gb_per_s=30", "sram=256KiB")
ENGINES = [(npus, f"ace:{slow}") for npus in ("64", "16", "128") for slow in SLOW]
CASES = [
    *[case for case in ENGINES if case != ("128", "ace:sram=256KiB")],  # which has no room for a chunk in every phase
    ("16", "ace"),
    ("64", "npu:memory_gb_per_s=200,sms=80"),
    ("64", "npu:memory_gb_per_s=900,sms=3"),
    ("16", "npu:memory_gb_per_s=900,sms=80,bus_gb_per_s=200"),
    ("64", "npu:memory_gb_per_s=900,sms=80"),
    ("32", "ideal"),
]
"""Twenty engines and accelerators."""
DEFAULTS = {"bus_gb_per_s": "500", "alus": "4", "fsms": "16", "sram": "4MiB", "sms": "6"}
MEMORY = {"ace": "128", "npu": "450"}
OPTIONS = {
    "ace": ("memory_gb_per_s", "bus_gb_per_s", "alus", "fsms", "sram"),
    "npu": ("memory_gb_per_s", "sms", "bus_gb_per_s"),
    "ideal": (),
}


def topology(npus: str, doubled: str = "") -> str:
    """The torus, links of some dimensions twice as fast."""
    dimensions = zip(SHAPES[npus], RATES, LATENCIES, (1, 2, 3), strict=True)
    return ",".join(
        f"ring{size}@{rate * (2 if f'dim{number}' in doubled else 1)}/{latency}ns"
        for size, rate, latency, number in dimensions
    )


def twice(endpoint: str, option: str) -> str:
    name, _, rest = endpoint.partition(":")
    given = dict(pair.split("=") for pair in rest.split(",") if pair)
    own = given.get(option) or (MEMORY[name] if option == "memory_gb_per_s" else DEFAULTS[option])
    number = antiphon.parse_bytes(own) if own[-1] == "B" else int(own)
    given |= {option: str(2 * number)}
    given |= {"total_memory_gb_per_s": "1800"} if option == "memory_gb_per_s" else {}
    given |= {"total_sms": "160"} if option == "sms" else {}
    return f"{name}:" + ",".join(f"{key}={value}" for key, value in given.items())


def run(where: str, endpoint: str) -> antiphon.RailsRun:
    return antiphon.rails(where, "8MiB", scheduler="phased", endpoint=endpoint)


@pytest.mark.parametrize(("npus", "endpoint"), CASES)
def test_doubling_what_limits_gains_most(npus: str, endpoint: str) -> None:
    done = run(topology(npus), endpoint)
    assert done.endpoint_use is not None
    limit = done.endpoint_use.limit
    options = OPTIONS[endpoint.partition(":")[0]]
    gains = {option: done.time_ns / run(topology(npus), twice(endpoint, option)).time_ns for option in options}
    links = {name for name in ("dim1", "dim2", "dim3") if name not in limit} | ({limit} - set(options))
    gains |= {name: done.time_ns / run(topology(npus, name), endpoint).time_ns for name in links}
    own = gains.pop(limit)
    assert own > 1.05
    assert own > max(gains.values()), (limit, own, gains)


def test_what_there_is_to_see() -> None:
    used = run("ace:4x4x4", "ace").endpoint_use
    assert used is not None
    assert used.parts["part"].tolist() == ["read", "bus", "add", "write", "fsms", "sram"]
    assert all((used.parts[share] >= 0).all() and (used.parts[share] <= 1).all() for share in ("busy", "limits"))
    # What works so long works so long over time.
    for row in used.parts.rows()[:4]:
        assert used.timeline[row["part"]].mean() == pytest.approx(row["busy"], rel=1e-6)
    assert used.timeline["under_way"].mean() == pytest.approx(1)
    assert run("ace:4x4x4", "system").endpoint_use is None


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ("ace:memory_gb_per_s=30", "memory_gb_per_s"),
        ("ace:fsms=4", "fsms"),
        ("ace:alus=1,alu_gb_per_s=20", "alus"),
        ("npu:memory_gb_per_s=100", "memory_gb_per_s"),
        ("npu:sms=1", "sms"),
        ("ideal", "links"),
    ],
)
def test_message_by_message(options: str, limit: str) -> None:
    system = antiphon.System("ideal").with_(endpoint=options)
    schedule = antiphon.build("ace:4x2x2", "hierarchical", bytes="2MiB", system=system)
    used = antiphon.simulate("ace:4x2x2", schedule, system).endpoint_use
    assert used is not None
    assert used.limit == limit


def test_training_on_rails() -> None:
    system = antiphon.System().with_(endpoint="ace:memory_gb_per_s=30")
    how: Any = {"overlap": "both", "bucket": "layer", "compute": "roofline"}
    training = antiphon.train("resnet50", "rails:ace:4x2x2", "phased", system, **how)
    assert training.to_dict()["endpoint_use"]["limit"] == "memory_gb_per_s"
    used = training.iteration.endpoint_use
    assert used is not None
    exchanged = sum(training.iteration.exchanges["finish_ns"] - training.iteration.exchanges["start_ns"])
    under_way = used.timeline["under_way"].mean() * training.iteration_ns
    assert 0 < under_way <= min(exchanged, training.iteration_ns) + 1
