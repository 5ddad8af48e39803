//! Flit simulation: flit-hops a second under collectives and under synthetic traffic.

use antiphon_model::collective::{Collective, Kind};
use antiphon_model::fabric::Fabric;
use antiphon_model::system::System;
use antiphon_noc::synthetic::Experiment;
use antiphon_plan::algorithm;
use antiphon_proof::prove;
use antiphon_sim::{Fidelity, SimulationResult, simulate};
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};

const MIB: u64 = 1 << 20;

/// AllReduce on system `tto`, building included.
fn run(fabric: &str, algorithm: &str, bytes: u64) -> SimulationResult {
    let (fabric, system) = (Fabric::parse(fabric).unwrap(), System::preset("tto").unwrap());
    let collective = Collective::new(Kind::AllReduce);
    let schedule = algorithm::build(&fabric, &system, collective, bytes, algorithm).unwrap();
    simulate(&fabric, &prove(&fabric, schedule).unwrap(), &system, Fidelity::Flit, &mut |_| true).unwrap()
}

fn collectives(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("flit-hops");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for algorithm in ["tto", "ring", "multitree", "ring-2d"] {
        group.throughput(Throughput::Elements(run("mesh:8x8", algorithm, 4 * MIB).flit_hops));
        group.bench_function(BenchmarkId::new(algorithm, "mesh:8x8"), |bencher| {
            bencher.iter(|| run("mesh:8x8", algorithm, 4 * MIB));
        });
    }
    group.finish();
}

fn tto_9x9(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("flit-tto-9x9");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.bench_function("4MiB", |bencher| bencher.iter(|| run("mesh:9x9", "tto", 4 * MIB)));
    group.finish();
}

/// Uniform traffic below saturation, 10,000 cycles: on one core, and on all.
fn synthetic(criterion: &mut Criterion) {
    let fabric = Fabric::parse("mesh:8x8").unwrap();
    let all = std::thread::available_parallelism().map_or(1, |count| count.get());
    let mut group = criterion.benchmark_group("flit-synthetic");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for packet_flits in [1, 5] {
        let experiment =
            Experiment { packet_flits, cycles: Some(10_000), warm_up_cycles: Some(2_000), ..Experiment::new(0.3) };
        group.throughput(Throughput::Elements(experiment.run(&fabric, 1, &mut |_| true).unwrap().flit_hops));
        for (name, cores) in [("uniform-0.3", 1), ("uniform-0.3-all-cores", all)] {
            group.bench_function(BenchmarkId::new(name, packet_flits), |bencher| {
                bencher.iter(|| experiment.run(&fabric, cores, &mut |_| true).unwrap());
            });
        }
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    collectives(&mut criterion);
    tto_9x9(&mut criterion);
    synthetic(&mut criterion);
    criterion.final_summary();
}
