//! Simulation of collectives at every fidelity, of synthetic traffic, and of networks of several dimensions.

use antiphon_model::collective::{Collective, Kind};
use antiphon_model::fabric::Fabric;
use antiphon_model::system::System;
use antiphon_model::topology::Topology;
use antiphon_noc::synthetic::Experiment;
use antiphon_plan::algorithm;
use antiphon_proof::{Proven, prove};
use antiphon_sim::rails::scheduler::{OrderSearch, Themis};
use antiphon_sim::rails::{QueuePolicy, RailsPlan, Scheduler};
use antiphon_sim::{Fidelity, Flight, Order, RunOptions, SimulationResult, rails, simulate_flights};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

struct Case {
    fabric: Fabric,
    system: System,
    schedule: Proven,
}

impl Case {
    /// `None` if the algorithm does not apply.
    fn new(fabric: &str, system: &str, algorithm: &str, kind: Kind, bytes: u64) -> Option<Case> {
        let (fabric, system) = (Fabric::parse(fabric).unwrap(), System::preset(system).unwrap());
        let schedule = algorithm::build(&fabric, &system, Collective::new(kind), bytes, algorithm).ok()?;
        let schedule = prove(&fabric, schedule).unwrap();
        Some(Case { fabric, system, schedule })
    }

    /// An AllReduce on system `tto`.
    fn tto(fabric: &str, algorithm: &str, bytes: u64) -> Case {
        Case::new(fabric, "tto", algorithm, Kind::AllReduce, bytes).unwrap()
    }

    fn run(&self, fidelity: Fidelity) -> SimulationResult {
        self.fly(&[Flight::new(&self.schedule)], fidelity, false)
    }

    fn fly(&self, flights: &[Flight], fidelity: Fidelity, energy: bool) -> SimulationResult {
        let options = RunOptions { energy, ..RunOptions::default() };
        let order = Order::Fifo;
        simulate_flights(&self.fabric, flights, order, &self.system, fidelity, options, &mut |_| true).unwrap()
    }
}

/// Of few samples, which take so many seconds.
fn few<'a>(criterion: &'a mut Criterion, name: &str, samples: usize, seconds: u64) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(samples).sampling_mode(SamplingMode::Flat).warm_up_time(Duration::from_millis(200));
    group.measurement_time(Duration::from_secs(seconds));
    group
}

/// Schedules that have a period, and one whose messages all differ.
fn alpha_beta(criterion: &mut Criterion) {
    let mut group = few(criterion, "alpha-beta", 10, 2);
    for (fabric, name, kind, mib) in [
        ("mesh:8x8", "tto", Kind::AllReduce, 256),
        ("mesh:16x16", "combs", Kind::AllReduce, 256),
        ("fc:64", "direct", Kind::AllReduce, 16),
        ("mesh:16x16", "direct", Kind::AllToAll, 64),
    ] {
        let case = Case::new(fabric, "tto", name, kind, mib << 20).unwrap();
        group.bench_function(BenchmarkId::new(name, fabric), |bencher| {
            bencher.iter(|| case.run(Fidelity::AlphaBeta));
        });
    }
}

/// Packets times links a second. Many short messages share the links, so most packets are an event a link;
/// with `tto` links have no latency, with `generic` every arrival is one more event. Chunks of whole
/// shards and DBTree's long messages have no period.
fn packets(criterion: &mut Criterion) {
    let mut group = few(criterion, "packet-hops", 20, 3);
    for (system, algorithm) in [("tto", "direct:chunk=1MiB"), ("tto", "dbtree"), ("generic", "direct:chunk=1MiB")] {
        let case = Case::new("mesh:8x8", system, algorithm, Kind::AllReduce, 16 * MIB).unwrap();
        group.throughput(Throughput::Elements(case.run(Fidelity::Packet).packet_hops));
        group.bench_function(BenchmarkId::new(algorithm, system), |bencher| {
            bencher.iter(|| case.run(Fidelity::Packet));
        });
    }
}

fn flits(criterion: &mut Criterion) {
    let mut group = few(criterion, "flit-hops", 10, 5);
    for algorithm in ["tto", "ring", "multitree", "ring-2d"] {
        let case = Case::tto("mesh:8x8", algorithm, 4 * MIB);
        group.throughput(Throughput::Elements(case.run(Fidelity::Flit).flit_hops));
        group.bench_function(BenchmarkId::new(algorithm, "mesh:8x8"), |bencher| {
            bencher.iter(|| case.run(Fidelity::Flit));
        });
    }
}

/// The TTO paper's own case, building included, as in the time of the artifact.
fn tto_9x9(criterion: &mut Criterion) {
    for (name, fidelity) in [("tto-9x9", Fidelity::Packet), ("flit-tto-9x9", Fidelity::Flit)] {
        few(criterion, name, 10, 5).bench_function("4MiB", |bencher| {
            bencher.iter(|| Case::tto("mesh:9x9", "tto", 4 * MIB).run(fidelity));
        });
    }
}

fn gigabyte(criterion: &mut Criterion) {
    let mut group = few(criterion, "1GiB", 10, 1);
    let names = algorithm::ALL.map(|a| a.info().name);
    for (name, fabric) in names.into_iter().flat_map(|name| ["mesh:8x8", "mesh:9x9"].map(|fabric| (name, fabric))) {
        let Some(case) = Case::new(fabric, "tto", name, Kind::AllReduce, 1024 * MIB) else { continue };
        let start = Instant::now();
        case.run(Fidelity::Packet);
        // Ten runs, at least half a second.
        group.measurement_time((start.elapsed() * 14).max(Duration::from_millis(500)));
        group.bench_function(BenchmarkId::new(name, fabric), |bencher| bencher.iter(|| case.run(Fidelity::Packet)));
    }
}

/// Two AllReduces of one schedule in flight, first come first: where they meet every packet is an event.
fn flights(criterion: &mut Criterion) {
    let mut group = few(criterion, "flights", 10, 5);
    for algorithm in ["ring-bi", "tto", "combs"] {
        let case = Case::tto("mesh:8x8", algorithm, 256 * MIB);
        let both = [Flight::new(&case.schedule), Flight::new(&case.schedule)];
        let run = || case.fly(&both, Fidelity::Packet, false);
        group.bench_function(BenchmarkId::new(algorithm, "256MiB"), |bencher| bencher.iter(run));
    }
}

/// The same run without energy and with it.
fn energy(criterion: &mut Criterion) {
    let mut group = few(criterion, "energy", 20, 4);
    for algorithm in ["tto", "ring-bi", "direct:chunk=1MiB", "combs", "dbtree"] {
        let case = Case::tto("mesh:8x8", algorithm, 16 * MIB);
        for (name, asked) in [("off", false), ("on", true)] {
            let run = || case.fly(&[Flight::new(&case.schedule)], Fidelity::Packet, asked);
            group.bench_function(BenchmarkId::new(algorithm, name), |bencher| bencher.iter(run));
        }
    }
}

/// Uniform traffic below saturation, 10,000 cycles: on one core, and on all.
fn synthetic(criterion: &mut Criterion) {
    let fabric = Fabric::parse("mesh:8x8").unwrap();
    let all = std::thread::available_parallelism().map_or(1, |count| count.get());
    let mut group = few(criterion, "flit-synthetic", 10, 5);
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
}

/// Multi-dimensional networks: one run, one schedule.
fn stages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rails");
    let million = ["fc10@1000/700ns"; 6].join(",");
    for (name, spec) in [("1024 NPUs, 4-D", "4D-Ring_FC_Ring_SW"), ("1000000 NPUs, 6-D", &million)] {
        let topology = Topology::parse(spec).unwrap();
        let plain = RailsPlan::uniform(&topology, Kind::AllReduce, 100_000_000, 64, false).unwrap();
        let mut plan = plain.clone();
        Themis::default().schedule(&topology, &mut plan);
        group.bench_function(BenchmarkId::new("run of 64 chunks", name), |bencher| {
            bencher.iter(|| rails::run(&topology, &plan, QueuePolicy::Smallest, 1));
        });
        group.bench_function(BenchmarkId::new("themis", name), |bencher| {
            bencher.iter(|| Themis::default().schedule(&topology, &mut plain.clone()));
        });
        group.sample_size(10).bench_function(BenchmarkId::new("search", name), |bencher| {
            bencher.iter(|| OrderSearch::default().best(&topology, &mut plain.clone()));
        });
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    for group in [alpha_beta, packets, flits, tto_9x9, gigabyte, flights, energy, synthetic, stages] {
        group(&mut criterion);
    }
    criterion.final_summary();
}
