//! What limits a schedule: how long it takes where one thing is twice as good.

use antiphon_base::error::Result;
use antiphon_base::parameter::Choice;
use antiphon_base::units::{Picos, Rate};
use antiphon_model::fabric::Fabric;
use antiphon_model::system::{Endpoint, System};
use antiphon_proof::Proven;
use antiphon_sim::{Fidelity, Flight, Order, Progress, RunOptions, simulate_flights};

/// What can limit a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limiting {
    /// Rates of links.
    Rates,
    /// Latencies of links, hand-offs, stages of routers, and launches.
    Latency,
    /// What stands between memories and links: interfaces, memories, buses, engines apart from their adders.
    Endpoint,
    /// Additions, by ranks, engines and switches.
    Computation,
}

impl Choice for Limiting {
    const WHAT: &'static str = "limit";
    const ALL: &'static [(&'static str, Self)] = &[
        ("rates", Limiting::Rates),
        ("latency", Limiting::Latency),
        ("endpoint", Limiting::Endpoint),
        ("computation", Limiting::Computation),
    ];
}

/// A run where one thing is twice as good.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Relieved {
    /// What that is.
    pub limiting: Limiting,
    /// How long the schedule then takes.
    pub time_ps: Picos,
}

fn twice(rate: Rate) -> Rate {
    Rate(rate.0.saturating_mul(2))
}

fn halve(time: &mut Picos) {
    *time /= 2;
}

impl Limiting {
    /// The fabric and the system where this is twice as good: a rate or a count doubled, a time halved.
    pub fn relieved(self, fabric: &Fabric, system: &System) -> (Fabric, System) {
        let (mut fabric, mut system) = (fabric.clone(), system.clone());
        match self {
            Limiting::Rates => {
                system.link_rate = twice(system.link_rate);
                fabric.links.iter_mut().for_each(|link| link.rate = link.rate.map(twice));
            }
            Limiting::Latency => {
                fabric.links.iter_mut().filter_map(|link| link.latency.as_mut()).for_each(halve);
                let System { link_latency_ps, hand_off_ps, launch_ps, router, .. } = &mut system;
                [link_latency_ps, hand_off_ps, launch_ps, &mut router.hand_off_ps].into_iter().for_each(halve);
                // Its stages take cycles.
                router.clock_ps = (router.clock_ps / 2).max(1);
                system.wire_fs_per_mm /= 2;
                for protocol in &mut system.protocols.0 {
                    [&mut protocol.launch_ps, &mut protocol.step_ps].into_iter().for_each(halve);
                }
                if let Endpoint::Ideal(ideal) = &mut system.endpoint {
                    halve(&mut ideal.delay_ps);
                }
            }
            Limiting::Endpoint => {
                let interface = &mut system.interface;
                interface.count = interface.count.saturating_mul(2);
                interface.depth_packets = interface.depth_packets.saturating_mul(2);
                halve(&mut interface.issue_ps);
                match &mut system.endpoint {
                    Endpoint::System | Endpoint::Ideal(_) => (),
                    Endpoint::Npu(npu) => {
                        let rates = [&mut npu.memory_rate, &mut npu.sm_rate, &mut npu.bus_rate];
                        rates.into_iter().for_each(|rate| *rate = twice(*rate));
                    }
                    Endpoint::Ace(ace) => {
                        let rates = [&mut ace.memory_rate, &mut ace.bus_rate];
                        rates.into_iter().for_each(|rate| *rate = twice(*rate));
                        ace.sram = ace.sram.saturating_mul(2);
                        ace.fsms = ace.fsms.saturating_mul(2);
                    }
                }
            }
            Limiting::Computation => {
                system.reduce_rate = system.reduce_rate.map(twice);
                if let Endpoint::Ace(ace) = &mut system.endpoint {
                    ace.alu_rate = twice(ace.alu_rate);
                }
                let computing = fabric.nodes.iter_mut().filter_map(|node| node.compute.as_mut());
                computing.for_each(|compute| compute.rate = compute.rate.map(twice));
            }
        }
        (fabric, system)
    }
}

/// How long a schedule takes where each of what can limit it is twice as good, in the order of [`Limiting::ALL`]. The messages
/// and their order are the same, and all else is as it was.
///
/// # Errors
/// As [`simulate_flights`].
pub fn relieved(
    fabric: &Fabric,
    schedule: &Proven,
    system: &System,
    fidelity: Fidelity,
    cores: usize,
    progress: &mut Progress,
) -> Result<Vec<Relieved>> {
    let options = RunOptions { cores, ..RunOptions::default() };
    let count = Limiting::ALL.len() as f64;
    let mut runs = Vec::with_capacity(Limiting::ALL.len());
    for &(_, limiting) in Limiting::ALL {
        let (fabric, system) = limiting.relieved(fabric, system);
        let done = runs.len() as f64;
        let mut report = |share: f64| progress((done + share) / count);
        let flights = [Flight::new(schedule)];
        let result = simulate_flights(&fabric, &flights, Order::default(), &system, fidelity, options, &mut report)?;
        runs.push(Relieved { limiting, time_ps: result.time_ps });
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::schedule::{Builder, Op};
    use antiphon_proof::prove;
    use antiphon_sim::simulate;

    /// A rank sends all it has to its neighbour, which adds it: 1 MiB in one message.
    fn times(fabric: &Fabric, changes: &[(&str, &str)]) -> (Picos, Vec<Picos>) {
        let mut system = System::preset("ideal").unwrap();
        changes.iter().for_each(|(key, value)| system.set(key, value).unwrap());
        let mut builder = Builder::new("t", fabric, Collective { kind: Kind::Reduce, root: 1 }, 1 << 20);
        let lane = builder.block((0, 1 << 20), 1 << 20);
        builder.send(Op::Reduce, 0, 1, lane, 0).unwrap();
        let schedule = prove(fabric, builder.finish().unwrap()).unwrap();
        let run = simulate(fabric, &schedule, &system, Fidelity::AlphaBeta, &mut |_| true).unwrap();
        let runs = relieved(fabric, &schedule, &system, Fidelity::AlphaBeta, 1, &mut |_| true).unwrap();
        assert!(runs.iter().map(|run| run.limiting).eq(Limiting::ALL.iter().map(|&(_, each)| each)));
        (run.time_ps, runs.into_iter().map(|run| run.time_ps).collect())
    }

    /// 1 MiB at 2^20 bytes an us, 0.5 us on the way and 0.25 us of hand-off; it is added in 2 us, read twice in 4 us.
    #[test]
    fn each_thing_is_twice_as_good() {
        let [rate, half] = [1e-3, 0.5e-3].map(|share| ((1u64 << 20) as f64 * share).to_string());
        let common = [("link_latency_ns", "500"), ("hand_off_ns", "250"), ("link_rate_gb_per_s", rate.as_str())];
        for spec in ["ring:2".to_string(), format!("ring:2@{rate}/500ns")] {
            let fabric = Fabric::parse(&spec).unwrap();
            let adds = [&common[..], &[("reduce_rate_gb_per_s", &half)]].concat();
            assert_eq!(times(&fabric, &adds), (3_750_000, vec![3_250_000, 3_375_000, 3_750_000, 2_750_000]), "{spec}");
            let npu = format!("npu:memory_gb_per_s={half},sms=80,message=1MiB,chunk=1MiB");
            let (time, runs) = times(&fabric, &[&common[..], &[("endpoint", &npu)]].concat());
            assert!(runs[2] + 1_900_000 < time && runs[3] == time, "{time} {runs:?}");
        }
    }
}
