//! Packet simulation: throughput where nothing merges, the paper's own case, 1 GiB, and two collectives at once.

use antiphon_model::collective::{Collective, Kind};
use antiphon_model::fabric::Fabric;
use antiphon_model::system::System;
use antiphon_plan::algorithm;
use antiphon_proof::{Proven, prove};
use antiphon_sim::{Fidelity, Flight, Order, RunOptions, SimulationResult, simulate, simulate_flights};
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

struct Case {
    fabric: Fabric,
    system: System,
    schedule: Proven,
}

impl Case {
    /// `None` if the algorithm does not apply.
    fn new(fabric: &str, system: &str, algorithm: &str, bytes: u64) -> Option<Case> {
        let (fabric, system) = (Fabric::parse(fabric).unwrap(), System::preset(system).unwrap());
        let collective = Collective::new(Kind::AllReduce);
        let schedule = algorithm::build(&fabric, &system, collective, bytes, algorithm).ok()?;
        let schedule = prove(&fabric, schedule).unwrap();
        Some(Case { fabric, system, schedule })
    }

    fn run(&self) -> SimulationResult {
        simulate(&self.fabric, &self.schedule, &self.system, Fidelity::Packet, &mut |_| true).unwrap()
    }
}

/// Packets times links a second. Many short messages share the links, so most packets are an event a link;
/// with `tto` links have no latency, with `generic` every arrival is one more event. Chunks of whole
/// shards and DBTree's long messages have no period.
fn throughput(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("packet-hops");
    group.sample_size(20).sampling_mode(SamplingMode::Flat);
    group.measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_millis(500));
    for (system, algorithm) in [("tto", "direct:chunk=1MiB"), ("tto", "dbtree"), ("generic", "direct:chunk=1MiB")] {
        let case = Case::new("mesh:8x8", system, algorithm, 16 * MIB).unwrap();
        group.throughput(Throughput::Elements(case.run().packet_hops));
        group.bench_function(BenchmarkId::new(algorithm, system), |bencher| bencher.iter(|| case.run()));
    }
    group.finish();
}

/// Building included, as in the time of the artifact.
fn tto_9x9(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tto-9x9");
    group
        .bench_function("4MiB", |bencher| bencher.iter(|| Case::new("mesh:9x9", "tto", "tto", 4 * MIB).unwrap().run()));
    group.finish();
}

fn gigabyte(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("1GiB");
    group.sample_size(10).sampling_mode(SamplingMode::Flat).warm_up_time(Duration::from_millis(1));
    let names = algorithm::ALL.map(|a| a.info().name);
    for (name, fabric) in names.into_iter().flat_map(|name| ["mesh:8x8", "mesh:9x9"].map(|fabric| (name, fabric))) {
        let Some(case) = Case::new(fabric, "tto", name, 1024 * MIB) else { continue };
        let start = Instant::now();
        case.run();
        // Ten runs, at least half a second.
        group.measurement_time((start.elapsed() * 14).max(Duration::from_millis(500)));
        group.bench_function(BenchmarkId::new(name, fabric), |bencher| bencher.iter(|| case.run()));
    }
    group.finish();
}

/// Two AllReduces of one schedule in flight, first come first: where they meet every packet is an event.
fn flights(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("flights");
    group.sample_size(10).sampling_mode(SamplingMode::Flat).warm_up_time(Duration::from_millis(1));
    for algorithm in ["ring-bi", "tto", "combs"] {
        let Case { fabric, system, schedule } = Case::new("mesh:8x8", "tto", algorithm, 256 * MIB).unwrap();
        let both = [Flight::new(&schedule), Flight::new(&schedule)];
        let run = || {
            simulate_flights(&fabric, &both, Order::Fifo, &system, Fidelity::Packet, RunOptions::default(), &mut |_| {
                true
            })
            .unwrap()
        };
        group.bench_function(BenchmarkId::new(algorithm, "256MiB"), |bencher| bencher.iter(run));
    }
    group.finish();
}

/// The same run without energy and with it.
fn energy(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("energy");
    group.sample_size(20).sampling_mode(SamplingMode::Flat).measurement_time(Duration::from_secs(4));
    for algorithm in ["tto", "ring-bi", "direct:chunk=1MiB", "combs", "dbtree"] {
        let Case { fabric, system, schedule } = Case::new("mesh:8x8", "tto", algorithm, 16 * MIB).unwrap();
        let flights = [Flight::new(&schedule)];
        for (name, asked) in [("off", false), ("on", true)] {
            let order = Order::Fifo;
            let run = || {
                simulate_flights(
                    &fabric,
                    &flights,
                    order,
                    &system,
                    Fidelity::Packet,
                    RunOptions { energy: asked, ..RunOptions::default() },
                    &mut |_| true,
                )
                .unwrap()
            };
            group.bench_function(BenchmarkId::new(algorithm, name), |bencher| bencher.iter(run));
        }
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    throughput(&mut criterion);
    tto_9x9(&mut criterion);
    gigabyte(&mut criterion);
    flights(&mut criterion);
    energy(&mut criterion);
    criterion.final_summary();
}
