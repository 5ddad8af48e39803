//! Multi-dimensional networks: one run, one schedule.

use antiphon_model::collective::Kind;
use antiphon_model::topology::Topology;
use antiphon_sim::rails::scheduler::{OrderSearch, Themis};
use antiphon_sim::rails::{QueuePolicy, RailsPlan, Scheduler, run};
use criterion::{BenchmarkId, Criterion};

fn stages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rails");
    let million = ["fc10@1000/700ns"; 6].join(",");
    for (name, spec) in [("1024 NPUs, 4-D", "4D-Ring_FC_Ring_SW"), ("1000000 NPUs, 6-D", &million)] {
        let topology = Topology::parse(spec).unwrap();
        let plain = RailsPlan::uniform(&topology, Kind::AllReduce, 100_000_000, 64, false).unwrap();
        let mut plan = plain.clone();
        Themis::default().schedule(&topology, &mut plan);
        group.bench_function(BenchmarkId::new("run of 64 chunks", name), |bencher| {
            bencher.iter(|| run(&topology, &plan, QueuePolicy::Smallest, 1));
        });
        group.bench_function(BenchmarkId::new("themis", name), |bencher| {
            bencher.iter(|| Themis::default().schedule(&topology, &mut plain.clone()));
        });
        group.sample_size(10).bench_function(BenchmarkId::new("search", name), |bencher| {
            bencher.iter(|| OrderSearch::default().best(&topology, &mut plain.clone()));
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    stages(&mut criterion);
    criterion.final_summary();
}
