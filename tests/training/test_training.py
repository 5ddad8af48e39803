"""Training times: API, command, contract of its JSON, bad input; the TTO paper's figures are in tests/papers."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import antiphon
from antiphon import AntiphonError, Fabric, Training, Workload
from antiphon.collective.timing import CollectiveTime, simulator

TRAIN_KEYS = {
    "model": str,
    "fabric": str,
    "algorithm": str,
    "system": str,
    "fidelity": str,
    "compute": str,
    "overlap": str,
    "bucket": str,
    "blocking": bool,
    "batch": int,
    "global_batch": int,
    "dataset": int,
    "ranks": int,
    "excluded_ranks": list,
    "gradient_bytes": int,
    "iteration_ns": float,
    "forward_ns": float,
    "backward_ns": float,
    "aggregation_ns": float,
    "compute_ns": float,
    "communication_ns": float,
    "exposed_communication_ns": float,
    "exposed_model_ns": float,
    "exposed_data_ns": float,
    "turnaround_ns": float,
    "bubbles_ns": float,
    "model_parallel": int,
    "overlapped_communication_ns": float,
    "iterations": int,
    "epoch_ns": float,
    "samples_per_s": float,
    "against": list,
}
HEADER = "layer,ifmap_h,ifmap_w,filter_h,filter_w,channels,num_filters,stride"


def byte_a_nanosecond(fabric: Fabric, algorithm: str, collective: str, bytes: int) -> CollectiveTime:
    return CollectiveTime(float(bytes), [])


def table(path: Path, *rows: str, header: str = HEADER) -> str:
    path.write_text("\n".join([header, *rows]) + "\n")
    return str(path)


def test_the_example_of_the_paper() -> None:
    """TTO paper, section VIII-B, with our times: 1252 and 1271 iterations, about 25.8 % of the baseline's time."""
    ring, tto = (antiphon.train("resnet152", "mesh:8x8", name, "tto") for name in ("ring-bi", "tto"))
    assert (ring.iterations, tto.iterations) == (1252, 1271)
    assert ring.compute_ns == pytest.approx(1832399, rel=0.005)
    assert ring.communication_ns == pytest.approx(10350425, rel=0.002)
    assert tto.communication_ns == pytest.approx(7076228, rel=0.001)
    assert tto.gain_ns(ring) / ring.epoch_ns == pytest.approx(0.258, abs=0.001)
    assert tto.excluded_ranks == [56]
    assert tto.global_batch == 63 * 16


def test_parts_add_up() -> None:
    work = Workload.from_csv("two", f"{HEADER}\na,8,8,3,3,4,16,1\nb,8,8,3,3,4,32,1\n")
    run = antiphon.train(work, "ring:4", "ring", overlap="layerwise", collectives=byte_a_nanosecond)
    iteration = run.iteration
    assert run.gradient_bytes == 4 * work.params == 4 * (3 * 3 * 4 * 48)
    assert run.communication_ns == run.gradient_bytes
    assert run.compute_ns == iteration.forward_ns + iteration.backward_ns + iteration.aggregation_ns
    assert run.iteration_ns == pytest.approx(run.compute_ns + run.exposed_communication_ns)
    assert run.epoch_ns == run.iterations * run.iteration_ns
    exchanges = iteration.exchanges
    assert exchanges["kind"].tolist() == ["all-reduce"] * 2
    assert exchanges["first_layer"].tolist() == [1, 0]
    assert exchanges["bytes"].tolist() == [4 * 3 * 3 * 4 * 32, 4 * 3 * 3 * 4 * 16]
    assert (exchanges["start_ns"] >= exchanges["ready_ns"]).all()
    assert run.layers["layer"].tolist() == ["a", "b"]
    assert run.layers["gradient_bytes"].sum() == run.gradient_bytes


@given(st.integers(1, 10**9), st.integers(1, 10**6), st.integers(1, 10**5))
def test_iterations_are_rounded_up(dataset: int, batch: int, ranks: int) -> None:
    assert antiphon.iterations(dataset, batch, ranks) == -(-dataset // (batch * ranks))


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


def test_buckets_trade_exposure_for_messages() -> None:
    def run(bucket: str) -> antiphon.Training:
        return antiphon.train("resnet50", "mesh:4x4", "ring", "generic", overlap="layerwise", bucket=bucket)

    layer, all_at_once = run("layer"), run("1GiB")
    assert len(layer.iteration.exchanges["bytes"]) > len(all_at_once.iteration.exchanges["bytes"]) == 1
    none = antiphon.train("resnet50", "mesh:4x4", "ring", "generic")
    assert all_at_once.iteration_ns == pytest.approx(none.iteration_ns)
    assert layer.exposed_communication_ns < none.exposed_communication_ns


def chained(weights: list[int], times: list[int], algorithm: str = "combs", overlap: str = "ccube") -> Training:
    """Layers with these shares of 16 MiB of gradients and of 500 us of a forward pass, on a mesh."""
    header = "layer,fwd_compute_ns,fwd_comm,fwd_bytes,ig_compute_ns,ig_comm,ig_bytes,wg_compute_ns,wg_comm,wg_bytes"
    rows = [
        f"l{i},{500_000 * time // sum(times)},NONE,0,0,NONE,0,0,ALLREDUCE,{4 * ((4 << 20) * weight // sum(weights))}"
        for i, (weight, time) in enumerate(zip(weights, times, strict=True))
    ]
    work = Workload.from_csv("layers", "\n".join([header + ",update_delay,policy", *(f"{row},0," for row in rows)]))
    return antiphon.train(work, "mesh:4x4", algorithm, "tto", overlap=overlap)


def test_patterns_of_chaining() -> None:
    """C-Cube paper, section V-C (Fig. 16): what chaining gains depends on how weights and times lie over the layers."""
    up, down, even = list(range(1, 17)), list(range(16, 0, -1)), [1] * 16
    barrier = chained(even, even, overlap="none")
    cases = {
        "efficient": chained(up, down),  # compute falls and weights grow with depth, as in CNNs
        "bubbles": chained(even, up),  # compute grows
        "late": chained([100, *even[1:]], down),  # a large first layer
    }
    for run in cases.values():
        assert run.communication_ns == pytest.approx(barrier.communication_ns, rel=0.01)
        assert run.exposed_data_ns == pytest.approx(run.turnaround_ns + run.bubbles_ns)
        assert run.iteration_ns == pytest.approx(run.compute_ns + run.exposed_communication_ns)
        assert run.iteration_ns < barrier.iteration_ns
    efficient, bubbles, late = cases.values()
    assert efficient.bubbles_ns < 0.1 * barrier.exposed_communication_ns
    assert bubbles.bubbles_ns > 3 * efficient.bubbles_ns
    assert late.turnaround_ns > 5 * efficient.turnaround_ns
    assert efficient.iteration_ns < min(bubbles.iteration_ns, late.iteration_ns)


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


def test_workloads_are_pickled(tmp_path: Path) -> None:
    table = tmp_path / "model.csv"
    table.write_text("layer,params,macs,input_elements,output_elements\none,1000,2000,30,40\n")
    for work in (antiphon.Workload("alexnet"), antiphon.workload(str(table))):
        other = pickle.loads(pickle.dumps(work))
        assert (other, other.name) == (work, work.name)


def test_chaining_needs_chunks_in_order() -> None:
    even = [1] * 16
    # A ring has one chunk for each rank, and all are complete at the end.
    ring, barrier = (chained(even, even, "ring-bi", overlap) for overlap in ("ccube", "none"))
    assert ring.iteration_ns > 0.9 * barrier.iteration_ns
    forward = chained(even, even).iteration.forward
    assert forward["layer"].tolist() == list(range(16))
    assert (forward["start_ns"] >= forward["ready_ns"]).all()
    assert (forward["start_ns"][1:] >= forward["finish_ns"][:-1]).all()
    with pytest.raises(AntiphonError, match="when each chunk"):
        antiphon.train("alexnet", "mesh:4x4", "ring", overlap="ccube", collectives=byte_a_nanosecond)


def test_both_sides_hide_more_than_either() -> None:
    """Also with priorities every exchange is made, and whole."""
    none, layerwise, ccube, both = (
        antiphon.train("resnet152", "mesh:8x8", "combs", "tto", overlap=overlap)
        for overlap in ("none", "layerwise", "ccube", "both")
    )
    assert both.iteration_ns < layerwise.iteration_ns < ccube.iteration_ns < none.iteration_ns
    assert both.communication_ns == layerwise.communication_ns
    assert none.iteration_ns / both.iteration_ns == pytest.approx(7.80 / 6.27, abs=0.01)


def test_chaining_on_rails() -> None:
    barrier, run = (
        antiphon.train("resnet152", "rails:2D-SW_SW", "baseline:fifo", overlap=overlap) for overlap in ("none", "ccube")
    )
    assert run.turnaround_ns + run.bubbles_ns == pytest.approx(run.exposed_data_ns)
    assert run.iteration_ns < barrier.iteration_ns


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


def test_workloads_are_values() -> None:
    work = Workload("alexnet")
    assert work == antiphon.workload("alexnet") != Workload("vgg16")
    assert (len(work), work.params, work.measured) == (5, 3_745_824, False)
    run = antiphon.train(work, "ring:4", "ring", collectives=byte_a_nanosecond)
    assert pickle.loads(pickle.dumps(run)) == run


def test_train(commands: Any) -> None:
    run = commands.document("train", "alexnet", "mesh:4x4", "tto", "--system", "tto", "--against", "ring,ring-bi")
    assert {key: type(run[key]) for key in TRAIN_KEYS} == TRAIN_KEYS
    assert [row["algorithm"] for row in run["against"]] == ["ring", "ring-bi"]
    for row in run["against"]:
        assert row["gain_ns"] == pytest.approx(row["epoch_ns"] - run["epoch_ns"])
        assert row["speedup"] == pytest.approx(row["epoch_ns"] / run["epoch_ns"])
    assert len(run["tables"]["layers"]) == 5
    assert len(run["tables"]["exchanges"]) == 1
    assert run["epoch_ns"] == pytest.approx(run["iterations"] * run["iteration_ns"])


def test_several_models_and_fabrics(commands: Any) -> None:
    arguments = ("alexnet,ncf", "mesh:3x3,mesh:4x4,slow=0-1:0.5", "multitree", "--system", "tto")
    runs = commands.document("train", *arguments)["runs"]
    fabrics = ["mesh:3x3", "mesh:4x4,slow=0-1:0.5"]
    assert [(run["model"], run["fabric"]) for run in runs] == [(m, f) for m in ("alexnet", "ncf") for f in fabrics]
    printed = commands.invoke("train", *arguments, "--against", "ring-2d")
    assert printed.exit_code == 0
    assert printed.stdout.count("ncf") == 4


def test_small_meshes_compute_bound_models_and_small_arrays_lose(commands: Any) -> None:
    """TTO paper, section VIII-B: the three cases in which a chiplet less costs more than TTO gains."""

    def speedup(*arguments: str) -> float:
        run = commands.document("train", *arguments, "--system", "tto", "--against", "ring-bi")
        return float(run["against"][0]["speedup"])

    assert speedup("resnet152", "mesh:8x8", "tto") > 1.3
    assert speedup("alexnet", "mesh:4x4", "tto") < 1
    assert speedup("alexnet", "mesh:8x8", "tto", "--overlap", "layerwise") < 1
    assert speedup("alexnet", "mesh:8x8", "tto", "--compute", "systolic:rows=16,cols=16") < 1


def test_mistakes(commands: Any, tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        return str(commands.refused("train", *arguments))

    good = ("alexnet", "ring:4", "ring")
    assert "did you mean 'alexnet'" in refused("alexnt", "ring:4", "ring")
    assert "did you mean 'ring'" in refused("alexnet", "ring:4", "rng")
    assert "overlap=some; did you mean" in refused(*good, "--overlap", "some")
    assert "bucket" in refused(*good, "--overlap", "layerwise", "--bucket", "0")
    assert "use overlap layerwise or both" in refused(*good, "--bucket", "layer")
    assert "chunks are for rails:..." in refused(*good, "--chunks", "7")
    assert "exchange 'ring' is for fabrics" in refused("dlrm", "rails:2D-SW_SW", "themis", "--exchange", "ring")
    assert "no algorithm 'ringg'" in refused(*good, "--exchange", "ringg")
    assert "did you mean 'systolic'" in refused(*good, "--compute", "systolik")
    assert "rows=0" in refused(*good, "--compute", "systolic:rows=0")
    assert "batch is 0" in refused(*good, "--batch", "0")
    assert "cannot be divided among 4 ranks that train; 16 can" in refused(*good, "--global-batch", "17")
    assert "of its own batch" in refused("dlrm", "ring:4", "ring", "--global-batch", "64")
    assert "not both" in refused(*good, "--batch", "4", "--global-batch", "4")
    assert "layer 0 ('conv1')" in refused("resnet50", "ring:4", "ring", "--system", "tto")
    assert "does not apply" in refused("alexnet", "ring:4", "tto")
    assert "no algorithm 'x'" in refused("dlrm", "ring:4", "ring", "--exchange", "x")
    assert "cannot be read" in refused(str(tmp_path / "none.csv"), "ring:4", "ring")
    assert "Is a directory" in refused(_folder(tmp_path / "folder.csv"), "ring:4", "ring")
    file = tmp_path / "net.csv"
    assert "line 1: column 'stride' is missing" in refused(table(file, header=HEADER[:-7]), "ring:4", "ring")
    assert "line 2, column 'ifmap_h'" in refused(table(file, "a,-8,8,3,3,1,1,1"), "ring:4", "ring")
    assert "line 3, column 'stride'" in refused(table(file, "a,8,8,3,3,1,1,1", "b,8,8,3,3,1,1,9"), "ring:4", "ring")
    file.write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in refused(str(file), "ring:4", "ring")


@pytest.mark.parametrize("layers", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_many_layers(layers: int, commands: Any, tmp_path: Path) -> None:
    path = table(tmp_path / "deep.csv", *["a,8,8,3,3,1,1,1"] * layers)
    run = commands.invoke("train", path, "ring:4", "ring", "--overlap", "layerwise")
    assert run.exit_code == 0, run.stderr
    assert f"{layers:,} (overlap layerwise)" in run.stdout
    many = table(tmp_path / "many.csv", *[f"a,8,8,1,1,1,{filters},1" for filters in range(1, 5001)])
    error = commands.refused("train", many, "ring:4", "ring", "--overlap", "layerwise")
    assert "5,000 collectives of different sizes" in error


def _folder(path: Path) -> str:
    os.mkdir(path)
    return str(path)


def test_workloads(commands: Any) -> None:
    listed = commands.document("workloads")
    names = [row["name"] for row in listed["workloads"]]
    wanted = "alexnet alphagozero fasterrcnn googlenet ncf resnet152 transformer"
    wanted += " resnet50 vgg16 zfnet gnmt dlrm transformer-1t"
    assert set(wanted.split()) <= set(names)
    assert [row["name"] for row in listed["compute_models"]] == ["systolic", "roofline", "measured"]
    assert "Rows of multipliers" in commands.invoke("workloads").stdout


def test_rails() -> None:
    runs = {name: antiphon.train("resnet152", "rails:2D-SW_SW", name) for name in ("baseline", "themis", "themis:fifo")}
    assert runs["themis"].iteration_ns < runs["themis:fifo"].iteration_ns < runs["baseline"].iteration_ns
    for run in runs.values():
        assert run.iteration_ns == pytest.approx(run.compute_ns + run.exposed_data_ns)
        assert (run.ranks, run.fidelity, run.exposed_model_ns) == (1024, "stage", 0)
    alone = antiphon.rails("2D-SW_SW", runs["themis"].gradient_bytes, scheduler="themis")
    assert runs["themis"].exposed_data_ns == pytest.approx(alone.time_ns)


def test_divided_layers_exchange_activations() -> None:
    def run(**options: Any) -> antiphon.Training:
        return antiphon.train("transformer-1t", "rails:3D-SW_SW_SW_hetero", "themis", batch=16, **options)

    blocking = {"model_parallel": 128, "blocking": True}
    whole, divided, again = run(), run(**blocking), run(**blocking, recompute=True)
    assert whole.exposed_model_ns == 0
    assert divided.exposed_model_ns > 0
    assert divided.compute_ns < whole.compute_ns / 50
    assert divided.gradient_bytes == pytest.approx(whole.gradient_bytes / 128, rel=1e-6)
    assert divided.global_batch == 16 * 8
    assert again.iteration.forward_ns == 2 * divided.iteration.forward_ns
    # Two AllReduces in each direction of 128 blocks; the forward ones again.
    assert again.exposed_model_ns == pytest.approx(1.5 * divided.exposed_model_ns, rel=0.01)
    # Weight gradients hide those of input gradients.
    hidden = run(model_parallel=128)
    assert 0 < hidden.exposed_model_ns < divided.exposed_model_ns
    assert hidden.compute_ns == divided.compute_ns
    assert hidden.communication_ns == divided.communication_ns


def test_embeddings_are_exchanged_behind_the_bottom_layers() -> None:
    run = antiphon.train("dlrm", "rails:2D-SW_SW", "themis")
    assert run.exposed_model_ns < 0.1 * run.exposed_data_ns
    exchanges = run.iteration.exchanges
    assert exchanges["kind"].tolist() == ["all-to-all", "all-to-all", "all-reduce"]


def test_a_model_on_all_npus_has_no_gradients_to_exchange() -> None:
    for scheduler in antiphon.rails_schedulers():
        run = antiphon.train("transformer-1t", "rails:2D-SW_SW", scheduler, model_parallel=1024)
        assert run.exposed_data_ns == 0


def test_no_time_is_no_division(commands: Any, tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", "a,0,0,0,0", header="layer,params,macs,input_elements,output_elements")
    run = commands.document("train", path, "mesh:4x4", "ring", "--compute", "roofline", "--against", "tto")
    assert (run["iteration_ns"], run["samples_per_s"], run["against"][0]["speedup"]) == (0, None, None)


def test_a_row_of_a_table_may_be_left_out(commands: Any) -> None:
    arguments = ("train", "alexnet", "mesh:4x4,mesh:5x5", "tto", "--against", "ring-bi", "--system", "tto")
    document = commands.document(*arguments)
    assert [len(run["against"]) for run in document["runs"]] == [1, 0]
    assert [(row["fabric"], row["algorithm"]) for row in document["refused"]] == [("mesh:5x5", "ring-bi")]
    assert "Left out" in commands.invoke(*arguments).stdout


def test_mistakes_on_rails(commands: Any) -> None:
    def refused(*arguments: str) -> str:
        return str(commands.refused("train", *arguments))

    assert "did you mean 'themis'" in refused("alexnet", "rails:2D-SW_SW", "themi")
    assert "did you mean '2D-SW_SW'" in refused("alexnet", "rails:2D-SW_S", "themis")
    assert "queue policy" in refused("alexnet", "rails:2D-SW_SW", "themis:x")
    assert "has no totals" in refused("alexnet", "rails:2D-SW_SW", "themis", "--model-parallel", "16")
    assert "cannot be divided over 48 NPUs" in refused(
        "transformer-1t", "rails:2D-SW_SW", "themis", "--model-parallel", "48"
    )
    assert "add the columns fwd_comm and ig_comm" in refused(
        "gnmt", "rails:2D-SW_SW", "themis", "--model-parallel", "16"
    )
    assert "stage by stage" in refused("alexnet", "rails:2D-SW_SW", "themis", "--fidelity", "flit")
    assert "cannot be divided over 3 of 16 ranks" in refused("gnmt", "mesh:4x4", "ring", "--model-parallel", "3")
