//! How soon a schedule can be over: messages wait for others, and links carry one after another.

use super::capacity::{Capacities, Load};
use antiphon_base::units::{Bytes, Picos};
use antiphon_base::watch::interruptible;
use antiphon_model::fabric::{Fabric, LinkId};
use antiphon_model::schedule::{Channels, Dependency, LaneId, Schedule, Transfer, TransferId};
use antiphon_model::system::System;
use antiphon_sim::Fidelity;
use antiphon_sim::cost::Least;

/// Picoseconds that no run of a checked schedule is below, at a fidelity or at any. Every chain of messages takes what each
/// takes by itself. Every link waits for the first of its messages, carries all, and the last still has its way to go. A
/// barrier divides a schedule into parts, which follow each other. Of several protocols a run takes the fastest. O(hops,
/// lanes and dependencies of all transfers).
pub fn schedule_ps(fabric: &Fabric, system: &System, schedule: &Schedule, fidelity: Option<Fidelity>) -> Picos {
    let times = system.variants().into_iter().map(|system| by_protocol(fabric, &system, schedule, fidelity));
    times.min().unwrap_or(0)
}

/// The same with the only protocol of a system.
fn by_protocol(fabric: &Fabric, system: &System, schedule: &Schedule, fidelity: Option<Fidelity>) -> Picos {
    if schedule.transfers.is_empty() {
        return 0;
    }
    let chains = Chains {
        fabric,
        system,
        schedule,
        capacities: Capacities::new(fabric, system),
        channels: schedule.channels(fabric),
        hand_off_ps: Least::of(system, fidelity).hand_off_ps,
        cuts_chunks: system.endpoint.chunk().is_some(),
    };
    let order = schedule.order();
    let is_same_part = |&one: &TransferId, &next: &TransferId| {
        let [one, next] = [one, next].map(|id| schedule.transfers[id as usize].phase as usize);
        !schedule.phases[one + 1..=next].iter().any(|phase| phase.barrier)
    };
    let mut times = vec![TransferTimes::default(); schedule.transfers.len()];
    let mut used = vec![ChannelUse::NONE; fabric.links.len()];
    let parts = order.chunk_by(is_same_part).map(|part| chains.part_ps(part, &mut times, &mut used));
    parts.fold(system.launch_ps(), Picos::saturating_add)
}

struct Chains<'a> {
    fabric: &'a Fabric,
    system: &'a System,
    schedule: &'a Schedule,
    capacities: Capacities,
    channels: Channels,
    /// From the arrival of a message at a rank to what waits for it.
    hand_off_ps: Picos,
    /// Whether endpoints cut chunks into their own, which go on one by one.
    cuts_chunks: bool,
}

/// Picoseconds of a transfer from the start of its part, at the earliest.
#[derive(Clone, Copy, Default)]
struct TransferTimes {
    /// When its first chunk may leave.
    start: Picos,
    /// When a chunk of it has been applied, and when all have: chunks may overtake each other, and none is smaller than the
    /// last.
    first: Picos,
    all: Picos,
    /// From then to the end of the part.
    after: Picos,
    /// Whether it is of the part at hand and has been looked at.
    is_known: bool,
}

/// What a transfer takes by itself, in picoseconds, and its payload.
#[derive(Clone, Copy, Default)]
struct AloneTimes {
    /// Latencies of its links and, at a rank, the hand-off.
    way: Picos,
    first_chunk: Picos,
    last_chunk: Picos,
    all_chunks: Picos,
    bytes: Bytes,
}

/// What a channel does in a part: when a message first comes to it, what it carries, and the least time from the end of a
/// message on it to the end of the part.
#[derive(Clone, Copy)]
struct ChannelUse {
    start: Picos,
    bytes: u128,
    after: Picos,
}

impl ChannelUse {
    const NONE: ChannelUse = ChannelUse { start: Picos::MAX, bytes: 0, after: Picos::MAX };
}

impl Chains<'_> {
    /// Picoseconds that a part takes: transfers that wait for no others than each other. `used` is unused before and after.
    fn part_ps(&self, part: &[TransferId], times: &mut [TransferTimes], used: &mut [ChannelUse]) -> Picos {
        let mut end = 0;
        for &id in interruptible(part) {
            let transfer = &self.schedule.transfers[id as usize];
            let alone = self.alone(transfer);
            let [start, start_of_all] = self.latest(transfer, &transfer.start_after, times);
            let [first_held, all_held] = self.latest(transfer, &transfer.apply_after, times);
            let all_sent = sum([start, alone.all_chunks]).max(sum([start_of_all, alone.last_chunk]));
            let first = sum([start, alone.first_chunk, alone.way]).max(first_held);
            let all = sum([all_sent, alone.way]).max(all_held);
            times[id as usize] = TransferTimes { start, first, all, after: 0, is_known: true };
            end = end.max(all);
        }
        for &id in interruptible(part.iter().rev()) {
            let transfer = &self.schedule.transfers[id as usize];
            let TransferTimes { start, after, .. } = times[id as usize];
            let alone = self.alone(transfer);
            let waits =
                [(&transfer.start_after[..], sum([alone.last_chunk, alone.way])), (&transfer.apply_after[..], 0)];
            for (dependencies, own) in waits {
                for before in dependencies.iter().filter(|&before| self.is_of_chunks(transfer, before)) {
                    let before = &mut times[before.transfer() as usize];
                    before.after = before.after.max(sum([own, after]));
                }
            }
            let mut passed = 0;
            for &link in &transfer.route {
                let channel = &mut used[self.channels.first_of(link) as usize];
                channel.start = channel.start.min(sum([start, passed]));
                channel.bytes += u128::from(alone.bytes);
                channel.after = channel.after.min(sum([alone.way.saturating_sub(passed), after]));
                passed = sum([passed, self.system.latency_of(self.fabric.link(link))]);
            }
        }
        for &id in part {
            times[id as usize].is_known = false;
            for &link in &self.schedule.transfers[id as usize].route {
                let first = self.channels.first_of(link);
                let ChannelUse { start, bytes, after } = std::mem::replace(&mut used[first as usize], ChannelUse::NONE);
                if bytes > 0 {
                    let load = Load { bytes, capacity: self.capacities.of_channel(self.channels.links(first)) };
                    end = end.max(sum([start, self.capacities.time(load), after]));
                }
            }
        }
        end
    }

    /// When a first chunk, and when all chunks, may leave or be applied: those of the same numbers have been applied before.
    fn latest(&self, transfer: &Transfer, dependencies: &[Dependency], times: &[TransferTimes]) -> [Picos; 2] {
        let mut latest = [0; 2];
        for dependency in dependencies.iter().filter(|&each| self.is_of_chunks(transfer, each)) {
            let before = &times[dependency.transfer() as usize];
            if before.is_known {
                latest = [latest[0].max(before.first), latest[1].max(before.all)];
            }
        }
        latest
    }

    /// Whether every chunk waits until the same chunk of another transfer has been applied.
    fn is_of_chunks(&self, transfer: &Transfer, dependency: &Dependency) -> bool {
        let before = &self.schedule.transfers[dependency.transfer() as usize];
        dependency.is_plain() && self.schedule.chunks(before) == self.schedule.chunks(transfer)
    }

    /// Of a transfer without payload or links all is zero, which is less than it takes.
    fn alone(&self, transfer: &Transfer) -> AloneTimes {
        let schedule = self.schedule;
        let bytes: Bytes = transfer.lanes().map(|lane| schedule.lanes[lane].bytes).sum();
        let channel = |&link: &LinkId| self.capacities.of_channel(self.channels.links(self.channels.first_of(link)));
        let Some(capacity) = transfer.route.iter().map(channel).min().filter(|_| bytes > 0) else {
            return AloneTimes::default();
        };
        let time = |bytes: Bytes| self.capacities.time(Load { bytes: bytes.into(), capacity });
        let chunk = |number: u64| {
            let ranges = transfer.lanes().map(|lane| schedule.chunk_range(lane as LaneId, number));
            if self.cuts_chunks { 0 } else { time(ranges.map(|range| range.end - range.start).sum()) }
        };
        let latencies = transfer.route.iter().map(|&link| self.system.latency_of(self.fabric.link(link)));
        let hand_off_ps = if transfer.to < schedule.ranks { self.hand_off_ps } else { 0 };
        AloneTimes {
            way: sum(latencies.chain([hand_off_ps])),
            first_chunk: chunk(0),
            last_chunk: chunk(schedule.chunks(transfer) - 1),
            all_chunks: time(bytes),
            bytes,
        }
    }
}

/// Times one after the other; the largest that there is if they are more.
fn sum(times: impl IntoIterator<Item = Picos>) -> Picos {
    times.into_iter().fold(0, Picos::saturating_add)
}
