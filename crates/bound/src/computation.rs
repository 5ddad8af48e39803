//! The bound by computation: additions that no schedule goes without, at the rates of all that add.

use super::task::Task;
use antiphon_base::units::Picos;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::Fabric;
use antiphon_model::system::System;

/// The additions of a sum over the rates of all adders together; zero where adding is free.
///
/// Proof. Whoever is the first to have the sum of an element has it from contributions that were merged, two at a time. N
/// contributions take N - 1 merges, each an addition of one element. So D bytes take (N - 1) D bytes of additions. A rank
/// adds one message at a time, and so does a switch. If each of them adds without a pause, all are done after the sum of the
/// additions over the sum of the rates. Ranks that are left out may add, too. O(links).
pub(super) fn computation(fabric: &Fabric, system: &System, task: &Task) -> Picos {
    let sums = matches!(task.kind, Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce);
    let Some(rate) = system.adding_rate().filter(|_| sums && task.sites.len() > 1) else {
        return 0;
    };
    let mut rates = task.workers * u128::from(rate.0);
    for switch in fabric.computing_switches() {
        // One without a rate of its own adds what comes in no time.
        let Some(rate) = fabric.adding_rate(switch) else { return 0 };
        rates += u128::from(rate.0);
    }
    let bytes = (task.ranks() - 1) * u128::from(task.bytes);
    Picos::try_from(bytes * 1_000_000_000_000 / rates.max(1)).unwrap_or(Picos::MAX)
}

#[cfg(test)]
mod tests {
    use crate::lower_bound;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::fabric::Fabric;
    use antiphon_model::system::System;

    fn of(spec: &str, kind: Kind, changes: &[(&str, &str)]) -> (u64, u64, &'static str) {
        let mut system = System::preset("ideal").unwrap();
        changes.iter().for_each(|(key, value)| system.set(key, value).unwrap());
        let bound = lower_bound(&Fabric::parse(spec).unwrap(), &system, Collective::new(kind), 8000, None).unwrap();
        (bound.computation_ps, bound.time_ps, bound.binding)
    }

    /// 8,000 bytes on four ranks: 24,000 bytes are added, 6,000 by each rank.
    #[test]
    fn additions_by_hand() {
        let slow = [("reduce_rate_gb_per_s", "0.5")];
        for kind in [Kind::AllReduce, Kind::ReduceScatter, Kind::Reduce] {
            assert_eq!(of("ring:4", kind, &slow), (12_000_000, 12_000_000, "computation"), "{kind:?}");
            assert_eq!(of("ring:4", kind, &[]).0, 0);
            assert_eq!(of("ring:4", kind, &[slow[0], ("endpoint", "npu")]).0, 0);
            // Four adders of 0.5 GB/s.
            assert_eq!(of("ring:4", kind, &[("endpoint", "ace:alu_gb_per_s=0.5")]).0, 3_000_000);
        }
        for kind in [Kind::AllGather, Kind::AllToAll, Kind::Broadcast] {
            assert_eq!(of("ring:4", kind, &slow).0, 0, "{kind:?}");
        }
        // Switches add as fast as data come.
        assert_eq!(of("switch:4", Kind::AllReduce, &slow).0, 12_000_000);
        assert_eq!(of("switch:4,switches=in-tree", Kind::AllReduce, &slow).0, 0);
    }
}
