//! Which nodes of different ranks are one exchange: collectives of a group by their order, messages by sender, receiver,
//! tag and order.

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, MAX_BYTES, clip};
use antiphon_base::watch::interruptible;
use antiphon_jobs::graph::{ExchangeKind, JobExchange, JobGraph, OperationKind, RankGroup};
use antiphon_model::collective::{Collective, Kind};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// What a node does with others.
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
    call: Said,
}

/// A call, its group by number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
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
                Said::Collective { kind, group, bytes, priority }
            }
            Call::Message { from, to, tag, bytes, priority } => Said::Message { from, to, tag, bytes, priority },
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
        // Exchanges of every group; how many of them the rank at hand has come to.
        let mut known: Vec<Vec<u32>> = vec![Vec::new(); graph.groups.len()];
        let mut sent: HashMap<(u32, u32, u32), VecDeque<u32>> = HashMap::new();
        for of_rank in self.calls.chunk_by(|one, other| one.rank == other.rank) {
            let mut come: HashMap<u32, usize> = HashMap::new();
            for caller in interruptible(of_rank) {
                let &Caller { rank, node, id, call } = caller;
                let bad = |what: String| Err(Error::new(Code::BadFile, format!("rank {rank}: node {id}: {what}")));
                let name = graph.ranks[rank as usize].operations[node as usize].name;
                let exchange = match call {
                    Said::Message { from, .. } if from != rank => continue,
                    Said::Message { from, to, tag, bytes, priority } => {
                        sent.entry((from, to, tag)).or_default().push_back(graph.exchanges.len() as u32);
                        JobExchange { name, kind: ExchangeKind::Message { from, to, tag }, bytes, group: 0, priority }
                    }
                    Said::Collective { kind, group, bytes, priority } => {
                        let number = groups[group];
                        let RankGroup { name: of, ranks } = &graph.groups[number as usize];
                        if ranks.binary_search(&rank).is_err() {
                            return bad(format!("the rank is not in its group '{}'", clip(of)));
                        }
                        // What goes in is a part of an AllGather's buffer, and all of the others'.
                        let parts = if kind == Some(Kind::AllGather) { ranks.len() as u64 } else { 1 };
                        let Some(bytes) = bytes.checked_mul(parts).filter(|&bytes| bytes <= MAX_BYTES) else {
                            return bad("an AllGather of more than 1 PiB".into());
                        };
                        let kind =
                            kind.map_or(ExchangeKind::Barrier, |kind| ExchangeKind::Collective(Collective::new(kind)));
                        let exchange = JobExchange { name, kind, bytes, group: number, priority };
                        let place = come.entry(number).or_default();
                        *place += 1;
                        let list = &mut known[number as usize];
                        if rank != ranks[0] {
                            let Some(&first) = list.get(*place - 1) else {
                                let what = format!(
                                    "collective {place} of group '{}', of which rank {} has {}",
                                    clip(of),
                                    ranks[0],
                                    list.len()
                                );
                                return bad(what);
                            };
                            let other = &graph.exchanges[first as usize];
                            if (other.kind, other.bytes) != (kind, bytes) {
                                let what = format!(
                                    "{} of {bytes} bytes is collective {place} of group '{}', which is for rank {} {} of {} bytes",
                                    graph.described(&exchange),
                                    clip(of),
                                    ranks[0],
                                    graph.described(other),
                                    other.bytes
                                );
                                return bad(what);
                            }
                            graph.ranks[rank as usize].operations[node as usize].kind = OperationKind::Exchange(first);
                            continue;
                        }
                        list.push(graph.exchanges.len() as u32);
                        exchange
                    }
                };
                graph.ranks[rank as usize].operations[node as usize].kind =
                    OperationKind::Exchange(graph.exchanges.len() as u32);
                graph.exchanges.push(exchange);
            }
            // A rank that has fewer than the first, of which others wait for the rest.
            let rank = of_rank[0].rank;
            if let Some((number, list)) = (0..).zip(&known).find(|&(number, list): &(u32, _)| {
                graph.groups[number as usize].ranks.binary_search(&rank).is_ok()
                    && come.get(&number).copied().unwrap_or(0) < list.len()
            }) {
                return Err(fewer(
                    &graph.groups[number as usize],
                    rank,
                    come.get(&number).copied().unwrap_or(0),
                    list.len(),
                ));
            }
        }
        // Ranks that have no calls at all.
        for (RankGroup { name, ranks }, list) in graph.groups.iter().zip(&known).filter(|(_, list)| !list.is_empty()) {
            let calls = |rank: u32| self.calls.binary_search_by_key(&rank, |caller| caller.rank).is_ok();
            if let Some(&rank) = ranks.iter().find(|&&rank| !calls(rank)) {
                return Err(fewer(&RankGroup { name: name.clone(), ranks: ranks.clone() }, rank, 0, list.len()));
            }
        }
        for Caller { rank, node, id, call } in interruptible(&self.calls) {
            let &Said::Message { from, to, tag, bytes, .. } = call else { continue };
            if from == *rank {
                continue;
            }
            let bad = |what: String| Err(Error::new(Code::BadFile, format!("rank {rank}: node {id}: {what}")));
            let Some(number) = sent.get_mut(&(from, to, tag)).and_then(VecDeque::pop_front) else {
                return bad(format!("a message from rank {from} with tag {tag}, which it does not send"));
            };
            let other = graph.exchanges[number as usize].bytes;
            if other != bytes {
                return bad(format!("a message of {bytes} bytes from rank {from} with tag {tag}, which sends {other}"));
            }
            graph.ranks[*rank as usize].operations[*node as usize].kind = OperationKind::Receive(number);
        }
        if let Some(((from, to, tag), _)) =
            sent.into_iter().filter(|(_, left)| !left.is_empty()).min_by_key(|&(key, _)| key)
        {
            let what = format!("rank {from} sends a message with tag {tag} that rank {to} does not receive");
            return Err(Error::new(Code::BadFile, what));
        }
        Ok(())
    }

    /// The group of every name, by its number in the graph.
    fn groups(&self, graph: &mut JobGraph, listed: BTreeMap<String, Vec<u32>>) -> Result<Vec<u32>> {
        let mut using: Vec<Vec<u32>> = vec![Vec::new(); self.names.len()];
        for Caller { rank, call, .. } in &self.calls {
            if let Said::Collective { group, .. } = *call
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
                    let what = format!("group '{}' is not among those listed: {}", clip(name), known.join(", "));
                    return Err(Error::new(Code::BadFile, what));
                }
            };
            numbers[number] = graph.groups.len() as u32;
            graph.groups.push(RankGroup { name: name.clone(), ranks });
        }
        Ok(numbers)
    }
}

fn fewer(group: &RankGroup, rank: u32, has: usize, first: usize) -> Error {
    let RankGroup { name, ranks } = group;
    let of = if name.is_empty() { "of all ranks".into() } else { format!("of group '{}'", clip(name)) };
    let what = format!("rank {rank} has {has} collectives {of}, rank {} has {first}", ranks[0]);
    Error::new(Code::BadFile, what)
}
