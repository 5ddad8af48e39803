//! C-Cube's overlapped tree: steps, link conflicts, order of chunks, gain of the overlap.

use antiphon_core::algorithm;
use antiphon_core::collective::{Collective, Kind};
use antiphon_core::error::Result;
use antiphon_core::fabric::Fabric;
use antiphon_core::schedule::Schedule;
use antiphon_core::simulate::{Fidelity, simulate};
use antiphon_core::system::System;
use antiphon_core::verify::verify;

fn build(fabric: &Fabric, system: &System, bytes: u64, options: &str) -> Schedule {
    let spec = format!("overlapped-tree:{options}");
    let schedule =
        algorithm::build(fabric, system, Collective::new(Kind::AllReduce), bytes, spec.trim_end_matches(':')).unwrap();
    verify(fabric, &schedule).unwrap_or_else(|error| panic!("{spec} on {}: {error}", fabric.name));
    schedule
}

#[test]
fn explore() {
    let generic = System::preset("generic").unwrap();
    for spec in [
        "dgx1v",
        "mesh:4x4",
        "mesh:8x8",
        "torus:8x8",
        "torus:4x4",
        "torus:4x4x4",
        "hypercube:3",
        "hypercube:4",
        "hypercube:6",
        "switch:8",
        "bigraph:4x4",
        "ring:8",
        "fc:8",
        "fbfly:8x8",
        "mesh:16x16",
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        for options in ["", "trees=1", "trees=2", "mapping=numbered", "overlap=no"] {
            let t = std::time::Instant::now();
            let s = build(&fabric, &generic, 64_000_000, options);
            let stats = s.stats(&fabric);
            let el = t.elapsed().as_millis();
            let time = simulate(&fabric, &s, &generic, Fidelity::AlphaBeta, &mut |_| true).unwrap().time_ps / 1000;
            println!(
                "{spec:12} {options:17} lanes {} K {} stride {} steps {} heights {:?} {time} ns  {el} ms",
                s.lanes.len(),
                s.lanes[0].chunks,
                s.lanes[0].stride,
                stats.steps,
                stats.copy_heights
            );
        }
    }
}
