//! A schedule as one program a rank: what it sends and receives, in order, and what each of it waits for. Executors and
//! formats read programs; what a program does is what the schedule does.
//!
//! A rank talks with every peer in two *streams*, what it sends and what it receives; each goes in the order of
//! service (phase, slot, index), as on links. Streams of a rank run side by side and wait for each other
//! only where an instruction says so.

use super::{Dependency, Op, Schedule, Transfer, TransferId};
use crate::fabric::LinkId;
use antiphon_base::watch::interruptible;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// One program a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// By rank.
    pub ranks: Vec<RankProgram>,
}

/// What one rank does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankProgram {
    /// By peer, what is sent before what is received.
    pub streams: Vec<Stream>,
}

/// What a rank sends to, or receives from, one peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// The other rank; or the link, see [`Program::of_links`].
    pub peer: u32,
    /// Whether it sends.
    pub sends: bool,
    /// Of every transfer once, by its first chunk; [`Stream::messages`] goes through all chunks.
    pub instructions: Vec<Instruction>,
}

/// One transfer, at one of its ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// What is sent or received.
    pub transfer: TransferId,
    /// Send, or what to do with what was received.
    pub action: Action,
    /// A phase such that all messages of earlier ones must have been applied everywhere.
    pub barrier: Option<u32>,
    /// What must have happened at this rank, other than its own earlier chunks.
    pub waits: Vec<Dependency>,
}

/// What an instruction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Send the rank's own.
    Send,
    /// Receive and add to its own.
    Reduce,
    /// Receive and replace its own.
    Copy,
}

impl Action {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Action::Send => "send",
            Action::Reduce => "reduce",
            Action::Copy => "copy",
        }
    }
}

impl Program {
    /// The programs of a checked schedule. O(transfers log transfers + dependencies).
    pub fn new(schedule: &Schedule) -> Program {
        Program::grouped(schedule, |transfer| (transfer.to, transfer.from))
    }

    /// The programs of ranks that have links rather than peers: streams are those of the first links of routes, and of
    /// the last; [`Stream::peer`] is the number of the link.
    pub fn of_links(schedule: &Schedule) -> Program {
        let end = |link: Option<&LinkId>| link.copied().unwrap_or(LinkId::MAX);
        Program::grouped(schedule, |transfer| (end(transfer.route.first()), end(transfer.route.last())))
    }

    /// Streams by what `peers` says of a transfer: for its sender, and for its receiver.
    fn grouped(schedule: &Schedule, peers: impl Fn(&Transfer) -> (u32, u32)) -> Program {
        let mut streams: Vec<BTreeMap<(u32, bool), Vec<Instruction>>> =
            vec![BTreeMap::new(); schedule.participants() as usize];
        for id in interruptible(schedule.order()) {
            let transfer = &schedule.transfers[id as usize];
            let barrier = schedule.phases[..=transfer.phase as usize].iter().rposition(|phase| phase.barrier);
            let barrier = barrier.map(|phase| phase as u32).filter(|&phase| phase == transfer.phase);
            let action = if transfer.op == Op::Reduce { Action::Reduce } else { Action::Copy };
            let sends =
                Instruction { transfer: id, action: Action::Send, barrier, waits: transfer.start_after.to_vec() };
            let receives = Instruction { transfer: id, action, barrier: None, waits: transfer.apply_after.to_vec() };
            let (to, from) = peers(transfer);
            // Sends come first.
            streams[transfer.from as usize].entry((to, false)).or_default().push(sends);
            streams[transfer.to as usize].entry((from, true)).or_default().push(receives);
        }
        let rank = |streams: BTreeMap<(u32, bool), Vec<Instruction>>| {
            let stream =
                |((peer, receives), instructions): ((u32, bool), _)| Stream { peer, sends: !receives, instructions };
            RankProgram { streams: streams.into_iter().map(stream).collect() }
        };
        Program { ranks: streams.into_iter().map(rank).collect() }
    }
}

impl Stream {
    /// All messages in order: the number of the instruction and the chunk.
    pub fn messages<'a>(&'a self, schedule: &'a Schedule) -> impl Iterator<Item = (usize, u64)> + 'a {
        let transfer = |at: usize| &schedule.transfers[self.instructions[at].transfer as usize];
        let turn = move |at: usize, chunk: u64| {
            let transfer = transfer(at);
            Reverse((transfer.phase, schedule.slot(transfer, chunk), self.instructions[at].transfer, at, chunk))
        };
        let mut next: BinaryHeap<_> = (0..self.instructions.len()).map(|at| turn(at, 0)).collect();
        interruptible(std::iter::from_fn(move || {
            let Reverse((.., at, chunk)) = next.pop()?;
            if chunk + 1 < schedule.chunks(transfer(at)) {
                next.push(turn(at, chunk + 1));
            }
            Some((at, chunk))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Collective, Kind};
    use crate::fabric::Fabric;
    use crate::schedule::{Builder, Lane};

    #[test]
    fn a_rank_sends_receives_and_waits_in_order() {
        let line = Fabric::parse("mesh:3").unwrap();
        let mut builder = Builder::new("test", &line, Collective::new(Kind::AllReduce), 16);
        builder.lane(Lane { offset: 0, bytes: 16, chunks: 2, chunk_bytes: 8, stride: 3, source: 0, owner: 0 });
        builder.phase("reduce", false);
        builder.send(Op::Reduce, 2, 1, 0, 0).unwrap();
        builder.send(Op::Reduce, 0, 1, 0, 1).unwrap();
        builder.phase("broadcast", true);
        builder.send(Op::Copy, 1, 0, 0, 0).unwrap();
        let last = builder.send(Op::Copy, 1, 2, 0, 0).unwrap();
        builder.apply_after(last, 0.into());
        let schedule = builder.finish().unwrap();
        let program = Program::new(&schedule);
        let summary: Vec<_> = program.ranks[1]
            .streams
            .iter()
            .map(|s| (s.peer, s.sends, s.instructions.iter().map(|i| (i.transfer, i.action)).collect::<Vec<_>>()))
            .collect();
        let (send, add) = (Action::Send, Action::Reduce);
        assert_eq!(
            summary,
            [
                (0, true, vec![(2, send)]),
                (0, false, vec![(1, add)]),
                (2, true, vec![(3, send)]),
                (2, false, vec![(0, add)])
            ]
        );
        let broadcast = &program.ranks[1].streams[0].instructions[0];
        assert_eq!((broadcast.barrier, &broadcast.waits[..]), (Some(1), &[0.into(), 1.into()][..]));
        assert_eq!(program.ranks[2].streams[1].instructions[0].waits, [0.into()]);
        assert_eq!(program.ranks[0].streams[0].messages(&schedule).collect::<Vec<_>>(), [(0, 0), (0, 1)]);
    }

    /// Chunks of transfers of one stream alternate as their slots do.
    #[test]
    fn messages_go_in_the_order_of_service() {
        let pair = Fabric::parse("ring:2").unwrap();
        let mut builder = Builder::new("test", &pair, Collective::new(Kind::Broadcast), 24);
        builder.lane(Lane { offset: 0, bytes: 24, chunks: 3, chunk_bytes: 8, stride: 2, source: 0, owner: 0 });
        (0..4).for_each(|step| _ = builder.send(Op::Copy, 0, 1, 0, step).unwrap());
        let schedule = builder.finish().unwrap();
        let program = Program::new(&schedule);
        let order: Vec<_> = program.ranks[0].streams[0].messages(&schedule).collect();
        assert_eq!(order[..6], [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (3, 0)]);
        assert_eq!(order.len(), 12);
    }
}
