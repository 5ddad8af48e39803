//! How soon a schedule can be over: messages wait for others, and links carry one after another.

use super::capacity::{Capacities, Load};
use antiphon_base::units::{Bytes, Picos};
use antiphon_base::watch::interruptible;
use antiphon_model::fabric::{Fabric, LinkId};
use antiphon_model::schedule::{Channels, Dependency, LaneId, Schedule, Transfer, TransferId};
use antiphon_model::system::System;
use antiphon_sim::Fidelity;
use antiphon_sim::cost::{CostModel, Least};

/// Picoseconds that no run of a checked schedule is below, at a fidelity or at any. Every chain of messages takes what each
/// takes by itself; every link waits for the first of its messages, carries all, and the last has its way to go. Phases
/// that wait for all before them begin anew. O(hops and dependencies of all transfers).
pub fn schedule_ps(fabric: &Fabric, system: &System, schedule: &Schedule, fidelity: Option<Fidelity>) -> Picos {
    let chains = Chains {
        fabric,
        schedule,
        costs: CostModel::in_packets(system),
        capacities: Capacities::new(fabric, system),
        channels: schedule.channels(fabric),
        hand_off_ps: Least::of(system, fidelity).hand_off_ps,
        cuts_chunks: system.endpoint.chunk().is_some(),
    };
    let order = schedule.order();
    let starts_anew = |&one: &TransferId, &next: &TransferId| {
        let [one, next] = [one, next].map(|id| schedule.transfers[id as usize].phase as usize);
        !schedule.phases[one + 1..=next].iter().any(|phase| phase.barrier)
    };
    let mut times = vec![TransferTimes::default(); schedule.transfers.len()];
    let parts = order.chunk_by(starts_anew).map(|part| chains.part_ps(part, &mut times));
    parts.fold(system.launch_ps(), Picos::saturating_add)
}

struct Chains<'a> {
    fabric: &'a Fabric,
    schedule: &'a Schedule,
    costs: CostModel<'a>,
    capacities: Capacities,
    channels: Channels,
    /// From the arrival of a message at a rank to what waits for it.
    hand_off_ps: Picos,
    /// Whether endpoints cut chunks into their own, which go on one by one.
    cuts_chunks: bool,
}

/// When chunks of a transfer are there at the earliest, and how long what waits for them takes; in picoseconds.
#[derive(Clone, Copy, Default)]
struct TransferTimes {
    start: Picos,
    first: Picos,
    last: Picos,
    after: Picos,
    /// Whether it is of the part at hand and has been looked at.
    is_known: bool,
}

/// What a transfer takes by itself, in picoseconds.
struct AloneTimes {
    /// Latencies of its links and, at a rank, the hand-over.
    way: Picos,
    first_chunk: Picos,
    last_chunk: Picos,
    all_chunks: Picos,
}

/// What is known of a channel: when its first message comes, what it carries, and the shortest way of its last message.
#[derive(Clone, Copy)]
struct ChannelUse {
    start: Picos,
    bytes: u128,
    after: Picos,
}

impl Chains<'_> {
    /// Picoseconds that transfers take from the start of the first, which wait for no others than each other.
    fn part_ps(&self, part: &[TransferId], times: &mut [TransferTimes]) -> Picos {
        let mut end = 0;
        for &id in interruptible(part) {
            let transfer = &self.schedule.transfers[id as usize];
            let alone = self.alone(transfer);
            let [start, last_start] = self.latest(transfer, &transfer.start_after, times);
            let [first_held, last_held] = self.latest(transfer, &transfer.apply_after, times);
            let all_sent = sum([start, alone.all_chunks]).max(sum([last_start, alone.last_chunk]));
            let first = sum([start, alone.first_chunk, alone.way]).max(first_held);
            let last = sum([all_sent, alone.way]).max(last_held);
            times[id as usize] = TransferTimes { start, first, last, after: 0, is_known: true };
            end = end.max(last);
        }
        let unused = ChannelUse { start: Picos::MAX, bytes: 0, after: Picos::MAX };
        let mut used = vec![unused; self.fabric.links.len()];
        for &id in interruptible(part).collect::<Vec<_>>().into_iter().rev() {
            let transfer = &self.schedule.transfers[id as usize];
            let TransferTimes { start, after, .. } = times[id as usize];
            let alone = self.alone(transfer);
            for (dependencies, own) in
                [(&transfer.start_after[..], sum([alone.last_chunk, alone.way])), (&transfer.apply_after[..], 0)]
            {
                for before in dependencies.iter().filter(|&before| self.is_of_chunks(transfer, before)) {
                    let before = &mut times[before.transfer() as usize];
                    before.after = before.after.max(sum([own, after]));
                }
            }
            let bytes = self.bytes(transfer);
            let mut passed = 0;
            for &link in &transfer.route {
                let channel = &mut used[self.channels.first_of(link) as usize];
                channel.start = channel.start.min(sum([start, passed]));
                channel.bytes += u128::from(bytes);
                channel.after = channel.after.min(sum([alone.way.saturating_sub(passed), after]));
                passed = sum([passed, self.latency_ps(link)]);
            }
        }
        part.iter().for_each(|&id| times[id as usize].is_known = false);
        let on_channel = |(first, channel): (usize, &ChannelUse)| {
            let load = Load { bytes: channel.bytes, capacity: self.capacity(first as LinkId) };
            sum([channel.start, self.capacities.time(load), channel.after])
        };
        let busy = used.iter().enumerate().filter(|(_, channel)| channel.bytes > 0).map(on_channel);
        busy.fold(end, Picos::max)
    }

    /// When the first and the last chunks are there that a transfer's wait for.
    fn latest(&self, transfer: &Transfer, dependencies: &[Dependency], times: &[TransferTimes]) -> [Picos; 2] {
        let mut latest = [0; 2];
        for dependency in dependencies.iter().filter(|&each| self.is_of_chunks(transfer, each)) {
            let before = &times[dependency.transfer() as usize];
            if before.is_known {
                latest = [latest[0].max(before.first), latest[1].max(before.last)];
            }
        }
        latest
    }

    /// Whether every chunk waits for the same chunk of another transfer to be there.
    fn is_of_chunks(&self, transfer: &Transfer, dependency: &Dependency) -> bool {
        let before = &self.schedule.transfers[dependency.transfer() as usize];
        dependency.is_plain() && self.schedule.chunks(before) == self.schedule.chunks(transfer)
    }

    fn alone(&self, transfer: &Transfer) -> AloneTimes {
        let schedule = self.schedule;
        let capacity = transfer.route.iter().map(|&link| self.capacity(self.channels.first_of(link))).min();
        let bytes = self.bytes(transfer);
        let Some(capacity) = capacity.filter(|_| bytes > 0) else {
            return AloneTimes { way: 0, first_chunk: 0, last_chunk: 0, all_chunks: 0 };
        };
        let time = |bytes: Bytes| self.capacities.time(Load { bytes: bytes.into(), capacity });
        let chunk = |number: u64| {
            let ranges = transfer.lanes().map(|lane| schedule.chunk_range(lane as LaneId, number));
            if self.cuts_chunks { 0 } else { time(ranges.map(|range| range.end - range.start).sum()) }
        };
        let hand_off_ps = if transfer.to < schedule.ranks { self.hand_off_ps } else { 0 };
        AloneTimes {
            way: sum(transfer.route.iter().map(|&link| self.latency_ps(link)).chain([hand_off_ps])),
            first_chunk: chunk(0),
            last_chunk: chunk(schedule.chunks(transfer) - 1),
            all_chunks: time(bytes),
        }
    }

    fn latency_ps(&self, link: LinkId) -> Picos {
        self.costs.link(self.fabric.link(link)).latency_ps
    }

    /// Payload of all chunks.
    fn bytes(&self, transfer: &Transfer) -> Bytes {
        transfer.lanes().map(|lane| self.schedule.lanes[lane].bytes).sum()
    }

    /// Capacity of the channel that a link stands for.
    fn capacity(&self, first: LinkId) -> u128 {
        self.channels.links(first).iter().map(|&link| self.capacities.links[link as usize]).sum()
    }
}

/// Times one after the other, or the largest time.
fn sum(times: impl IntoIterator<Item = Picos>) -> Picos {
    times.into_iter().fold(0, Picos::saturating_add)
}
