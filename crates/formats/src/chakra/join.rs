//! Finds the nodes of different ranks that are one exchange: collectives match by group and order, messages by sender,
//! receiver, tag and order.

use crate::bad;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, MAX_BYTES, clip};
use antiphon_base::watch::interruptible;
use antiphon_jobs::graph::{ExchangeKind, JobExchange, JobGraph, OperationKind, RankGroup};
use antiphon_model::collective::{Collective, Kind};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// The exchange of a node with others, as its rank says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// A collective, or without a kind a barrier, of a named group; `bytes` are those of Chakra's comm_size.
    Collective { kind: Option<Kind>, group: String, bytes: Bytes, priority: u32 },
    /// A message.
    Message { from: u32, to: u32, tag: u32, bytes: Bytes, priority: u32 },
}

/// Nodes with calls, by rank and id.
#[derive(Default)]
pub struct Joining {
    calls: Vec<Caller>,
    /// Names of groups that nodes say.
    names: BTreeMap<String, usize>,
}

/// A node with a call.
struct Caller {
    rank: u32,
    node: u32,
    id: u64,
    call: NumberedCall,
}

/// A call, its group by number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NumberedCall {
    Collective { kind: Option<Kind>, group: usize, bytes: Bytes, priority: u32 },
    Message { from: u32, to: u32, tag: u32, bytes: Bytes, priority: u32 },
}

impl Joining {
    /// Adds the call of a node; ranks and nodes in order.
    pub fn add(&mut self, rank: u32, node: u32, id: u64, call: Call) {
        let call = match call {
            Call::Collective { kind, group, bytes, priority } => {
                let count = self.names.len();
                let group = *self.names.entry(group).or_insert(count);
                NumberedCall::Collective { kind, group, bytes, priority }
            }
            Call::Message { from, to, tag, bytes, priority } => {
                NumberedCall::Message { from, to, tag, bytes, priority }
            }
        };
        self.calls.push(Caller { rank, node, id, call });
    }

    /// Adds exchanges and groups to a graph whose nodes they are. `listed` are groups that are known; if there are none,
    /// a group has the ranks that name it. O(calls * log groups).
    ///
    /// # Errors
    /// [`Code::BadFile`] with rank and node, [`Code::TooLarge`].
    pub fn join(self, graph: &mut JobGraph, listed: BTreeMap<String, Vec<u32>>) -> Result<()> {
        let groups = self.groups(graph, listed)?;
        let mut known = KnownExchanges { of_group: vec![Vec::new(); graph.groups.len()], sent: HashMap::new() };
        for of_rank in self.calls.chunk_by(|one, other| one.rank == other.rank) {
            let mut come: HashMap<u32, usize> = HashMap::new();
            for caller in interruptible(of_rank) {
                known.add(graph, &groups, caller, &mut come).map_err(|error| caller.at(error))?;
            }
            let calls = |number: u32| come.get(&number).copied().unwrap_or(0);
            known.check_counts(graph, of_rank[0].rank, calls)?;
        }
        known.check_callers(graph, &self.calls)?;
        for caller in interruptible(&self.calls) {
            known.receive(graph, caller).map_err(|error| caller.at(error))?;
        }
        let left = known.sent.into_iter().filter(|(_, left)| !left.is_empty());
        if let Some(((from, to, tag), _)) = left.min_by_key(|&(key, _)| key) {
            return bad(format!("rank {from} sends a message with tag {tag} that rank {to} does not receive"));
        }
        Ok(())
    }

    /// The group of every name, by its number in the graph.
    fn groups(&self, graph: &mut JobGraph, listed: BTreeMap<String, Vec<u32>>) -> Result<Vec<u32>> {
        let mut using: Vec<Vec<u32>> = vec![Vec::new(); self.names.len()];
        for Caller { rank, call, .. } in &self.calls {
            if let NumberedCall::Collective { group, .. } = *call
                && using[group].last() != Some(rank)
            {
                using[group].push(*rank);
            }
        }
        let mut numbers = vec![0; self.names.len()];
        let mut named: Vec<(&String, &usize)> = self.names.iter().collect();
        // As they first come, so that what is written is read as it was.
        named.sort_by_key(|&(_, &number)| number);
        for (name, &number) in named {
            let ranks = match listed.get(name) {
                Some(ranks) => ranks.clone(),
                // As in ASTRA-sim.
                None if name.is_empty() || name == "0" => continue,
                None if listed.is_empty() => std::mem::take(&mut using[number]),
                None => {
                    let known: Vec<&str> = listed.keys().map(String::as_str).take(8).collect();
                    return bad(format!("group '{}' is not among those listed: {}", clip(name), known.join(", ")));
                }
            };
            numbers[number] = graph.groups.len() as u32;
            graph.groups.push(RankGroup { name: name.clone(), ranks });
        }
        Ok(numbers)
    }
}

impl Caller {
    /// An error with the place of this call.
    fn at(&self, error: Error) -> Error {
        error.at(format!("rank {}: node {}", self.rank, self.id))
    }
}

/// The exchanges that ranks so far have come to.
struct KnownExchanges {
    /// Exchanges of every group.
    of_group: Vec<Vec<u32>>,
    /// Messages not yet received, by sender, receiver and tag.
    sent: HashMap<(u32, u32, u32), VecDeque<u32>>,
}

impl KnownExchanges {
    /// Adds the exchange of a call, or finds it; `come` counts the collectives of every group that the rank has come to.
    fn add(
        &mut self,
        graph: &mut JobGraph,
        groups: &[u32],
        caller: &Caller,
        come: &mut HashMap<u32, usize>,
    ) -> Result<()> {
        let &Caller { rank, node, call, .. } = caller;
        let next = graph.exchanges.len() as u32;
        let name = graph.ranks[rank as usize].operations[node as usize].name;
        let exchange = match call {
            NumberedCall::Message { from, .. } if from != rank => return Ok(()),
            NumberedCall::Message { from, to, tag, bytes, priority } => {
                self.sent.entry((from, to, tag)).or_default().push_back(next);
                JobExchange { name, kind: ExchangeKind::Message { from, to, tag }, bytes, group: 0, priority }
            }
            NumberedCall::Collective { kind, group, bytes, priority } => {
                let number = groups[group];
                let RankGroup { name: of, ranks } = &graph.groups[number as usize];
                if ranks.binary_search(&rank).is_err() {
                    return bad(format!("the rank is not in its group '{}'", clip(of)));
                }
                // The input is a part of an AllGather's buffer, and all of the others'.
                let parts = if kind == Some(Kind::AllGather) { ranks.len() as u64 } else { 1 };
                let Some(bytes) = bytes.checked_mul(parts).filter(|&bytes| bytes <= MAX_BYTES) else {
                    return bad("an AllGather of more than 1 PiB");
                };
                let kind = kind.map_or(ExchangeKind::Barrier, |kind| ExchangeKind::Collective(Collective::new(kind)));
                JobExchange { name, kind, bytes, group: number, priority }
            }
        };
        let mut id = next;
        if let NumberedCall::Collective { .. } = call {
            let place = come.entry(exchange.group).or_default();
            *place += 1;
            match rank == graph.groups[exchange.group as usize].ranks[0] {
                true => self.of_group[exchange.group as usize].push(next),
                false => id = self.matching(graph, &exchange, *place)?,
            }
        }
        graph.ranks[rank as usize].operations[node as usize].kind = OperationKind::Exchange(id);
        if id == next {
            graph.exchanges.push(exchange);
        }
        Ok(())
    }

    /// The collective of the first rank of its group at the same place, which must be the same.
    fn matching(&self, graph: &JobGraph, exchange: &JobExchange, place: usize) -> Result<u32> {
        let (list, RankGroup { name, ranks }) =
            (&self.of_group[exchange.group as usize], &graph.groups[exchange.group as usize]);
        let (of, first) = (clip(name), ranks[0]);
        let Some(&id) = list.get(place - 1) else {
            return bad(format!("collective {place} of group '{of}', of which rank {first} has {}", list.len()));
        };
        let other = &graph.exchanges[id as usize];
        if (other.kind, other.bytes) != (exchange.kind, exchange.bytes) {
            return bad(format!(
                "{} of {} bytes is collective {place} of group '{of}', which is for rank {first} {} of {} bytes",
                graph.described(exchange),
                exchange.bytes,
                graph.described(other),
                other.bytes
            ));
        }
        Ok(id)
    }

    /// Checks that a rank has as many collectives of each of its groups as the first rank, since that waits for all.
    fn check_counts(&self, graph: &JobGraph, rank: u32, calls: impl Fn(u32) -> usize) -> Result<()> {
        for (number, (group, list)) in (0..).zip(graph.groups.iter().zip(&self.of_group)) {
            if calls(number) < list.len() && group.ranks.binary_search(&rank).is_ok() {
                return Err(fewer(group, rank, calls(number), list.len()));
            }
        }
        Ok(())
    }

    /// Checks that all ranks of groups with collectives have calls at all.
    fn check_callers(&self, graph: &JobGraph, calls: &[Caller]) -> Result<()> {
        for (group, list) in graph.groups.iter().zip(&self.of_group).filter(|(_, list)| !list.is_empty()) {
            let calls = |rank: u32| calls.binary_search_by_key(&rank, |caller| caller.rank).is_ok();
            if let Some(&rank) = group.ranks.iter().find(|&&rank| !calls(rank)) {
                return Err(fewer(group, rank, 0, list.len()));
            }
        }
        Ok(())
    }

    /// Finds the message that a call receives, if it does.
    fn receive(&mut self, graph: &mut JobGraph, &Caller { rank, node, call, .. }: &Caller) -> Result<()> {
        let NumberedCall::Message { from, to, tag, bytes, .. } = call else { return Ok(()) };
        if from == rank {
            return Ok(());
        }
        let Some(number) = self.sent.get_mut(&(from, to, tag)).and_then(VecDeque::pop_front) else {
            return bad(format!("a message from rank {from} with tag {tag}, which it does not send"));
        };
        let other = graph.exchanges[number as usize].bytes;
        if other != bytes {
            return bad(format!("a message of {bytes} bytes from rank {from} with tag {tag}, which sends {other}"));
        }
        graph.ranks[rank as usize].operations[node as usize].kind = OperationKind::Receive(number);
        Ok(())
    }
}

fn fewer(group: &RankGroup, rank: u32, has: usize, first: usize) -> Error {
    let RankGroup { name, ranks } = group;
    let of = if name.is_empty() { "of all ranks".into() } else { format!("of group '{}'", clip(name)) };
    let what = format!("rank {rank} has {has} collectives {of}, rank {} has {first}", ranks[0]);
    Error::new(Code::BadFile, what)
}
