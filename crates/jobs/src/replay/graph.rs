//! What all ranks do: a graph of nodes for each, and the exchanges that they share.

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, Picos, clip};
use antiphon_model::collective::Collective;

/// Most nodes of all ranks together.
pub const MAX_NODES: usize = 1 << 23;
/// Most dependencies of all ranks together.
pub const MAX_DEPENDENCIES: usize = 1 << 26;
/// Longest time that all nodes of all ranks may compute together: about 26 days. It keeps sums of times inside 64 bits.
pub const MAX_COMPUTE: Picos = 1 << 61;

/// What runs one node at a time on a rank; of those that are ready the first in the graph's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// A stream of the accelerator.
    Stream(u32),
    /// Its host.
    Host,
    /// What moves data between memories.
    Memory,
}

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Nothing: others wait for it.
    Nothing,
    /// It takes a time in a lane.
    Compute {
        /// How long.
        time_ps: Picos,
        /// Where.
        lane: Lane,
    },
    /// It takes part in the collective of this number in [`Graph::exchanges`], or sends the message.
    Exchange(u32),
    /// It receives the message of this number.
    Receive(u32),
}

/// A node of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Its name, in [`Graph::names`].
    pub name: u32,
    /// What it does.
    pub work: Work,
    /// Where its dependencies end in [`Program::after`]; they begin where those of the node before end.
    pub after_end: u32,
}

/// What one rank does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// Nodes that each waits for, one list behind the other.
    pub after: Vec<u32>,
}

impl Program {
    /// Adds a node after others of any place, its own too.
    pub fn push(&mut self, name: u32, work: Work, after: &[u32]) -> u32 {
        self.after.extend_from_slice(after);
        self.nodes.push(Node { name, work, after_end: self.after.len() as u32 });
        self.nodes.len() as u32 - 1
    }

    /// Nodes that a node waits for.
    pub fn after(&self, node: u32) -> &[u32] {
        let start = node.checked_sub(1).map_or(0, |before| self.nodes[before as usize].after_end);
        &self.after[start as usize..self.nodes[node as usize].after_end as usize]
    }

    /// For every node those that wait for it. O(nodes + dependencies).
    pub(super) fn waiters(&self) -> Waiters {
        let mut ends = vec![0u32; self.nodes.len()];
        self.after.iter().for_each(|&other| ends[other as usize] += 1);
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum - *end;
        }
        let mut list = vec![0; self.after.len()];
        for node in 0..self.nodes.len() as u32 {
            for &other in self.after(node) {
                list[ends[other as usize] as usize] = node;
                ends[other as usize] += 1;
            }
        }
        Waiters { ends, list }
    }

    /// A node that waits for itself by way of others; `None` if none does. O(nodes + dependencies).
    pub fn cycle(&self) -> Option<u32> {
        let waiters = self.waiters();
        let mut missing: Vec<u32> = (0..self.nodes.len() as u32).map(|node| self.after(node).len() as u32).collect();
        let mut free: Vec<u32> = (0..missing.len() as u32).filter(|&node| missing[node as usize] == 0).collect();
        while let Some(node) = free.pop() {
            for &waiter in waiters.of(node) {
                missing[waiter as usize] -= 1;
                if missing[waiter as usize] == 0 {
                    free.push(waiter);
                }
            }
        }
        // Behind a cycle others wait as well: one that is awaited, as often as there are nodes, is in it.
        let first = missing.iter().position(|&left| left > 0)? as u32;
        let awaited = |node: u32| self.after(node).iter().copied().find(|&other| missing[other as usize] > 0);
        (0..missing.len()).try_fold(first, |node, _| awaited(node))
    }
}

/// For every node of a program those that wait for it, in order.
pub(super) struct Waiters {
    ends: Vec<u32>,
    list: Vec<u32>,
}

impl Waiters {
    /// Those that wait for a node.
    pub fn of(&self, node: u32) -> &[u32] {
        let start = node.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.list[start as usize..self.ends[node as usize] as usize]
    }
}

/// Ranks that exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name; empty for all ranks.
    pub name: String,
    /// Its ranks, ascending, at least one.
    pub ranks: Vec<u32>,
}

/// What is exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
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

/// Something that several ranks do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// What its first node is called, in [`Graph::names`].
    pub name: u32,
    /// What it is.
    pub what: What,
    /// The full buffer; nothing is exchanged if it is 0.
    pub bytes: Bytes,
    /// Who takes part, in [`Graph::groups`]; of a message the first group, which says nothing.
    pub group: u32,
    /// Lower ones go first, where the order is that of priorities.
    pub priority: u32,
}

/// What all ranks do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graph {
    /// What each rank does.
    pub programs: Vec<Program>,
    /// What they exchange.
    pub exchanges: Vec<Exchange>,
    /// Who exchanges; the first is of all ranks.
    pub groups: Vec<Group>,
    /// Names, each once.
    pub names: Vec<String>,
}

impl Graph {
    /// A graph of ranks that do nothing yet.
    pub fn new(ranks: u32) -> Self {
        let all = Group { name: String::new(), ranks: (0..ranks).collect() };
        Graph { programs: vec![Program::default(); ranks as usize], groups: vec![all], ..Graph::default() }
    }

    /// Ranks that take part in an exchange.
    pub fn ranks_of(&self, exchange: &Exchange) -> Vec<u32> {
        match exchange.what {
            What::Message { from, to, .. } => vec![from, to],
            _ => self.groups[exchange.group as usize].ranks.clone(),
        }
    }

    /// Whether an exchange moves anything over the network.
    pub fn moves(&self, exchange: &Exchange) -> bool {
        exchange.bytes > 0
            && match exchange.what {
                What::Collective(_) => self.groups[exchange.group as usize].ranks.len() > 1,
                What::Barrier => false,
                What::Message { from, to, .. } => from != to,
            }
    }

    /// Nodes of all ranks.
    pub fn nodes(&self) -> usize {
        self.programs.iter().map(|program| program.nodes.len()).sum()
    }

    /// An exchange in words.
    pub fn described(&self, exchange: &Exchange) -> String {
        let name = clip(&self.names[exchange.name as usize]);
        match exchange.what {
            What::Collective(collective) => format!("{} '{name}'", collective.kind.name()),
            What::Barrier => format!("barrier '{name}'"),
            What::Message { from, to, .. } => format!("message '{name}' from rank {from} to rank {to}"),
        }
    }

    /// Checks limits of times, and that no node waits for itself. O(nodes + dependencies).
    ///
    /// # Errors
    /// [`Code::BadFile`] with rank and node, [`Code::TooLarge`].
    pub fn check(&self) -> Result<()> {
        let mut sum = 0u64;
        for (rank, program) in self.programs.iter().enumerate() {
            for node in &program.nodes {
                if let Work::Compute { time_ps, .. } = node.work {
                    sum = sum.saturating_add(time_ps);
                }
            }
            if sum > MAX_COMPUTE {
                let what = "the nodes compute for more than 26 days together; check the unit of their times";
                return Err(Error::new(Code::TooLarge, what));
            }
            if let Some(node) = program.cycle() {
                let name = clip(&self.names[program.nodes[node as usize].name as usize]);
                let what = format!("rank {rank}: node '{name}' waits for itself, by way of others");
                return Err(Error::new(Code::BadFile, what));
            }
        }
        Ok(())
    }
}
