//! Figures of a schedule that need no simulation.

use super::{Lane, Op, Schedule, Transfer};
use crate::fabric::{Fabric, LinkId};
use antiphon_base::error::Result;
use antiphon_base::units::Bytes;
use antiphon_base::watch::interruptible;
use serde::Serialize;
use std::collections::HashSet;

/// Steps of one phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PhaseSteps {
    /// Phase name.
    pub name: String,
    /// Slots until its last message has been sent, if every slot takes equally long.
    pub steps: u64,
}

/// Figures of a schedule that need no simulation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stats {
    /// Steps of every phase.
    pub phases: Vec<PhaseSteps>,
    /// Steps over all phases.
    pub steps: u64,
    /// Transfers in the schedule.
    pub transfers: u64,
    /// Messages sent (transfers times chunks).
    pub messages: u64,
    /// Wire bytes (payload and padding, no headers) over every link.
    pub link_bytes: Vec<Bytes>,
    /// Height of the reduction and of the broadcast pattern of every lane: most transfers a
    /// contribution or a result goes through.
    pub reduce_heights: Vec<u32>,
    /// See `reduce_heights`.
    pub copy_heights: Vec<u32>,
    /// Share of links in use in the steady state, in percent: link slots one round of chunks
    /// takes, over links times slots of a round (TTO paper, Table I).
    pub used_links_percent: f64,
}

impl Schedule {
    /// Bytes of memory that its transfers take, about.
    pub fn memory_bytes(&self) -> usize {
        self.transfers.len() * size_of::<Transfer>() + self.lanes.len() * size_of::<Lane>()
    }

    /// Whether another schedule sends the same messages in the same order, whatever made the two, how its phases are
    /// named and how near it claims to be to the optimum: then their runs are the same.
    pub fn sends_the_same(&self, other: &Schedule) -> bool {
        fn what(schedule: &Schedule) -> impl PartialEq {
            let Schedule { schema: _, algorithm: _, certificate: _, phases, .. } = schedule;
            let Schedule { fabric, collective, bytes, matrix, align, ranks, group, excluded, placement, .. } = schedule;
            let Schedule { switches, bundled_links, lanes, transfers, endpoint, conflict_free, .. } = schedule;
            let phases: Vec<_> = phases.iter().map(|phase| (phase.barrier, phase.configuration)).collect();
            let whom = (fabric, collective, bytes, matrix, align, ranks, group, excluded, (placement, switches));
            // Lists of different lengths are told apart at once.
            (whom, conflict_free, transfers.len(), bundled_links, lanes, phases, endpoint, transfers)
        }
        what(self) == what(other)
    }

    /// For every rank of the fabric, or of the whole one of a group, the streams that it passes on: pairs of links by which routes come
    /// in and go out. O(links on routes).
    ///
    /// # Errors
    /// [`antiphon_base::error::Code::BadFile`] for routes over links that the fabric does not have.
    pub fn relays(&self, fabric: &Fabric) -> Result<Vec<u32>> {
        let pairs = interruptible(&self.transfers).flat_map(|transfer| transfer.route.windows(2));
        let streams: HashSet<(LinkId, LinkId)> = pairs.map(|pair| (pair[0], pair[1])).collect();
        if streams.iter().any(|&(link, next)| link.max(next) as usize >= fabric.links.len()) {
            return Err(self.misfit(fabric, "its routes have other links"));
        }
        let mut relays = vec![0; fabric.ranks()];
        for rank in streams.into_iter().filter_map(|(link, _)| fabric.nodes[fabric.link(link).to as usize].rank) {
            relays[rank as usize] += 1;
        }
        Ok(relays)
    }

    /// Computes [`Stats`]. O(lane transfers).
    pub fn stats(&self, fabric: &Fabric) -> Stats {
        let mut steps = vec![0; self.phases.len()];
        let mut rounds = vec![0u64; self.phases.len()];
        let channels = self.channels(fabric);
        let mut link_bytes = vec![0; fabric.links.len()];
        let mut link_slots = 0u64;
        let mut depth: Vec<[u32; 2]> = vec![[0; 2]; self.transfers.len()];
        let mut heights = [vec![0; self.lanes.len()], vec![0; self.lanes.len()]];
        for id in interruptible(self.order()) {
            let transfer = &self.transfers[id as usize];
            let (lane, phase) = (&self.lanes[transfer.payload.first() as usize], transfer.phase as usize);
            let last = self.slot(transfer, lane.chunks - 1) + 1;
            steps[phase] = last.max(steps[phase]);
            let round = if lane.chunks > 1 { lane.stride as u64 } else { last };
            rounds[phase] = round.max(rounds[phase]);
            let bytes = self.message_bytes(transfer).saturating_mul(lane.chunks);
            for first in transfer.route.iter().map(|&link| channels.first_of(link)) {
                link_bytes[first as usize] += bytes;
                link_slots += channels.links(first).len() as u64;
            }
            let mut own = transfer.start_after.iter().fold([0; 2], |most, other| {
                let other = depth[other.transfer() as usize];
                [most[0].max(other[0]), most[1].max(other[1])]
            });
            let kind = usize::from(transfer.op == Op::Copy);
            own[kind] += 1;
            depth[id as usize] = own;
            for lane in transfer.lanes() {
                for (most, height) in heights.iter_mut().zip(own) {
                    most[lane] = height.max(most[lane]);
                }
            }
        }
        // Rates that only the system knows are alike.
        channels.share(&mut link_bytes, |id| fabric.link(id).rate.map_or(1, |rate| rate.0));
        let slots = rounds.iter().map(|&round| round as f64).sum::<f64>() * fabric.links.len() as f64;
        let [reduce_heights, copy_heights] = heights;
        Stats {
            phases: self
                .phases
                .iter()
                .zip(&steps)
                .map(|(phase, &steps)| PhaseSteps { name: phase.name.clone(), steps })
                .collect(),
            steps: steps.iter().fold(0, |sum, steps| sum.saturating_add(*steps)),
            transfers: self.transfers.len() as u64,
            messages: self.messages(),
            link_bytes,
            reduce_heights,
            copy_heights,
            used_links_percent: if slots == 0.0 { 0.0 } else { 100.0 * link_slots as f64 / slots },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Collective, Kind};
    use crate::schedule::Builder;

    /// Both ways over rank 1 are a stream each, however often they are used; ends and switches relay nothing.
    #[test]
    fn streams_that_ranks_pass_on() {
        let line = Fabric::parse("mesh:4").unwrap();
        let mut builder = Builder::new("test", &line, Collective::new(Kind::AllReduce), 64);
        let lane = builder.block((0, 64), 64);
        for (from, to, step) in [(0, 2, 0), (2, 0, 1), (0, 2, 2), (0, 1, 3), (0, 3, 4)] {
            builder.send(Op::Copy, from, to, lane, step).unwrap();
        }
        let schedule = builder.finish().unwrap();
        assert_eq!(schedule.relays(&line).unwrap(), [0, 2, 1, 0]);
        let other = schedule.relays(&Fabric::parse("mesh:2").unwrap()).unwrap_err();
        assert!(other.message.contains("its routes have other links"), "{other}");
        let star = Fabric::parse("switch:4").unwrap();
        let mut builder = Builder::new("test", &star, Collective::new(Kind::AllReduce), 64);
        let lane = builder.block((0, 64), 64);
        builder.send(Op::Copy, 0, 1, lane, 0).unwrap();
        assert_eq!(builder.finish().unwrap().relays(&star).unwrap(), [0; 4]);
    }
}
