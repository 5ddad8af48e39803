"""Training times: API, command, contract of its JSON, bad input; the TTO paper's figures are in tests/papers."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from records import has_keys

import antiphon
from antiphon import AntiphonError, Fabric, Workload
from antiphon.collective.timing import CollectiveTime, simulator

TRAIN_KEYS: dict[type, str] = {
    str: "model fabric algorithm system fidelity compute overlap bucket",
    bool: "blocking",
    int: "batch global_batch dataset ranks gradient_bytes model_parallel iterations",
    list: "excluded_ranks against",
    float: "iteration_ns forward_ns backward_ns aggregation_ns compute_ns communication_ns "
    "exposed_communication_ns exposed_model_ns exposed_data_ns turnaround_ns bubbles_ns "
    "overlapped_communication_ns epoch_ns samples_per_s",
}
HEADER = "layer,ifmap_h,ifmap_w,filter_h,filter_w,channels,num_filters,stride"


RING = ("ring:4", "ring")
RAILS = ("rails:2D-SW_SW", "themis")
TOTALS = "layer,params,macs,input_elements,output_elements"


def byte_a_nanosecond(fabric: Fabric, algorithm: str, collective: str, bytes: int) -> CollectiveTime:
    return CollectiveTime(float(bytes), [])


def table(path: Path, *rows: str, header: str = HEADER) -> str:
    path.write_text("\n".join([header, *rows]) + "\n")
    return str(path)


def test_parts_add_up() -> None:
    work = Workload.from_csv("two", f"{HEADER}\na,8,8,3,3,4,16,1\nb,8,8,3,3,4,32,1\n")
    run = antiphon.train(work, "ring:4", "ring", overlap="layerwise", collectives=byte_a_nanosecond)
    iteration = run.iteration
    assert run.communication_ns == run.gradient_bytes == 4 * work.params == 4 * (3 * 3 * 4 * 48)
    assert run.compute_ns == iteration.forward_ns + iteration.backward_ns + iteration.aggregation_ns
    assert run.iteration_ns == pytest.approx(run.compute_ns + run.exposed_communication_ns)
    assert run.epoch_ns == run.iterations * run.iteration_ns
    assert antiphon.iterations(1_281_167, 16, 63) == 1271
    exchanges = iteration.exchanges
    assert exchanges["kind"].tolist() == ["all-reduce"] * 2
    assert exchanges["first_layer"].tolist() == [1, 0]
    assert exchanges["bytes"].tolist() == [4 * 3 * 3 * 4 * 32, 4 * 3 * 3 * 4 * 16]
    assert (exchanges["start_ns"] >= exchanges["ready_ns"]).all()
    assert run.layers["layer"].tolist() == ["a", "b"]
    assert run.layers["gradient_bytes"].sum() == run.gradient_bytes
    baseline = antiphon.train(work, "ring:4", "ring", overlap="none", collectives=byte_a_nanosecond)
    assert run.gain_ns(baseline) == baseline.epoch_ns - run.epoch_ns


def test_strong_and_weak_scaling() -> None:
    def runs(**batch: Any) -> list[antiphon.Training]:
        return [antiphon.train("vgg16", f"ring:{n}", "ring", collectives=byte_a_nanosecond, **batch) for n in (2, 4)]

    weak, strong = runs(batch=8), runs(global_batch=64)
    assert [run.batch for run in weak] == [8, 8]
    assert weak[0].compute_ns == weak[1].compute_ns
    assert [run.batch for run in strong] == [32, 16]
    assert [run.iterations for run in strong] == [20019, 20019]
    assert strong[0].compute_ns > 1.5 * strong[1].compute_ns
    # TTO leaves out one of nine, so the others share 64 samples.
    assert antiphon.train("alexnet", "mesh:3x3", "tto", "tto", global_batch=64).batch == 8


def test_a_timer_may_give_runs_and_must_give_times() -> None:
    def timer(fabric: antiphon.Fabric, algorithm: str, collective: str, bytes: int) -> antiphon.Run:
        return antiphon.run(fabric, antiphon.build(fabric, algorithm, collective, bytes))

    for overlap in ("none", "ccube"):
        own = antiphon.train("alexnet", "mesh:2x2", "combs", overlap=overlap)
        assert antiphon.train("alexnet", "mesh:2x2", "combs", overlap=overlap, collectives=timer) == own

    class Time:
        time_ns = 1000.0
        excluded_ranks = ()

    given: Any = lambda *_problem: Time()  # noqa: E731
    assert antiphon.train("alexnet", "mesh:2x2", "ring", collectives=given).communication_ns == 1000
    with pytest.raises(antiphon.AntiphonError, match="needs to know when each chunk"):
        antiphon.train("alexnet", "mesh:2x2", "ring", overlap="ccube", collectives=given)
    number: Any = lambda *_problem: 1000.0  # noqa: E731
    with pytest.raises(TypeError, match="collectives gave float without time_ns"):
        antiphon.train("alexnet", "mesh:2x2", "ring", collectives=number)


def test_a_timer_tells_fabrics_of_one_name_apart() -> None:
    def ring_of(rate_gb_per_s: float) -> antiphon.Fabric:
        links = [{"from": r, "to": (r + 1) % 4, "both": True, "rate_gb_per_s": rate_gb_per_s} for r in range(4)]
        document = {"schema": "antiphon-fabric/1", "nodes": [{"rank": True}] * 4, "links": links}
        return antiphon.Fabric.from_json(json.dumps(document))

    fabrics = [ring_of(rate) for rate in (100, 10, 100)]
    assert {fabric.name for fabric in fabrics} == {"json"}
    time = simulator(antiphon.System(), "packet")
    times = [time(fabric, "ring", "all-reduce", 1 << 20).time_ns for fabric in fabrics]
    assert times == [
        antiphon.simulate(fabric, antiphon.build(fabric, "ring", bytes=1 << 20)).time_ns for fabric in fabrics
    ]
    assert times[0] == times[2] < times[1] / 5


def test_tables_with_times_of_their_own() -> None:
    asked: list[tuple[str, str]] = []

    def timer(fabric: Fabric, algorithm: str, collective: str, bytes: int) -> CollectiveTime:
        asked.append((algorithm, collective))
        return CollectiveTime(1000.0, [])

    run = antiphon.train("dlrm", "ring:4", "ring", collectives=timer)
    assert run.compute == "measured"
    assert set(asked) == {("direct", "all-to-all"), ("ring", "all-reduce")}
    assert run.iteration.forward_ns == 1399259
    with pytest.raises(AntiphonError, match="--compute measured"):
        antiphon.train("dlrm", "ring:4", "ring", compute="systolic")


def test_every_model_can_be_trained() -> None:
    for name in antiphon.workloads():
        compute = None if antiphon.workload(name).measured else "roofline"
        run = antiphon.train(name, "mesh:4x4", "ring", compute=compute, collectives=byte_a_nanosecond)
        assert run.iteration_ns >= run.compute_ns > 0


def test_workloads_are_values(tmp_path: Path) -> None:
    work = Workload("alexnet")
    assert work == antiphon.workload("alexnet") != Workload("vgg16")
    assert (len(work), work.params, work.measured) == (5, 3_745_824, False)
    totals = table(tmp_path / "model.csv", "one,1000,2000,30,40", header=TOTALS)
    run = antiphon.train(work, "ring:4", "ring", collectives=byte_a_nanosecond)
    for value in (work, antiphon.workload(totals), run):
        assert pickle.loads(pickle.dumps(value)) == value


def test_train(commands: Any) -> None:
    run = commands.document("train", "alexnet", "mesh:4x4", "tto", "--system", "tto", "--against", "ring,ring-bi")
    has_keys(run, TRAIN_KEYS)
    assert [row["algorithm"] for row in run["against"]] == ["ring", "ring-bi"]
    for row in run["against"]:
        assert row["gain_ns"] == pytest.approx(row["epoch_ns"] - run["epoch_ns"])
        assert row["speedup"] == pytest.approx(row["epoch_ns"] / run["epoch_ns"])
    assert len(run["tables"]["layers"]) == 5
    assert len(run["tables"]["exchanges"]) == 1
    assert run["epoch_ns"] == pytest.approx(run["iterations"] * run["iteration_ns"])


@pytest.mark.parametrize("layers", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_many_layers(layers: int, commands: Any, tmp_path: Path) -> None:
    path = table(tmp_path / "deep.csv", *["a,8,8,3,3,1,1,1"] * layers)
    run = commands.invoke("train", path, "ring:4", "ring", "--overlap", "layerwise")
    assert run.exit_code == 0, run.stderr
    assert f"{layers:,} (overlap layerwise)" in run.stdout
    many = table(tmp_path / "many.csv", *[f"a,8,8,1,1,1,{filters},1" for filters in range(1, 5001)])
    error = commands.refused("train", many, "ring:4", "ring", "--overlap", "layerwise")
    assert "5,000 collectives of different sizes" in error


def test_workloads(commands: Any) -> None:
    listed = commands.document("workloads")
    names = [row["name"] for row in listed["workloads"]]
    wanted = "alexnet alphagozero fasterrcnn googlenet ncf resnet152 transformer"
    wanted += " resnet50 vgg16 zfnet gnmt dlrm transformer-1t"
    assert set(wanted.split()) <= set(names)
    assert [row["name"] for row in listed["compute_models"]] == ["systolic", "roofline", "measured"]
    assert "Rows of multipliers" in commands.invoke("workloads").stdout


def test_overlaps_and_buckets() -> None:
    def run(**options: Any) -> antiphon.Training:
        return antiphon.train("resnet152", "mesh:8x8", "combs", "tto", **options)

    none, layerwise, ccube, both = (run(overlap=overlap) for overlap in ("none", "layerwise", "ccube", "both"))
    assert both.iteration_ns < layerwise.iteration_ns < ccube.iteration_ns < none.iteration_ns
    assert both.communication_ns == layerwise.communication_ns
    assert ccube.exposed_data_ns == pytest.approx(ccube.turnaround_ns + ccube.bubbles_ns)
    assert ccube.iteration.forward["layer"].tolist() == list(range(len(ccube.iteration.forward["layer"])))
    all_at_once = run(overlap="layerwise", bucket="1GiB")
    assert len(layerwise.iteration.exchanges["bytes"]) > len(all_at_once.iteration.exchanges["bytes"]) == 1
    assert all_at_once.iteration_ns == pytest.approx(none.iteration_ns)


def test_several_models_and_fabrics(commands: Any) -> None:
    arguments: tuple[str, ...] = ("alexnet,ncf", "mesh:3x3,mesh:4x4,slow=0-1:0.5", "multitree", "--system", "tto")
    runs = commands.document("train", *arguments)["runs"]
    fabrics = ["mesh:3x3", "mesh:4x4,slow=0-1:0.5"]
    assert [(run["model"], run["fabric"]) for run in runs] == [(m, f) for m in ("alexnet", "ncf") for f in fabrics]
    printed = commands.invoke("train", *arguments, "--against", "ring-2d")
    assert (printed.exit_code, printed.stdout.count("ncf")) == (0, 4)
    # A row may be left out.
    arguments = ("alexnet", "mesh:4x4,mesh:5x5", "tto", "--against", "ring-bi", "--system", "tto")
    document = commands.document("train", *arguments)
    assert [len(run["against"]) for run in document["runs"]] == [1, 0]
    assert [(row["fabric"], row["algorithm"]) for row in document["refused"]] == [("mesh:5x5", "ring-bi")]
    assert "Left out" in commands.invoke("train", *arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("alexnt", *RING), "did you mean 'alexnet'"),
        (("alexnet", "ring:4", "rng"), "did you mean 'ring'"),
        (("alexnet", *RING, "--overlap", "some"), "overlap=some; did you mean"),
        (("alexnet", *RING, "--overlap", "layerwise", "--bucket", "0"), "bucket"),
        (("alexnet", *RING, "--bucket", "layer"), "use overlap layerwise or both"),
        (("alexnet", *RING, "--chunks", "7"), "chunks are for rails:..."),
        (("alexnet", *RING, "--exchange", "ringg"), "no algorithm 'ringg'"),
        (("alexnet", *RING, "--compute", "systolik"), "did you mean 'systolic'"),
        (("alexnet", *RING, "--compute", "systolic:rows=0"), "rows=0"),
        (("alexnet", *RING, "--batch", "0"), "batch is 0"),
        (("alexnet", *RING, "--global-batch", "17"), "cannot be divided among 4 ranks that train; 16 can"),
        (("alexnet", *RING, "--batch", "4", "--global-batch", "4"), "not both"),
        (("dlrm", *RING, "--global-batch", "64"), "of its own batch"),
        (("dlrm", *RING, "--exchange", "x"), "no algorithm 'x'"),
        (("dlrm", *RAILS, "--exchange", "ring"), "exchange 'ring' is for fabrics"),
        (("resnet50", *RING, "--system", "tto"), "layer 0 ('conv1')"),
        (("alexnet", "ring:4", "tto"), "does not apply"),
        (("gnmt", "mesh:4x4", "ring", "--model-parallel", "3"), "cannot be divided over 3 of 16 ranks"),
        (("alexnet", "rails:2D-SW_SW", "themi"), "did you mean 'themis'"),
        (("alexnet", "rails:2D-SW_S", "themis"), "did you mean '2D-SW_SW'"),
        (("alexnet", "rails:2D-SW_SW", "themis:x"), "queue policy"),
        (("alexnet", *RAILS, "--model-parallel", "16"), "has no totals"),
        (("transformer-1t", *RAILS, "--model-parallel", "48"), "cannot be divided over 48 NPUs"),
        (("gnmt", *RAILS, "--model-parallel", "16"), "add the columns fwd_comm and ig_comm"),
        (("alexnet", *RAILS, "--fidelity", "flit"), "stage by stage"),
        (("none.csv", *RING), "cannot be read"),
        (("folder.csv", *RING), "Is a directory"),
        (("bytes.csv", *RING), "not UTF-8"),
        (("head.csv", *RING), "line 1: column 'stride' is missing"),
        (("rows.csv", *RING), "line 3, column 'stride'"),
    ],
)
def test_mistakes(
    commands: Any, arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.csv").mkdir()
    Path("bytes.csv").write_bytes(b"\xff\xfe\x00")
    table(Path("head.csv"), header=HEADER[:-7])
    table(Path("rows.csv"), "a,8,8,3,3,1,1,1", "b,8,8,3,3,1,1,9")
    assert message in commands.refused("train", *arguments)


def test_rails() -> None:
    runs = {name: antiphon.train("resnet152", "rails:2D-SW_SW", name) for name in ("baseline", "themis", "themis:fifo")}
    assert runs["themis"].iteration_ns < runs["themis:fifo"].iteration_ns < runs["baseline"].iteration_ns
    for run in runs.values():
        assert (run.ranks, run.fidelity, run.exposed_model_ns) == (1024, "stage", 0)
    alone = antiphon.rails("2D-SW_SW", runs["themis"].gradient_bytes, scheduler="themis")
    assert runs["themis"].exposed_data_ns == pytest.approx(alone.time_ns)
    dlrm = antiphon.train("dlrm", *RAILS)
    assert dlrm.iteration.exchanges["kind"].tolist() == ["all-to-all", "all-to-all", "all-reduce"]
    blocking: dict[str, Any] = {"model_parallel": 128, "blocking": True}
    divisions: list[dict[str, Any]] = [{}, blocking, blocking | {"recompute": True}]
    whole, divided, again = (
        antiphon.train("transformer-1t", "rails:3D-SW_SW_SW_hetero", "themis", batch=16, **options)
        for options in divisions
    )
    assert (whole.exposed_model_ns, divided.global_batch) == (0, 16 * 8)
    assert divided.compute_ns < whole.compute_ns / 50
    assert divided.gradient_bytes == pytest.approx(whole.gradient_bytes / 128, rel=1e-6)
    assert again.iteration.forward_ns == 2 * divided.iteration.forward_ns
    # Two AllReduces in each direction of 128 blocks; the forward ones again.
    assert again.exposed_model_ns == pytest.approx(1.5 * divided.exposed_model_ns, rel=0.01)


def test_no_time_is_no_division(commands: Any, tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", "a,0,0,0,0", header=TOTALS)
    run = commands.document("train", path, "mesh:4x4", "ring", "--compute", "roofline", "--against", "tto")
    assert (run["iteration_ns"], run["samples_per_s"], run["against"][0]["speedup"]) == (0, None, None)


def test_ranks_that_pass_on_compute_slower(tmp_path: Path) -> None:
    """On a line of three rank 1 passes on what goes between the others, a stream each way."""

    def trained(share: float, fabric: str = "mesh:3", model: str = "alexnet", **options: Any) -> antiphon.Training:
        system = antiphon.System().with_(relay_processors=share)
        given: dict[str, Any] = {"overlap": "layerwise", "compute": "roofline", "batch": 4, "contention": "static"}
        return antiphon.train(model, fabric, "direct", system, **(given | options))

    plain = trained(0.0)
    assert plain.relays is None
    assert not {"slow", "relays"} & plain.to_dict().keys()
    slow = trained(0.1)
    (row,) = slow.to_dict()["relays"]
    assert (row["rank"], row["streams"]) == (1, 2)
    assert 1 < row["slowdown"] <= 1.25
    assert slow.compute_ns == pytest.approx(plain.compute_ns * row["slowdown"])
    assert plain.compute_ns < trained(0.1, contention="dynamic").compute_ns < slow.compute_ns
    nobody = trained(0.1, "fc:3")
    assert nobody.to_dict()["relays"] == []
    assert nobody.compute_ns == trained(0.0, "fc:3").compute_ns
    # Gradients of even and of odd ranks at the same time.
    totals = table(
        tmp_path / "model.csv", "one,4096,8192,64,64,ALLREDUCE,ALLREDUCE", header=f"{TOTALS},fwd_comm,ig_comm"
    )
    halves = trained(0.01, "mesh:6", totals, model_parallel=2).to_dict()["relays"]
    assert {row["rank"]: row["streams"] for row in halves} == {1: 2, 2: 4, 3: 4, 4: 2}
    message = "what a rank passes on \\(relay_processors\\) leaves nothing to compute with"
    with pytest.raises(AntiphonError, match=message) as refused:
        trained(0.5)
    assert refused.value.code == "not-applicable"
    with pytest.raises(AntiphonError, match="rails have no routes"):
        antiphon.train("alexnet", *RAILS, antiphon.System().with_(relay_processors=0.1))


def test_slow_ranks_are_waited_for() -> None:
    def trained(slow: str | None, fabric: str = "ring:4", algorithm: str = "ring", **options: Any) -> antiphon.Training:
        return antiphon.train("alexnet", fabric, algorithm, compute="roofline", batch=4, slow=slow, **options)

    for overlap in ("none", "layerwise"):
        plain, slow = (trained(ranks, overlap=overlap) for ranks in (None, "1:1.5,3:1.2"))
        assert slow.compute_ns == pytest.approx(1.5 * plain.compute_ns)
        assert slow.to_dict()["slow"] == "1:1.5,3:1.2"
        assert slow.to_dict()["relays"] == [
            {"rank": 1, "streams": 0, "slowdown": 1.5},
            {"rank": 3, "streams": 0, "slowdown": 1.2},
        ]
    assert trained("0-3:1").iteration_ns == trained(None).iteration_ns
    rails = [trained(ranks, *RAILS).compute_ns for ranks in (None, "0,5:2")]
    assert rails[1] == 2 * rails[0]
    for ranks, why in (("4:2", "rank 4 does not exist"), ("0", "no times"), ("0:0.9", "1 to 1000 times")):
        with pytest.raises(AntiphonError, match=why) as refused:
            trained(ranks)
        assert refused.value.code == "bad-spec"
    with pytest.raises(AntiphonError, match="tto leaves out rank 12"):
        antiphon.train("alexnet", "mesh:4x4", "tto", "tto", slow="0-15:2")
