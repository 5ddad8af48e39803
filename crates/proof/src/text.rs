//! Wording shared by all counter-examples.

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::clip;
use antiphon_model::schedule::{Schedule, TransferId};

/// A counter-example.
pub fn not_proven<T>(what: impl AsRef<str>) -> Result<T> {
    Err(Error::new(Code::NotProven, what))
}

/// `lane 3 (bytes 0..4096)`.
pub fn lane(schedule: &Schedule, id: usize) -> String {
    let lane = &schedule.lanes[id];
    format!("lane {id} (bytes {}..{})", lane.offset, lane.offset + lane.bytes)
}

/// `phase 'reduce-scatter' step 4`.
pub fn moment(schedule: &Schedule, id: TransferId) -> String {
    let transfer = &schedule.transfers[id as usize];
    let phase = clip(&schedule.phases[transfer.phase as usize].name);
    format!("phase '{phase}' step {}", transfer.step)
}

/// `transfer 17 (rank 4 to 5, phase 'reduce-scatter' step 4)`.
pub fn transfer(schedule: &Schedule, id: TransferId) -> String {
    let transfer = &schedule.transfers[id as usize];
    format!("transfer {id} (rank {} to {}, {})", transfer.from, transfer.to, moment(schedule, id))
}

/// `rank 2`, `ranks 2, 3`, or `ranks 0, 1, 2, 3 and 60 more`.
pub fn ranks(list: &[u32]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<String> = list.iter().take(SHOWN).map(u32::to_string).collect();
    let noun = if list.len() == 1 { "rank" } else { "ranks" };
    match list.len().saturating_sub(SHOWN) {
        0 => format!("{noun} {}", shown.join(", ")),
        more => format!("{noun} {} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn long_rank_lists_are_cut() {
        assert_eq!(super::ranks(&[7]), "rank 7");
        assert_eq!(super::ranks(&[7, 8]), "ranks 7, 8");
        assert_eq!(super::ranks(&[0, 1, 2, 3, 4, 5]), "ranks 0, 1, 2, 3 and 2 more");
    }
}
