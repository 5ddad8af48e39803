//! Lanes tile the data.

use super::{participation, text};
use antiphon_base::error::Result;
use antiphon_base::units::Bytes;
use antiphon_model::collective::Kind;
use antiphon_model::schedule::Schedule;

/// Checks that the lanes with data partition the buffer (for AllToAll: the buffer of every source)
/// and that each lies in the shard of the rank it belongs to. O(lanes log lanes).
///
/// # Errors
/// [`antiphon_base::error::Code::NotProven`], naming the first byte range that is missing, doubled or in
/// the wrong shard.
pub fn check(schedule: &Schedule) -> Result<()> {
    let kind = schedule.collective.kind;
    let takes_part = participation(schedule);
    let participants: Vec<u32> = (0..schedule.ranks).filter(|&r| takes_part[r as usize]).collect();
    if participants.is_empty() {
        return text::not_proven("every rank is excluded");
    }
    let root = schedule.collective.root;
    if kind.rooted() && !takes_part[root as usize] {
        return text::not_proven(format!("rank {root} is the root, but excluded"));
    }
    check_tiles(schedule, &participants, tiles(schedule, &participants)?)
}

/// (source whose buffer it is, offset, lane) of every lane with data, each within the shard of its rank.
fn tiles(schedule: &Schedule, participants: &[u32]) -> Result<Vec<(u32, Bytes, usize)>> {
    let (kind, data) = (schedule.collective.kind, schedule.data());
    let part = |source: u32, rank: u32| {
        let index = participants.binary_search(&rank).ok()?;
        let (start, length) = data.part(participants.len(), source as usize, index);
        Some(start..start + length)
    };
    let mut tiles = Vec::with_capacity(schedule.lanes.len());
    for (id, lane) in schedule.lanes.iter().enumerate().filter(|(_, lane)| lane.bytes > 0) {
        let buffer = if kind == Kind::AllToAll { lane.source } else { 0 };
        if kind == Kind::AllToAll && participants.binary_search(&buffer).is_err() {
            return text::not_proven(format!("{}: its source rank {buffer} is excluded", text::lane(schedule, id)));
        }
        let holder = match kind {
            Kind::ReduceScatter | Kind::AllToAll => Some(lane.owner),
            Kind::AllGather => Some(lane.source),
            Kind::AllReduce | Kind::Broadcast | Kind::Reduce => None,
        };
        if let Some(rank) = holder {
            let Some(range) = part(lane.source, rank) else {
                return text::not_proven(format!("{}: its rank {rank} is excluded", text::lane(schedule, id)));
            };
            if lane.offset < range.start || lane.offset + lane.bytes > range.end {
                let lane = text::lane(schedule, id);
                return text::not_proven(format!("{lane} is not within the shard of rank {rank} (bytes {range:?})"));
            }
        }
        tiles.push((buffer, lane.offset, id));
    }
    tiles.sort_unstable();
    Ok(tiles)
}

/// Checks that sorted tiles cover every buffer without gaps or overlaps.
fn check_tiles(schedule: &Schedule, participants: &[u32], tiles: Vec<(u32, Bytes, usize)>) -> Result<()> {
    let is_all_to_all = schedule.collective.kind == Kind::AllToAll;
    let mut tiles = tiles.into_iter().peekable();
    for &buffer in if is_all_to_all { participants } else { &[0] } {
        let whose = if is_all_to_all { format!(" of rank {buffer}'s buffer") } else { String::new() };
        let mut covered = 0;
        while let Some((_, offset, id)) = tiles.next_if(|tile| tile.0 == buffer) {
            if offset > covered {
                return text::not_proven(format!("bytes {covered}..{offset}{whose} are in no lane"));
            }
            if offset < covered {
                let lane = text::lane(schedule, id);
                return text::not_proven(format!(
                    "{lane} overlaps another lane; bytes up to {covered}{whose} have one"
                ));
            }
            covered = offset + schedule.lanes[id].bytes;
        }
        let end = schedule.data().buffer(buffer as usize);
        if covered < end {
            return text::not_proven(format!("bytes {covered}..{end}{whose} are in no lane"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;

    fn broken(schedule: &Schedule, change: impl Fn(&mut Schedule)) -> String {
        assert_eq!(check(schedule), Ok(()));
        let mut schedule = schedule.clone();
        change(&mut schedule);
        check(&schedule).unwrap_err().message
    }

    #[test]
    fn lanes_partition_the_buffer() {
        let (_, ring) = ring_all_reduce(4, 64, 1);
        assert_has(&broken(&ring, |s| s.lanes[1].bytes = 12), &["bytes 28..32 are in no lane"]);
        assert_has(&broken(&ring, |s| s.lanes[1].bytes = 20), &["lane 2 (bytes 32..48) overlaps", "up to 36"]);
        assert_has(&broken(&ring, |s| s.lanes[3].bytes = 0), &["bytes 48..64 are in no lane"]);
        assert_has(&broken(&ring, |s| s.excluded = vec![0, 1, 2, 3]), &["every rank is excluded"]);
    }

    #[test]
    fn lanes_lie_in_the_shard_of_their_rank() {
        let (_, scatter) = ring_reduce_scatter(4, 64);
        assert_has(
            &broken(&scatter, |s| s.lanes[1].owner = 2),
            &["lane 1 (bytes 16..32)", "shard of rank 2 (bytes 32..48)"],
        );
        assert_has(&broken(&scatter, |s| s.excluded = vec![1]), &["lane 1 (bytes 16..32): its rank 1 is excluded"]);
        let (_, gather) = ring_all_gather(4, 64);
        assert_has(&broken(&gather, |s| s.lanes[3].source = 0), &["shard of rank 0 (bytes 0..16)"]);
    }

    #[test]
    fn every_source_of_an_all_to_all_has_all_bytes() {
        let (_, direct) = direct_all_to_all(3, 60);
        let id = direct.lanes.iter().position(|l| (l.source, l.owner) == (1, 2)).unwrap();
        assert_has(&broken(&direct, |s| s.lanes[id].bytes = 0), &["bytes 40..60 of rank 1's buffer are in no lane"]);
        assert_has(
            &broken(&direct, |s| s.excluded = vec![2]),
            &["lane 1 (bytes 20..40)", "shard of rank 1 (bytes 28..60)"],
        );
    }

    #[test]
    fn the_root_takes_part() {
        let (_, broadcast) = tree_broadcast(4, 64, 2);
        let root = broadcast.collective.root;
        assert_has(
            &broken(&broadcast, |s| s.excluded = vec![root]),
            &[&format!("rank {root} is the root, but excluded")],
        );
    }

    #[test]
    fn excluded_ranks_have_no_buffer_in_an_all_to_all() {
        // Three ranks of which the last takes no part: it neither has nor wants anything.
        let (_, mut direct) = direct_all_to_all(2, 64);
        (direct.ranks, direct.excluded) = (3, vec![2]);
        assert_has(
            &broken(&direct, |s| {
                let lane = s.lanes[0].clone();
                s.lanes.push(antiphon_model::schedule::Lane { source: 2, ..lane });
            }),
            &["lane 4 (bytes 0..32): its source rank 2 is excluded"],
        );
    }

    #[test]
    fn empty_lanes_may_lie_anywhere() {
        let (_, mut scatter) = ring_reduce_scatter(4, 64);
        let lane = scatter.lanes[3].clone();
        scatter.lanes.push(antiphon_model::schedule::Lane { offset: 2, bytes: 0, ..lane });
        assert_eq!(check(&scatter), Ok(()));
    }
}
