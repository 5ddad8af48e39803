use antiphon_core::algorithm;
use antiphon_core::collective::{Collective, Kind};
use antiphon_core::fabric::Fabric;
use antiphon_core::replan::replan;
use antiphon_core::system::System;
use antiphon_core::watch::Watch;
fn main() {
    let system = System::preset("ideal").unwrap();
    let args: Vec<String> = std::env::args().collect();
    for spec in args[1].split(' ') {
        let (spec, fail) = spec.split_once('/').unwrap();
        let fabric = Fabric::parse(spec).unwrap();
        for kind in Kind::ALL {
            if args.len() > 2 && !args[2].contains(kind.name()) {
                continue;
            }
            let schedule = algorithm::build(&fabric, &system, Collective::new(kind), 1 << 30, "optimal").unwrap();
            let mut best: Option<antiphon_core::replan::Replanned> = None;
            for _ in 0..3 {
                let found = replan(&fabric, &system, &schedule, &[fail], Watch::default()).unwrap();
                if best.as_ref().is_none_or(|best| found.rebuilt.planning < best.rebuilt.planning) {
                    best = Some(found);
                }
            }
            let found = best.unwrap();
            println!(
                "{} {kind:?}: kept {} mended {} plan {:?} lower {:?} prove {:?} share {}",
                found.fabric.name,
                found.rebuilt.kept,
                found.rebuilt.mended,
                found.rebuilt.planning,
                found.rebuilt.lowering,
                found.proving,
                found.certified.share_ppm,
            );
        }
    }
}
