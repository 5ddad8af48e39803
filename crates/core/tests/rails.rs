//! Two levels, one truth: plans timed in stages, and lowered to messages, proven and timed packet by
//! packet on the expanded fabric.

use antiphon_core::collective::Kind;
use antiphon_core::rails::scheduler::{Baseline, Scheduler, Search, Themis};
use antiphon_core::rails::{Expansion, Plan, Queue, Topology, lower, run};
use antiphon_core::simulate::{Fidelity, simulate};
use antiphon_core::system::{PacketFormat, System};
use antiphon_core::verify::verify;

/// Packets are what the stage level does not have: here headers take 0.1 % of a link, flits are
/// transmitted in times that round to less than 0.02 %, and nothing happens at the ends.
fn system() -> System {
    System {
        name: "rails".into(),
        packet: PacketFormat { payload_bytes: 16 << 10, flit_bytes: 256, header_flits: 0, fixed_size: false },
        hand_off_ps: 0,
        reduce_rate: None,
        ..System::preset("generic").unwrap()
    }
}

struct Case {
    topology: Topology,
    plan: Plan,
    queue: Queue,
}

fn both(case: &Case, slices: u32) -> (f64, f64) {
    let expansion = Expansion::new(&case.topology).unwrap();
    let timed = run(&case.topology, &case.plan, case.queue, 1);
    let schedule = lower(&expansion, &case.plan, &timed, slices).unwrap();
    assert!(verify(&expansion.fabric, &schedule).unwrap().complete);
    let result = simulate(&expansion.fabric, &schedule, &system(), Fidelity::Packet, &mut |_| true).unwrap();
    (timed.time_ps as f64, result.time_ps as f64)
}

#[test]
#[ignore]
fn explore() {
    for spec in [
        "ring4@2000/20ns,sw4@800/700ns,fc2@400/700ns",
        "ring2@2000/20ns,sw4@1600/700ns,fc2@800/700ns,sw2@400/1700ns",
        "ring4@800/700ns,sw8@800/700ns",
        "fc4@800/700ns,ring8@800/700ns",
    ] {
        let topology = Topology::parse(spec).unwrap();
        for (bytes, chunks, slices) in [(1u64 << 30, 64, 1), (1 << 30, 64, 2), (100_000_000, 64, 1), (100_000_000, 64, 2),(100_000_000, 64, 4)] {
            for kind in [Kind::AllReduce, Kind::AllGather] {
                if kind == Kind::AllToAll && chunks > 16 {
                    continue;
                }
                let mut line = String::new();
                let search = Search { stages: 100_000, ..Search::default() };
                for (name, scheduler, queue) in [
                    ("base", &Baseline as &dyn Scheduler, Queue::Fifo),
                    ("fifo", &Themis::default(), Queue::Fifo),
                    ("scf", &Themis::default(), Queue::Smallest),
                    ("tail", &Themis::default(), Queue::Tail),
                    ("search", &search, Queue::Tail),
                ] {
                    let mut plan = Plan::uniform(&topology, kind, bytes, chunks, false).unwrap();
                    scheduler.schedule(&topology, &mut plan);
                    let start = std::time::Instant::now();
                    let (stage, packet) = both(&Case { topology: topology.clone(), plan, queue }, slices);
                    line += &format!(
                        " {name} {:+.2}% ({:.1}s)",
                        100.0 * (packet / stage - 1.0),
                        start.elapsed().as_secs_f64()
                    );
                }
                println!("{spec} {} MB x{chunks}/{slices} {}:{line}", bytes / 1_000_000, kind.name());
            }
        }
    }
}
