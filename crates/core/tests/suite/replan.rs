//! After a failure: what is left of a plan is a good start, and what is found is proven, executed and bounded.

use crate::builds;
use crate::common::within_bounds::{FIDELITIES, ends_within_bounds};
use antiphon_core::algorithm;
use antiphon_core::collective::{Collective, Kind};
use antiphon_core::error::{Code, Error};
use antiphon_core::execute::check_by_execution;
use antiphon_core::fabric::Fabric;
use antiphon_core::replan::{Replanned, replan};
use antiphon_core::system::System;
use antiphon_core::watch::Watch;
use proptest::prelude::*;

/// Plans, fails and plans again.
fn after(fabric: &Fabric, collective: Collective, bytes: u64, failures: &[&str]) -> Result<Replanned, Error> {
    let system = System::preset("ideal").unwrap();
    let schedule = algorithm::build(fabric, &system, collective, bytes, "optimal").unwrap();
    replan(fabric, &system, &schedule, failures, Watch::default())
}

/// Executes and times what was found, and compares it with what is found anew.
fn checked(fabric: &Fabric, collective: Collective, bytes: u64, failures: &[&str]) -> Result<Replanned, Error> {
    let found = after(fabric, collective, bytes, failures)?;
    let name = || format!("{collective:?} of {bytes} B on {}", found.fabric.name);
    let system = System::preset("ideal").unwrap();
    check_by_execution(&found.rebuilt.schedule, Some(1)).unwrap_or_else(|error| panic!("{error}: {}", name()));
    ends_within_bounds(&found.fabric, &system, &found.rebuilt.schedule, &FIDELITIES[..2], &name);
    Ok(found)
}

#[test]
#[ignore]
fn times() {
    for fabric in ["mesh:8x8", "torus:8x8", "dgx-h100:8", "dgx-a100:2"] {
        let fabric = Fabric::parse(fabric).unwrap();
        for kind in Kind::ALL {
            let fail = if fabric.name.contains("a100") {
                "0-17"
            } else if fabric.name.contains("dgx") {
                "0-72"
            } else {
                "3-4"
            };
            let started = std::time::Instant::now();
            match after(&fabric, Collective::new(kind), 1 << 30, &[fail]) {
                Ok(found) => println!(
                    "{} {kind:?}: kept {} mended {} plan {:?} lower {:?} prove {:?} share {} all {:?}",
                    found.fabric.name,
                    found.rebuilt.kept,
                    found.rebuilt.mended,
                    found.rebuilt.planning,
                    found.rebuilt.lowering,
                    found.proving,
                    found.certified.share_ppm,
                    started.elapsed()
                ),
                Err(error) => println!("{error}"),
            }
        }
    }
}
