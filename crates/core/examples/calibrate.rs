//! Prints every point of the TTO paper's Figures 8 and 9: artifact cycles and ours.
use antiphon_core::{
    algorithm,
    collective::{Collective, Kind},
    fabric::Fabric,
    simulate::{Fidelity, simulate},
    system::System,
};
use std::collections::BTreeMap;
use std::time::Instant;

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let system = System::preset("tto").unwrap();
    let mut rows = Vec::new();
    for (file, topo, algo, bytes, cycles, flits) in
        [("fig8_bandwidth.csv", 0, 2, 5, 6, 10), ("fig9_scalability.csv", 1, 2, 5, 6, 8)]
    {
        let text = std::fs::read_to_string(format!("data/tto/{file}")).unwrap();
        for line in text.lines().skip(1) {
            let f: Vec<&str> = line.split(',').collect();
            let topo = if file.starts_with("fig8") {
                f[topo].to_string()
            } else {
                let n: f64 = f[topo].parse().unwrap();
                format!("{0}x{0}", n.sqrt() as u32)
            };
            rows.push((
                topo,
                f[algo].to_string(),
                f[bytes].parse::<u64>().unwrap(),
                f[cycles].parse::<f64>().unwrap(),
                f[flits].parse::<u64>().unwrap(),
            ));
        }
    }
    let mut errors: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (topo, algo, bytes, cycles, flits) in rows {
        if !algo.contains(&only) {
            continue;
        }
        let spec = match algo.as_str() {
            "Ring" => "ring",
            "Ring-2D" => "ring-2d",
            "DBTree" => "dbtree:mapping=four-per-router",
            "MultiTree" => "multitree",
            "RingBiEven" => "ring-bi",
            "RingBiOdd" => "ring-bi-odd:excluded=centre",
            "TTO" => "tto",
            _ => panic!("{algo}"),
        };
        let fabric = Fabric::parse(&format!("mesh:{topo}")).unwrap();
        let schedule = algorithm::build(&fabric, &system, Collective::new(Kind::AllReduce), bytes, spec).unwrap();
        let clock = Instant::now();
        let result = simulate(&fabric, &schedule, &system, Fidelity::Packet, &mut |_| true).unwrap();
        let ours = result.time_ps as f64 / 1000.0;
        let error = 100.0 * (ours / cycles - 1.0);
        let mark = if result.flit_hops == flits { "" } else { "FLITS" };
        println!(
            "{topo} {algo:10} {bytes:>11} {cycles:>10} {ours:>12.0} {error:>7.2}% {:.3}s {} {mark} {}",
            clock.elapsed().as_secs_f64(),
            result.events,
            if mark.is_empty() { String::new() } else { format!("{} {flits}", result.flit_hops) }
        );
        errors.entry(algo).or_default().push(error.abs());
    }
    for (algo, list) in errors {
        println!(
            "{algo}: mean {:.3} max {:.3}",
            list.iter().sum::<f64>() / list.len() as f64,
            list.iter().fold(0.0f64, |a, &b| a.max(b))
        );
    }
}
