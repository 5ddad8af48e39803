//! The progress of one rank of a running schedule, for any carrier of its messages: threads of this process, MPI,
//! sockets.

use crate::Finality;
use antiphon_base::watch::checkpoint;
use antiphon_model::schedule::{Action, Dependency, Event, Instruction, Issue, Program, Schedule, Stream, TransferId};
use std::collections::HashMap;

/// The progress of one rank of a running schedule: its streams, each with messages in order. Moves no data.
///
/// The carrier asks [`Self::next_send`] until it says `None`, and reports [`Self::sent`] when the data of a send are no
/// longer needed. It applies arrived messages one at a time as [`Self::may_apply`] allows, and reports
/// [`Self::applied`].
#[derive(Debug, Clone)]
pub struct RankProgress {
    streams: Vec<StreamQueue>,
    /// Barriers: messages to be applied here before each, after the one before.
    before_barriers: Vec<u64>,
    /// Barriers that are open everywhere.
    opened: usize,
    /// Where sends go slot by slot: the messages of each slot that have not started, and the first slot that has any.
    slots: Option<(Vec<u64>, usize)>,
    left: u64,
    /// Stream and step of every transfer that comes.
    arrivals: HashMap<TransferId, (u32, u32)>,
    finality: Option<Finality>,
}

/// One stream.
#[derive(Debug, Clone)]
struct StreamQueue {
    peer: u32,
    sends: bool,
    steps: Vec<StreamStep>,
    /// Of every message: its step, chunk, and the number of its slot where that counts.
    messages: Vec<(u32, u32, u32)>,
    started: usize,
    done: usize,
}

/// One transfer, at this end of it.
#[derive(Debug, Clone)]
struct StreamStep {
    transfer: TransferId,
    action: Action,
    /// Barriers that must be open.
    barriers: usize,
    /// For what arrives: the first barrier that waits for it.
    holds: Option<usize>,
    /// Stream and step here, and the lag.
    waits: Vec<(u32, u32, u64)>,
    /// Chunks sent or applied.
    done: u64,
}

/// A message at one of its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankMessage {
    /// Number of the stream at its rank.
    pub stream: usize,
    /// The transfer.
    pub transfer: TransferId,
    /// The chunk of it.
    pub chunk: u64,
    /// What is done with it.
    pub action: Action,
    step: u32,
}

impl RankProgress {
    /// The start of a rank of a checked schedule of at most 2^32 chunks a lane. `program` is that of all ranks.
    /// O(messages of the rank).
    pub fn new(schedule: &Schedule, program: &Program, rank: u32) -> RankProgress {
        checkpoint();
        let streams = &program.ranks[rank as usize].streams;
        let mut places: HashMap<(TransferId, Event), (u32, u32)> = HashMap::new();
        for (stream, of_stream) in (0..).zip(streams) {
            let event = if of_stream.sends { Event::Sent } else { Event::Applied };
            places.extend((0..).zip(&of_stream.instructions).map(|(at, i)| ((i.transfer, event), (stream, at))));
        }
        let barriers: Vec<u32> = (0..).zip(&schedule.phases).filter(|(_, p)| p.barrier).map(|(id, _)| id).collect();
        let queue = |stream: &Stream| StreamQueue::new(schedule, stream, &places, &barriers);
        let mut streams: Vec<StreamQueue> = streams.iter().map(queue).collect();
        let mut before_barriers = vec![0; barriers.len()];
        for queue in &streams {
            let held = queue.messages.iter().filter_map(|&(at, ..)| queue.steps[at as usize].holds);
            held.for_each(|barrier| before_barriers[barrier] += 1);
        }
        let left = streams.iter().map(|queue| queue.messages.len() as u64).sum();
        let slots = (schedule.endpoint.issue != Issue::Links).then(|| (number_slots(schedule, &mut streams), 0));
        let arrivals = places
            .into_iter()
            .filter(|((_, event), _)| *event == Event::Applied)
            .map(|((id, _), at)| (id, at))
            .collect();
        RankProgress { streams, before_barriers, opened: 0, slots, left, arrivals, finality: None }
    }

    /// From now on, [`Self::final_parts`] says which parts of the rank's memory are final.
    pub fn watch(&mut self, finality: Finality) {
        self.finality = Some(finality);
    }

    /// Watched parts that have become final since this was asked last.
    pub fn final_parts(&mut self) -> Vec<u32> {
        self.finality.as_mut().map_or(vec![], Finality::take)
    }

    /// Of every stream: the other rank, and whether it sends.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = (u32, bool)> + '_ {
        self.streams.iter().map(|queue| (queue.peer, queue.sends))
    }

    /// Whether all messages of this rank are sent and applied.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// The next message of a stream that sends, which from now on counts as started; `None` while it must wait.
    pub fn next_send(&mut self, stream: usize) -> Option<RankMessage> {
        let message = self.next(stream)?;
        let slot = self.streams[stream].messages[self.streams[stream].started].2 as usize;
        if self.slots.as_ref().is_some_and(|&(_, now)| slot > now)
            || self.streams[stream].steps[message.step as usize].barriers > self.opened
            || !self.is_ready(&message)
        {
            return None;
        }
        self.streams[stream].started += 1;
        if let Some((unstarted, now)) = &mut self.slots {
            unstarted[slot] -= 1;
            while unstarted.get(*now) == Some(&0) {
                *now += 1;
            }
        }
        Some(message)
    }

    /// The next message that will arrive on a stream, which from now on counts as expected; `None` after the last.
    /// Messages of one stream arrive in this order where the carrier keeps it.
    pub fn next_receive(&mut self, stream: usize) -> Option<RankMessage> {
        let message = self.next(stream)?;
        self.streams[stream].started += 1;
        Some(message)
    }

    /// A message that has come, for carriers that do not keep the order of a stream; `None` if the rank expects none.
    pub fn arrival(&self, transfer: TransferId, chunk: u64) -> Option<RankMessage> {
        let &(stream, step) = self.arrivals.get(&transfer)?;
        let StreamStep { transfer, action, .. } = self.streams[stream as usize].steps[step as usize];
        Some(RankMessage { stream: stream as usize, transfer, chunk, action, step })
    }

    /// Whether what has arrived may be added or stored now.
    pub fn may_apply(&self, message: &RankMessage) -> bool {
        self.streams[message.stream].steps[message.step as usize].done == message.chunk && self.is_ready(message)
    }

    /// The data of the oldest send of its transfer are no longer needed.
    pub fn sent(&mut self, message: &RankMessage) {
        self.count(message);
    }

    /// What arrived has been added or stored.
    pub fn applied(&mut self, message: &RankMessage) {
        self.count(message);
        if let Some(finality) = &mut self.finality {
            finality.applied(message.transfer, message.chunk);
        }
        if let Some(barrier) = self.streams[message.stream].steps[message.step as usize].holds {
            self.before_barriers[barrier] -= 1;
        }
    }

    /// Barriers, from the first on, before which nothing is left to apply here. A barrier is open when all ranks have
    /// reached it.
    pub fn reached(&self) -> usize {
        self.before_barriers.iter().take_while(|&&left| left == 0).count()
    }

    /// The first `barriers` are open.
    pub fn open(&mut self, barriers: usize) {
        self.opened = self.opened.max(barriers);
    }

    /// The first message, in the order of service, that has still to arrive here, else to leave. A stalled execution
    /// waits for it.
    pub fn waits_for(&self, schedule: &Schedule) -> Option<RankMessage> {
        let unfinished = self.streams.iter().enumerate().filter(|(_, queue)| queue.done < queue.messages.len());
        let next = unfinished.map(|(id, queue)| queue.message(id, queue.done));
        next.min_by_key(|message| {
            let transfer = &schedule.transfers[message.transfer as usize];
            let sends = message.action == Action::Send;
            (sends, transfer.phase, schedule.slot(transfer, message.chunk), message.transfer)
        })
    }

    fn next(&self, stream: usize) -> Option<RankMessage> {
        let queue = &self.streams[stream];
        (queue.started < queue.messages.len()).then(|| queue.message(stream, queue.started))
    }

    /// Whether all that a message waits for at this rank has happened.
    pub fn is_ready(&self, message: &RankMessage) -> bool {
        let waits = &self.streams[message.stream].steps[message.step as usize].waits;
        let happened = |stream: u32, at: u32| self.streams[stream as usize].steps[at as usize].done;
        waits.iter().all(|&(stream, at, lag)| happened(stream, at) + lag > message.chunk)
    }

    fn count(&mut self, message: &RankMessage) {
        let queue = &mut self.streams[message.stream];
        queue.done += 1;
        queue.steps[message.step as usize].done += 1;
        self.left -= 1;
    }
}

/// Numbers the slots of all sends in order; gives how many messages each has.
fn number_slots(schedule: &Schedule, streams: &mut [StreamQueue]) -> Vec<u64> {
    let slot_of = |step: &StreamStep, chunk: u32| {
        let transfer = &schedule.transfers[step.transfer as usize];
        (transfer.phase, schedule.slot(transfer, chunk as u64))
    };
    let sends = streams.iter().filter(|queue| queue.sends);
    let of_queue = |queue: &StreamQueue| {
        let slots = queue.messages.iter().map(|&(at, chunk, _)| slot_of(&queue.steps[at as usize], chunk));
        slots.collect::<Vec<_>>()
    };
    let mut slots: Vec<(u32, u64)> = sends.flat_map(of_queue).collect();
    slots.sort_unstable();
    slots.dedup();
    let mut unstarted = vec![0; slots.len()];
    for queue in streams.iter_mut().filter(|queue| queue.sends) {
        for (at, chunk, number) in &mut queue.messages {
            let own = slot_of(&queue.steps[*at as usize], *chunk);
            let slot = slots.partition_point(|&slot| slot < own);
            unstarted[slot] += 1;
            *number = slot as u32;
        }
    }
    unstarted
}

impl StreamQueue {
    /// `places` are the stream and step of every event here; `barriers` are the phases that have one.
    fn new(
        schedule: &Schedule,
        stream: &Stream,
        places: &HashMap<(TransferId, Event), (u32, u32)>,
        barriers: &[u32],
    ) -> StreamQueue {
        let wait = |wait: &Dependency| {
            let (stream, at) = places[&(wait.transfer(), wait.event())];
            (stream, at, wait.lag() as u64)
        };
        let step = |instruction: &Instruction| {
            let phase = schedule.transfers[instruction.transfer as usize].phase;
            StreamStep {
                transfer: instruction.transfer,
                action: instruction.action,
                barriers: barriers.partition_point(|&barrier| barrier <= phase),
                holds: barriers.iter().position(|&barrier| barrier > phase).filter(|_| !stream.sends),
                waits: instruction.waits.iter().map(wait).collect(),
                done: 0,
            }
        };
        let messages = stream.messages(schedule).map(|(at, chunk)| (at as u32, chunk as u32, 0)).collect();
        let steps = stream.instructions.iter().map(step).collect();
        StreamQueue { peer: stream.peer, sends: stream.sends, steps, messages, started: 0, done: 0 }
    }

    fn message(&self, stream: usize, number: usize) -> RankMessage {
        let (step, chunk, _) = self.messages[number];
        let StreamStep { transfer, action, .. } = self.steps[step as usize];
        RankMessage { stream, transfer, chunk: chunk as u64, action, step }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::fabric::Fabric;
    use antiphon_model::schedule::{Builder, Lane, Op};

    /// Ranks 0 and 2 of a line send two chunks to 1; after a barrier it sends them back.
    fn to_the_middle(issue: Issue) -> (Schedule, Program) {
        let line = Fabric::parse("mesh:3").unwrap();
        let mut builder = Builder::new("test", &line, Collective::new(Kind::AllReduce), 16);
        builder.lane(Lane { offset: 0, bytes: 16, chunks: 2, chunk_bytes: 8, stride: 3, source: 0, owner: 0 });
        builder.phase("reduce", false);
        builder.send(Op::Reduce, 2, 1, 0, 0).unwrap();
        builder.send(Op::Reduce, 0, 1, 0, 1).unwrap();
        builder.phase("broadcast", true);
        builder.send(Op::Copy, 1, 0, 0, 0).unwrap();
        builder.send(Op::Copy, 1, 2, 0, 1).unwrap();
        let mut schedule = builder.finish().unwrap();
        schedule.endpoint.issue = issue;
        let program = Program::new(&schedule);
        (schedule, program)
    }

    #[test]
    fn a_rank_waits_for_what_it_needs_and_no_more() {
        let (schedule, program) = to_the_middle(Issue::Links);
        let mut middle = RankProgress::new(&schedule, &program, 1);
        assert_eq!(middle.streams().collect::<Vec<_>>(), [(0, true), (0, false), (2, true), (2, false)]);
        assert_eq!((middle.next_send(0), middle.reached()), (None, 0));
        assert_eq!(middle.waits_for(&schedule).map(|message| (message.transfer, message.chunk)), Some((0, 0)));
        for stream in [3, 1] {
            let messages: Vec<_> = std::iter::from_fn(|| middle.next_receive(stream)).collect();
            assert_eq!(messages.iter().map(|message| message.chunk).collect::<Vec<_>>(), [0, 1]);
            // The second chunk only after the first.
            assert!(middle.may_apply(&messages[0]) && !middle.may_apply(&messages[1]));
            messages.iter().for_each(|message| middle.applied(message));
        }
        assert_eq!((middle.reached(), middle.next_send(0)), (1, None));
        middle.open(1);
        let sends: Vec<_> = [0, 0, 0, 2, 2, 2].iter().map_while(|&stream| middle.next_send(stream)).collect();
        assert_eq!(sends.len(), 2);
        let last = middle.next_send(2).unwrap();
        let rest = middle.next_send(2).unwrap();
        assert_eq!((last.transfer, last.action, rest.chunk), (3, Action::Send, 1));
        assert!(!middle.is_done());
        sends.iter().chain([&last, &rest]).for_each(|message| middle.sent(message));
        assert!(middle.is_done());
        assert_eq!(middle.waits_for(&schedule), None);
    }

    #[test]
    fn steps_go_one_after_the_other() {
        let (schedule, program) = to_the_middle(Issue::Steps);
        let mut middle = RankProgress::new(&schedule, &program, 1);
        for stream in [3, 1, 3, 1] {
            let message = middle.next_receive(stream).unwrap();
            middle.applied(&message);
        }
        middle.open(1);
        // Slots 0 and 3 are those of the first stream, 1 and 4 of the other.
        assert_eq!(middle.next_send(2), None);
        let order: Vec<_> = [0, 0, 2, 2, 0, 2].map(|stream| middle.next_send(stream).map(|m| m.chunk)).into();
        assert_eq!(order, [Some(0), None, Some(0), None, Some(1), Some(1)]);
    }

    #[test]
    fn ends_need_nothing_but_their_turn() {
        let (schedule, program) = to_the_middle(Issue::Links);
        let mut end = RankProgress::new(&schedule, &program, 0);
        assert_eq!(end.reached(), 1);
        assert!(end.next_send(0).is_some() && end.next_send(0).is_some() && end.next_send(0).is_none());
        assert_eq!(end.waits_for(&schedule).unwrap().transfer, 2);
    }
}
