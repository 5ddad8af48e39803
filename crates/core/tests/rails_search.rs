//! The search on random topologies: near the bound of any scheduler, and never behind another.

use antiphon_core::collective::Kind;
use antiphon_core::rails::advise::advise;
use antiphon_core::rails::{Chunks, Policy, Queue, Task, Topology};
use antiphon_core::system::Choice;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};

const SEED: u64 = 12;

/// 2 to 4 dimensions of 2 to 16 NPUs, 25 to 3000 Gb/s (log-uniform) and 20 to 1700 ns.
fn random_topology(random: &mut Pcg64Mcg) -> Topology {
    let mut unit = || random.next_u64() as f64 / u64::MAX as f64;
    let mut between = |low: f64, high: f64| low + (high - low) * unit();
    let dimensions: Vec<String> = (0..between(2.0, 5.0).min(4.0) as usize)
        .map(|_| {
            let (kind, size) = match between(0.0, 3.0) as u32 {
                0 => ("ring", between(2.0, 17.0) as u64),
                1 => ("fc", between(2.0, 17.0) as u64),
                _ => ("sw", 1 << between(1.0, 5.0) as u64),
            };
            let rate = (25f64.ln() + between(0.0, (3000.0f64 / 25.0).ln())).exp();
            format!("{kind}{}@{rate:.0}/{:.0}ns", size.clamp(2, 16), between(20.0, 1700.0))
        })
        .collect();
    Topology::parse(&dimensions.join(",")).unwrap()
}

fn task(topology: &Topology, kind: Kind, bytes: u64, chunks: u32, policy: Policy, queue: Option<Queue>) -> Task {
    let (topology, chunks) = (topology.clone(), Chunks::Count(chunks));
    Task { topology, kind, bytes, policy, queue, chunks, sharing: 1, offload: false, fixed_delay: false, seed: 1 }
}

#[test]
#[ignore = "minutes"]
fn many() {
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let count: usize = std::env::var("COUNT").ok().map_or(200, |x| x.parse().unwrap());
    let chunks: u32 = std::env::var("CHUNKS").ok().map_or(64, |x| x.parse().unwrap());
    let kind = Kind::parse(&std::env::var("KIND").unwrap_or("all-reduce".into())).unwrap();
    let (mut shares, mut lost) = (Vec::new(), 0);
    let start = std::time::Instant::now();
    for number in 0..count {
        let topology = random_topology(&mut random);
        let (_, queue, timed) = task(&topology, kind, 1_000_000_000, chunks, Policy::Search, None).run().unwrap();
        let mut best = u64::MAX;
        for policy in [Policy::Baseline, Policy::Themis] {
            for &(_, queue) in Queue::ALL {
                let t = task(&topology, kind, 1_000_000_000, chunks, policy, Some(queue));
                best = best.min(t.run().unwrap().2.time_ps);
                best = best.min(Task { fixed_delay: true, ..t }.run().unwrap().2.time_ps);
            }
        }
        let bound = advise(&topology).utilization_bound;
        let used = timed.mean_utilization(&topology);
        let latency: u64 = topology.dimensions.iter().map(|d| 2 * d.latency_ps * d.steps()).sum();
        let judged = (latency as f64) < 0.01 * timed.time_ps as f64 * used / bound;
        if timed.time_ps > best {
            lost += 1;
            println!("LOST {}", topology.name);
        }
        println!("{number:3} {:6.2} {} {} lat {:.2} vs {:.4} {}", 100.0 * used / bound, if judged { ' ' } else { 'x' }, queue.name(), 100.0 * latency as f64 / timed.time_ps as f64, best as f64 / timed.time_ps as f64, topology.name);
        if judged {
            shares.push(used / bound);
        }
    }
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let least = shares.iter().copied().fold(1.0, f64::min);
    println!("judged {} of {count}: mean {:.3} % least {:.3} %, lost {lost}, {:.1?}", shares.len(), 100.0 * mean, 100.0 * least, start.elapsed());
}
