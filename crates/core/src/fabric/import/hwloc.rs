//! Topologies of hwloc: what `lstopo --of xml` writes, versions 1 to 3 (hwloc's `topology-xml.c` and `hwloc2.dtd`). Read are
//! packages and NUMA nodes, PCI bridges and devices with their link speeds, and bandwidths between GPUs where hwloc was
//! built with NVML or ROCm SMI.

use super::rates::{self, Processor};
use super::xml::Element;
use super::{Draft, Said};
use crate::error::{Code, Error, Result};
use crate::fabric::NodeId;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Most objects of a matrix of bandwidths.
const MAX_OBJECTS: usize = 1 << 12;
/// Matrices of bandwidths in MB/s, and what links with them are called.
const MATRICES: [(&str, &str); 2] = [("NVLinkBandwidth", "nvlink"), ("XGMIBandwidth", "xgmi")];

/// Reads a `<topology>`. O(elements).
pub fn read(root: &Element) -> Result<Draft> {
    let mut reader = Reader::default();
    for object in &root.children {
        reader.gpus(object)?;
    }
    if reader.found == 0 {
        let what = "no GPU: no PCI device of class 0302, 0380 or 12, nor of 0300 by NVIDIA or AMD";
        return Err(Error::new(Code::BadFile, what));
    }
    for object in &root.children {
        reader.object(object, &Place::default())?;
    }
    let domains = std::mem::take(&mut reader.domains);
    for (at, &(one, said)) in domains.iter().enumerate() {
        for &(other, back) in &domains[at + 1..] {
            reader.draft.link(one, other, "cpu", said)?;
            reader.draft.link(other, one, "cpu", back)?;
        }
    }
    let mut fast = false;
    for matrix in root.children.iter().filter(|child| child.name.starts_with("distances2")) {
        if let Some((_, label)) = MATRICES.iter().find(|(name, _)| matrix.get("name") == Some(*name)) {
            reader.matrix(matrix, label)?;
            fast = true;
        }
    }
    if !fast && reader.found > 1 {
        reader.draft.note(
            "no bandwidths between GPUs in the file (hwloc has them with NVML or ROCm SMI): NVLinks and xGMI links are not there, only PCI",
        );
    }
    Ok(reader.draft)
}

/// Where in the tree a walk is.
#[derive(Default, Clone)]
struct Place<'a> {
    processor: Processor<'a>,
    /// The domain that devices here belong to: its name.
    domain: String,
}

#[derive(Default)]
struct Reader {
    draft: Draft,
    /// Ranks by bus, as many as there are.
    ranks: HashMap<String, NodeId>,
    found: usize,
    /// Devices by `gp_index`: what a matrix calls them, and their ranks; `None` for other devices.
    devices: HashMap<String, Option<NodeId>>,
    /// Processors that have devices, by name, and how they are joined to others.
    nodes: BTreeMap<String, NodeId>,
    domains: Vec<(NodeId, Said)>,
    names: HashSet<String>,
}

impl Reader {
    /// Numbers the GPUs, before all other nodes, in the order of the file.
    fn gpus(&mut self, object: &Element) -> Result<()> {
        if object.name == "object" {
            if is_gpu(object) {
                let bus = object.text_of("pci_busid")?.to_string();
                let node = self.draft.node(&format!("gpu{}", self.found), true)?;
                self.found += 1;
                if self.ranks.insert(bus, node).is_some() {
                    return Err(object.wrong("there is another device with this pci_busid"));
                }
            }
            for child in &object.children {
                self.gpus(child)?;
            }
        }
        Ok(())
    }

    /// Walks through what is no device, to the bridges below.
    fn object<'a>(&mut self, object: &'a Element, above: &Place<'a>) -> Result<()> {
        if object.name != "object" {
            return Ok(());
        }
        let kind = object.text_of("type")?;
        if matches!(kind, "Bridge" | "PCIDev") {
            let branches = branches(object);
            if branches.iter().any(is_wanted) {
                let domain = self.domain(above)?;
                for branch in branches {
                    self.branch(branch, domain)?;
                }
            }
            return Ok(());
        }
        let mut place = above.clone();
        let info = |key: &str| info(object, key);
        let number = |key: &str| info(key).and_then(|text| text.trim().parse().ok());
        place.processor.architecture = info("Architecture").or(place.processor.architecture);
        place.processor.vendor = info("CPUVendor").or(place.processor.vendor);
        place.processor.family = number("CPUFamilyNumber").or(place.processor.family);
        place.processor.model = number("CPUModelNumber").or(place.processor.model);
        let index = object.get("os_index").unwrap_or("0");
        let memory = object.children.iter().find(|child| child.get("type") == Some("NUMANode"));
        match (kind, memory) {
            ("Machine", _) => place.domain = "machine".into(),
            ("Package" | "Socket", _) => place.domain = format!("package{index}"),
            ("NUMANode", _) => place.domain = format!("numa{index}"),
            (_, Some(memory)) => place.domain = format!("numa{}", memory.get("os_index").unwrap_or("0")),
            _ => {}
        }
        object.children.iter().try_for_each(|child| self.object(child, &place))
    }

    /// The node of the processor at a place.
    fn domain(&mut self, place: &Place) -> Result<NodeId> {
        let name = if place.domain.is_empty() { "machine" } else { &place.domain };
        if let Some(&node) = self.nodes.get(name) {
            return Ok(node);
        }
        let node = self.draft.node(name, false)?;
        self.nodes.insert(name.into(), node);
        // hwloc names the architecture only of newer machines' roots; what has a vendor is x86.
        let processor = Processor {
            architecture: place.processor.architecture.or(place.processor.vendor.map(|_| "x86_64")),
            ..place.processor
        };
        let said = match processor.between() {
            Some(rate) => Said::Nothing(Some(rate), "what NCCL counts on between these processors"),
            None => Said::Nothing(None, "processors that NCCL does not know"),
        };
        self.domains.push((node, said));
        Ok(node)
    }

    /// Adds what is wanted of a bridge or device below a node.
    fn branch(&mut self, branch: Branch, above: NodeId) -> Result<()> {
        let Branch { object, below, speed } = branch;
        if !below.iter().any(is_wanted) && !is_device(object) {
            return Ok(());
        }
        let said = match speed {
            Some(rate) => Said::Rate(rate),
            None => {
                let rate = rates::LANES * rates::LANE;
                Said::Nothing(Some(rate), "PCI without a speed, which NCCL takes for 16 lanes of 8 GT/s")
            }
        };
        let bus = object.text_of("pci_busid")?;
        let node = match self.ranks.get(bus) {
            Some(&node) if is_gpu(object) => node,
            _ if is_device(object) => {
                let own = object.children.iter().filter(|child| child.get("type") == Some("OSDev"));
                let mut card = own.filter(|own| !own.get("name").unwrap_or_default().is_empty());
                // Of the names that a card has, those of InfiniBand come after those of Ethernet.
                let name = card.next_back().and_then(|own| own.get("name")).unwrap_or(bus).to_string();
                let name = if self.names.insert(name.clone()) { name } else { format!("nic-{bus}") };
                self.draft.node(&name, false).map_err(|error| object.wrong(error.message))?
            }
            _ => self.draft.node(&format!("pci-{bus}"), false).map_err(|error| object.wrong(error.message))?,
        };
        self.draft.both(node, above, "pci", said).map_err(|error| object.wrong(error.message))?;
        self.remember(object, is_gpu(object).then_some(node));
        below.into_iter().try_for_each(|branch| self.branch(branch, node))
    }

    /// What matrices call a device and what it is for the system.
    fn remember(&mut self, object: &Element, rank: Option<NodeId>) {
        for named in std::iter::once(object).chain(&object.children) {
            if let (Some(kind), Some(index)) = (named.get("type"), named.get("gp_index")) {
                self.devices.insert(format!("{kind}:{index}"), rank);
            }
        }
    }

    /// Bandwidths from each device to each. What is no GPU is a switch; all switches are one node, as in NCCL.
    fn matrix(&mut self, matrix: &Element, label: &str) -> Result<()> {
        let count = matrix.whole("nbobjs")?.and_then(|count| usize::try_from(count).ok());
        let count = count.filter(|count| (1..=MAX_OBJECTS).contains(count));
        let count = count.ok_or_else(|| matrix.wrong(format!("nbobjs is not 1 to {MAX_OBJECTS}")))?;
        let words = |name: &str| {
            let parts = matrix.children.iter().filter(move |child| child.name == name).collect::<Vec<_>>();
            parts.into_iter().flat_map(|child| child.text.split_ascii_whitespace())
        };
        if matrix.name == "distances2" && matrix.get("indexing") != Some("gp") {
            return Err(matrix.wrong("indexing is not 'gp'"));
        }
        let kind = matrix.get("type").unwrap_or("OSDev");
        let named = |word: &str| if word.contains(':') { word.to_string() } else { format!("{kind}:{word}") };
        let ranks: Vec<Option<NodeId>> =
            words("indexes").take(count + 1).map(|word| self.devices.get(&named(word)).copied().flatten()).collect();
        let values: Vec<u64> = words("u64values").take(count * count + 1).map_while(|word| word.parse().ok()).collect();
        if (ranks.len(), values.len()) != (count, count * count) {
            let what =
                format!("{} indexes and {} numbers, expected {count} and {}", ranks.len(), values.len(), count * count);
            return Err(matrix.wrong(what));
        }
        let mut switched: BTreeMap<NodeId, [u64; 2]> = BTreeMap::new();
        for (at, &megabytes) in values.iter().enumerate().filter(|(_, value)| **value > 0) {
            match (ranks[at / count], ranks[at % count]) {
                (Some(one), Some(other)) if one != other => {
                    self.draft.link(one, other, label, Said::Rate(megabytes as f64 / 1e3))?;
                }
                (Some(one), None) => {
                    let sum = &mut switched.entry(one).or_default()[0];
                    *sum = sum.saturating_add(megabytes);
                }
                (None, Some(other)) => {
                    let sum = &mut switched.entry(other).or_default()[1];
                    *sum = sum.saturating_add(megabytes);
                }
                _ => {}
            }
        }
        if switched.is_empty() {
            return Ok(());
        }
        let switch = self.draft.node(&format!("{label}-switch"), false)?;
        for (rank, sums) in switched {
            for (sum, from, to) in [(sums[0], rank, switch), (sums[1], switch, rank)] {
                if sum > 0 {
                    self.draft.link(from, to, label, Said::Rate(sum as f64 / 1e3))?;
                }
            }
        }
        Ok(())
    }
}

/// A bridge or a device, with the slowest of the links to it that nothing branches from.
struct Branch<'a> {
    object: &'a Element,
    below: Vec<Branch<'a>>,
    /// In GB/s, where the file says it.
    speed: Option<f64>,
}

/// What is below a host bridge, or the bridge or device itself. A bridge with one thing below is part of the link to it.
fn branches(object: &Element) -> Vec<Branch<'_>> {
    let speed = object.get("pci_link_speed").and_then(|text| text.trim().parse().ok());
    let speed = speed.filter(|speed: &f64| speed.is_finite() && *speed > 0.0);
    if object.get("type") != Some("Bridge") {
        return vec![Branch { object, below: vec![], speed }];
    }
    let children = object.children.iter().filter(|child| matches!(child.get("type"), Some("Bridge" | "PCIDev")));
    let mut below: Vec<Branch> = children.flat_map(branches).filter(is_wanted).collect();
    if object.get("pci_busid").is_none() {
        return below;
    }
    if below.len() == 1 {
        below[0].speed = below[0].speed.into_iter().chain(speed).reduce(f64::min);
        return below;
    }
    vec![Branch { object, below, speed }]
}

fn is_wanted(branch: &Branch) -> bool {
    is_device(branch.object) || !branch.below.is_empty()
}

fn class(object: &Element) -> &str {
    object.get("pci_type").unwrap_or_default()
}

/// Whether a device is a GPU or a network card.
fn is_device(object: &Element) -> bool {
    object.get("type") == Some("PCIDev") && (is_gpu(object) || class(object).starts_with("02"))
}

/// Whether a device computes: 3-D controllers, other displays and accelerators do; what only draws a console does not.
fn is_gpu(object: &Element) -> bool {
    let draws = |text: &str| text.contains("[10de:") || text.contains("[1002:");
    let class = class(object);
    object.get("type") == Some("PCIDev")
        && (["0302", "0380", "12"].iter().any(|kind| class.starts_with(kind))
            || class.starts_with("0300") && draws(class))
}

/// An `<info>` of an object.
fn info<'a>(object: &'a Element, key: &str) -> Option<&'a str> {
    let infos = object.children.iter().filter(|child| child.name == "info");
    infos.filter(|info| info.get("name") == Some(key)).find_map(|info| info.get("value"))
}
