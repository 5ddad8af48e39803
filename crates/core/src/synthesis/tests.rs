use super::*;
use crate::bound::lower_bound;
use crate::fabric::Fabric;
use crate::system::System;

fn time(spec: &str, kind: Kind) -> (Mixture, f64) {
    let fabric = Fabric::parse(spec).unwrap();
    let system = System::preset("ideal").unwrap();
    let start = std::time::Instant::now();
    let graph = Graph::new(&fabric, &system);
    println!(
        "group {} classes {} of {}",
        Symmetry::new(&graph, None).group.len(),
        Symmetry::new(&graph, None).arcs.len(),
        graph.arcs.len()
    );
    let found = mixture(
        &graph,
        Collective::new(kind),
        std::env::var("ACC").map_or(1e-7, |a| a.parse().unwrap()),
        std::env::var("LEVEL").map_or(0.0, |a| a.parse().unwrap()),
        Watch::default(),
    )
    .unwrap();
    let bound = lower_bound(&fabric, &system, Collective::new(kind), 1 << 40).unwrap();
    let bound = bound.volume_ps.max(bound.cut_ps).max(bound.strength_ps.unwrap_or(0)) as f64 / (1u64 << 40) as f64;
    println!(
        "{spec} {} time {:.6e} least {:.6e} bound {:.6e} ({:.6}) rounds {} used {} {:.1} ms",
        kind.name(),
        found.time,
        found.least,
        bound,
        bound / found.time,
        found.rounds,
        found.plans.len(),
        start.elapsed().as_secs_f64() * 1e3
    );
    (found, bound)
}

#[test]
fn try_it() {
    let list = std::env::var("SPECS").unwrap_or("mesh:4x4".into());
    for spec in list.split(' ') {
        for kind in Kind::ALL {
            time(spec, kind);
        }
    }
}
