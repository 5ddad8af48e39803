//! What takes long at its largest sizes ends at its checkpoints.

use crate::prelude::*;
use antiphon_base::watch::while_it;
use antiphon_formats::chakra;
use antiphon_jobs::compute;
use antiphon_jobs::training::{self, Bucket, Cost, IterationGraph, Overlap, Sizes, run, unfold};
use antiphon_jobs::transport::Serial;
use antiphon_jobs::workload::Workload;
use antiphon_model::schedule::Program;
use antiphon_model::system::{Endpoint, Processor};
use antiphon_model::topology::Topology;
use antiphon_plan::algorithm::build;
use antiphon_proof::verify_alone;
use antiphon_run::{Execution, execute};
use antiphon_sim::dynamic_energy;
use antiphon_sim::rails::scheduler::Themis;
use antiphon_sim::rails::{Chunks, Policy, RailsTask};
use std::cell::Cell;
use std::rc::Rc;

/// That work has at least so many checkpoints, and ends at each of some.
fn ends<T>(name: &str, least: usize, work: impl Fn() -> T) -> T {
    let until = |last: usize| {
        let count = Rc::new(Cell::new(0));
        let counted = count.clone();
        let goes_on = move || {
            counted.set(counted.get() + 1);
            counted.get() <= last
        };
        (while_it(goes_on, &work), count.get())
    };
    let (outcome, count) = until(usize::MAX);
    assert!(count >= least, "{name}: {count} checkpoints");
    for last in (0..count).step_by(1 + count / 4) {
        assert!(until(last).0.is_none(), "{name}: {last} of {count}");
    }
    outcome.expect("nothing ended it")
}

fn schedule(fabric: &Fabric, kind: Kind, algorithm: &str) -> Schedule {
    build(fabric, &System::default(), Collective::new(kind), 1 << 20, algorithm).unwrap()
}

#[test]
fn bounds() {
    let (mesh, clique) = (Fabric::parse("mesh:8x8").unwrap(), Fabric::parse("fc:24").unwrap());
    let system = System::default();
    for kind in [Kind::AllReduce, Kind::AllToAll, Kind::AllGather, Kind::Broadcast] {
        for fabric in [&mesh, &clique] {
            ends(&fabric.name, fabric.ranks() / 8, || {
                lower_bound(fabric, &system, Collective::new(kind), 1 << 20, None)
            })
            .unwrap();
        }
    }
    let optimal = schedule(&mesh, Kind::AllReduce, "optimal");
    ends("of a schedule", 8, || of_schedule(&mesh, &system, &optimal, None)).unwrap();
    ends("certified", 8, || certified(&mesh, &system, &optimal)).unwrap();
}

#[test]
fn fabrics_and_schedules() {
    let (fabric, system) = (Fabric::parse("fc:64").unwrap(), System::default());
    let text = ends("fabric to JSON", 2, || fabric.to_json());
    ends("fabric from JSON", 4, || Fabric::from_json("t", &text)).unwrap();
    let ring = ends("build", 8, || schedule(&fabric, Kind::AllReduce, "ring"));
    ends("check", 8, || ring.check(&fabric)).unwrap();
    ends("figures", 8, || ring.stats(&fabric));
    ends("program", 8, || Program::new(&ring));
    ends("to JSON", 8, || ring.to_json());
    ends("proof", 16, || verify(&fabric, &ring)).unwrap();
    ends("proof alone", 16, || verify_alone(&ring)).unwrap();
    let proven = prove(&fabric, ring.clone()).unwrap();
    ends("energy", 8, || dynamic_energy(&fabric, &proven, &system)).unwrap();
    ends("plan of a run", 8, || simulate(&fabric, &ring, &system, Fidelity::AlphaBeta)).unwrap();
    ends("to be run", 64, || Execution::new(&ring)).unwrap();
    for seed in [None, Some(1)] {
        ends("run", 8, || execute(&ring, &mut vec![vec![1u64; (1 << 20) / 8]; 64], seed)).unwrap();
    }
    let direct = schedule(&fabric, Kind::AllToAll, "direct");
    ends("traces", 8, || chakra::write_schedule(&direct)).unwrap();
}

#[test]
fn rails_and_training() {
    let topology = Topology::parse("ring4@1000/20ns,sw8@800/700ns").unwrap();
    let task = RailsTask {
        topology,
        kind: Kind::AllReduce,
        bytes: 1 << 30,
        policy: Policy::Search,
        queue: None,
        chunks: Chunks::Count(2048),
        sharing: 1,
        offload: false,
        themis: Themis::default(),
        packets: None,
        seed: 1,
        endpoint: Endpoint::System,
    };
    ends("rails", 8, || task.run()).unwrap();

    let table = format!("layer,params,macs,input_elements,output_elements\n{}", "a,1000,1000,1,1\n".repeat(3000));
    ends("table", 2, || Workload::from_csv("t", &table)).unwrap();
    let workload = Workload::preset("resnet50").unwrap();
    let processor = Processor::parse("roofline").unwrap();
    let times = compute::layer_times(&workload, &processor, 32).unwrap();
    let sizes = Sizes { gradient_bytes: 4, activation_bytes: 2, divided_batch: 0 };
    let costs = Cost::of(&workload, &times, &times, sizes).unwrap();
    let policy = training::IterationPolicy::new(Overlap::None, Bucket::Layer);
    let graph = IterationGraph::new(&costs, policy, 0, 16).unwrap();
    let exchanges = vec![1000; graph.jobs.exchanges.len()];
    let parts = graph.arrivals(&[]).unwrap();
    ends("iterations", 2, || run(&graph, &mut Serial::new(&graph.jobs, &exchanges, &parts))).unwrap();
    let one = IterationGraph::new(&costs, policy, 0, 1).unwrap();
    let names: Vec<&str> = workload.layers.iter().map(|layer| layer.name.as_str()).collect();
    let graph = ends("trace", 8, || unfold(&one, &names, 8, 1)).unwrap();
    ends("written trace", 1, || chakra::write(&graph, 0)).unwrap();
}
