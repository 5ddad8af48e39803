//! Alpha-beta simulation: schedules that have a period, and one whose messages all differ.

use antiphon_model::collective::{Collective, Kind};
use antiphon_model::fabric::Fabric;
use antiphon_model::system::System;
use antiphon_plan::algorithm;
use antiphon_proof::prove;
use antiphon_sim::{Fidelity, simulate};
use criterion::{BenchmarkId, Criterion};
use std::time::Duration;

fn alpha_beta(criterion: &mut Criterion) {
    let system = System::preset("tto").unwrap();
    let mut group = criterion.benchmark_group("alpha-beta");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(200));
    for (fabric, name, kind, mib) in [
        ("mesh:8x8", "tto", Kind::AllReduce, 256),
        ("mesh:16x16", "combs", Kind::AllReduce, 256),
        ("fc:64", "direct", Kind::AllReduce, 16),
        ("mesh:16x16", "direct", Kind::AllToAll, 64),
    ] {
        let shape = Fabric::parse(fabric).unwrap();
        let schedule = algorithm::build(&shape, &system, Collective::new(kind), mib << 20, name).unwrap();
        let schedule = prove(&shape, schedule).unwrap();
        let run = || simulate(&shape, &schedule, &system, Fidelity::AlphaBeta, &mut |_| true).unwrap().time_ps;
        group.bench_function(BenchmarkId::new(name, fabric), |bencher| bencher.iter(run));
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    alpha_beta(&mut criterion);
    criterion.final_summary();
}
