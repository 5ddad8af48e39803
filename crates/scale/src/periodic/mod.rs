//! AllReduce on meshes by schedules that a rule describes, chunk after chunk: up to 131,072 ranks, without a list of messages.
//!
//! A described schedule is the listed one of the same name and options, message by message: where both exist, they take the
//! same time to the picosecond, and the same energy. [`combs`] has the recurrence of its times, [`ring`] needs none, since
//! all ranks do the same. [`proof`] checks what a rule says, tree by tree.

mod combs;
mod grid;
mod proof;
mod ring;

pub use grid::Grid;

use crate::Described;
use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::{Bytes, MAX_BYTES, clip};
use antiphon_base::watch::Watch;
use antiphon_model::energy::{Energy, Moved};
use antiphon_model::schedule::Op;
use antiphon_model::system::{Attojoules, Endpoint, System};
use antiphon_sim::Fidelity;
use antiphon_sim::clock::{Clock, MAX_BITS};
use antiphon_sim::cost::{CostModel, LinkCost, MessageCost};

/// The algorithms that are described.
pub const ALGORITHMS: [&str; 2] = ["combs", "ring"];

/// What is asked of a described schedule.
struct DescribedTask<'a> {
    grid: &'a Grid,
    system: &'a System,
    bytes: Bytes,
    fidelity: Fidelity,
    /// The specification, and its options.
    spec: &'a str,
    options: &'a str,
    watch: Watch<'a>,
}

/// AllReduce of so many bytes a rank by `algorithm`, i.e. `combs[:piece=SIZE]` or `ring`: proven, bounded and timed.
///
/// Combs take seconds and 42 MiB on 65,536 ranks, minutes where sums take time; a ring takes no time. With several
/// protocols, the time is that of the fastest.
///
/// # Errors
/// [`Code::BadSize`] for sizes out of range, [`Code::UnknownName`] and [`Code::BadSpec`] for an algorithm or option that is
/// not there, [`Code::NotApplicable`] with what does not hold, [`Code::NotProven`] if the rule is wrong, [`Code::TooLarge`]
/// if times do not fit, [`Code::Interrupted`].
pub fn described(
    grid: &Grid,
    system: &System,
    bytes: Bytes,
    algorithm: &str,
    fidelity: Fidelity,
    watch: Watch,
) -> Result<Described> {
    let (name, options) = algorithm.split_once(':').unwrap_or((algorithm, ""));
    if !ALGORITHMS.contains(&name) {
        let what = format!(
            "no schedule '{}' is described at scale{}; known: {}",
            clip(name),
            nearest(name, ALGORITHMS),
            ALGORITHMS.join(", ")
        );
        return Err(Error::new(Code::UnknownName, what));
    }
    if bytes == 0 || bytes > MAX_BYTES {
        return Err(Error::new(Code::BadSize, format!("{bytes} bytes: expected 1 to 1 PiB")));
    }
    let task = DescribedTask { grid, system, bytes, fidelity, spec: algorithm, options, watch };
    if fidelity == Fidelity::Flit {
        return task.refuse("flits of so many ranks are not simulated; use fidelity packet or alpha-beta");
    }
    if !matches!(system.endpoint, Endpoint::System) {
        return task.refuse("it times no endpoint that reads memory or has an engine; use endpoint=system");
    }
    let (mut fastest, mut bounds): (Option<Described>, Vec<_>) = (None, vec![]);
    for system in system.variants() {
        let task = DescribedTask { system: &system, ..task };
        let one = if name == "ring" { ring::described(&task)? } else { combs::described(&task)? };
        bounds.push((one.bound_ps, one.binding));
        if fastest.as_ref().is_none_or(|best| one.time_ps < best.time_ps) {
            fastest = Some(one);
        }
    }
    let fastest = fastest.expect("a system is a variant of itself at least");
    // What one protocol cannot do in less another one may.
    let (bound_ps, binding) = bounds.into_iter().min().expect("each variant has a bound");
    Ok(Described { bound_ps, binding, ..fastest })
}

impl DescribedTask<'_> {
    /// What messages cost.
    fn costs(&self) -> CostModel<'_> {
        CostModel::new(self.system, self.fidelity)
    }

    /// The clock of a run of so many messages of each cost, as a listed one has it.
    fn clock(&self, messages: [(MessageCost, u128); 2]) -> Clock {
        let (costs, link) = (CostModel::in_packets(self.system), self.grid.link());
        let LinkCost { flit_ps, latency_ps } = costs.link(link);
        let all = messages
            .map(|(message, count)| costs.at_most_ps(&message, 1, flit_ps, latency_ps.into()).saturating_mul(count));
        let longest = all.into_iter().fold(self.system.launch_ps().into(), u128::saturating_add);
        Clock::new(&[costs.flit_ticks(std::iter::once(link), MAX_BITS)], longest, 0)
    }

    /// Energy of a message over one link.
    fn energy(&self, bytes: Bytes, op: Op) -> Attojoules {
        let mut moved = Moved { link_flits: vec![0], ..Moved::default() };
        moved.message(&[0], self.costs().message(bytes, op).flits(), 1, bytes, op == Op::Reduce);
        let energy: Energy = moved.energy(self.system, |_| self.system.link_energy(self.grid.link()), 0, 0);
        energy.dynamic()
    }

    /// The algorithm does not apply, because of `reason`.
    ///
    /// # Errors
    /// [`Code::NotApplicable`], always.
    fn refuse<T>(&self, reason: impl std::fmt::Display) -> Result<T> {
        let what = format!("{} is not described on {}: {reason}", clip(self.spec), self.grid.name());
        Err(Error::new(Code::NotApplicable, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(
        grid: &str,
        algorithm: &str,
        changes: &[(&str, &str)],
        bytes: Bytes,
        fidelity: Fidelity,
    ) -> (Code, String) {
        let mut system = System::preset("generic").unwrap();
        changes.iter().for_each(|(key, value)| system.set(key, value).unwrap());
        let grid = Grid::parse(grid).unwrap();
        let error = described(&grid, &system, bytes, algorithm, fidelity, Watch::default()).unwrap_err();
        (error.code, error.message)
    }

    #[test]
    fn what_is_not_described_is_refused() {
        let packet = Fidelity::Packet;
        for (grid, algorithm, changes, bytes, fidelity, code, what) in [
            ("mesh:4x4", "comb", &[][..], 1 << 20, packet, Code::UnknownName, "did you mean 'combs'?"),
            ("mesh:4x4", "combs", &[], 0, packet, Code::BadSize, "0 bytes"),
            ("mesh:4x4", "combs", &[], 1 << 20, Fidelity::Flit, Code::NotApplicable, "use fidelity packet"),
            ("mesh:4x4", "combs", &[("endpoint", "ideal")], 1 << 20, packet, Code::NotApplicable, "endpoint=system"),
            ("mesh:4x5", "combs", &[], 1 << 20, packet, Code::NotApplicable, "square mesh"),
            ("mesh:4x4", "combs", &[], 16, packet, Code::NotApplicable, "8 trees"),
            ("mesh:4x4", "combs:peace=4", &[], 1 << 20, packet, Code::UnknownName, "did you mean 'piece'?"),
            ("mesh:4x4", "ring:gather=back", &[], 1 << 20, packet, Code::UnknownName, "ring"),
            ("mesh:3x5", "ring", &[], 1 << 20, packet, Code::NotApplicable, "even number"),
            ("mesh:1x6", "ring", &[], 1 << 20, packet, Code::NotApplicable, "two rows"),
        ] {
            let (found, message) = refused(grid, algorithm, changes, bytes, fidelity);
            assert!(found == code && message.contains(what), "{grid} {algorithm}: {found:?} {message}");
        }
    }
}
