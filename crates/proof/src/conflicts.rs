//! In every slot of a phase each link carries at most one message.

use super::text;
use antiphon_base::error::Result;
use antiphon_base::watch::interruptible;
use antiphon_model::fabric::{Fabric, LinkId};
use antiphon_model::schedule::{Schedule, TransferId};
use num_integer::{ExtendedGcd, Integer};

/// The slots in which one transfer uses each link of its route: `start + k * stride` for `k < count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LinkUse {
    phase: u32,
    stride: u64,
    /// `start` modulo `stride`: uses of equal stride meet only if it is equal.
    residue: u64,
    start: u64,
    count: u64,
    transfer: TransferId,
}

impl LinkUse {
    fn of(schedule: &Schedule, id: TransferId) -> LinkUse {
        let transfer = &schedule.transfers[id as usize];
        let lane = &schedule.lanes[transfer.payload.first() as usize];
        let stride = if lane.chunks > 1 { lane.stride as u64 } else { 1 };
        let start = transfer.step as u64;
        LinkUse { phase: transfer.phase, stride, residue: start % stride, start, count: lane.chunks, transfer: id }
    }

    fn last(&self) -> u128 {
        self.start as u128 + (self.count as u128 - 1) * self.stride as u128
    }
}

/// Checks all links. O(u log u) for u uses of links (total route length), if strides on a link are
/// equal; where they differ, every pair of uses of different stride is compared as well.
///
/// # Errors
/// [`antiphon_base::error::Code::NotProven`], naming link, slot and both transfers.
pub fn check(fabric: &Fabric, schedule: &Schedule) -> Result<()> {
    let channels = schedule.channels(fabric);
    let transfers = || (0..).zip(interruptible(&schedule.transfers));
    // Users of channel `c` are `users[ends[c - 1]..ends[c]]`, when all are there.
    let mut ends = vec![0; fabric.links.len() + 1];
    let mut count = |&link: &LinkId| ends[channels.first_of(link) as usize + 1] += 1;
    transfers().for_each(|(_, transfer)| transfer.route.iter().for_each(&mut count));
    (1..ends.len()).for_each(|channel| ends[channel] += ends[channel - 1]);
    let mut users: Vec<TransferId> = vec![0; ends[fabric.links.len()]];
    for (id, transfer) in transfers() {
        for &link in &transfer.route {
            let end = &mut ends[channels.first_of(link) as usize];
            users[*end] = id;
            *end += 1;
        }
    }
    // One link at a time: a use is large.
    let (mut uses, mut start) = (Vec::new(), 0);
    for (number, &end) in (0..).zip(&ends[..fabric.links.len()]) {
        uses.clear();
        uses.extend(interruptible(&users[start..end]).map(|&id| LinkUse::of(schedule, id)));
        start = end;
        uses.sort_unstable();
        let meeting = uses.chunk_by(|a, b| a.phase == b.phase).find_map(first_meeting);
        if let Some((slot, a, b)) = meeting {
            let link = fabric.link(number);
            return text::not_proven(format!(
                "link {number} (node {} to {}) carries two messages in slot {slot}, though the schedule claims to be \
                 conflict free: {} and {}",
                link.from,
                link.to,
                text::transfer(schedule, a.transfer),
                text::transfer(schedule, b.transfer)
            ));
        }
    }
    Ok(())
}

/// A slot that two of the uses of one link in one phase share. `uses` is sorted.
fn first_meeting(uses: &[LinkUse]) -> Option<(u128, LinkUse, LinkUse)> {
    for class in uses.chunk_by(|a, b| (a.stride, a.residue) == (b.stride, b.residue)) {
        // Sorted by start: if any two overlap, two neighbours do.
        if let Some(pair) = class.windows(2).find(|pair| pair[1].start as u128 <= pair[0].last()) {
            return Some((pair[1].start as u128, pair[0], pair[1]));
        }
    }
    let strides: Vec<&[LinkUse]> = uses.chunk_by(|a, b| a.stride == b.stride).collect();
    for (i, few) in strides.iter().enumerate() {
        for a in *few {
            for b in strides[i + 1..].iter().copied().flatten() {
                if let Some(slot) = meeting(a, b) {
                    return Some((slot, *a, *b));
                }
            }
        }
    }
    None
}

/// The first slot two uses share: the Chinese remainder theorem on their strides.
fn meeting(a: &LinkUse, b: &LinkUse) -> Option<u128> {
    let (low, high) = (a.start.max(b.start) as i128, a.last().min(b.last()) as i128);
    if low > high {
        return None;
    }
    let (stride, other) = (a.stride as i128, b.stride as i128);
    let ExtendedGcd { gcd, x: inverse, .. } = stride.extended_gcd(&other);
    let distance = b.start as i128 - a.start as i128;
    if distance % gcd != 0 {
        return None;
    }
    // start_a + k * stride_a = start_b (mod stride_b); below 2^32 each, so nothing overflows.
    let k = (distance / gcd * inverse).rem_euclid(other / gcd);
    let period = stride / gcd * other;
    let slot = low + (a.start as i128 + k * stride - low).rem_euclid(period);
    (slot <= high).then_some(slot as u128)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_messages_in_one_slot_are_named() {
        let (fabric, mut ring) = ring_all_reduce(4, 64, 1);
        assert_eq!(check(&fabric, &ring), Ok(()));
        let t = ring.transfers.iter().position(|t| t.step == 1 && t.phase == 0).unwrap();
        ring.transfers[t].step = 2;
        assert_has(
            &check(&fabric, &ring).unwrap_err().message,
            &["carries two messages in slot 2", &format!("transfer {t} ("), "conflict free"],
        );
    }

    #[test]
    fn chunks_that_catch_up_are_found() {
        let (fabric, mut tree) = tree_all_reduce(4, 640, 4);
        assert_eq!(check(&fabric, &tree), Ok(()));
        let mut late = tree.transfers[0].clone();
        late.step += 3;
        tree.transfers.push(late);
        assert_has(&check(&fabric, &tree).unwrap_err().message, &["in slot 3", "transfer 0 (", "transfer 6 ("]);
        tree.transfers[6].step += 1;
        assert_eq!(check(&fabric, &tree), Ok(()));
    }

    #[test]
    fn extreme_slots_do_not_overflow() {
        let extreme = |start, stride: u64, count| LinkUse {
            phase: 0,
            stride,
            residue: start % stride,
            start,
            count,
            transfer: 0,
        };
        let max = u32::MAX as u64;
        let (a, b) = (extreme(max, max, 1 << 40), extreme(0, max - 1, 1 << 40));
        assert!(meeting(&a, &b).is_some());
    }

    proptest! {
        #[test]
        fn agrees_with_trying_all(picks in prop::collection::vec((0u64..20, 1u64..7, 1u64..6), 2..5)) {
            let mut uses: Vec<LinkUse> = picks
                .iter()
                .enumerate()
                .map(|(id, &(start, stride, count))| {
                    let stride = if count > 1 { stride } else { 1 };
                    LinkUse { phase: 0, stride, residue: start % stride, start, count, transfer: id as u32 }
                })
                .collect();
            uses.sort_unstable();
            let slots = |u: &LinkUse| -> Vec<u128> { (0..u.count).map(|k| (u.start + k * u.stride) as u128).collect() };
            let meets = |a: &LinkUse, b: &LinkUse| slots(a).into_iter().find(|slot| slots(b).contains(slot));
            let any = uses.iter().enumerate().any(|(i, a)| uses[i + 1..].iter().any(|b| meets(a, b).is_some()));
            let found = first_meeting(&uses);
            prop_assert_eq!(found.is_some(), any);
            if let Some((slot, a, b)) = found {
                prop_assert!(a != b && slots(&a).contains(&slot) && slots(&b).contains(&slot));
            }
        }
    }
}
