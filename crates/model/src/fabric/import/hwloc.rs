//! Topologies of hwloc: what `lstopo --of xml` writes, versions 1 to 3 (hwloc's `topology-xml.c` and `hwloc2.dtd`). Read are
//! packages and NUMA nodes, PCI bridges and devices with their link speeds, and bandwidths of GPUs to each other, to switches
//! and to processors where hwloc was built with NVML or ROCm SMI.

use super::rates::{self, NamedProcessor};
use super::xml::XmlElement;
use super::{FabricDraft, Port, SaidRate};
use crate::fabric::NodeId;
use antiphon_base::error::{Code, Error, Result};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Most objects of a matrix of bandwidths.
const MAX_OBJECTS: usize = 1 << 12;
/// Matrices of bandwidths in MB/s, and what links with them are called.
const MATRICES: [(&str, &str); 2] = [("NVLinkBandwidth", "nvlink"), ("XGMIBandwidth", "xgmi")];

/// Reads a `<topology>`. O(elements).
pub fn read(root: &XmlElement) -> Result<FabricDraft> {
    let mut reader = HwlocReader::default();
    for object in &root.children {
        reader.gpus(object)?;
    }
    if reader.found == 0 {
        let what = "no GPU: no PCI device of class 0302, 0380 or 12, nor a graphics card of NVIDIA or AMD";
        return Err(Error::new(Code::BadFile, what));
    }
    // Version 3 says of the whole topology what others say of its machine.
    let above = WalkPlace::default().within(root);
    for object in &root.children {
        reader.object(object, &above)?;
    }
    let matrices: Vec<_> = root
        .children
        .iter()
        .filter(|child| child.name.starts_with("distances2"))
        .filter_map(|child| Some((child, MATRICES.iter().find(|(name, _)| child.get("name") == Some(*name))?.1)))
        .collect();
    for (matrix, _) in &matrices {
        reader.processors(matrix)?;
    }
    let domains = std::mem::take(&mut reader.domains);
    for (at, &(one, said)) in domains.iter().enumerate() {
        for &(other, back) in &domains[at + 1..] {
            reader.draft.link(one, other, "cpu", said)?;
            reader.draft.link(other, one, "cpu", back)?;
        }
    }
    for (matrix, label) in &matrices {
        reader.matrix(matrix, label)?;
    }
    if matrices.is_empty() && reader.found > 1 {
        reader.draft.note(
            "no bandwidths between GPUs in the file (hwloc has them with NVML or ROCm SMI): NVLinks and xGMI links are not there, only PCI",
        );
    }
    // Where some cards are made for clusters, the others are not what joins boxes.
    let some = reader.cards.iter().any(|(_, is_fabric)| *is_fabric);
    let cards = reader.cards.iter().filter(|(_, is_fabric)| *is_fabric == some);
    reader.draft.ports = cards.map(|(node, _)| Port::Card(*node)).collect();
    Ok(reader.draft)
}

/// Where in the tree a walk is.
#[derive(Default, Clone)]
struct WalkPlace<'a> {
    processor: NamedProcessor<'a>,
    /// The domain that devices here belong to: its name.
    domain: String,
    /// The package that is in.
    package: String,
}

impl<'a> WalkPlace<'a> {
    /// The same place with what an object says of its processor.
    fn within(&self, object: &'a XmlElement) -> WalkPlace<'a> {
        let info = |key: &str| info(object, key);
        let number = |key: &str| info(key).and_then(|text| text.trim().parse().ok());
        let NamedProcessor { architecture, vendor, family, model } = self.processor;
        let processor = NamedProcessor {
            architecture: info("Architecture").or(architecture),
            vendor: info("CPUVendor").or(vendor),
            family: number("CPUFamilyNumber").or(family),
            model: number("CPUModelNumber").or(model),
        };
        WalkPlace { processor, ..self.clone() }
    }
}

#[derive(Default)]
struct HwlocReader<'a> {
    draft: FabricDraft,
    /// Ranks by bus, as many as there are.
    ranks: HashMap<String, NodeId>,
    found: usize,
    /// What a matrix calls devices that are GPUs: the rank, and the processor that it is below.
    devices: HashMap<String, (NodeId, NodeId)>,
    /// What a matrix calls objects that are no devices, and their places.
    places: HashMap<String, WalkPlace<'a>>,
    /// Processors that have devices, by name, with the package that each is in, and how they are joined to others.
    nodes: BTreeMap<String, (NodeId, String)>,
    domains: Vec<(NodeId, SaidRate)>,
    names: HashSet<String>,
    /// Network cards, and whether they are of InfiniBand or RoCE.
    cards: Vec<(NodeId, bool)>,
}

impl<'a> HwlocReader<'a> {
    /// Numbers the GPUs, before all other nodes, in the order of the file.
    fn gpus(&mut self, object: &XmlElement) -> Result<()> {
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
    fn object(&mut self, object: &'a XmlElement, above: &WalkPlace<'a>) -> Result<()> {
        if object.name != "object" {
            return Ok(());
        }
        let kind = object.text_of("type")?;
        if matches!(kind, "Bridge" | "PCIDev") {
            let branches = branches(object);
            if branches.iter().any(is_wanted) {
                let domain = self.domain(above)?;
                for branch in branches {
                    self.branch(branch, domain, domain)?;
                }
            }
            return Ok(());
        }
        let mut place = above.within(object);
        let index = object.get("os_index").unwrap_or("0");
        let memory = object.children.iter().find(|child| child.get("type") == Some("NUMANode"));
        match (kind, memory) {
            ("Machine", _) => place.domain = "machine".into(),
            ("Package" | "Socket", _) => {
                place.domain = format!("package{index}");
                place.package = place.domain.clone();
            }
            ("NUMANode", _) => place.domain = format!("numa{index}"),
            (_, Some(memory)) => place.domain = format!("numa{}", memory.get("os_index").unwrap_or("0")),
            _ => {}
        }
        for named in std::iter::once(object).chain(memory) {
            if let Some(name) = called(named) {
                self.places.insert(name, place.clone());
            }
        }
        object.children.iter().try_for_each(|child| self.object(child, &place))
    }

    /// Adds the processors that a matrix names.
    fn processors(&mut self, matrix: &XmlElement) -> Result<()> {
        for name in indexes(matrix) {
            if self.processor(&name, None).is_none()
                && let Some(place) = self.places.get(&name).cloned()
            {
                self.domain(&place)?;
            }
        }
        Ok(())
    }

    /// The node of the processor at a place.
    fn domain(&mut self, place: &WalkPlace<'a>) -> Result<NodeId> {
        let name = if place.domain.is_empty() { "machine" } else { &place.domain };
        if let Some(&(node, _)) = self.nodes.get(name) {
            return Ok(node);
        }
        let node = self.draft.node(name, false)?;
        self.nodes.insert(name.into(), (node, place.package.clone()));
        // hwloc names the architecture only of newer machines' roots; what has a vendor is x86.
        let processor = NamedProcessor {
            architecture: place.processor.architecture.or(place.processor.vendor.map(|_| "x86_64")),
            ..place.processor
        };
        let said = match processor.between() {
            Some(rate) => SaidRate::Nothing(Some(rate), "what NCCL counts on between these processors"),
            None => SaidRate::Nothing(None, "processors that NCCL does not know"),
        };
        self.domains.push((node, said));
        Ok(node)
    }

    /// Adds what is wanted of a bridge or device below a node.
    fn branch(&mut self, branch: Branch, above: NodeId, domain: NodeId) -> Result<()> {
        let Branch { object, below, speed } = branch;
        if !below.iter().any(is_wanted) && !is_device(object) {
            return Ok(());
        }
        let said = match speed {
            Some(rate) => SaidRate::Rate(rate),
            None => {
                let rate = rates::LANES * rates::LANE;
                SaidRate::Nothing(Some(rate), "PCI without a speed, which NCCL takes for 16 lanes of 8 GT/s")
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
                let node = self.draft.node(&name, false).map_err(|error| object.wrong(error.message))?;
                self.cards.push((node, object.children.iter().any(is_fabric)));
                node
            }
            _ => self.draft.node(&format!("pci-{bus}"), false).map_err(|error| object.wrong(error.message))?,
        };
        self.draft.both(node, above, "pci", said).map_err(|error| object.wrong(error.message))?;
        if is_gpu(object) {
            let names = std::iter::once(object).chain(&object.children).filter_map(called);
            self.devices.extend(names.map(|name| (name, (node, domain))));
        }
        below.into_iter().try_for_each(|branch| self.branch(branch, node, domain))
    }

    /// The processor that a matrix names. Where that is several, the one that a device is below, if it is among them.
    fn processor(&self, name: &str, near: Option<NodeId>) -> Option<NodeId> {
        let named = &self.places.get(name)?.domain;
        let own = self.nodes.get(named).map(|(node, _)| *node);
        let parts = || self.nodes.values().filter(|(_, package)| package == named).map(|(node, _)| *node);
        own.or_else(|| parts().find(|part| near == Some(*part))).or_else(|| parts().next())
    }

    /// Bandwidths from each object to each. What is neither GPU nor processor is a switch; all switches are one node, as in
    /// NCCL.
    fn matrix(&mut self, matrix: &XmlElement, label: &str) -> Result<()> {
        let count = matrix.whole("nbobjs")?.and_then(|count| usize::try_from(count).ok());
        let count = count.filter(|count| (1..=MAX_OBJECTS).contains(count));
        let count = count.ok_or_else(|| matrix.wrong(format!("nbobjs is not 1 to {MAX_OBJECTS}")))?;
        if matrix.name == "distances2" && matrix.get("indexing") != Some("gp") {
            return Err(matrix.wrong("indexing is not 'gp'"));
        }
        let names: Vec<String> = indexes(matrix).take(count + 1).collect();
        let values: Vec<u64> =
            words(matrix, "u64values").take(count * count + 1).map_while(|word| word.parse().ok()).collect();
        if (names.len(), values.len()) != (count, count * count) {
            let what =
                format!("{} indexes and {} numbers, expected {count} and {}", names.len(), values.len(), count * count);
            return Err(matrix.wrong(what));
        }
        let gpus: Vec<_> = names.iter().map(|name| self.devices.get(name).copied()).collect();
        let node = |at: usize, peer: usize| match gpus[at] {
            Some((gpu, _)) => Some(gpu),
            None => self.processor(&names[at], gpus[peer].map(|(_, domain)| domain)),
        };
        let mut switched: BTreeMap<NodeId, [u64; 2]> = BTreeMap::new();
        let mut joined = vec![];
        for (at, &megabytes) in values.iter().enumerate().filter(|(at, value)| **value > 0 && at / count != at % count)
        {
            let (from, to) = (at / count, at % count);
            let (node, way) = match (node(from, to), node(to, from)) {
                (Some(from), Some(to)) => {
                    joined.push((from, to, megabytes));
                    continue;
                }
                (Some(from), None) => (from, 0),
                (None, Some(to)) => (to, 1),
                _ => continue,
            };
            let sum = &mut switched.entry(node).or_default()[way];
            *sum = sum.saturating_add(megabytes);
        }
        for (from, to, megabytes) in joined.into_iter().filter(|(from, to, _)| from != to) {
            self.draft.link(from, to, label, SaidRate::Rate(megabytes as f64 / 1e3))?;
        }
        if switched.is_empty() {
            return Ok(());
        }
        let switch = self.draft.node(&format!("{label}-switch"), false)?;
        for (rank, sums) in switched {
            for (sum, from, to) in [(sums[0], rank, switch), (sums[1], switch, rank)] {
                if sum > 0 {
                    self.draft.link(from, to, label, SaidRate::Rate(sum as f64 / 1e3))?;
                }
            }
        }
        Ok(())
    }
}

/// A bridge or a device, with the slowest of the links to it that nothing branches from.
struct Branch<'a> {
    object: &'a XmlElement,
    below: Vec<Branch<'a>>,
    /// In GB/s, where the file says it.
    speed: Option<f64>,
}

/// What is below a host bridge, or the bridge or device itself. A bridge with one thing below is part of the link to it.
fn branches(object: &XmlElement) -> Vec<Branch<'_>> {
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

fn class(object: &XmlElement) -> &str {
    object.get("pci_type").unwrap_or_default()
}

/// Whether a device is a GPU or a network card.
fn is_device(object: &XmlElement) -> bool {
    object.get("type") == Some("PCIDev") && (is_gpu(object) || class(object).starts_with("02"))
}

/// Whether a device computes: 3-D controllers, other displays and accelerators do; what only draws a console does not.
fn is_gpu(object: &XmlElement) -> bool {
    let class = class(object);
    object.get("type") == Some("PCIDev")
        && (["0302", "0380", "12"].iter().any(|kind| class.starts_with(kind))
            || class.starts_with("0300")
                && numbers(class).is_some_and(|(vendor, device)| rates::computes(vendor, device)))
}

/// Vendor and device of `0300 [1002:515e] [1028:00fb] 02`.
fn numbers(class: &str) -> Option<(u16, u16)> {
    let (vendor, device) = class.split_once('[')?.1.split_once(']')?.0.split_once(':')?;
    Some((u16::from_str_radix(vendor, 16).ok()?, u16::from_str_radix(device, 16).ok()?))
}

/// Whether something is a device of OpenFabrics: 3 among the kinds that versions 1 and 2 number, a bit of its own in version 3.
fn is_fabric(object: &XmlElement) -> bool {
    let kind = object.get("osdev_type").and_then(|kind| kind.parse::<u32>().ok());
    object.get("type") == Some("OSDev") && kind.is_some_and(|kind| kind == 3 || kind & 32 != 0)
}

/// What a matrix calls an object: its type and its `gp_index`.
fn called(object: &XmlElement) -> Option<String> {
    Some(format!("{}:{}", object.get("type")?, object.get("gp_index")?))
}

/// Words of a kind of children of a matrix.
fn words<'a>(matrix: &'a XmlElement, name: &'a str) -> impl Iterator<Item = &'a str> {
    let parts = matrix.children.iter().filter(move |child| child.name == name);
    parts.flat_map(|child| child.text.split_ascii_whitespace())
}

/// What a matrix is about, as [`called`] names it.
fn indexes(matrix: &XmlElement) -> impl Iterator<Item = String> {
    let kind = matrix.get("type").unwrap_or("OSDev");
    words(matrix, "indexes")
        .map(move |word| if word.contains(':') { word.to_string() } else { format!("{kind}:{word}") })
}

/// An `<info>` of an object.
fn info<'a>(object: &'a XmlElement, key: &str) -> Option<&'a str> {
    let infos = object.children.iter().filter(|child| child.name == "info");
    infos.filter(|info| info.get("name") == Some(key)).find_map(|info| info.get("value"))
}
