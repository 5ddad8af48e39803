//! To schedules. A schedule has one buffer a rank, so the value of each chunk is followed through input, output and scratch:
//! what is received beside a rank's own value is *pending* until it is added to that, or takes its place.

use super::cells::Cells;
use super::graph::{StepGraph, StepId};
use super::model::{Algo, Buffer, ChunkPlace, StepAction};
use crate::{check_target, fail};
use antiphon_base::error::{Code, Result};
use antiphon_base::units::Bytes;
use antiphon_base::watch::Watch;
use antiphon_model::collective::{Align, Collective, Kind};
use antiphon_model::fabric::{Fabric, NodeId};
use antiphon_model::schedule::{Builder, Dependency, Event, Lane, LaneId, Op, Payload, Schedule, TransferId};
use antiphon_proof::verify_watched;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

/// The waits of a transfer at its sender, and at its receiver.
type TransferWaits = [Vec<(TransferId, Event)>; 2];

/// Most chunks of all buffers together.
const MAX_CELLS: u64 = 1 << 23;

/// The schedule of a proven algorithm. It has the orders that its data need, and the program's other orders only if it
/// cannot be proven without.
///
/// Complexity: O(steps * chunks of a step), and that of proofs.
///
/// # Errors
/// [`Code::BadFile`] for a fabric of another size, [`Code::BadSize`], [`Code::NotApplicable`] with the first step that a schedule
/// cannot say; [`Code::Interrupted`].
pub fn raise(algo: &Algo, fabric: &Fabric, bytes: Bytes, placement: &[NodeId], watch: Watch) -> Result<Schedule> {
    raise_graph(&StepGraph::new(algo, None, watch)?, fabric, bytes, placement)
}

/// [`raise`] of an algorithm whose messages have been matched.
///
/// # Errors
/// As [`raise`].
pub fn raise_graph(graph: &StepGraph, fabric: &Fabric, bytes: Bytes, placement: &[NodeId]) -> Result<Schedule> {
    let algo = graph.algo;
    check_target(algo.gpus.len(), fabric, bytes, placement)?;
    let Ok(order) = graph.order(None) else {
        return fail(Code::NotProven, "deadlock");
    };
    let cells = algo.cells(algo.in_place);
    if cells.count() > MAX_CELLS {
        let what = format!("{} chunks in all buffers; as a schedule at most {MAX_CELLS} are followed", cells.count());
        return fail(Code::TooLarge, what);
    }
    let mut follow = Follow::new(graph, &cells);
    for (at, &node) in order.iter().enumerate() {
        graph.watch.step(at, order.len())?;
        follow.step(node)?;
    }
    follow.end()?;
    let raised = Raised::new(graph, &order, follow.units)?;
    let mut refusal = None;
    for order in [KeptOrder::Data, KeptOrder::Replacing, KeptOrder::All] {
        let outcome = raised.schedule(fabric, bytes, placement, order);
        match outcome.and_then(|schedule| verify_watched(fabric, &schedule, graph.watch).map(|_| schedule)) {
            Ok(schedule) => return Ok(schedule),
            Err(error) if error.code == Code::NotProven || error.code == Code::NotApplicable => refusal = Some(error),
            Err(error) => return Err(error),
        }
    }
    let why = refusal.map(|error| error.message).unwrap_or_default();
    refuse(format!("its order cannot be that of a schedule ({why})"))
}

fn refuse<T>(what: impl AsRef<str>) -> Result<T> {
    fail(Code::NotApplicable, what)
}

/// A chunk of the full buffer, in an all-to-all of all ranks' buffers one after the other.
type BufferChunk = u32;

/// A chunk in a message.
struct MessageChunk {
    chunk: BufferChunk,
    send: StepId,
    receive: StepId,
    /// How and at which step it was applied at its receiver, and the version of the chunk that it made.
    applied: Option<(Op, StepId, u32)>,
}

/// The contents of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    Nothing,
    /// A version of a chunk; older ones must not be used.
    Held(BufferChunk, u32),
    /// A unit that a message brought and that is not applied yet.
    Pending(usize),
}

/// Follows values.
struct Follow<'a> {
    graph: &'a StepGraph<'a>,
    cells: &'a Cells,
    collective: Collective,
    tags: Vec<Tag>,
    /// The newest version of a chunk at a rank, and how many cells hold it.
    newest: HashMap<(u32, BufferChunk), (u32, u32)>,
    units: Vec<MessageChunk>,
    /// Units of a message under way, by the step that sent it.
    sent: HashMap<StepId, Vec<usize>>,
}

impl<'a> Follow<'a> {
    fn new(graph: &'a StepGraph<'a>, cells: &'a Cells) -> Self {
        let collective = graph.algo.collective();
        let mut follow = Follow {
            graph,
            cells,
            collective,
            tags: vec![Tag::Nothing; cells.count() as usize],
            newest: HashMap::new(),
            units: vec![],
            sent: HashMap::new(),
        };
        for gpu in 0..graph.algo.gpus.len() as u32 {
            for offset in 0..cells.size(Buffer::Input) {
                let chunk = match collective.kind {
                    Kind::AllGather => gpu * cells.shard() + offset,
                    Kind::AllToAll => gpu * graph.algo.chunks + offset,
                    Kind::Broadcast if gpu != collective.root => continue,
                    _ => offset,
                };
                follow.tags[cells.input(gpu, offset)] = Tag::Held(chunk, 1);
                follow.newest.insert((gpu, chunk), (1, 1));
            }
        }
        follow
    }

    fn gpu(&self, node: StepId) -> u32 {
        self.graph.owner[node as usize].0
    }

    /// The contents of a cell, updated by what has become of its unit since.
    fn tag(&self, cell: usize) -> Tag {
        match self.tags[cell] {
            Tag::Pending(unit) => match self.units[unit].applied {
                Some((Op::Copy, _, version)) => Tag::Held(self.units[unit].chunk, version),
                Some((Op::Reduce, ..)) => Tag::Nothing,
                None => Tag::Pending(unit),
            },
            tag => tag,
        }
    }

    /// Forgets what a cell holds.
    fn clear(&mut self, gpu: u32, cell: usize) {
        if let Tag::Held(chunk, version) = self.tag(cell)
            && let Some((newest, holders)) = self.newest.get_mut(&(gpu, chunk))
            && *newest == version
        {
            *holders = holders.saturating_sub(1);
        }
        self.tags[cell] = Tag::Nothing;
    }

    /// Makes of a unit a new version of its chunk.
    fn apply(&mut self, unit: usize, op: Op, node: StepId) -> Tag {
        let (gpu, chunk) = (self.gpu(node), self.units[unit].chunk);
        let (version, holders) = self.newest.entry((gpu, chunk)).or_default();
        (*version, *holders) = (*version + 1, 0);
        self.units[unit].applied = Some((op, node, *version));
        Tag::Held(chunk, *version)
    }

    fn store(&mut self, gpu: u32, cell: usize, tag: Tag) {
        self.tags[cell] = tag;
        if let Tag::Held(chunk, version) = tag
            && let Some((newest, holders)) = self.newest.get_mut(&(gpu, chunk))
            && *newest == version
        {
            *holders += 1;
        }
    }

    /// The chunk of which a cell holds the newest version.
    fn newest_in(&mut self, cell: usize, node: StepId) -> Result<BufferChunk> {
        let gpu = self.gpu(node);
        if let Tag::Pending(unit) = self.tag(cell) {
            let tag = self.apply(unit, Op::Copy, self.units[unit].receive);
            self.store(gpu, cell, tag);
        }
        let (name, at) = (self.graph.name(node), self.graph.place(self.cells.place(cell).1));
        match self.tag(cell) {
            Tag::Held(chunk, version) if self.newest[&(gpu, chunk)].0 == version => Ok(chunk),
            Tag::Held(..) => refuse(format!(
                "{name} uses {at} beside a newer value of the same chunk; a schedule has one buffer a rank"
            )),
            _ => refuse(format!("{name} uses {at}, which holds none of the data")),
        }
    }

    fn range(&self, node: StepId, place: ChunkPlace) -> std::ops::Range<usize> {
        let first = self.cells.of(self.gpu(node), place);
        first..first + self.graph.step(node).count as usize
    }

    fn step(&mut self, node: StepId) -> Result<()> {
        let (step, gpu) = (self.graph.step(node), self.gpu(node));
        let mut sending: Vec<BufferChunk> = vec![];
        let arrived = match step.action.receives() {
            true => self.sent.remove(&self.graph.sender[node as usize]).unwrap_or_default(),
            false => vec![],
        };
        for at in 0..step.count as usize {
            let unit = arrived.get(at).copied().unwrap_or_default();
            let src = if step.action.reads() { self.range(node, step.src).start + at } else { 0 };
            let dst = if step.action.writes() { self.range(node, step.dst).start + at } else { 0 };
            match step.action {
                StepAction::Nop => {}
                StepAction::Send => sending.push(self.newest_in(src, node)?),
                StepAction::Copy => self.copy(src, dst, node),
                StepAction::Reduce => self.reduce(src, dst, node)?,
                StepAction::Receive | StepAction::ReceiveCopySend => {
                    self.receive(unit, dst, node);
                    sending.push(self.units[unit].chunk);
                }
                StepAction::ReceiveReduceCopy | StepAction::ReceiveReduceSend | StepAction::ReceiveReduceCopySend => {
                    self.units[unit].receive = node;
                    self.same_chunk(unit, src, node)?;
                    if step.action.writes() {
                        self.clear(gpu, dst);
                    }
                    let tag = self.apply(unit, Op::Reduce, node);
                    if step.action.writes() {
                        self.store(gpu, dst, tag);
                    }
                    sending.push(self.units[unit].chunk);
                }
            }
        }
        if step.action.sends() {
            let first = self.units.len();
            self.units.extend(sending.into_iter().map(|chunk| MessageChunk {
                chunk,
                send: node,
                receive: 0,
                applied: None,
            }));
            self.sent.insert(node, (first..self.units.len()).collect());
        }
        Ok(())
    }

    fn copy(&mut self, src: usize, dst: usize, node: StepId) {
        if src == dst {
            return;
        }
        let (tag, gpu) = (self.tag(src), self.gpu(node));
        self.clear(gpu, dst);
        match tag {
            Tag::Pending(unit) if self.newest[&(gpu, self.units[unit].chunk)].1 == 0 => {
                let tag = self.apply(unit, Op::Copy, node);
                self.store(gpu, src, tag);
                self.store(gpu, dst, tag);
            }
            tag => self.store(gpu, dst, tag),
        }
    }

    /// Adds a pending cell to another.
    fn reduce(&mut self, src: usize, dst: usize, node: StepId) -> Result<()> {
        let (unit, other) = match (self.tag(src), self.tag(dst)) {
            (Tag::Pending(unit), _) => (unit, dst),
            (_, Tag::Pending(unit)) => (unit, src),
            _ => return refuse(format!("{} adds what is not as it was received", self.graph.name(node))),
        };
        self.same_chunk(unit, other, node)?;
        let gpu = self.gpu(node);
        self.clear(gpu, dst);
        let tag = self.apply(unit, Op::Reduce, node);
        self.store(gpu, dst, tag);
        Ok(())
    }

    /// Stores a unit: as pending beside the rank's own value, if it has one and the unit is not sent on at once.
    fn receive(&mut self, unit: usize, dst: usize, node: StepId) {
        let (gpu, chunk) = (self.gpu(node), self.units[unit].chunk);
        self.units[unit].receive = node;
        self.clear(gpu, dst);
        let beside = self.newest.get(&(gpu, chunk)).is_some_and(|&(_, holders)| holders > 0);
        let tag = match beside && self.graph.step(node).action == StepAction::Receive {
            true => Tag::Pending(unit),
            false => self.apply(unit, Op::Copy, node),
        };
        self.store(gpu, dst, tag);
    }

    /// Refuses to add a unit to another chunk.
    fn same_chunk(&mut self, unit: usize, cell: usize, node: StepId) -> Result<()> {
        let (added, own) = (self.units[unit].chunk, self.newest_in(cell, node)?);
        match added == own {
            true => Ok(()),
            false => {
                let [added, own] = [added, own].map(|chunk| self.graph.chunk(chunk));
                refuse(format!("{} adds chunk {added} to chunk {own}", self.graph.name(node)))
            }
        }
    }

    /// Applies the units that outputs end with; checks that none is left over.
    fn end(&mut self) -> Result<()> {
        let kind = self.collective.kind;
        for gpu in 0..self.graph.algo.gpus.len() as u32 {
            for offset in 0..self.cells.size(Buffer::Output) {
                if self.cells.wanted(gpu, offset).is_none() {
                    break;
                }
                let (shard, chunks) = (self.cells.shard(), self.graph.algo.chunks);
                let chunk = match kind {
                    Kind::ReduceScatter => gpu * shard + offset,
                    Kind::AllToAll => offset / shard * chunks + gpu * shard + offset % shard,
                    _ => offset,
                };
                let cell = self.cells.of(gpu, ChunkPlace { buffer: Buffer::Output, offset });
                if let Tag::Pending(unit) = self.tag(cell) {
                    let tag = self.apply(unit, Op::Copy, self.units[unit].receive);
                    self.store(gpu, cell, tag);
                }
                let newest = self.newest.get(&(gpu, chunk)).map_or(0, |&(version, _)| version);
                if self.tag(cell) != Tag::Held(chunk, newest) {
                    let place = self.graph.place(ChunkPlace { buffer: Buffer::Output, offset });
                    return refuse(format!(
                        "gpu {gpu} ends with another value in {place} than in the rest of its memory"
                    ));
                }
            }
        }
        match self.units.iter().find(|unit| unit.applied.is_none()) {
            Some(unit) => refuse(format!("what {} receives is never used", self.graph.name(unit.receive))),
            None => Ok(()),
        }
    }
}

/// Which of the program's orders become dependencies, besides those of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KeptOrder {
    /// Waits before a message is sent, but for the one before it in the same connection.
    Data,
    /// Also that a store replaces only values that have been used.
    Replacing,
    /// All.
    All,
}

/// A transfer to be.
struct TransferDraft {
    op: Op,
    from: u32,
    to: u32,
    send: StepId,
    receive: StepId,
    applied: StepId,
    payload: Payload,
}

/// Two uses of a rank's lane that must keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Conflict {
    second: (TransferId, Event),
    first: (TransferId, Event),
}

/// A use of a lane at a rank: where in the order, whether it is read, how it is stored, by which transfer.
type LaneUse = (u32, bool, Op, TransferId);

/// For every use of a lane at a rank, the nearest before it that it must not change places with.
fn conflicts(drafts: &[TransferDraft], position: &[u32]) -> Vec<Conflict> {
    let mut uses: HashMap<(u32, LaneId), Vec<LaneUse>> = HashMap::new();
    for (id, draft) in (0..).zip(drafts) {
        for lane in draft.payload.iter().flat_map(|range| range.clone()) {
            let reads = (position[draft.send as usize], true, draft.op, id);
            uses.entry((draft.from, lane)).or_default().push(reads);
            let writes = (position[draft.applied as usize], false, draft.op, id);
            uses.entry((draft.to, lane)).or_default().push(writes);
        }
    }
    let mut list = vec![];
    for mut uses in uses.into_values() {
        uses.sort_unstable_by_key(|&(at, reads, _, id)| (at, reads, id));
        // Reads, or sums, need no order among themselves; copies do.
        let kind = |&(_, reads, op, _): &LaneUse| (reads, reads || op == Op::Reduce);
        let groups: Vec<_> = uses.chunk_by(|a, b| kind(a) == kind(b) && kind(a).1).collect();
        let event = |&(_, reads, _, id): &LaneUse| (id, if reads { Event::Sent } else { Event::Applied });
        for two in groups.windows(2) {
            for second in two[1] {
                list.extend(two[0].iter().map(|first| Conflict { first: event(first), second: event(second) }));
            }
        }
    }
    let key = |(id, event): (TransferId, Event)| (id, event == Event::Sent);
    list.sort_unstable_by_key(|conflict| (key(conflict.second), key(conflict.first)));
    list.dedup();
    list
}

/// Transfers, and where they are in the program.
struct Raised<'a> {
    graph: &'a StepGraph<'a>,
    /// By their sending.
    drafts: Vec<TransferDraft>,
    /// First and last chunk of each lane, without the last.
    lanes: Vec<(BufferChunk, BufferChunk)>,
    /// By step: what is applied and what is sent there.
    events: HashMap<StepId, Vec<(TransferId, Event)>>,
    conflicts: Vec<Conflict>,
}

impl<'a> Raised<'a> {
    fn new(graph: &'a StepGraph<'a>, order: &[StepId], units: Vec<MessageChunk>) -> Result<Self> {
        let algo = graph.algo;
        let mut position = vec![0u32; order.len()];
        (0..).zip(order).for_each(|(at, &node)| position[node as usize] = at);
        // What is sent, received and applied together is one transfer.
        let mut groups: Vec<UnitKey> = units
            .iter()
            .filter_map(|unit| {
                let (op, applied, _) = unit.applied?;
                let at = (position[unit.send as usize], position[applied as usize]);
                Some((at.0, at.1, unit.send, unit.receive, op == Op::Reduce, unit.chunk))
            })
            .collect();
        groups.sort_unstable();
        let together: Vec<_> = groups.chunk_by(|a, b| (a.0, a.1, a.4) == (b.0, b.1, b.4)).collect();
        let mut cuts = shard_cuts(algo);
        let mut runs: Vec<Vec<(BufferChunk, BufferChunk)>> = vec![];
        for (at, group) in together.iter().enumerate() {
            graph.watch.at(at, together.len())?;
            let own = runs_of(graph, group)?;
            cuts.extend(own.iter().flat_map(|&(start, end)| [start, end]));
            runs.push(own);
        }
        let cuts: Vec<BufferChunk> = cuts.into_iter().collect();
        let lane = |chunk: BufferChunk| cuts.partition_point(|&cut| cut < chunk) as LaneId;
        let mut drafts = vec![];
        for (group, own) in together.iter().zip(runs) {
            let &(_, applied, send, receive, reduces, _) = &group[0];
            drafts.push(TransferDraft {
                op: if reduces { Op::Reduce } else { Op::Copy },
                from: graph.owner[send as usize].0,
                to: graph.owner[receive as usize].0,
                send,
                receive,
                applied: order[applied as usize],
                payload: Payload::of(own.into_iter().map(|(start, end)| lane(start)..lane(end))),
            });
        }
        let mut events: HashMap<StepId, Vec<(TransferId, Event)>> = HashMap::new();
        for (id, draft) in (0..).zip(&drafts) {
            events.entry(draft.send).or_default().push((id, Event::Sent));
            events.entry(draft.applied).or_default().push((id, Event::Applied));
        }
        let lanes = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let conflicts = conflicts(&drafts, &position);
        Ok(Raised { graph, drafts, lanes, events, conflicts })
    }

    /// The last events that have happened when a step has.
    fn ends(&self, node: StepId) -> Vec<(TransferId, Event)> {
        let (mut found, mut open, mut seen) = (vec![], vec![node], BTreeSet::from([node]));
        while let Some(node) = open.pop() {
            match self.events.get(&node) {
                Some(events) => found.extend(events),
                None => open.extend(self.graph.local(node).filter(|&earlier| seen.insert(earlier))),
            }
        }
        found
    }

    /// The last events before a step: those that it, and nops right before it, wait for by name, and those of the step
    /// before.
    fn before(&self, node: StepId) -> [Vec<(TransferId, Event)>; 2] {
        let mut named: Vec<_> = self.graph.awaited(node).into_iter().flat_map(|other| self.ends(other)).collect();
        let mut previous = self.graph.before(node);
        while let Some(nop) = previous.filter(|&node| self.graph.step(node).action == StepAction::Nop) {
            named.extend(self.graph.awaited(nop).into_iter().flat_map(|other| self.ends(other)));
            previous = self.graph.before(nop);
        }
        [named, previous.map(|node| self.ends(node)).unwrap_or_default()]
    }

    /// The waits of all transfers at their two ends.
    fn waits(&self, order: KeptOrder) -> Result<Vec<TransferWaits>> {
        let waits = |(id, draft): (TransferId, &TransferDraft)| {
            self.graph.watch.at(id as usize, self.drafts.len())?;
            // Those of what it does are together.
            let from = self.conflicts.partition_point(|conflict| conflict.second.0 < id);
            let conflicts = self.conflicts[from..].iter().take_while(|conflict| conflict.second.0 == id);
            let stream = |other: TransferId, own: Event| {
                let other = &self.drafts[other as usize];
                let same = (other.from, other.to) == (draft.from, draft.to);
                own == Event::Sent && same && order < KeptOrder::All
            };
            let [mut starts, previous] = self.before(draft.send);
            starts.extend(previous);
            // What the same step applies comes before what it sends.
            let here = self.events[&draft.send].iter();
            starts.extend(here.filter(|&&(_, event)| event == Event::Applied));
            starts.retain(|&(other, event)| other != id && !stream(other, event));
            let mut applies = vec![];
            if order >= KeptOrder::Replacing {
                let stores = conflicts.filter(|conflict| conflict.second == (id, Event::Applied));
                applies.extend(stores.map(|conflict| conflict.first));
            }
            if order == KeptOrder::All {
                applies.extend(self.before(draft.receive).into_iter().flatten());
                applies.extend(self.before(draft.applied).into_iter().flatten());
            }
            applies.retain(|&(other, _)| other != id);
            for list in [&mut starts, &mut applies] {
                list.sort_unstable_by_key(|&(other, event)| (other, event == Event::Sent));
                list.dedup();
            }
            Ok([starts, applies])
        };
        (0..).zip(&self.drafts).map(waits).collect()
    }

    /// Pairs of transfers of which the first must be served earlier. If transfers may be `held` at their receivers
    /// until others are sent, they need not be later than these, but all that wait for them must be.
    fn pairs(&self, waits: &[TransferWaits], held: bool) -> Vec<(TransferId, TransferId)> {
        let mut pairs: Vec<(TransferId, TransferId)> = vec![];
        let sent = |first: Event, second: Event| held && first == Event::Sent && second == Event::Applied;
        let mut until: HashMap<TransferId, Vec<TransferId>> = HashMap::new();
        for Conflict { first, second } in &self.conflicts {
            match sent(first.1, second.1) {
                true => until.entry(second.0).or_default().push(first.0),
                false => pairs.push((first.0, second.0)),
            }
        }
        for (id, [starts, applies]) in (0..).zip(waits) {
            for (list, own) in [(starts, Event::Sent), (applies, Event::Applied)] {
                for &(other, event) in list {
                    if !sent(event, own) {
                        pairs.push((other, id));
                    }
                    if event == Event::Applied {
                        pairs.extend(until.get(&other).into_iter().flatten().map(|&later| (later, id)));
                    }
                }
            }
        }
        // Messages of a thread block follow each other.
        let mut last: HashMap<(u32, u32), TransferId> = HashMap::new();
        for (id, draft) in (0..).zip(&self.drafts) {
            if let Some(before) = last.insert(self.graph.owner[draft.send as usize], id) {
                pairs.push((before, id));
            }
        }
        pairs.retain(|(first, second)| first != second);
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// The step of every transfer: the earliest that the pairs allow.
    fn steps(&self, pairs: &[(TransferId, TransferId)]) -> Result<Vec<u32>> {
        let count = self.drafts.len();
        let (mut steps, mut left) = (vec![0u32; count], vec![0u32; count]);
        pairs.iter().for_each(|&(_, second)| left[second as usize] += 1);
        let start = |id: usize| pairs.partition_point(|&(first, _)| (first as usize) < id);
        let mut ready: BinaryHeap<std::cmp::Reverse<usize>> =
            (0..count).filter(|&id| left[id] == 0).map(std::cmp::Reverse).collect();
        let mut done = 0;
        while let Some(std::cmp::Reverse(id)) = ready.pop() {
            done += 1;
            for &(_, second) in &pairs[start(id)..start(id + 1)] {
                let second = second as usize;
                steps[second] = steps[second].max(steps[id] + 1);
                left[second] -= 1;
                if left[second] == 0 {
                    ready.push(std::cmp::Reverse(second));
                }
            }
        }
        match (0..count).find(|&id| left[id] > 0) {
            Some(id) if done < count => {
                let name = self.graph.name(self.drafts[id].send);
                refuse(format!("ranks exchange a chunk, each sending what the other replaces, as at {name}"))
            }
            _ => Ok(steps),
        }
    }

    fn schedule(&self, fabric: &Fabric, bytes: Bytes, placement: &[NodeId], order: KeptOrder) -> Result<Schedule> {
        let algo = self.graph.algo;
        let collective = algo.collective();
        let waits = self.waits(order)?;
        let steps = self.steps(&self.pairs(&waits, false)).or_else(|_| self.steps(&self.pairs(&waits, true)))?;
        let mut builder = Builder::new(&algo.name, fabric, collective, bytes).watched(self.graph.watch);
        builder.schedule.placement = placement.to_vec();
        for &(start, end) in &self.lanes {
            builder.lane(lane(algo, bytes, start, end));
        }
        builder.phase("main", false);
        let mut sorted: Vec<usize> = (0..self.drafts.len()).collect();
        sorted.sort_by_key(|&id| (steps[id], id));
        let mut number = vec![0; sorted.len()];
        for &id in &sorted {
            let TransferDraft { op, from, to, ref payload, .. } = self.drafts[id];
            number[id] = builder.send(op, from, to, payload.clone(), steps[id])?;
        }
        for (id, [starts, applies]) in waits.iter().enumerate() {
            let of = |&(other, event): &(TransferId, Event)| Dependency::new(number[other as usize], event);
            starts.iter().for_each(|other| builder.start_after(number[id], of(other)));
            applies.iter().for_each(|other| builder.apply_after(number[id], of(other)));
        }
        builder.finish()
    }
}

/// A unit: when it is sent and applied in the order, the steps that send and receive it, whether it adds, and its chunk.
type UnitKey = (u32, u32, StepId, StepId, bool, BufferChunk);

/// Where lanes must begin or end, whatever is sent.
fn shard_cuts(algo: &Algo) -> BTreeSet<BufferChunk> {
    let ranks = algo.gpus.len() as u32;
    let total = if algo.kind == Kind::AllToAll { ranks * algo.chunks } else { algo.chunks };
    let mut cuts: BTreeSet<BufferChunk> = [0, total].into();
    if matches!(algo.kind, Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll) {
        cuts.extend((0..total).step_by((algo.chunks / ranks) as usize));
    }
    cuts
}

/// Runs of adjacent chunks of one transfer, each from its first chunk up to its end.
fn runs_of(graph: &StepGraph, group: &[UnitKey]) -> Result<Vec<(BufferChunk, BufferChunk)>> {
    let mut runs: Vec<(BufferChunk, BufferChunk)> = vec![];
    for &(_, _, send, _, _, chunk) in group {
        match runs.last_mut() {
            Some((_, end)) if *end == chunk => *end += 1,
            Some((_, end)) if *end > chunk => {
                return refuse(format!("{} sends chunk {} twice", graph.name(send), graph.chunk(chunk)));
            }
            _ => runs.push((chunk, chunk + 1)),
        }
    }
    Ok(runs)
}

/// The lane of chunks from `start` to `end`.
fn lane(algo: &Algo, bytes: Bytes, start: BufferChunk, end: BufferChunk) -> Lane {
    let ranks = algo.gpus.len() as u32;
    let part = algo.chunks / ranks;
    let own = start % algo.chunks;
    let (source, owner) = match algo.kind {
        Kind::AllToAll => (start / algo.chunks, own / part),
        Kind::AllGather | Kind::ReduceScatter => (own / part, own / part),
        _ => (0, 0),
    };
    let (offset, _) = Align::default().shard(bytes, algo.chunks as usize, own as usize);
    let (last, length) = Align::default().shard(bytes, algo.chunks as usize, (own + end - start - 1) as usize);
    let bytes = last + length - offset;
    Lane { offset, bytes, chunks: 1, chunk_bytes: bytes.max(1), stride: 1, source, owner }
}
