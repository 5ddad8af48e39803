//! Fabrics from files of other tools, known by their content. GPUs are ranks; processors, switches and network cards
//! forward. A rate that a file does not say is never taken silently: `@` gives it, or a number with a source is taken and
//! noted.

mod astra;
mod booksim;
mod boxes;
mod dot;
mod hwloc;
mod infragraph;
mod nccl;
mod ns3;
pub(super) mod rates;
mod xml;
mod yaml;

use super::file::check_name;
use super::link::{self, Link};
use super::rails::rails;
use super::{Dimension, Fabric, LinkId, MAX_LINKS, MAX_NODES, MAX_RANKS, Node, NodeId, Shape};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Picos, Rate, clip};
pub(super) use boxes::JoinedBoxes;
use std::collections::{BTreeMap, HashMap};
use xml::XmlElement;

/// A format that is read.
struct TopologyFormat {
    /// Whether a text is of it, by its beginning or its keys.
    recognises: fn(&str) -> bool,
    read: fn(&str) -> Result<FabricDraft>,
}

const FORMATS: [TopologyFormat; 6] = [
    TopologyFormat { recognises: |text| text.starts_with('<'), read: from_xml },
    TopologyFormat { recognises: infragraph::recognises, read: infragraph::read },
    TopologyFormat { recognises: astra::recognises, read: astra::read },
    TopologyFormat { recognises: ns3::recognises, read: ns3::read },
    TopologyFormat { recognises: booksim::recognises, read: booksim::read },
    TopologyFormat { recognises: dot::recognises, read: dot::read },
];

/// What errors list where a file is of no format that is read.
const READ: &str = "JSON (antiphon-fabric/1), topologies of NCCL, RCCL and lstopo (XML), InfraGraph, networks of ASTRA-sim \
(YAML), topologies of SimAI and ns-3, BookSim's anynet, DOT; GraphML with Fabric.from_graphml";

/// The fabric of a text in a format of another tool; `None` for JSON of ours.
///
/// # Errors
/// [`Code::BadFile`] with the line of what is wrong, or with what is read for text of no known format;
/// [`Code::TooLarge`], and as [`Fabric::new`].
pub(super) fn read(name: &str, text: &str) -> Result<Option<Imported>> {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    if start.starts_with('{') && start.contains("\"antiphon-fabric/") {
        return Ok(None);
    }
    let draft = match FORMATS.iter().find(|format| (format.recognises)(start)) {
        Some(format) => (format.read)(text),
        None => Err(unknown(&format!("{}of no known format", foreign(start)))),
    };
    draft.map_err(|error| error.at(format_args!("fabric '{name}'")))?.finish(name).map(Some)
}

/// A file that is not read.
pub(super) fn unknown(what: &str) -> Error {
    Error::new(Code::BadFile, format!("{what}; read are {READ}"))
}

/// What a text is that describes no fabric, or none by itself, with a comma behind it.
fn foreign(text: &str) -> &'static str {
    let first = text.lines().next().unwrap_or_default();
    let is_set = |key: &str| {
        let after =
            |line: &str| line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='));
        text.lines().any(after)
    };
    if text.contains("\"antiphon-schedule/") {
        "a schedule of Antiphon, which --schedule takes, "
    } else if text.contains("topologies-per-dim") {
        "a network of ASTRA-sim 1.0, "
    } else if text.contains("logical-dims") {
        "the logical dimensions of ASTRA-sim's ns-3; its physical topology is read, "
    } else if is_set("topology") && text.contains(';') {
        "a configuration of BookSim, of which only the file that network_file names is read, "
    } else if first.contains("GPU0") {
        "what nvidia-smi topo prints; NCCL_TOPO_DUMP_FILE and lstopo --of xml write what is read, "
    } else {
        ""
    }
}

/// Whether YAML or JSON has a key, as far as can be seen without reading it.
fn has_key(text: &str, key: &str) -> bool {
    let after = |rest: &str| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':');
    text.match_indices(key).any(|(at, _)| after(&text[at + key.len()..]))
}

fn from_xml(text: &str) -> Result<FabricDraft> {
    let root = XmlElement::parse(text)?;
    let why = match root.name.as_str() {
        "system" => return nccl::read(&root),
        "topology" => return hwloc::read(&root),
        "graphml" => "GraphML, which Fabric.from_graphml reads",
        "algo" => "a schedule, no fabric; use it with --schedule",
        "graphs" => {
            "what NCCL found in a topology (NCCL_GRAPH_DUMP_FILE); write the topology, with NCCL_TOPO_DUMP_FILE"
        }
        other => return Err(unknown(&format!("XML of no known format: <{}>", clip(other)))),
    };
    Err(Error::new(Code::BadFile, why))
}

/// A fabric of a file, and what rates it does not say.
pub(super) struct Imported {
    pub fabric: Fabric,
    missing: BTreeMap<String, Missing>,
    notes: Vec<String>,
    ports: Vec<Port>,
    /// Latency of each link in cycles, where the file has such; the links' own latency is that of a cycle.
    cycles: Vec<u32>,
}

/// Where a box ends and a network may begin.
#[derive(Debug, Clone, Copy)]
enum Port {
    /// A network card, of whose speed the file says nothing.
    Card(NodeId),
    /// What a network card is joined to.
    Beyond(NodeId),
}

/// A cycle of which a file does not say how long it is.
const CYCLE: Picos = 1000;

/// Links without a rate that have the same reason.
#[derive(Default)]
struct Missing {
    /// Each link, and what it gets if nobody gives a rate; `None`: the system's.
    links: Vec<(LinkId, Option<Rate>)>,
}

impl From<Fabric> for Imported {
    fn from(fabric: Fabric) -> Imported {
        Imported { fabric, missing: BTreeMap::new(), notes: vec![], ports: vec![], cycles: vec![] }
    }
}

impl Imported {
    /// The fabric, with a noted rate for what has none yet.
    pub fn with_defaults(self) -> Fabric {
        let Imported { mut fabric, missing, mut notes, cycles, .. } = self;
        if !cycles.is_empty() && fabric.links.iter().any(|link| link.latency.is_none()) {
            notes.push(
                "latencies are in cycles in the file, one of which is taken as 1 ns; @RATE/LATENCY gives another"
                    .into(),
            );
        }
        for (link, cycles) in fabric.links.iter_mut().zip(cycles) {
            let latency = link.latency.unwrap_or(CYCLE).saturating_mul(cycles.into());
            link.latency = Some(latency.min((link::MAX_LATENCY_NS * 1e3) as Picos));
        }
        for (why, Missing { links }) in missing {
            let open: Vec<_> = links.into_iter().filter(|(id, _)| fabric.links[*id as usize].rate.is_none()).collect();
            let Some(&(_, first)) = open.first() else { continue };
            let taken = match first {
                _ if open.iter().any(|(_, rate)| *rate != first) => {
                    let all = open.iter().filter_map(|(_, rate)| *rate).map(|rate| rate.as_gb_per_s());
                    let (least, most) =
                        all.fold((f64::MAX, 0.0_f64), |(least, most), rate| (least.min(rate), most.max(rate)));
                    format!("{least} to {most} GB/s")
                }
                Some(rate) => format!("{} GB/s", rate.as_gb_per_s()),
                None => "the system's".into(),
            };
            let many = if open.len() == 1 { "1 link".into() } else { format!("{} links", open.len()) };
            notes.push(format!("{many} without a rate in the file: {taken} ({why}); @RATE gives another"));
            for (id, rate) in open {
                fabric.links[id as usize].rate = rate;
            }
        }
        fabric.notes.0 = notes;
        fabric
    }
}

/// What a file says of the rate of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SaidRate {
    /// In GB/s.
    Rate(f64),
    /// Nothing: what to take, in GB/s, and why; no number is the system's rate.
    Nothing(Option<f64>, &'static str),
}

/// A fabric that is being read.
#[derive(Default)]
struct FabricDraft {
    nodes: Vec<Node>,
    ranks: usize,
    links: Vec<Link>,
    ids: HashMap<String, NodeId>,
    missing: BTreeMap<String, Missing>,
    notes: Vec<String>,
    ports: Vec<Port>,
    cycles: Vec<u32>,
    /// Instead of nodes and links: the dimensions of a product, the first fastest.
    dimensions: Vec<Dimension>,
}

impl FabricDraft {
    /// Adds a rank, numbered in the order in which they come, or a node that forwards.
    fn node(&mut self, name: &str, is_rank: bool) -> Result<NodeId> {
        check_name(name).map_err(|error| error.at("name"))?;
        let id = self.nodes.len() as NodeId;
        if self.nodes.len() == MAX_NODES || self.ranks + usize::from(is_rank) > MAX_RANKS {
            let what = format!("more than {MAX_NODES} nodes, or {MAX_RANKS} ranks");
            return Err(Error::new(Code::TooLarge, what));
        }
        if self.ids.insert(name.to_string(), id).is_some() {
            return Err(Error::new(Code::BadFile, format!("there are two nodes '{}'", clip(name))));
        }
        let rank = is_rank.then_some(self.ranks as u32);
        self.ranks += usize::from(is_rank);
        self.nodes.push(Node { rank, ..Node::switch(name, []) });
        Ok(id)
    }

    /// Adds a link.
    fn link(&mut self, from: NodeId, to: NodeId, label: &str, said: SaidRate) -> Result<()> {
        self.add(Link::new(from, to, label), said)
    }

    /// Adds a link without a rate, and what is said of that.
    fn add(&mut self, mut link: Link, said: SaidRate) -> Result<()> {
        if self.links.len() == MAX_LINKS {
            return Err(Error::new(Code::TooLarge, format!("more than {MAX_LINKS} directed links")));
        }
        check_name(&link.dimension).map_err(|error| error.at("name of a link"))?;
        let id = self.links.len() as LinkId;
        match said {
            SaidRate::Rate(gb_per_s) => link.rate = Some(link::rate(gb_per_s)?),
            SaidRate::Nothing(instead, why) => {
                let instead = instead.map(link::rate).transpose()?;
                self.missing.entry(format!("{}: {why}", link.dimension)).or_default().links.push((id, instead));
            }
        }
        self.links.push(link);
        Ok(())
    }

    /// Adds links both ways.
    fn both(&mut self, one: NodeId, other: NodeId, label: &str, said: SaidRate) -> Result<()> {
        self.link(one, other, label, said)?;
        self.link(other, one, label, said)
    }

    fn finish(self, name: &str) -> Result<Imported> {
        let FabricDraft { nodes, links, missing, notes, ports, cycles, dimensions, .. } = self;
        let fabric = if dimensions.is_empty() {
            Fabric::new(name, Shape::Graph, nodes, links)?
        } else {
            let fabric = rails(name, &dimensions).map_err(|error| error.at(format_args!("fabric '{name}'")))?;
            Fabric { name: name.into(), ..fabric }
        };
        Ok(Imported { fabric, missing, notes, ports, cycles })
    }

    /// Notes that some things were left out, or taken in a way that is worth to know.
    fn note(&mut self, what: impl Into<String>) {
        self.notes.push(what.into());
    }
}
