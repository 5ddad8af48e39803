//! Building and proving schedules, rails among them, and lower bounds.

use antiphon_bound::lower_bound;
use antiphon_model::collective::{Collective, Kind};
use antiphon_model::fabric::Fabric;
use antiphon_model::system::System;
use antiphon_model::topology::Topology;
use antiphon_plan::algorithm;
use antiphon_proof::verify;
use antiphon_sim::rails::scheduler::{Scheduler, Themis};
use antiphon_sim::rails::{Expansion, QueuePolicy, RailsPlan, lower, prove_by_symmetry, run};
use criterion::{BenchmarkId, Criterion, SamplingMode};
use std::time::{Duration, Instant};

const BYTES: u64 = 64 << 20;

fn build_and_verify(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("build-and-verify");
    group.sample_size(10).sampling_mode(SamplingMode::Flat).warm_up_time(Duration::from_millis(1));
    let system = System::preset("tto").unwrap();
    for info in algorithm::ALL.map(|a| a.info()) {
        let name = info.name;
        // This one is for odd sides.
        let spec = if name == "ring-bi-odd" { "mesh:15x15" } else { "mesh:16x16" };
        let fabric = Fabric::parse(spec).unwrap();
        // Some do no AllReduce.
        let kind = info.collectives.iter().find(|&&kind| kind == Kind::AllReduce).unwrap_or(&info.collectives[0]);
        let run = || {
            let collective = Collective::new(*kind);
            let schedule = algorithm::build(&fabric, &system, collective, BYTES, name).unwrap();
            verify(&fabric, &schedule).unwrap()
        };
        let start = Instant::now();
        run();
        // Ten runs, at least half a second.
        group.measurement_time((start.elapsed() * 14).max(Duration::from_millis(500)));
        group.bench_function(BenchmarkId::new(name, spec), |bencher| bencher.iter(run));
    }
    group.finish();
}

/// Trees that reach the limit: large combs, and packings on 64 nodes, intact and with failures.
fn trees(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("trees");
    group.sample_size(10).sampling_mode(SamplingMode::Flat).measurement_time(Duration::from_secs(4));
    let system = System::preset("tto").unwrap();
    for (name, spec) in [
        ("combs", "mesh:32x32"),
        ("combs", "torus:8x8"),
        ("combs", "torus:4x4x4"),
        ("forest", "mesh:8x8"),
        ("forest", "torus:8x8"),
        ("forest", "mesh:8x8,drop=27-28,drop=3-4"),
        ("forest", "mesh:8x8,dead=27"),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        let run = || {
            let collective = Collective::new(Kind::AllReduce);
            let schedule = algorithm::build(&fabric, &system, collective, BYTES, name).unwrap();
            verify(&fabric, &schedule).unwrap()
        };
        group.bench_function(BenchmarkId::new(name, spec), |bencher| bencher.iter(run));
    }
    group.finish();
}

/// Rails in stages, lowered to messages and proven, and proven by symmetry.
fn rails(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rails");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    let topology = Topology::parse("ring4@2000/20ns,sw4@800/700ns,fc4@400/700ns").unwrap();
    let mut plan = RailsPlan::uniform(&topology, Kind::AllReduce, BYTES, 16, false).unwrap();
    Themis::default().schedule(&topology, &mut plan);
    let timed = run(&topology, &plan, QueuePolicy::Smallest, 1);
    let expansion = Expansion::new(&topology).unwrap();
    group.bench_function("lower-and-verify/4x4x4", |bencher| {
        bencher.iter(|| verify(&expansion.fabric, &lower(&expansion, &plan, &timed, 1).unwrap()).unwrap());
    });
    let topology = Topology::parse("4D-Ring_FC_Ring_SW").unwrap();
    let mut plan = RailsPlan::uniform(&topology, Kind::AllReduce, BYTES, 64, false).unwrap();
    Themis::default().schedule(&topology, &mut plan);
    let timed = run(&topology, &plan, QueuePolicy::Smallest, 1);
    group.bench_function("prove-by-symmetry/1024", |bencher| {
        bencher.iter(|| prove_by_symmetry(&topology, &plan, &timed).unwrap());
    });
    group.finish();
}

fn bounds(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lower-bound");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    let system = System::preset("tto").unwrap();
    for spec in ["mesh:8x8", "mesh:16x16"] {
        let fabric = Fabric::parse(spec).unwrap();
        let run = || lower_bound(&fabric, &system, Collective::new(Kind::AllReduce), BYTES, None).unwrap();
        group.bench_function(spec, |bencher| bencher.iter(run));
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    build_and_verify(&mut criterion);
    trees(&mut criterion);
    rails(&mut criterion);
    bounds(&mut criterion);
    criterion.final_summary();
}
