//! Broadcasts and reductions along trees. Chunk after chunk goes along them, so that they are listed even on 4,096 ranks.

use crate::{Described, OPTIMAL, ProvenRun};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Bytes;
use antiphon_base::watch::Watch;
use antiphon_bound::lower_bound;
use antiphon_model::collective::{Collective, Kind};
use antiphon_model::fabric::Fabric;
use antiphon_model::system::System;
use antiphon_plan::algorithm::equal_trees;
use antiphon_sim::Fidelity;

/// A broadcast or a reduction along equal trees, as `optimal` does it.
///
/// # Errors
/// [`Code::NotApplicable`] for other collectives and at fidelity `flit`; as [`equal_trees`], [`lower_bound`] and [`antiphon_sim::simulate`].
pub fn described(
    fabric: &Fabric,
    system: &System,
    kind: Kind,
    bytes: Bytes,
    fidelity: Fidelity,
    watch: Watch,
) -> Result<Described> {
    if !kind.rooted() || fidelity == Fidelity::Flit {
        let what =
            "optimal is for broadcast and reduce here, at packet or alpha-beta; 'antiphon compare' has it for others";
        return Err(Error::new(Code::NotApplicable, what));
    }
    let collective = Collective::new(kind);
    let schedule = equal_trees(fabric, system, collective, bytes, watch)?;
    let bound = lower_bound(fabric, system, collective, bytes, Some(fidelity))?;
    let (trees, chunks) = (schedule.lanes.len(), schedule.lanes[0].chunks);
    let run = ProvenRun::of(fabric, schedule, system, fidelity, watch)?;
    Ok(Described {
        algorithm: format!("{OPTIMAL}:trees={trees}"),
        time_ps: run.time_ps,
        bound_ps: bound.time_ps,
        binding: bound.binding,
        messages: run.messages.into(),
        dynamic: run.dynamic,
        proof: format!("all messages of {trees} trees, along which {chunks} chunks go"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_the_bound_where_all_ranks_are_alike() {
        for (spec, kind) in ["torus:4x4x4", "mesh:8x8", "hypercube:5", "dgx-h100:8", "dgx-b200:3"]
            .into_iter()
            .flat_map(|spec| [Kind::Broadcast, Kind::Reduce].map(|kind| (spec, kind)))
        {
            let (fabric, system) = (Fabric::parse(spec).unwrap(), System::default());
            let found = described(&fabric, &system, kind, 4 << 30, Fidelity::Packet, Watch::default()).unwrap();
            let reached = found.bound_ps as f64 / found.time_ps as f64;
            assert!((0.97..=1.0).contains(&reached), "{spec} {kind:?}: {reached} {found:?}");
        }
    }

    #[test]
    fn what_has_no_such_trees_is_refused() {
        let refused = |spec: &str, kind, fidelity| {
            let fabric = Fabric::parse(spec).unwrap();
            described(&fabric, &System::default(), kind, 1 << 20, fidelity, Watch::default()).unwrap_err()
        };
        let packet = Fidelity::Packet;
        for error in [
            refused("torus:4x4", Kind::AllReduce, packet),
            refused("torus:4x4", Kind::Reduce, Fidelity::Flit),
            refused("fat-tree:4", Kind::Reduce, packet),
        ] {
            assert_eq!(error.code, Code::NotApplicable, "{error:?}");
        }
    }

    /// Prints what 4,096 ranks take, and how long that takes to find.
    #[test]
    #[ignore = "takes a minute"]
    fn four_thousand_ranks() {
        for (spec, least) in [("torus:16x16x16", 0.97), ("mesh:64x64", 0.97), ("dgx-h100:512", 0.97)] {
            let fabric = Fabric::parse(spec).unwrap();
            for kind in [Kind::Broadcast, Kind::Reduce] {
                let before = std::time::Instant::now();
                let found =
                    described(&fabric, &System::default(), kind, 4 << 30, Fidelity::Packet, Watch::default()).unwrap();
                let reached = found.bound_ps as f64 / found.time_ps as f64;
                println!("{spec} {kind:?} {reached:.4} {:?} {found:?}", before.elapsed());
                assert!(reached > least);
            }
        }
    }
}
