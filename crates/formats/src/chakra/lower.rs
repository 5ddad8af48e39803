//! Schedules as traces, for ASTRA-sim's custom collectives: a node for each message at either end, and one for each sum.

use super::{TraceReader, write};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::watch::interruptible;
use antiphon_jobs::graph::{ExchangeKind, JobExchange, JobGraph, OperationKind, Resource};
use antiphon_model::collective::Kind;
use antiphon_model::fabric::LinkId;
use antiphon_model::schedule::{Dependency, Event, Held, Op, Schedule, Transfer};
use std::collections::{BTreeMap, HashMap};

/// Most messages of a schedule that is written.
const MAX_MESSAGES: u64 = 1 << 20;
/// Names of nodes.
const NAMES: [&str; 3] = ["send", "receive", "add"];

/// The traces of a schedule, by rank; they are read back and compared with what was to be written.
///
/// # Errors
/// [`Code::NotApplicable`] for what a trace cannot say; [`Code::TooLarge`] for more than 2^20 messages;
/// [`Code::NotProven`] if what was written says something else.
pub fn write_schedule(schedule: &Schedule) -> Result<Vec<Vec<u8>>> {
    let graph = lower(schedule)?;
    let files = (0..schedule.ranks).map(|rank| write(&graph, rank)).collect::<Result<Vec<_>>>()?;
    let mut reader = TraceReader::new(schedule.ranks, None, BTreeMap::new())?;
    files.iter().try_for_each(|file| reader.rank(&file[..]))?;
    if reader.finish()?.graph != graph {
        return Err(Error::new(Code::NotProven, "the traces read back as something else than the schedule"));
    }
    Ok(files)
}

/// The graph of a schedule. A message is sent after the one before it on its first link and after its waits at the
/// sender; it is stored or added after its waits at the receiver. Its tag is its number: chunks of transfer 0, of 1,
/// ... Sums take no time. O(messages * log messages + dependencies).
///
/// # Errors
/// As [`write_schedule`].
pub fn lower(schedule: &Schedule) -> Result<JobGraph> {
    schedule.check_alone()?;
    schedule.without_switches("chakra")?;
    let refuse = |what: &str| Err(Error::new(Code::NotApplicable, format!("chakra: {what}")));
    if matches!(schedule.collective.kind, Kind::Broadcast | Kind::Reduce) {
        return refuse("ASTRA-sim has custom AllReduces, ReduceScatters, AllGathers and AllToAlls only");
    }
    if !schedule.excluded.is_empty() {
        return refuse(
            "all ranks take part, so a schedule that excludes some cannot be written; choose a group of ranks",
        );
    }
    if !Held::of(schedule).is_empty() {
        return refuse("messages are held until later ones are sent, which nodes in order cannot say");
    }
    if schedule.phases.windows(2).any(|pair| pair[0].configuration != pair[1].configuration) {
        return refuse("a trace cannot say that the fabric changes its configuration");
    }
    let count = schedule.messages();
    if count > MAX_MESSAGES {
        let what = format!("{count} messages, at most {MAX_MESSAGES} are written; use larger chunks or fewer bytes");
        return Err(Error::new(Code::TooLarge, what));
    }
    let mut first = Vec::with_capacity(schedule.transfers.len());
    let mut messages = Vec::with_capacity(count as usize);
    for (id, transfer) in (0..).zip(interruptible(&schedule.transfers)) {
        first.push(messages.len() as u32);
        messages.extend(
            (0..schedule.chunks(transfer))
                .map(|chunk| ServedMessage { turn: (transfer.phase, schedule.slot(transfer, chunk), id), chunk }),
        );
    }
    let mut draft = TraceDraft {
        schedule,
        first,
        graph: JobGraph::new(schedule.ranks),
        sent: vec![0; messages.len()],
        applied: vec![0; messages.len()],
        last: HashMap::new(),
    };
    messages.sort_unstable_by_key(|message| (message.turn, message.chunk));
    interruptible(&messages).for_each(|message| draft.add(message));
    let mut graph = draft.graph;
    number(schedule, &mut graph);
    graph.check()?;
    Ok(graph)
}

/// A chunk of a transfer.
struct ServedMessage {
    /// Phase, slot and transfer: the order of service.
    turn: (u32, u64, u32),
    chunk: u64,
}

/// A graph under construction, whose messages have the numbers of their chunks in the order of transfers.
struct TraceDraft<'a> {
    schedule: &'a Schedule,
    /// The first message of every transfer.
    first: Vec<u32>,
    graph: JobGraph,
    /// By message, the node at its sender, and that at its receiver after which it is applied.
    sent: Vec<u32>,
    applied: Vec<u32>,
    /// By sender and first link, or receiver where there is no route, the node that sent last.
    last: HashMap<(u32, LinkId, u32), u32>,
}

impl TraceDraft<'_> {
    fn add(&mut self, message: &ServedMessage) {
        let &ServedMessage { turn: (_, _, id), chunk } = message;
        let transfer = &self.schedule.transfers[id as usize];
        let number = self.first[id as usize] + chunk as u32;
        let mut after = self.nodes(transfer.start_after.iter(), chunk);
        let link = transfer.route.first().map_or((LinkId::MAX, transfer.to), |&link| (link, u32::MAX));
        let last = self.last.entry((transfer.from, link.0, link.1)).or_insert(u32::MAX);
        after.extend((*last != u32::MAX).then_some(*last));
        let send = push(&mut self.graph, transfer.from, 0, OperationKind::Exchange(number), after);
        *last = send;
        self.sent[number as usize] = send;
        self.applied[number as usize] = self.apply(transfer, number, chunk);
    }

    /// Receives a message and stores or adds it.
    fn apply(&mut self, transfer: &Transfer, number: u32, chunk: u64) -> u32 {
        let mut after = self.nodes(transfer.apply_after.iter(), chunk);
        if transfer.op != Op::Reduce {
            return push(&mut self.graph, transfer.to, 1, OperationKind::Receive(number), after);
        }
        after.push(push(&mut self.graph, transfer.to, 1, OperationKind::Receive(number), vec![]));
        let add = OperationKind::compute(0, Resource::Stream(0));
        push(&mut self.graph, transfer.to, 2, add, after)
    }

    /// The nodes of a rank that are over when all these dependencies of a chunk are met.
    fn nodes<'d>(&self, dependencies: impl Iterator<Item = &'d Dependency>, chunk: u64) -> Vec<u32> {
        let node = |dependency: &Dependency| {
            let message =
                self.first[dependency.transfer() as usize] + chunk.checked_sub(dependency.lag().into())? as u32;
            let of = if dependency.event() == Event::Sent { &self.sent } else { &self.applied };
            Some(of[message as usize])
        };
        dependencies.filter_map(node).collect()
    }
}

fn push(graph: &mut JobGraph, rank: u32, name: u32, work: OperationKind, mut after: Vec<u32>) -> u32 {
    after.sort_unstable();
    after.dedup();
    graph.ranks[rank as usize].push(name, work, &after)
}

/// Numbers messages and names in the order in which a reader comes to them.
fn number(schedule: &Schedule, graph: &mut JobGraph) {
    let of: Vec<(u32, u64)> = (0..)
        .zip(&schedule.transfers)
        .flat_map(|(id, transfer)| (0..schedule.chunks(transfer)).map(move |chunk| (id, chunk)))
        .collect();
    let mut numbers = vec![0; of.len()];
    let mut names = [None; NAMES.len()];
    for rank in 0..graph.ranks.len() {
        for node in interruptible(0..graph.ranks[rank].operations.len()) {
            let node = &mut graph.ranks[rank].operations[node];
            node.name = *names[node.name as usize].get_or_insert_with(|| {
                graph.names.push(NAMES[node.name as usize].into());
                graph.names.len() as u32 - 1
            });
            let OperationKind::Exchange(message) = node.kind else { continue };
            let (id, chunk) = of[message as usize];
            let transfer = &schedule.transfers[id as usize];
            let bytes = transfer
                .lanes()
                .map(|lane| schedule.chunk_range(lane as u32, chunk))
                .map(|range| range.end - range.start);
            let kind = ExchangeKind::Message { from: transfer.from, to: transfer.to, tag: message };
            numbers[message as usize] = graph.exchanges.len() as u32;
            node.kind = OperationKind::Exchange(graph.exchanges.len() as u32);
            graph.exchanges.push(JobExchange { name: node.name, kind, bytes: bytes.sum(), group: 0, priority: 0 });
        }
    }
    for node in graph.ranks.iter_mut().flat_map(|rank| &mut rank.operations) {
        if let OperationKind::Receive(message) = node.kind {
            node.kind = OperationKind::Receive(numbers[message as usize]);
        }
    }
}
