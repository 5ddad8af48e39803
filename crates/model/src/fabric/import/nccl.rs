//! Topologies of NCCL and RCCL: what `NCCL_TOPO_DUMP_FILE` writes and `NCCL_TOPO_FILE` names, `<system>` of `<cpu>`, `<pci>`,
//! `<gpu>`, `<nic>`, `<net>`, `<nvlink>` or `<xgmi>` (`src/graph/xml.cc` and `topo.cc` of NCCL).

use super::rates::{self, NamedProcessor};
use super::xml::XmlElement;
use super::{FabricDraft, Port, SaidRate};
use crate::fabric::{MAX_RANKS, NodeId, link};
use antiphon_base::error::{Code, Error, Result};
use std::collections::{BTreeSet, HashMap};

/// Most NVLinks between two devices.
const MAX_LINKS_OF_PAIR: i64 = 1024;

/// Reads a `<system>`. O(elements + pairs of processors).
pub fn read(root: &XmlElement) -> Result<FabricDraft> {
    let mut reader = NcclReader::default();
    for hash in root.children.iter().filter_map(|cpu| cpu.get("host_hash")) {
        let next = reader.hosts.len();
        reader.hosts.entry(hash).or_insert(next);
    }
    reader.gpus_of(root)?;
    // Ranks as the file numbers them, where it does; else in the order of the file.
    let numbers: BTreeSet<_> = reader.gpus.iter().filter_map(|gpu| gpu.rank).collect();
    if numbers.len() == reader.gpus.len() && numbers.first().is_none_or(|&first| first >= 0) {
        reader.gpus.sort_by_key(|gpu| gpu.rank);
    }
    for gpu in 0..reader.gpus.len() {
        reader.gpus[gpu].node = reader.draft.node(&format!("gpu{gpu}"), true)?;
    }
    reader.by_place = reader.gpus.iter().map(|gpu| ((gpu.host, gpu.bus.clone()), gpu.node)).collect();
    let mut processors = vec![];
    for child in &root.children {
        match child.name.as_str() {
            "cpu" => processors.push(reader.processor(child)?),
            other => reader.ignored(other),
        }
    }
    for (at, &(one, host, said)) in processors.iter().enumerate() {
        for &(other, other_host, other_said) in &processors[at + 1..] {
            if host == other_host {
                reader.draft.link(one, other, "cpu", said)?;
                reader.draft.link(other, one, "cpu", other_said)?;
            }
        }
    }
    for gpu in std::mem::take(&mut reader.gpus) {
        reader.fast_links(&gpu)?;
    }
    reader.finish()
}

/// A GPU, before everything is known that it is joined to.
struct NcclGpu<'a> {
    element: Option<&'a XmlElement>,
    host: usize,
    bus: String,
    rank: Option<i64>,
    node: NodeId,
    /// The processor that it is below.
    cpu: Option<NodeId>,
}

#[derive(Default)]
struct NcclReader<'a> {
    draft: FabricDraft,
    hosts: HashMap<&'a str, usize>,
    gpus: Vec<NcclGpu<'a>>,
    by_place: HashMap<(usize, String), NodeId>,
    /// Joins all NVSwitches, which NCCL takes for one too; by GPU the first of its two links with it.
    nvswitch: Option<NodeId>,
    switched: HashMap<NodeId, usize>,
    ignored: BTreeSet<String>,
    /// GPUs that are only a class of a PCI device.
    bare: usize,
    /// Links to what is not in the file.
    elsewhere: usize,
    /// Links of a GPU to itself, which NCCL accepts in files of virtual machines.
    to_itself: usize,
}

impl<'a> NcclReader<'a> {
    fn host(&self, cpu: &XmlElement) -> usize {
        cpu.get("host_hash").map_or(0, |hash| self.hosts[hash])
    }

    /// In front of names, where there is more than one host.
    fn prefix(&self, host: usize) -> String {
        if self.hosts.len() > 1 { format!("host{host}.") } else { String::new() }
    }

    fn ignored(&mut self, name: &str) {
        if self.ignored.len() < 8 {
            self.ignored.insert(name.chars().take(40).collect());
        }
    }

    /// Finds the GPUs, which are numbered before all other nodes.
    fn gpus_of(&mut self, root: &'a XmlElement) -> Result<()> {
        for cpu in root.children.iter().filter(|child| child.name == "cpu") {
            let host = self.host(cpu);
            let mut open: Vec<&XmlElement> = cpu.children.iter().rev().filter(|child| child.name == "pci").collect();
            if let Some(gpu) = cpu.children.iter().find(|child| child.name == "gpu") {
                return Err(gpu.wrong("it is within <cpu>; a GPU is within its <pci>"));
            }
            while let Some(pci) = open.pop() {
                let Some((element, bus)) = gpu_of(pci)? else {
                    if !is_nic(pci) {
                        open.extend(pci.children.iter().rev().filter(|child| child.name == "pci"));
                    }
                    continue;
                };
                let rank = element.map_or(Ok(None), |element| element.whole("rank"))?;
                if self.gpus.iter().any(|gpu| (gpu.host, &gpu.bus) == (host, &bus)) {
                    return Err(pci.wrong("there is another device with this busid"));
                }
                self.gpus.push(NcclGpu { element, host, bus, rank, node: 0, cpu: None });
                if self.gpus.len() > MAX_RANKS {
                    let what = format!("more than {} GPUs", MAX_RANKS);
                    return Err(Error::new(Code::TooLarge, what));
                }
            }
        }
        Ok(())
    }

    fn processor(&mut self, cpu: &'a XmlElement) -> Result<(NodeId, usize, SaidRate)> {
        let host = self.host(cpu);
        let number = cpu.whole("numaid")?.ok_or_else(|| cpu.wrong("numaid is missing"))?;
        let name = format!("{}cpu{number}", self.prefix(host));
        let node = self.draft.node(&name, false).map_err(|error| cpu.wrong(error.message))?;
        let processor = NamedProcessor {
            architecture: cpu.get("arch"),
            vendor: cpu.get("vendor"),
            family: cpu.whole("familyid")?,
            model: cpu.whole("modelid")?,
        };
        let said = match processor.between() {
            Some(rate) => SaidRate::Nothing(Some(rate), "what NCCL counts on between these processors"),
            None => SaidRate::Nothing(None, "processors that NCCL does not know"),
        };
        for child in &cpu.children {
            match child.name.as_str() {
                "pci" => self.pci(child, node, node, host)?,
                "nic" => {
                    let said = SaidRate::Nothing(Some(5000.0), "a NIC of no PCI device, which NCCL takes not to limit");
                    let name = format!("{}nic{}", self.prefix(host), self.draft.nodes.len());
                    let nic = self.draft.node(&name, false)?;
                    self.nic(child, nic, node, host, said)?;
                }
                other => self.ignored(other),
            }
        }
        Ok((node, host, said))
    }

    fn pci(&mut self, pci: &'a XmlElement, above: NodeId, cpu: NodeId, host: usize) -> Result<()> {
        let said = pci_rate(pci)?;
        if let Some((element, bus)) = gpu_of(pci)? {
            self.bare += usize::from(element.is_none());
            let gpu = self.gpus.iter_mut().find(|gpu| gpu.host == host && gpu.bus == bus).expect("found before");
            gpu.cpu = Some(cpu);
            let node = gpu.node;
            self.draft.both(node, above, "pci", said)?;
            return Ok(());
        }
        let class = pci.get("class").unwrap_or_default();
        // The PCI side of an NVSwitch, which carries no data between GPUs.
        if pci.children.is_empty() && class.starts_with("0x0680") {
            return Ok(());
        }
        if is_nic(pci) {
            if pci.children.is_empty() {
                let node = self.named("nic", pci, host)?;
                self.draft.ports.push(Port::Card(node));
                return self.draft.both(node, above, "pci", said);
            }
            for child in &pci.children {
                match child.name.as_str() {
                    "nic" => {
                        let nic = self.named("nic", pci, host)?;
                        self.nic(child, nic, above, host, said)?;
                    }
                    other => self.ignored(other),
                }
            }
            return Ok(());
        }
        let node = self.named("pci", pci, host)?;
        self.draft.both(node, above, "pci", said)?;
        for child in &pci.children {
            match child.name.as_str() {
                "pci" => self.pci(child, node, cpu, host)?,
                other => self.ignored(other),
            }
        }
        Ok(())
    }

    /// A node that forwards, named after its bus.
    fn named(&mut self, kind: &str, pci: &XmlElement, host: usize) -> Result<NodeId> {
        let mut name = format!("{}{kind}-{}", self.prefix(host), pci.text_of("busid")?);
        // Made-up files have a bus twice, which nothing refers to.
        if self.draft.ids.contains_key(&name) {
            name = format!("{name}.{}", self.draft.nodes.len());
        }
        self.draft.node(&name, false).map_err(|error| pci.wrong(error.message))
    }

    /// A network card, and a node for each of its ports.
    fn nic(&mut self, nic: &XmlElement, node: NodeId, above: NodeId, host: usize, said: SaidRate) -> Result<()> {
        self.draft.both(node, above, "pci", said)?;
        for net in &nic.children {
            if net.name != "net" {
                self.ignored(&net.name);
                continue;
            }
            let number = self.draft.nodes.len().to_string();
            let given = net.get("name").filter(|name| !name.is_empty()).unwrap_or(&number);
            let name = format!("{}{given}", self.prefix(host));
            // Several ports may have the name of their card.
            let name = if self.draft.ids.contains_key(&name) { format!("{name}.{number}") } else { name };
            let port = self.draft.node(&name, false).map_err(|error| net.wrong(error.message))?;
            self.draft.ports.push(Port::Beyond(port));
            let said = match net.whole("speed")? {
                Some(megabits) if megabits > 0 => SaidRate::Rate(megabits as f64 / 8000.0),
                _ => SaidRate::Nothing(Some(rates::NET), "a network without a speed, for which NCCL takes 10 Gb/s"),
            };
            let first = self.draft.links.len();
            self.draft.both(node, port, "net", said).map_err(|error| net.wrong(error.message))?;
            if let Some(micros) = net.number("latency")?.filter(|&micros| micros > 0.0) {
                let latency = link::latency(micros * 1e3).map_err(|error| net.wrong(error.message))?;
                self.draft.links[first..].iter_mut().for_each(|link| link.latency = Some(latency));
            }
        }
        Ok(())
    }

    /// NVLinks, xGMI links and chip-to-chip links of a GPU, from it; what they lead to says the way back.
    fn fast_links(&mut self, gpu: &NcclGpu) -> Result<()> {
        for child in gpu.element.iter().flat_map(|element| &element.children) {
            let element = gpu.element.expect("it has children");
            let (label, rate) = match child.name.as_str() {
                "nvlink" => {
                    let known = element.whole("sm")?.and_then(rates::nvlink);
                    let instead = SaidRate::Nothing(
                        Some(20.0),
                        "NVLinks of an sm that NCCL's list has not, taken as those of an A100",
                    );
                    ("nvlink", known.map_or(instead, SaidRate::Rate))
                }
                "xgmi" => {
                    let known = element.get("gcn").and_then(rates::xgmi);
                    let instead =
                        SaidRate::Nothing(Some(24.0), "xGMI of a GPU that RCCL's list has not, taken as the slowest");
                    ("xgmi", known.map_or(instead, SaidRate::Rate))
                }
                "c2c" => {
                    let rate = child.number("bw")?.ok_or_else(|| child.wrong("bw is missing"))? / 1e3;
                    ("c2c", SaidRate::Rate(rate))
                }
                other => {
                    self.ignored(other);
                    continue;
                }
            };
            let count = child.whole("count")?.ok_or_else(|| child.wrong("count is missing"))?;
            if !(1..=MAX_LINKS_OF_PAIR).contains(&count) {
                return Err(child.wrong(format!("count is {count}, expected 1 to {MAX_LINKS_OF_PAIR}")));
            }
            let said = match rate {
                SaidRate::Rate(rate) => SaidRate::Rate(rate * count as f64),
                SaidRate::Nothing(rate, why) => SaidRate::Nothing(rate.map(|rate| rate * count as f64), why),
            };
            let class = child.get("tclass").unwrap_or_default();
            let cpu = gpu.cpu.expect("every GPU is below a processor");
            let place = |error: Error| child.wrong(error.message);
            if label == "c2c" || class.starts_with("0x068001") {
                self.draft.both(gpu.node, cpu, label, said).map_err(place)?;
                continue;
            }
            let target = child.text_of("target")?;
            match self.by_place.get(&(gpu.host, bus(target))) {
                Some(&other) if other == gpu.node => self.to_itself += 1,
                Some(&other) => self.draft.link(gpu.node, other, label, said).map_err(place)?,
                None if class.starts_with("0x0680") => {
                    let switch = match self.nvswitch {
                        Some(switch) => switch,
                        None => self.draft.node("nvswitch", false)?,
                    };
                    self.nvswitch = Some(switch);
                    self.join_switch(gpu.node, switch, said).map_err(place)?;
                }
                None => self.elsewhere += 1,
            }
        }
        Ok(())
    }

    /// One link for all that lead from a GPU to switches.
    fn join_switch(&mut self, gpu: NodeId, switch: NodeId, said: SaidRate) -> Result<()> {
        match (self.switched.get(&gpu), said) {
            (Some(&first), SaidRate::Rate(more)) => {
                for link in &mut self.draft.links[first..first + 2] {
                    let sum = link.rate.map_or(0.0, |rate| rate.as_gb_per_s()) + more;
                    link.rate = Some(link::rate(sum)?);
                }
                Ok(())
            }
            _ => {
                self.switched.insert(gpu, self.draft.links.len());
                self.draft.both(gpu, switch, "nvlink", said)
            }
        }
    }

    fn finish(self) -> Result<FabricDraft> {
        let NcclReader { mut draft, ignored, bare, elsewhere, to_itself, .. } = self;
        if bare > 0 {
            draft.note(format!(
                "{bare} GPUs are only PCI devices in the file: NCCL finds their NVLinks when it runs (NCCL_TOPO_DUMP_FILE writes them), here they have none"
            ));
        }
        if elsewhere > 0 {
            draft.note(format!("{elsewhere} NVLinks or xGMI links lead to what is not in the file and are left out"));
        }
        if to_itself > 0 {
            draft.note(format!("{to_itself} NVLinks or xGMI links lead from a GPU to itself and are left out"));
        }
        if !ignored.is_empty() {
            let names: Vec<_> = ignored.iter().map(|name| format!("<{name}>")).collect();
            draft.note(format!("not read: {}", names.join(", ")));
        }
        Ok(draft)
    }
}

/// The GPU that a PCI device is, if it is one: its element, if there is one, and its bus.
fn gpu_of(pci: &XmlElement) -> Result<Option<(Option<&XmlElement>, String)>> {
    let mut gpus = pci.children.iter().filter(|child| child.name == "gpu");
    let element = gpus.next();
    if let Some(another) = gpus.next() {
        return Err(another.wrong("a second GPU in one <pci>; parts of a GPU are not read"));
    }
    let class = pci.get("class").unwrap_or_default();
    let leaf = pci.children.iter().all(|child| child.name != "pci" && child.name != "nic");
    let number = |key: &str| Ok::<_, Error>(pci.whole(key)?.and_then(|number| u16::try_from(number).ok()));
    let draws = match (number("vendor")?, number("device")?) {
        (Some(vendor), Some(device)) => class.starts_with("0x0300") && !rates::computes(vendor, device),
        _ => false,
    };
    if element.is_none() && (draws || !(leaf && (class.starts_with("0x03") || class.starts_with("0x12")))) {
        return Ok(None);
    }
    Ok(Some((element, bus(pci.text_of("busid")?))))
}

/// Whether a PCI device is a network card.
fn is_nic(pci: &XmlElement) -> bool {
    let has = |name: &str| pci.children.iter().any(|child| child.name == name);
    has("nic") || pci.get("class").is_some_and(|class| class.starts_with("0x02")) && !has("pci")
}

/// A bus as NCCL compares it: digits alone.
fn bus(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).take(40).map(|c| c.to_ascii_lowercase()).collect()
}

/// The rate of the link from a PCI device upwards.
fn pci_rate(pci: &XmlElement) -> Result<SaidRate> {
    let width = pci.whole("link_width")?.unwrap_or(0);
    if !(0..=32).contains(&width) {
        return Err(pci.wrong(format!("link_width is {width}, expected 0 to 32 lanes")));
    }
    let lane = rates::lane(pci.get("link_speed").unwrap_or_default());
    Ok(match (width, lane) {
        (1.., Some(lane)) => SaidRate::Rate(width as f64 * lane),
        _ => {
            let lanes = if width > 0 { width as f64 } else { rates::LANES };
            let rate = lanes * lane.unwrap_or(rates::LANE);
            SaidRate::Nothing(Some(rate), "what NCCL takes for 16 lanes or 8 GT/s where either is not said")
        }
    })
}
