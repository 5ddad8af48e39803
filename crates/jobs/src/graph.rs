//! What ranks compute and exchange: a graph of operations for each, and the exchanges that they share.

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, Picos, clip};
use antiphon_model::collective::Collective;
use std::collections::BTreeMap;

/// Most operations of all ranks together.
pub const MAX_OPERATIONS: usize = 1 << 23;
/// Most dependencies of all ranks together.
pub const MAX_DEPENDENCIES: usize = 1 << 26;
/// Longest time that all operations of all ranks may compute together: about 26 days. It keeps sums of times inside 64 bits.
pub const MAX_COMPUTE: Picos = 1 << 61;

/// What does one computation of a rank at a time; of those that are ready the first in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// A stream of the accelerator.
    Stream(u32),
    /// Its host.
    Host,
    /// What moves data between memories.
    Memory,
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// Nothing: others wait for it.
    Nothing,
    /// The rank computes for a time.
    Compute {
        /// How long.
        time_ps: Picos,
        /// How long while an exchange of the rank is under way.
        beside_ps: Picos,
        /// Where.
        resource: Resource,
    },
    /// It takes part in the collective of this number in [`JobGraph::exchanges`], or sends the message.
    Exchange(u32),
    /// It receives the message of this number.
    Receive(u32),
    /// The first bytes of an exchange's buffer are complete at every rank; it waits for nothing else.
    Arrival {
        /// The number of the exchange.
        exchange: u32,
        /// How many bytes.
        bytes: Bytes,
    },
}

impl OperationKind {
    /// A computation that exchanges do not slow down.
    pub fn compute(time_ps: Picos, resource: Resource) -> Self {
        OperationKind::Compute { time_ps, beside_ps: time_ps, resource }
    }

    /// How long it computes at most.
    fn longest_ps(self) -> Picos {
        if let OperationKind::Compute { time_ps, beside_ps, .. } = self { time_ps.max(beside_ps) } else { 0 }
    }
}

/// An operation of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Its name, in [`JobGraph::names`].
    pub name: u32,
    /// What it does.
    pub kind: OperationKind,
    /// Where its dependencies end in [`RankGraph::after`]; they begin where those of the operation before end.
    pub after_end: u32,
}

/// What one rank does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RankGraph {
    /// Its operations.
    pub operations: Vec<Operation>,
    /// Operations that each waits for, one list behind the other.
    pub after: Vec<u32>,
}

impl RankGraph {
    /// Adds an operation after others of any place, its own too.
    pub fn push(&mut self, name: u32, kind: OperationKind, after: &[u32]) -> u32 {
        self.after.extend_from_slice(after);
        self.operations.push(Operation { name, kind, after_end: self.after.len() as u32 });
        self.operations.len() as u32 - 1
    }

    /// Operations that one waits for.
    pub fn after(&self, operation: u32) -> &[u32] {
        let start = operation.checked_sub(1).map_or(0, |before| self.operations[before as usize].after_end);
        &self.after[start as usize..self.operations[operation as usize].after_end as usize]
    }

    /// How many operations each waits for.
    pub(crate) fn missing(&self) -> Vec<u32> {
        (0..self.operations.len() as u32).map(|operation| self.after(operation).len() as u32).collect()
    }

    /// For every operation those that wait for it. O(operations + dependencies).
    pub(crate) fn waiters(&self) -> Waiters {
        let mut ends = vec![0u32; self.operations.len()];
        self.after.iter().for_each(|&other| ends[other as usize] += 1);
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum - *end;
        }
        let mut list = vec![0; self.after.len()];
        for operation in 0..self.operations.len() as u32 {
            for &other in self.after(operation) {
                list[ends[other as usize] as usize] = operation;
                ends[other as usize] += 1;
            }
        }
        Waiters { ends, list }
    }

    /// An operation that waits for itself by way of others; `None` if none does. O(operations + dependencies).
    pub fn cycle(&self) -> Option<u32> {
        let waiters = self.waiters();
        let mut missing = self.missing();
        let mut free: Vec<u32> = (0..missing.len() as u32).filter(|&one| missing[one as usize] == 0).collect();
        while let Some(operation) = free.pop() {
            for &waiter in waiters.of(operation) {
                missing[waiter as usize] -= 1;
                if missing[waiter as usize] == 0 {
                    free.push(waiter);
                }
            }
        }
        // Behind a cycle others wait as well: one that is awaited, as often as there are operations, is in it.
        let first = missing.iter().position(|&left| left > 0)? as u32;
        let awaited = |one: u32| self.after(one).iter().copied().find(|&other| missing[other as usize] > 0);
        (0..missing.len()).try_fold(first, |one, _| awaited(one))
    }
}

/// For every operation of a rank those that wait for it, in order.
pub(crate) struct Waiters {
    ends: Vec<u32>,
    list: Vec<u32>,
}

impl Waiters {
    /// Those that wait for an operation.
    pub fn of(&self, operation: u32) -> &[u32] {
        let start = operation.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.list[start as usize..self.ends[operation as usize] as usize]
    }
}

/// Ranks that exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankGroup {
    /// Its name; empty for all ranks.
    pub name: String,
    /// Its ranks, ascending, at least one.
    pub ranks: Vec<u32>,
}

/// How an exchange is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeKind {
    /// A collective, which starts when all ranks of the group are ready; the root is a rank in the group's numbers.
    Collective(Collective),
    /// Ranks wait for each other.
    Barrier,
    /// A message from one rank to another, which starts when its sender is ready.
    Message {
        /// Who sends.
        from: u32,
        /// Who receives.
        to: u32,
        /// Its tag.
        tag: u32,
    },
}

impl ExchangeKind {
    /// A collective by name, `barrier` or `message`.
    pub fn name(self) -> &'static str {
        match self {
            ExchangeKind::Collective(collective) => collective.kind.name(),
            ExchangeKind::Barrier => "barrier",
            ExchangeKind::Message { .. } => "message",
        }
    }
}

/// Something that several ranks do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobExchange {
    /// What its first operation is called, in [`JobGraph::names`].
    pub name: u32,
    /// What it is.
    pub kind: ExchangeKind,
    /// The full buffer; nothing is exchanged if it is 0.
    pub bytes: Bytes,
    /// Who takes part, in [`JobGraph::groups`]; of a message the first group, which says nothing.
    pub group: u32,
    /// Lower ones go first, where the order is that of priorities.
    pub priority: u32,
}

/// What ranks compute and exchange. Ranks that all do the same may be one here, whose exchanges are of all: they start
/// when it is ready.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobGraph {
    /// What each rank does.
    pub ranks: Vec<RankGraph>,
    /// What they exchange.
    pub exchanges: Vec<JobExchange>,
    /// Who exchanges; the first is of all ranks.
    pub groups: Vec<RankGroup>,
    /// Names, each once.
    pub names: Vec<String>,
    /// Whether a resource does its computations in the order of the graph, and waits for one that is not ready.
    pub in_order: bool,
}

impl JobGraph {
    /// A graph of ranks that do nothing yet.
    pub fn new(ranks: u32) -> Self {
        let all = RankGroup { name: String::new(), ranks: (0..ranks).collect() };
        JobGraph { ranks: vec![RankGraph::default(); ranks as usize], groups: vec![all], ..JobGraph::default() }
    }

    /// Ranks that take part in an exchange.
    pub fn ranks_of(&self, exchange: &JobExchange) -> Vec<u32> {
        match exchange.kind {
            ExchangeKind::Message { from, to, .. } => vec![from, to],
            _ => self.groups[exchange.group as usize].ranks.clone(),
        }
    }

    /// Whether an exchange moves anything over the network.
    pub fn moves(&self, exchange: &JobExchange) -> bool {
        exchange.bytes > 0
            && match exchange.kind {
                ExchangeKind::Collective(_) => self.groups[exchange.group as usize].ranks.len() > 1,
                ExchangeKind::Barrier => false,
                ExchangeKind::Message { from, to, .. } => from != to,
            }
    }

    /// Operations of all ranks, rank by rank.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> + Clone {
        self.ranks.iter().flat_map(|rank| &rank.operations)
    }

    /// For every exchange of which parts are waited for their bytes, ascending. O(operations * log parts).
    pub fn parts(&self) -> BTreeMap<u32, Vec<Bytes>> {
        let mut parts: BTreeMap<u32, Vec<Bytes>> = BTreeMap::new();
        for operation in self.operations() {
            if let OperationKind::Arrival { exchange, bytes } = operation.kind {
                parts.entry(exchange).or_default().push(bytes);
            }
        }
        for of in parts.values_mut() {
            of.sort_unstable();
            of.dedup();
        }
        parts
    }

    /// How long a rank computes at most.
    pub fn longest_ps(&self) -> Picos {
        let of = |rank: &RankGraph| rank.operations.iter().map(|operation| operation.kind.longest_ps()).sum();
        self.ranks.iter().map(of).max().unwrap_or(0)
    }

    /// An exchange in words.
    pub fn described(&self, exchange: &JobExchange) -> String {
        let name = clip(&self.names[exchange.name as usize]);
        match exchange.kind {
            ExchangeKind::Message { from, to, .. } => format!("message '{name}' from rank {from} to rank {to}"),
            kind => format!("{} '{name}'", kind.name()),
        }
    }

    /// Checks limits of times, and that no operation waits for itself. O(operations + dependencies).
    ///
    /// # Errors
    /// [`Code::BadFile`] with rank and operation, [`Code::TooLarge`].
    pub fn check(&self) -> Result<()> {
        let mut sum = 0u64;
        for (rank, graph) in self.ranks.iter().enumerate() {
            let times = graph.operations.iter().map(|operation| operation.kind.longest_ps());
            sum = times.fold(sum, Picos::saturating_add);
            if sum > MAX_COMPUTE {
                let what = "the nodes compute for more than 26 days together; check the unit of their times";
                return Err(Error::new(Code::TooLarge, what));
            }
            if let Some(operation) = graph.cycle() {
                let name = clip(&self.names[graph.operations[operation as usize].name as usize]);
                let what = format!("rank {rank}: node '{name}' waits for itself, by way of others");
                return Err(Error::new(Code::BadFile, what));
            }
        }
        Ok(())
    }
}
