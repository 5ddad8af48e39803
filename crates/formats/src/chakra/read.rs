//! Traces of all ranks as a [`JobGraph`], rank by rank and node by node.

use super::frames::Frames;
use super::join::{Call, Joining};
use super::model::{AnyMetadata, ChakraNode, NodeType};
use crate::{bad, fail};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{ByKey, MAX_BYTES, Picos, clip, clip_error};
use antiphon_base::watch::interruptible;
use antiphon_jobs::graph::{JobGraph, MAX_DEPENDENCIES, MAX_OPERATIONS, OperationKind, RankGraph, Resource};
use antiphon_model::collective::Kind;
use antiphon_model::system::Roofline;
use prost::Message;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;

/// Longest message of a file; decoded it takes a bounded multiple of its length.
pub const MAX_MESSAGE_BYTES: usize = 1 << 22;
/// Most bytes of different names of nodes.
const MAX_NAMES: usize = 1 << 26;
/// Most ranks of all named groups together.
const MAX_MEMBERS: usize = 1 << 22;
/// Characters of a name that are kept.
const LONGEST_NAME: usize = 120;

/// The traces of all ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct ChakraTrace {
    /// The nodes of all ranks.
    pub graph: JobGraph,
    /// Computing nodes without any duration, which take no time.
    pub untimed: u64,
}

/// Reads the traces of all ranks, in the order of their numbers. Memory is that of the graph and of one message.
pub struct TraceReader {
    graph: JobGraph,
    /// Times nodes that only say their operations.
    roofline: Option<Roofline>,
    names: HashMap<String, u32>,
    name_bytes: usize,
    /// Groups that are listed somewhere, and which ranks are in them.
    groups: BTreeMap<String, Vec<u32>>,
    members: usize,
    joining: Joining,
    nodes: usize,
    dependencies: usize,
    untimed: u64,
    next: u32,
}

impl TraceReader {
    /// A reader of the traces of `ranks` ranks. Nodes without a duration take the time of a roofline for the operations
    /// and bytes that they say. `groups` are those of [`parse_groups`], or none.
    ///
    /// # Errors
    /// [`Code::BadFile`] for a group of ranks that do not exist.
    pub fn new(ranks: u32, roofline: Option<Roofline>, groups: BTreeMap<String, Vec<u32>>) -> Result<Self> {
        let mut reader = TraceReader {
            graph: JobGraph::new(ranks),
            roofline,
            names: HashMap::new(),
            name_bytes: 0,
            groups: BTreeMap::new(),
            members: 0,
            joining: Joining::default(),
            nodes: 0,
            dependencies: 0,
            untimed: 0,
            next: 0,
        };
        groups.into_iter().try_for_each(|(name, ranks)| reader.group(name, ranks))?;
        Ok(reader)
    }

    /// Reads the trace of the next rank. O(nodes * log nodes + dependencies).
    ///
    /// # Errors
    /// [`Code::BadFile`] with byte or node, [`Code::TooLarge`].
    ///
    /// # Panics
    /// If there are no more ranks.
    pub fn rank(&mut self, input: impl BufRead) -> Result<()> {
        let rank = self.next;
        self.next += 1;
        let mut frames = Frames::new(input, MAX_MESSAGE_BYTES);
        let broken =
            |at: u64, what: &str| Error::new(Code::BadFile, format!("byte {at}: {what}; is it a Chakra trace?"));
        match frames.next()? {
            Some(message) => AnyMetadata::decode(message).map_err(|_| broken(0, "the metadata are no message"))?,
            None => return bad("the file is empty; a Chakra trace begins with metadata"),
        };
        // Nodes as they come; their dependencies by id.
        let mut raw = Vec::new();
        let (mut after, mut own): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
        for _ in interruptible(0u64..) {
            let at = frames.at();
            let Some(message) = frames.next()? else { break };
            let node = ChakraNode::decode(message).map_err(|_| broken(at, "a message is no node"))?;
            self.nodes += 1;
            self.dependencies += node.data_deps.len() + node.ctrl_deps.len();
            if self.nodes > MAX_OPERATIONS || self.dependencies > MAX_DEPENDENCIES {
                let what =
                    format!("the traces have more than {MAX_OPERATIONS} nodes or {MAX_DEPENDENCIES} dependencies");
                return fail(Code::TooLarge, what);
            }
            let (work, call) = self.kind(rank, &node).map_err(|error| error.at(described(&node)))?;
            let name = self.name(&node.name)?;
            own.clear();
            own.extend(node.data_deps.iter().chain(&node.ctrl_deps));
            own.sort_unstable();
            own.dedup();
            let first = after.len() as u32;
            after.extend(&own);
            raw.push((node.id, name, work, call, first, after.len() as u32));
        }
        // Nodes in the order of their ids, which is that in which ASTRA-sim prefers them.
        raw.sort_by_key(|&(id, ..)| id);
        if let Some(pair) = raw.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return bad(format!("two nodes have the id {}", pair[0].0));
        }
        let ids: Vec<u64> = raw.iter().map(|&(id, ..)| id).collect();
        let mut of_rank = RankGraph::default();
        of_rank.operations.reserve_exact(raw.len());
        of_rank.after.reserve_exact(after.len());
        let mut places = Vec::new();
        for (id, name, work, call, first, end) in interruptible(raw) {
            let place = |other: &u64| match ids.binary_search(other) {
                Ok(place) => Ok(place as u32),
                Err(_) => bad(format!("node {id} waits for node {other}, which is not there")),
            };
            places.clear();
            for other in &after[first as usize..end as usize] {
                places.push(place(other)?);
            }
            let node = of_rank.push(name, work, &places);
            if let Some(call) = call {
                self.joining.add(rank, node, id, call);
            }
        }
        self.graph.ranks[rank as usize] = of_rank;
        Ok(())
    }

    /// Joins the exchanges of all ranks.
    ///
    /// # Errors
    /// [`Code::BadFile`] for collectives and messages that do not match, nodes that wait for themselves, and groups that
    /// are not known; [`Code::TooLarge`].
    pub fn finish(self) -> Result<ChakraTrace> {
        let TraceReader { mut graph, groups, names, joining, untimed, .. } = self;
        graph.names = vec![String::new(); names.len()];
        names.into_iter().for_each(|(name, number)| graph.names[number as usize] = name);
        joining.join(&mut graph, groups)?;
        graph.check()?;
        Ok(ChakraTrace { graph, untimed })
    }

    /// The work of a node, and its exchange with others.
    fn kind(&mut self, rank: u32, node: &ChakraNode) -> Result<(OperationKind, Option<Call>)> {
        let Ok(kind) = NodeType::try_from(node.kind) else {
            return bad(format!("type {} is not known; 0 to 10 are", node.kind));
        };
        let resource = match kind {
            NodeType::Invalid => return Ok((OperationKind::Nothing, None)),
            NodeType::Metadata => {
                self.listed_groups(node)?;
                return Ok((OperationKind::Nothing, None));
            }
            NodeType::Collective => return Ok((OperationKind::Nothing, Some(collective(node)?))),
            NodeType::Send | NodeType::Receive => {
                let (own, other) =
                    if kind == NodeType::Send { ("comm_src", "comm_dst") } else { ("comm_dst", "comm_src") };
                if node.whole::<u32>(own)?.is_some_and(|given| given != rank) {
                    return bad(format!("{own} is another rank than the {rank} it belongs to"));
                }
                let other: u32 = node.needed(other)?;
                if other as usize >= self.graph.ranks.len() {
                    let what = format!("rank {other} does not exist; there are traces of {}", self.graph.ranks.len());
                    return bad(what);
                }
                if other == rank {
                    return bad("a message from a rank to itself");
                }
                let (tag, bytes) = (node.whole("comm_tag")?.unwrap_or(0), bytes(node)?);
                let priority = node.whole("comm_priority")?.unwrap_or(0);
                let message = |from, to| Call::Message { from, to, tag, bytes, priority };
                let call = if kind == NodeType::Send { message(rank, other) } else { message(other, rank) };
                return Ok((OperationKind::Nothing, Some(call)));
            }
            NodeType::Compute if node.truth("is_cpu_op")? => Resource::Host,
            NodeType::Compute => Resource::Stream(node.whole("stream")?.unwrap_or(0)),
            _ => Resource::Memory,
        };
        let time_ps = self.time(node, resource)?;
        Ok((OperationKind::compute(time_ps, resource), None))
    }

    /// How long a node takes: what it says, else by its operations and bytes.
    fn time(&mut self, node: &ChakraNode, resource: Resource) -> Result<Picos> {
        let too_long = || Error::new(Code::BadFile, "it takes more than 26 days; duration_micros are microseconds");
        if let Some(time) = node.whole::<Picos>("duration_picos")? {
            return Ok(time);
        }
        if node.duration_micros > 0 {
            return node.duration_micros.checked_mul(1_000_000).ok_or_else(too_long);
        }
        let (operations, bytes) =
            (node.whole::<u64>("num_ops")?.unwrap_or(0), node.whole::<u64>("tensor_size")?.unwrap_or(0));
        if !matches!(resource, Resource::Stream(_)) || operations == 0 {
            self.untimed += 1;
            return Ok(0);
        }
        let Some(roofline) = &self.roofline else {
            let what =
                "it says num_ops and no duration; give a compute model, as --compute roofline:tflops=312,gb-per-s=1555";
            return fail(Code::NotApplicable, what);
        };
        antiphon_jobs::compute::roofline_time(roofline, operations, bytes).ok_or_else(too_long)
    }

    /// The number of a name.
    fn name(&mut self, name: &str) -> Result<u32> {
        let name = name.char_indices().nth(LONGEST_NAME).map_or(name, |(end, _)| &name[..end]);
        if let Some(&number) = self.names.get(name) {
            return Ok(number);
        }
        self.name_bytes += name.len() + size_of::<String>();
        if self.name_bytes > MAX_NAMES {
            let what = format!("the nodes have more than {} MiB of different names", MAX_NAMES >> 20);
            return fail(Code::TooLarge, what);
        }
        let number = self.names.len() as u32;
        self.names.insert(name.into(), number);
        Ok(number)
    }

    /// Groups that a node of PyTorch lists: `[{"pg_name": "1", "ranks": [0, 1], ...}, ...]` within its inputs.
    fn listed_groups(&mut self, node: &ChakraNode) -> Result<()> {
        #[derive(Deserialize)]
        struct Listed {
            pg_name: String,
            #[serde(default)]
            ranks: Vec<u32>,
        }
        let Some(inputs) = &node.inputs else { return Ok(()) };
        let (Some(start), Some(end)) = (inputs.values.find("[{"), inputs.values.rfind("}]")) else { return Ok(()) };
        let Some(Ok(list)) = inputs.values.get(start..end + 2).map(serde_json::from_str::<Vec<Listed>>) else {
            return Ok(());
        };
        for Listed { pg_name, ranks } in list {
            // None listed are all.
            let ranks = if ranks.is_empty() { self.graph.groups[0].ranks.clone() } else { ranks };
            self.group(pg_name, ranks)?;
        }
        Ok(())
    }

    /// Adds a group, if it is not known.
    fn group(&mut self, name: String, mut ranks: Vec<u32>) -> Result<()> {
        let wrong = |what: String| bad(format!("group '{}': {what}", clip(&name)));
        ranks.sort_unstable();
        if ranks.windows(2).any(|pair| pair[0] == pair[1]) {
            return wrong("a rank is there twice".into());
        }
        let all = self.graph.ranks.len();
        match ranks.last() {
            Some(&last) if last as usize >= all => {
                return wrong(format!("rank {last} does not exist; there are {all}"));
            }
            None => return wrong("it has no ranks".into()),
            _ => {}
        }
        match self.groups.get(&name) {
            Some(known) if *known == ranks => return Ok(()),
            Some(_) => return wrong("it is listed with other ranks, too".into()),
            None => {}
        }
        self.members += ranks.len() + 1;
        if self.members > MAX_MEMBERS {
            return fail(Code::TooLarge, format!("groups of more than {MAX_MEMBERS} ranks together"));
        }
        self.groups.insert(name, ranks);
        Ok(())
    }
}

/// Groups of ranks by name: `{"1": [0, 1], "2": [2, 3]}`, as ASTRA-sim takes them beside traces.
///
/// # Errors
/// [`Code::BadFile`].
pub fn parse_groups(text: &str) -> Result<BTreeMap<String, Vec<u32>>> {
    serde_json::from_str(text).map(|ByKey(groups)| groups).map_err(|error| {
        let what = format!("no groups of ranks, such as {{\"1\": [0, 1]}}: {}", clip_error(&error));
        Error::new(Code::BadFile, what)
    })
}

fn described(node: &ChakraNode) -> String {
    format!("node {} '{}'", node.id, clip(&node.name))
}

fn bytes(node: &ChakraNode) -> Result<u64> {
    let bytes = node.needed("comm_size")?;
    if bytes > MAX_BYTES {
        return bad(format!("comm_size is {bytes}, which is more than 1 PiB"));
    }
    Ok(bytes)
}

/// The collective of a node.
fn collective(node: &ChakraNode) -> Result<Call> {
    let number: u64 = node.needed("comm_type")?;
    let kind = match number {
        0 => Some(Kind::AllReduce),
        1 => Some(Kind::Reduce),
        2 => Some(Kind::AllGather),
        5 => Some(Kind::Broadcast),
        6 => Some(Kind::AllToAll),
        7 | 8 => Some(Kind::ReduceScatter),
        9 => None,
        _ => {
            let name = match number {
                3 => "3 (GATHER)".into(),
                4 => "4 (SCATTER)".into(),
                _ => number.to_string(),
            };
            let what = format!(
                "comm_type {name} is not supported; 0 (ALL_REDUCE), 1 (REDUCE), 2 (ALL_GATHER), 5 (BROADCAST), 6 \
                 (ALL_TO_ALL), 7 and 8 (REDUCE_SCATTER) and 9 (BARRIER) are"
            );
            return fail(Code::NotApplicable, what);
        }
    };
    let group = node.text("pg_name")?;
    if group.is_empty() && node.has_false("involved_dim") {
        let what =
            "involved_dim leaves out dimensions of a topology that the trace does not say; name its group, pg_name";
        return fail(Code::NotApplicable, what);
    }
    let bytes = if kind.is_some() { bytes(node)? } else { 0 };
    Ok(Call::Collective { kind, group, bytes, priority: node.whole("comm_priority")?.unwrap_or(0) })
}
