//! What presets of machines share: kinds of links that have rates of their own, which `@` replaces, boxes, and the
//! network between them.

use super::link::LinkParameters;
use super::spec::PresetRequest;
use super::{Dimension, DimensionShape, Fabric, Link, MAX_RANKS, Node, NodeId, Reduces, SwitchCompute};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::{
    Default::{Derived, Fixed},
    Opt,
};
use antiphon_base::units::{Picos, Rate};

/// Rates of a kind of links of a machine, in one direction.
pub(super) struct MachineRate {
    /// The machine's preset.
    machine: &'static str,
    /// Label of the links.
    label: &'static str,
    /// What a library reaches, and what the hardware is sold with, in MB/s.
    usable: u64,
    raw: u64,
    latency: Option<Picos>,
}

const fn rate(machine: &'static str, label: &'static str, usable: u64, raw: u64) -> MachineRate {
    MachineRate { machine, label, usable, raw, latency: Some(HOP) }
}

/// The same of links that have the system's latency.
const fn direct(machine: &'static str, usable: u64, raw: u64) -> MachineRate {
    MachineRate { latency: None, ..rate(machine, "link", usable, raw) }
}

/// Rates of all machines, kinds in the order of `@`. Usable rates of NVLink are those that NCCL counts on
/// (`src/graph/topo.h`, 2.30), those of NICs behind PCIe Gen5 too (16 lanes of it are 48 GB/s there); of xGMI those of
/// RCCL. docs/reference/fabric.md has the source of each.
const RATES: [MachineRate; 22] = [
    rate("dgx-v100", "nvlink", 20_000, 25_000),
    rate("dgx-a100", "nvlink", 240_000, 300_000),
    rate("dgx-a100", "ib", 25_000, 25_000),
    rate("dgx-h100", "nvlink", 370_800, 450_000),
    rate("dgx-h100", "rail", 48_000, 50_000),
    rate("dgx-h200", "nvlink", 370_800, 450_000),
    rate("dgx-h200", "rail", 48_000, 50_000),
    rate("dgx-b200", "nvlink", 721_800, 900_000),
    rate("dgx-b200", "rail", 48_000, 50_000),
    rate("h800", "nvlink", 164_800, 200_000),
    rate("h800", "rail", 48_000, 50_000),
    rate("gb200-nvl72", "nvlink", 721_800, 900_000),
    rate("gb200-nvl72", "rail", 48_000, 50_000),
    direct("dgx-spark", 25_000, 25_000),
    rate("mi250", "xgmi", 36_000, 50_000),
    rate("mi250", "ib", 16_000, 16_000),
    rate("mi300x", "xgmi", 48_000, 64_000),
    rate("mi300x", "rail", 50_000, 50_000),
    direct("tpu-v4", 50_000, 50_000),
    direct("tpu-v5p", 100_000, 100_000),
    direct("tt-galaxy", 47_200, 50_000),
    direct("fugaku", 6_800, 6_800),
];

/// What GPUs read of sums through the switches of a box, in MB/s a GPU: an AllReduce of `n` GPUs moves its data `(n + 1) / n` times in and
/// out of each (nccl-tests, pull request 239), which is 480 GB/s of bus bandwidth of 8 H100 (NVIDIA/nccl, issue 1455) and 847 of
/// 72 GB200 (coreweave/nccl-tests). H800 has it as a share of its links.
const NVLS: [(&str, u64); 5] =
    [("dgx-h100", 308_000), ("dgx-h200", 308_000), ("dgx-b200", 435_000), ("h800", 136_900), ("gb200-nvl72", 435_000)];

/// The switch of a box of a machine, which adds and multicasts if its generation does; as fast as its links for raw or given rates.
pub(super) fn box_switch(machine: &str, request: &PresetRequest, name: String, place: [f64; 2]) -> Node {
    let is_usable = !request.gives_rates() && request.options.given("raw").is_none();
    let nvls = NVLS.iter().find(|known| known.0 == machine);
    let compute = nvls.map(|&(_, mb_per_s)| SwitchCompute {
        rate: is_usable.then_some(Rate(1_000_000 * mb_per_s)),
        ..SwitchCompute::of(Reduces::OnRead)
    });
    Node { compute, ..Node::switch(name, place) }
}

/// Option of machines that have two rates.
pub(super) const RAW: Opt = Opt::flag("raw", Fixed("no"), "Raw rates of all links instead of usable ones.");

/// Options of boxes.
pub(super) const NICS: Opt =
    Opt::count("nics", 1, 8, Derived("one a GPU"), "Network cards of a box; neighbouring GPUs share one over PCIe.");
pub(super) const BOXES: &[Opt] = &[
    RAW,
    NICS,
    Opt::choice(
        "rails",
        &["switch", "leaf-spine"],
        "A rail is one switch, or a leaf a unit of 32 boxes, below spines.",
    ),
    Opt::count("ratio", 1, 32, Fixed("1"), "Cables down of a leaf for one up; needs rails=leaf-spine."),
];

/// A kind of links of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkKind {
    /// What its links are labelled with.
    pub label: &'static str,
    /// Rate of a link in one direction.
    pub rate: Rate,
    /// Latency of a link; `None` for the system's.
    pub latency: Option<Picos>,
    /// Energy of a byte in attojoules; `None` for the system's.
    pub energy: Option<u64>,
}

/// Latency of a link of the boxes: what TE-CCL (SIGCOMM 2024) assumes for NVLink. Other links are taken alike.
const HOP: Picos = 700_000;

impl LinkKind {
    /// As many links of this kind, side by side, as one.
    pub fn times(self, count: u32) -> LinkKind {
        LinkKind { rate: Rate(self.rate.0.saturating_mul(count.into())), ..self }
    }

    /// The link of this kind from a node to another.
    pub fn link(&self, from: NodeId, to: NodeId) -> Link {
        Link { rate: Some(self.rate), latency: self.latency, energy: self.energy, ..Link::new(from, to, self.label) }
    }

    /// Links of this kind both ways.
    pub fn both(&self, one: NodeId, other: NodeId) -> [Link; 2] {
        [self.link(one, other), self.link(other, one)]
    }

    /// A dimension in which nodes are joined by links of this kind.
    pub fn dimension(&self, shape: DimensionShape, size: u32) -> Dimension {
        let hops = if shape == DimensionShape::Switch { 2 } else { 1 };
        let latency = self.latency.map(|latency| latency.saturating_mul(hops));
        let dimension = Dimension { latency, energy: self.energy, ..Dimension::new(shape, size.into()) };
        dimension.with_link_rate(Some(self.rate))
    }
}

/// The first `N` kinds of links of a machine, usable or raw as the request says, or with what `@` gives for each in
/// their order; what it leaves out stays as it is.
///
/// # Errors
/// [`Code::BadSpec`] unless there are no parameters or one for each kind, or for both `raw` and parameters.
pub(super) fn given<const N: usize>(machine: &str, request: &PresetRequest) -> Result<[LinkKind; N]> {
    let (parameters, raw) = (request.parameters, request.options.given("raw").is_some_and(|raw| raw.flag()));
    let own: Vec<&MachineRate> = RATES.iter().filter(|rate| rate.machine == machine).take(N).collect();
    let kind = |n: usize| {
        let MachineRate { label, usable, raw: most, latency, .. } = *own[n];
        LinkKind { label, rate: Rate(1_000_000 * if raw { most } else { usable }), latency, energy: None }
    };
    let mut kinds: [LinkKind; N] = std::array::from_fn(kind);
    if raw && request.gives_rates() {
        return Err(request.refused("raw and @ both give rates; write one of them"));
    }
    if !parameters.is_empty() && parameters.len() != N {
        let labels = kinds.map(|kind| kind.label).join(", ");
        let example = kinds.map(|kind| kind.rate.as_gb_per_s().to_string()).join("+");
        let (rates, count) = (plural(parameters.len(), "rate"), plural(N, "kind"));
        let how = if N == 1 { "write one" } else { "write one for each, joined by +" };
        return Err(request.refused(format!("{rates} for {count} of links ({labels}); {how}, for example @{example}")));
    }
    for (kind, given) in kinds.iter_mut().zip(parameters) {
        (kind.rate, kind.latency) = (given.rate.unwrap_or(kind.rate), given.latency.or(kind.latency));
        kind.energy = given.energy;
    }
    Ok(kinds)
}

/// A fabric whose links are all of the one kind of a machine, or have what `@` gives: one for all or one for each
/// dimension.
///
/// # Errors
/// As [`given`], and for other numbers of parameters.
pub(super) fn of_one_kind(machine: &str, request: &PresetRequest, fabric: Result<Fabric>) -> Result<Fabric> {
    let raw = request.options.given("raw").is_some();
    let of_kind = if raw && request.gives_rates() { request.parameters } else { &[] };
    let [LinkKind { rate, latency, .. }] = given(machine, &PresetRequest { parameters: of_kind, ..*request })?;
    let parameters = &request.parameters_or(LinkParameters { rate: Some(rate), latency, energy: None })[..];
    PresetRequest { parameters, ..*request }.with_parameters(fabric)
}

fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Refuses what are no boxes of `gpus` ranks each, before memory is taken.
///
/// # Errors
/// [`Code::BadSpec`] for none, [`Code::TooLarge`] past [`MAX_RANKS`].
pub(super) fn check_boxes(name: &str, boxes: u32, gpus: u32) -> Result<()> {
    let most = MAX_RANKS as u32 / gpus;
    if boxes == 0 {
        return Err(Error::new(Code::BadSpec, format!("fabric '{name}': needs at least 1 box")));
    }
    if boxes > most {
        let what = format!("fabric '{name}': at most {most} boxes of {gpus} ranks, {MAX_RANKS} ranks in all");
        return Err(Error::new(Code::TooLarge, what));
    }
    Ok(())
}

/// The ranks of some boxes, numbered box by box: `gpuB.G` is rank `B * gpus + G`. `place` gives the row and column
/// of GPU `G` in a drawing of one box; boxes are `pitch` columns apart.
pub(super) fn gpus(boxes: u32, gpus: u32, pitch: f64, place: impl Fn(u32) -> [f64; 2]) -> Vec<Node> {
    let gpu = |rank: u32| {
        let (at, gpu) = (rank / gpus, rank % gpus);
        let [row, column] = place(gpu);
        Node { name: format!("gpu{at}.{gpu}"), ..Node::rank(rank, [row, column + pitch * f64::from(at)]) }
    };
    (0..boxes * gpus).map(gpu).collect()
}

/// Boxes in a scalable unit of a DGX SuperPOD, whose NICs of one rail are on one leaf; ports of a switch (NVIDIA, "DGX
/// SuperPOD: Reference Architecture").
const UNIT: u32 = 32;
const PORTS: u32 = 64;

/// Network cards of a box.
///
/// # Errors
/// [`Code::BadSpec`] unless they divide its GPUs, or for options of a network between boxes where there is one box.
pub(super) fn nics(request: &PresetRequest, boxes: u32, gpus: u32) -> Result<u32> {
    let given = |key| request.options.given(key).is_some();
    if boxes == 1 && ["nics", "rails", "ratio"].into_iter().any(given) {
        return Err(
            request.refused("a box by itself has no network; write at least 2 boxes, or leave its options away")
        );
    }
    let nics = request.options.given("nics").map_or(gpus, |nics| nics.whole() as u32);
    if !gpus.is_multiple_of(nics) {
        return Err(request.refused(format!("{nics} NICs do not divide the {gpus} GPUs of a box")));
    }
    Ok(nics)
}

/// Joins boxes by their rails, and gives the dimension that they make if every GPU has a NIC and a rail is one switch.
/// NIC `j` of every box is on rail `j`. Fewer NICs than GPUs are nodes, `nicB.J`, which neighbouring GPUs share. A
/// rail is the switch `railJ`, drawn in row `J` of a column, or has a leaf for every unit of boxes, below spines.
///
/// # Errors
/// As [`nics`]; [`Code::BadSpec`] for a ratio that does not divide the cables down of a leaf.
pub(super) fn network(
    request: &PresetRequest,
    (nodes, links): (&mut Vec<Node>, &mut Vec<Link>),
    rail: &LinkKind,
    [boxes, gpus]: [u32; 2],
    column: f64,
) -> Result<Option<Dimension>> {
    let nics = nics(request, boxes, gpus)?;
    let tiers = request.options.given("rails").is_some_and(|rails| rails.text() == "leaf-spine");
    if request.options.given("ratio").is_some() && !tiers {
        return Err(request.refused("ratio= needs rails=leaf-spine"));
    }
    let first = nodes.len() as NodeId;
    let mut ends: Vec<NodeId> = (0..boxes * gpus).collect();
    if nics < gpus {
        let place = |nic| [f64::from(nic * gpus / nics), column];
        ends = (first..first + boxes * nics).collect();
        nodes.extend((0..boxes * nics).map(|nic| {
            let name = format!("nic{}.{}", nic / nics, nic % nics);
            Node::switch(name, place(nic % nics))
        }));
        // PCIe is as fast as the card: both carry what the GPU's path to the network does.
        let pcie = LinkKind { label: "pcie", ..*rail };
        links.extend(
            (0..boxes * gpus).flat_map(|rank| pcie.both(rank, first + rank / gpus * nics + rank % gpus * nics / gpus)),
        );
    }
    let column = if nics < gpus { column + 1.0 } else { column };
    if tiers {
        leaves_and_spines(request, (nodes, links), rail, &ends, [boxes, nics], column)?;
        return Ok(None);
    }
    let first = nodes.len() as NodeId;
    nodes.extend((0..nics).map(|nic| Node::switch(format!("rail{nic}"), [f64::from(nic * gpus / nics), column])));
    links.extend((0..).zip(&ends).flat_map(|(nic, &end)| rail.both(end, first + nic % nics)));
    Ok((nics == gpus).then(|| rail.dimension(DimensionShape::Switch, boxes)))
}

/// A leaf a rail for every 32 boxes, with as many cables up as the ratio leaves of those down. Up to 64 leaves share
/// spines; more have spines for every rail, which cores join. Cables between two switches are one link with the rate
/// of all.
fn leaves_and_spines(
    request: &PresetRequest,
    (nodes, links): (&mut Vec<Node>, &mut Vec<Link>),
    rail: &LinkKind,
    ends: &[NodeId],
    [boxes, nics]: [u32; 2],
    column: f64,
) -> Result<()> {
    let (down, ratio) = (boxes.min(UNIT), request.options.given("ratio").map_or(1, |ratio| ratio.whole() as u32));
    if !down.is_multiple_of(ratio) {
        return Err(request.refused(format!("ratio={ratio} does not divide the {down} cables down of a leaf")));
    }
    let (up, units) = (down / ratio, boxes.div_ceil(UNIT));
    let mut layer = |name: &str, count: u32, at: f64| {
        let first = nodes.len() as NodeId;
        nodes.extend((0..count).map(|n| Node::switch(format!("{name}{n}"), [f64::from(n), column + at])));
        first
    };
    let mut join = |label, lower, upper, cables| {
        let kind = LinkKind { label, ..rail.times(cables) };
        links.extend(kind.both(lower, upper));
    };
    // The fewest switches above that have the ports, each with as many cables to each switch below.
    let least = |ports: u32| (ports..=up).find(|&count| up.is_multiple_of(count)).unwrap_or(up);
    let leaves = layer("leaf", units * nics, 0.0);
    for (nic, &end) in (0..).zip(ends) {
        join(rail.label, end, leaves + nic / nics / UNIT * nics + nic % nics, 1);
    }
    if units * nics <= PORTS {
        let count = least((units * nics * up).div_ceil(PORTS));
        let spines = layer("spine", count, 1.0);
        for leaf in 0..units * nics {
            (0..count).for_each(|spine| join("spine", leaves + leaf, spines + spine, up / count));
        }
        return Ok(());
    }
    let count = least((units * up).div_ceil(PORTS / 2));
    let through = units * up / count;
    let spines = layer("spine", count * nics, 1.0);
    let cores = layer("core", (count * nics).div_ceil(PORTS) * through, 2.0);
    for leaf in 0..units * nics {
        (0..count).for_each(|n| join("spine", leaves + leaf, spines + n * nics + leaf % nics, up / count));
    }
    for spine in 0..count * nics {
        (0..through).for_each(|n| join("core", spines + spine, cores + spine / PORTS * through + n, 1));
    }
    Ok(())
}

#[cfg(test)]
impl Fabric {
    /// Bytes per second that leave a node over all links with a label.
    pub(super) fn rate_out(&self, node: NodeId, label: &str) -> u64 {
        let links = self.out_links(node).iter().map(|&id| self.link(id));
        links.filter(|link| link.dimension == label).filter_map(|link| link.rate).map(|rate| rate.0).sum()
    }

    /// Most links on a shortest way between two ranks, from some 200 of them.
    pub(super) fn diameter(&self) -> usize {
        let from = |rank: usize| {
            let mut hops = vec![usize::MAX; self.nodes.len()];
            let mut queue = std::collections::VecDeque::from([self.node_of_rank(rank as u32)]);
            hops[queue[0] as usize] = 0;
            while let Some(node) = queue.pop_front() {
                for to in self.out_links(node).iter().map(|&id| self.link(id).to) {
                    if hops[to as usize] == usize::MAX {
                        hops[to as usize] = hops[node as usize] + 1;
                        queue.push_back(to);
                    }
                }
            }
            (0..self.ranks() as u32).map(|rank| hops[self.node_of_rank(rank) as usize]).max().unwrap_or(0)
        };
        (0..self.ranks()).step_by(self.ranks() / 200 + 1).map(from).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Switches and cables of DGX SuperPODs of one to 16 units (NVIDIA, "DGX SuperPOD: Reference Architecture", DGX
    /// H100 and B200), and less cables up.
    #[test]
    fn leaves_and_spines_are_those_of_a_superpod() {
        let tiers = |fabric: &Fabric| {
            ["leaf", "spine", "core"].map(|name| fabric.nodes.iter().filter(|node| node.name.starts_with(name)).count())
        };
        for (spec, switches, [up, to_cores]) in [
            ("dgx-h100:32:rails=leaf-spine", [8, 4, 0], [256, 0]),
            ("dgx-h100:64:rails=leaf-spine", [16, 8, 0], [512, 0]),
            ("dgx-h100:96:rails=leaf-spine", [24, 16, 0], [768, 0]),
            ("dgx-b200:127:rails=leaf-spine", [32, 16, 0], [1024, 0]),
            ("dgx-h200:256:rails=leaf-spine", [64, 32, 0], [2048, 0]),
            ("dgx-b200:512:rails=leaf-spine", [128, 128, 64], [4096, 4096]),
            ("dgx-h100:64:rails=leaf-spine,ratio=2", [16, 4, 0], [256, 0]),
            ("dgx-b200:512:rails=leaf-spine,ratio=2", [128, 64, 32], [2048, 2048]),
            ("mi300x:64:nics=4,rails=leaf-spine,ratio=32", [8, 1, 0], [8, 0]),
        ] {
            let fabric = Fabric::parse(spec).unwrap();
            let all = |label| (0..fabric.nodes.len() as NodeId).map(|node| fabric.rate_out(node, label)).sum::<u64>();
            let cable = fabric.links.iter().find(|link| link.dimension == "rail").unwrap().rate.unwrap().0;
            assert_eq!(
                (tiers(&fabric), [all("spine"), all("core")]),
                (switches, [up, to_cores].map(|n| 2 * n * cable)),
                "{spec}"
            );
            // No switch has more cables than ports.
            let cables =
                |node| ["rail", "spine", "core"].map(|label| fabric.rate_out(node, label)).iter().sum::<u64>() / cable;
            assert!((0..fabric.nodes.len() as NodeId).all(|node| cables(node) <= PORTS.into()), "{spec}");
            assert!(fabric.is_symmetric());
        }
    }

    #[test]
    fn gpus_share_nics() {
        let fabric = Fabric::parse("dgx-h100:3:nics=2:raw").unwrap();
        let id = |name: &str| fabric.node(name).unwrap();
        for (gpu, nic) in [("gpu0.3", "nic0.0"), ("gpu0.4", "nic0.1"), ("gpu2.7", "nic2.1")] {
            let pcie = fabric.link(fabric.link_between(id(gpu), id(nic)).unwrap());
            assert_eq!((&*pcie.dimension, pcie.rate), ("pcie", Some(Rate::gb_per_s(50))));
        }
        assert_eq!(fabric.neighbours(id("rail1")), ["nic0.1", "nic1.1", "nic2.1"].map(id));
        assert_eq!(Fabric::parse("mi300x:2:nics=8").unwrap().shape, Fabric::parse("mi300x:2").unwrap().shape);
    }
}
