//! Fabrics from files of other tools, known by their content: topologies of NCCL and of hwloc (XML), InfraGraph (YAML). GPUs are
//! ranks; processors, switches and network cards forward. A rate that a file does not say is never taken silently: `@` gives it,
//! or a number with a source is taken and noted.

mod hwloc;
mod infragraph;
mod nccl;
mod rates;
mod xml;
mod yaml;

use super::file::check_name;
use super::link::{self, Link};
use super::{Fabric, LinkId, MAX_LINKS, MAX_NODES, MAX_RANKS, Node, NodeId, Shape};
use crate::error::{Code, Error, Result};
use crate::units::{Rate, clip};
use std::collections::{BTreeMap, HashMap};
use xml::Element;

/// The fabric of a text in a format of another tool; `None` for text of none of them.
///
/// # Errors
/// [`Code::BadFile`] with the line of what is wrong, [`Code::TooLarge`], and as [`Fabric::new`].
pub(super) fn read(name: &str, text: &str) -> Result<Option<Imported>> {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    let draft = if start.starts_with('<') {
        from_xml(text)
    } else if infragraph::recognises(start) {
        infragraph::read(text)
    } else {
        return Ok(None);
    };
    let draft = draft.map_err(|error| error.at(format_args!("fabric '{name}'")))?;
    draft.finish(name).map(Some)
}

fn from_xml(text: &str) -> Result<Draft> {
    let root = Element::parse(text)?;
    let why = match root.name.as_str() {
        "system" => return nccl::read(&root),
        "topology" => return hwloc::read(&root),
        "graphml" => "GraphML, which Fabric.from_graphml reads".into(),
        "algo" => "a schedule, no fabric; use it with --schedule".into(),
        "graphs" => {
            "what NCCL found in a topology (NCCL_GRAPH_DUMP_FILE); write the topology, with NCCL_TOPO_DUMP_FILE".into()
        }
        other => format!("XML of no known format: <{}>; known: <system> of NCCL, <topology> of lstopo", clip(other)),
    };
    Err(Error::new(Code::BadFile, why))
}

/// A fabric of a file, and what rates it does not say.
pub(super) struct Imported {
    pub fabric: Fabric,
    missing: BTreeMap<String, Missing>,
    notes: Vec<String>,
}

/// Links without a rate that have the same reason.
#[derive(Default)]
struct Missing {
    /// Each link, and what it gets if nobody gives a rate; `None`: the system's.
    links: Vec<(LinkId, Option<Rate>)>,
}

impl Imported {
    /// The fabric, with a noted rate for what has none yet.
    pub fn with_defaults(self) -> Fabric {
        let Imported { mut fabric, missing, mut notes } = self;
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
enum Said {
    /// In GB/s.
    Rate(f64),
    /// Nothing: what to take, in GB/s, and why; no number is the system's rate.
    Nothing(Option<f64>, &'static str),
}

/// A fabric that is being read.
#[derive(Default)]
struct Draft {
    nodes: Vec<Node>,
    ranks: usize,
    links: Vec<Link>,
    ids: HashMap<String, NodeId>,
    missing: BTreeMap<String, Missing>,
    notes: Vec<String>,
}

impl Draft {
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
        self.nodes.push(Node { name: name.to_string(), rank, coords: vec![] });
        Ok(id)
    }

    /// Adds a link.
    fn link(&mut self, from: NodeId, to: NodeId, label: &str, said: Said) -> Result<()> {
        if self.links.len() == MAX_LINKS {
            return Err(Error::new(Code::TooLarge, format!("more than {MAX_LINKS} directed links")));
        }
        check_name(label).map_err(|error| error.at("name of a link"))?;
        let id = self.links.len() as LinkId;
        let mut link = Link::new(from, to, label);
        match said {
            Said::Rate(gb_per_s) => link.rate = Some(link::rate(gb_per_s)?),
            Said::Nothing(instead, why) => {
                let instead = instead.map(link::rate).transpose()?;
                self.missing.entry(format!("{label}: {why}")).or_default().links.push((id, instead));
            }
        }
        self.links.push(link);
        Ok(())
    }

    /// Adds links both ways.
    fn both(&mut self, one: NodeId, other: NodeId, label: &str, said: Said) -> Result<()> {
        self.link(one, other, label, said)?;
        self.link(other, one, label, said)
    }

    fn finish(self, name: &str) -> Result<Imported> {
        let Draft { nodes, links, missing, notes, .. } = self;
        Ok(Imported { fabric: Fabric::new(name, Shape::Graph, nodes, links)?, missing, notes })
    }

    /// Notes that some things were left out, or taken in a way that is worth to know.
    fn note(&mut self, what: impl Into<String>) {
        self.notes.push(what.into());
    }
}
