//! Equal boxes of GPUs around switches, joined by rails, in closed form: a [`Fabric`] has at most 4,096 ranks.

use super::graph::seconds;
use super::wiring::{AddBytes, Wiring};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::clip;
use antiphon_model::fabric::{Fabric, Link, LinkId, NodeId, Router};
use std::collections::BTreeMap;

/// Most ranks of boxes; more are refused before memory is taken.
pub const MAX_BOX_RANKS: u32 = 131_072;

/// Kinds of fabrics that are boxes of GPUs around a switch.
const KINDS: [&str; 6] = ["dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200", "h800", "gb200-nvl72"];

/// Boxes of a scalable unit of a DGX SuperPOD, whose NICs of one rail are on one leaf (NVIDIA, "DGX SuperPOD: Reference
/// Architecture").
const UNIT: u32 = 32;

/// Rate in bytes a second and latency in seconds of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
struct LinkSpeed {
    rate: f64,
    latency_s: f64,
}

/// Equal boxes. A rank has a link to the switch of its box and one from it; a NIC, which neighbouring GPUs may share, has
/// a link to its rail and one from it; a leaf of a unit has a link to the spines and one from them, of the rate of all its
/// cables. Ranks of different rails reach each other over the switch of the sender's box and the NIC of its GPU on the
/// receiver's rail, as NCCL does (PXN, release 2.12).
#[derive(Debug, Clone, PartialEq)]
pub struct EqualBoxes {
    boxes: u32,
    /// Ranks of a box: its first GPUs.
    gpus: u32,
    /// The NIC of each of them.
    nic_of: Vec<u32>,
    /// NICs of a box; none if there is one box.
    nics: u32,
    /// NICs whose numbers leave the same rest are on one rail.
    rails: u32,
    inside: LinkSpeed,
    between: LinkSpeed,
    /// From a leaf to the spines, where rails have leaves.
    leaf: Option<LinkSpeed>,
    /// What the ends of a NIC's link are called, before their numbers.
    nic_name: String,
    rail_name: String,
}

impl EqualBoxes {
    /// The boxes of a fabric specification: `dgx-h100:2048`, `dgx-a100:64:nics=4`, `gb200-nvl72:8:gpus=64`,
    /// `dgx-h100:4@370.8/1us+48`; `None` for other kinds, and what is degraded or a group. Options are those of
    /// [`Fabric::parse`], and `gpus=N`: only the first N GPUs of a box are ranks.
    ///
    /// # Errors
    /// As [`Fabric::parse`]; [`Code::TooLarge`] past [`MAX_BOX_RANKS`]; [`Code::BadSpec`] for `gpus` that a box does not
    /// have, and a ratio that does not divide the cables of a leaf.
    pub fn parse(spec: &str) -> Result<Option<EqualBoxes>> {
        let (head, rates) = spec.split_once('@').map_or((spec, None), |(head, rates)| (head, Some(rates)));
        let mut items = head.split([':', ',']);
        let kind = items.next().unwrap_or_default();
        let degrades = |item: &str| ["drop=", "slow=", "exclude=", "dead="].iter().any(|key| item.starts_with(key));
        if !KINDS.contains(&kind) || spec.contains('[') || spec.split([':', ',']).any(degrades) {
            return Ok(None);
        }
        let refused = |code, what: String| Err(Error::new(code, format!("fabric '{}': {what}", clip(spec))));
        let Some(boxes) = items.next().and_then(|count| count.parse::<u32>().ok()).filter(|&count| count > 0) else {
            let example = Fabric::parse(&format!("{kind}:2")).map(|fabric| fabric.name).unwrap_or_default();
            return refused(Code::BadSpec, format!("has no number of boxes from 1; write for example {example}"));
        };
        // Two boxes have the same links as many; what they cannot have is read here.
        let (mut small, mut ranks_of_box, mut ratio) = (format!("{kind}:{}", boxes.min(2)), None, None);
        for item in items {
            let number = |text: &str| match text.parse::<u32>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(Error::new(Code::BadSpec, format!("fabric '{}': '{}' is no count", clip(spec), clip(item)))),
            };
            match item.split_once('=') {
                Some(("gpus", count)) => ranks_of_box = Some(number(count)?),
                Some(("ratio", count)) if boxes > 1 && kind != "dgx-a100" && kind != "gb200-nvl72" => {
                    ratio = Some(number(count)?);
                }
                _ => small = format!("{small}:{item}"),
            }
        }
        small.extend(rates.map(|rates| format!("@{rates}")));
        let fabric = Fabric::parse(&small)?;
        let all = fabric.ranks() as u32 / boxes.min(2);
        let gpus = ranks_of_box.unwrap_or(all);
        if gpus > all {
            return refused(Code::BadSpec, format!("gpus={gpus}, but a box has {all}; write at most gpus={all}"));
        }
        let most = MAX_BOX_RANKS / gpus;
        if boxes > most {
            return refused(
                Code::TooLarge,
                format!("at most {most} boxes of {gpus} ranks, {MAX_BOX_RANKS} ranks in all"),
            );
        }
        let mut router = Router::new(&fabric);
        let inside = speed(&fabric, &router.route(0, 1)[..1]);
        let mut one = EqualBoxes {
            boxes,
            gpus,
            nic_of: vec![0; gpus as usize],
            nics: 0,
            rails: 1,
            inside,
            between: inside,
            leaf: None,
            nic_name: String::new(),
            rail_name: String::new(),
        };
        if boxes == 1 {
            return Ok(Some(one));
        }
        // From a GPU to the switch of its rail, and on to the same GPU of the other box.
        let (mut ends, mut switches) = (vec![], vec![]);
        for gpu in 0..all {
            let route = router.route(gpu, all + gpu);
            let [end, switch] = [1, 0].map(|back| fabric.link(route[route.len() / 2 - back]).from);
            ends.push(end);
            switches.push(switch);
        }
        let count = |mut nodes: Vec<NodeId>| {
            nodes.sort_unstable();
            nodes.dedup();
            nodes.len() as u32
        };
        let name = |node: NodeId, suffix| fabric.nodes[node as usize].name.trim_end_matches(suffix).to_string();
        (one.nic_name, one.rail_name) = (name(ends[0], "0.0"), name(switches[0], "0"));
        (one.nics, one.rails) = (count(ends), count(switches));
        one.nic_of = (0..gpus).map(|gpu| gpu * one.nics / all).collect();
        let route = router.route(0, all);
        let out = &route[..route.len() / 2];
        one.between = speed(&fabric, out);
        match (one.rail_name == "leaf", ratio) {
            (false, Some(_)) => return refused(Code::BadSpec, "ratio= needs rails=leaf-spine".into()),
            (false, None) => {}
            (true, ratio) => {
                let (down, ratio) = (boxes.min(UNIT), ratio.unwrap_or(1));
                if !down.is_multiple_of(ratio) {
                    let what = format!("ratio={ratio} does not divide the {down} cables down of a leaf");
                    return refused(Code::BadSpec, what);
                }
                let cable = speed(&fabric, &out[out.len() - 1..]);
                one.leaf = Some(LinkSpeed { rate: cable.rate * f64::from(down / ratio), ..cable });
            }
        }
        Ok(Some(one))
    }

    /// Links below those of NICs.
    fn inner_links(&self) -> u32 {
        2 * self.boxes * self.gpus
    }

    /// Links below those of leaves.
    fn box_links(&self) -> u32 {
        self.inner_links() + 2 * self.boxes * self.nics
    }

    fn units(&self) -> u32 {
        self.boxes.div_ceil(UNIT)
    }

    /// The link between a rank and its switch, to (0) or from it (1).
    fn inner(&self, rank: u32, direction: u32) -> u32 {
        2 * rank + direction
    }

    /// The link of the NIC of a GPU of a box, out (0) or in (1).
    fn outer(&self, at: u32, gpu: u32, direction: u32) -> u32 {
        self.inner_links() + 2 * (at * self.nics + self.nic_of[gpu as usize]) + direction
    }

    /// The link of the leaf of a NIC, up (0) or down (1).
    fn upper(&self, at: u32, gpu: u32, direction: u32) -> u32 {
        self.box_links() + 2 * (at / UNIT * self.nics + self.nic_of[gpu as usize]) + direction
    }

    /// Speed of a link.
    fn speed(&self, link: u32) -> LinkSpeed {
        match self.leaf {
            _ if link < self.inner_links() => self.inside,
            Some(leaf) if link >= self.box_links() => leaf,
            _ => self.between,
        }
    }

    /// Box and GPU of a rank.
    fn place(&self, rank: u32) -> [u32; 2] {
        [rank / self.gpus, rank % self.gpus]
    }

    /// The rail of a GPU.
    fn rail(&self, gpu: u32) -> u32 {
        self.nic_of[gpu as usize] % self.rails
    }
}

/// Least rate and whole latency of links one behind the other.
fn speed(fabric: &Fabric, links: &[LinkId]) -> LinkSpeed {
    let links = links.iter().map(|&link| fabric.link(link));
    let add = |all: LinkSpeed, link: &Link| LinkSpeed {
        rate: all.rate.min(link.rate.map_or(f64::INFINITY, |rate| rate.0 as f64)),
        latency_s: all.latency_s + link.latency.map_or(0.0, seconds),
    };
    links.fold(LinkSpeed { rate: f64::INFINITY, latency_s: 0.0 }, add)
}

impl Wiring for EqualBoxes {
    fn ranks(&self) -> u32 {
        self.boxes * self.gpus
    }

    fn links(&self) -> u32 {
        self.box_links() + if self.leaf.is_some() { 2 * self.units() * self.nics } else { 0 }
    }

    fn rate(&self, link: u32) -> f64 {
        self.speed(link).rate
    }

    fn latency_s(&self, link: u32) -> f64 {
        self.speed(link).latency_s
    }

    fn name(&self, link: u32) -> String {
        let (lower, upper) = if link < self.inner_links() {
            let (at, gpu) = (link / 2 / self.gpus, link / 2 % self.gpus);
            (format!("gpu{at}.{gpu}"), format!("nvswitch{at}"))
        } else if link < self.box_links() {
            let nic = (link - self.inner_links()) / 2;
            let (at, nic) = (nic / self.nics, nic % self.nics);
            let number = if self.leaf.is_some() { at / UNIT * self.nics + nic } else { nic % self.rails };
            (format!("{}{at}.{nic}", self.nic_name), format!("{}{number}", self.rail_name))
        } else {
            (format!("leaf{}", (link - self.box_links()) / 2), "spines".into())
        };
        if link.is_multiple_of(2) { format!("{lower}>{upper}") } else { format!("{upper}>{lower}") }
    }

    fn machine(&self, rank: u32) -> u32 {
        rank / self.gpus
    }

    fn route(&self, from: u32, to: u32, links: &mut Vec<u32>) {
        let ([at, gpu], [other, peer]) = (self.place(from), self.place(to));
        if from == to {
            return;
        }
        if at == other {
            links.extend([self.inner(from, 0), self.inner(to, 1)]);
            return;
        }
        let mut nic = gpu;
        if self.rail(gpu) != self.rail(peer) {
            links.extend([self.inner(from, 0), self.inner(at * self.gpus + peer, 1)]);
            nic = peer;
        }
        links.push(self.outer(at, nic, 0));
        if self.leaf.is_some() && at / UNIT != other / UNIT {
            links.extend([self.upper(at, nic, 0), self.upper(other, peer, 1)]);
        }
        links.push(self.outer(other, peer, 1));
    }

    /// The switch makes all orders of members alike. O(members).
    fn add_inside(&self, members: &[u32], bytes: f64, add: &mut AddBytes) {
        if members.len() > 1 {
            members.iter().for_each(|&rank| [0, 1].into_iter().for_each(|way| add(self.inner(rank, way), bytes)));
        }
    }

    /// Counts members by box, unit and GPU. O(members + boxes of the group * GPUs of a box).
    fn add_all_to_all(&self, machines: &[Vec<u32>], part: f64, leaving: f64, add: &mut AddBytes) {
        // What all members outside a box send to each of its members, and members of it send each outside.
        let weight = part * leaving;
        let mut all = Receivers::new(self.gpus);
        let mut units: BTreeMap<u32, Receivers> = BTreeMap::new();
        for of in machines {
            let unit = units.entry(self.machine(of[0]) / UNIT).or_insert_with(|| Receivers::new(self.gpus));
            for &rank in of {
                let gpu = self.place(rank)[1];
                [&mut all, &mut *unit].into_iter().for_each(|receivers| receivers.add(gpu, weight));
            }
        }
        for of in machines {
            let (at, count) = (self.machine(of[0]), of.len());
            let unit = &units[&(at / UNIT)];
            let outside = f64::from(all.count) - count as f64;
            let away = f64::from(all.count - unit.count);
            let copied = if count > 1 { outside * part * (1.0 - leaving) } else { 0.0 };
            self.add_inside(of, (count - 1) as f64 * part + copied, add);
            let mut own = Receivers::new(self.gpus);
            of.iter().for_each(|&rank| own.add(self.place(rank)[1], weight));
            // By rail: members of the box, and what each member of it sends there, outside the box and the unit.
            let mut senders = vec![0u32; self.rails as usize];
            of.iter().for_each(|&rank| senders[self.rail(self.place(rank)[1]) as usize] += 1);
            let mut to_rail = vec![[0.0; 2]; self.rails as usize];
            let mut over_nic = |gpu: u32, [outside, away]: [f64; 2]| {
                add(self.outer(at, gpu, 0), outside);
                if self.leaf.is_some() {
                    add(self.upper(at, gpu, 0), away);
                }
            };
            let mut to_all = 0.0;
            for gpu in (0..self.gpus).filter(|&gpu| all.of[gpu as usize] > own.of[gpu as usize]) {
                let receivers = |set: &Receivers| all.of[gpu as usize] - set.of[gpu as usize];
                let (sent, rail) = ([receivers(&own), receivers(unit)], self.rail(gpu) as usize);
                to_all += sent[0];
                (0..2).for_each(|to| to_rail[rail][to] += sent[to]);
                let others = f64::from(count as u32 - senders[rail]);
                over_nic(gpu, sent.map(|sent| others * sent));
            }
            of.iter().for_each(|&rank| {
                let gpu = self.place(rank)[1];
                over_nic(gpu, to_rail[self.rail(gpu) as usize]);
            });
            for gpu in 0..self.gpus {
                let others = f64::from(count as u32 - senders[self.rail(gpu) as usize]);
                add(self.inner(at * self.gpus + gpu, 1), others * (all.of[gpu as usize] - own.of[gpu as usize]));
            }
            for &rank in of {
                let gpu = self.place(rank)[1];
                add(self.inner(rank, 0), to_all - to_rail[self.rail(gpu) as usize][0]);
                add(self.outer(at, gpu, 1), outside * weight);
                if self.leaf.is_some() {
                    add(self.upper(at, gpu, 1), away * weight);
                }
            }
        }
    }
}

/// Members of a group that receive, by GPU of their boxes.
struct Receivers {
    count: u32,
    /// What each sender outside their box sends to those of a GPU.
    of: Vec<f64>,
}

impl Receivers {
    fn new(gpus: u32) -> Self {
        Receivers { count: 0, of: vec![0.0; gpus as usize] }
    }

    fn add(&mut self, gpu: u32, bytes: f64) {
        self.count += 1;
        self.of[gpu as usize] += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{FlowForm, GroupFlow, from_fabric};
    use antiphon_model::collective::Kind;
    use proptest::prelude::*;

    fn boxes(spec: &str) -> EqualBoxes {
        EqualBoxes::parse(spec).unwrap().unwrap()
    }

    #[test]
    fn rates_latencies_and_limits() {
        let one = boxes("dgx-h100:2048");
        assert_eq!((one.ranks(), one.links(), one.machine(17)), (16_384, 65_536, 2));
        assert_eq!([0, 1, 32_768].map(|link| one.rate(link) / 1e9), [370.8, 370.8, 48.0]);
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-15, "{found}");
        close(one.route_latency_s(0, 1), 1.4e-6);
        let given = boxes("dgx-h100:4@370.8/1us+48");
        close(given.route_latency_s(0, 1), 2e-6);
        close(given.route_latency_s(0, 8), 1.4e-6);
        close(given.route_latency_s(0, 9), 3.4e-6);
        let shared = boxes("dgx-h100:4:nics=2:raw");
        assert_eq!((shared.rate(64), shared.rate(0), shared.links()), (50e9, 450e9, 64 + 16));
        close(shared.route_latency_s(0, 8), 2.8e-6);
        let racks = boxes("gb200-nvl72:8:gpus=64");
        assert_eq!((racks.ranks(), racks.machine(64), racks.nics), (512, 1, 72));
        let leaves = boxes("dgx-h200:64:rails=leaf-spine,ratio=4");
        assert_eq!(leaves.rate(leaves.links() - 1), 48e9 * 8.0);
        close(leaves.route_latency_s(0, 8 * 32), 2.8e-6);
        assert_eq!(boxes("dgx-a100:1").links(), 16);
        for other in ["ring:4", "dgx-h100:4@400+50,slow=0>1:0.5", "dgx-h100:2[0,1]", "mi300x:2", "file:x"] {
            assert_eq!(EqualBoxes::parse(other), Ok(None), "{other}");
        }
        for (wrong, code) in [
            ("dgx-h100", Code::BadSpec),
            ("dgx-h100:0", Code::BadSpec),
            ("dgx-h100:99999999999", Code::BadSpec),
            ("dgx-h100:16385", Code::TooLarge),
            ("dgx-h100:2:gpus=9", Code::BadSpec),
            ("dgx-h100:2:gpus=0", Code::BadSpec),
            ("dgx-h100:2:nics=3", Code::BadSpec),
            ("dgx-h100:2:ratio=2", Code::BadSpec),
            ("dgx-h100:64:rails=leaf-spine,ratio=3", Code::BadSpec),
            ("dgx-h100:1:nics=4", Code::BadSpec),
            ("dgx-h100:2@1+2+3", Code::BadSpec),
        ] {
            assert_eq!(EqualBoxes::parse(wrong).unwrap_err().code, code, "{wrong}");
        }
    }

    /// Bytes on all links by name.
    fn named(wiring: &dyn Wiring, form: FlowForm, groups: &[Vec<u32>]) -> BTreeMap<String, u64> {
        let flow = GroupFlow::new(wiring, form, groups);
        flow.link_bytes(1e9).map(|(link, bytes)| (wiring.name(link), bytes.round() as u64)).collect()
    }

    const TO_ALL: FlowForm = FlowForm::Collective(Kind::AllToAll);

    /// A fabric has the same bytes on the links of ranks and NICs. Where NICs are shared, only their links are compared: ways
    /// to a NIC of another rail differ.
    #[test]
    fn a_fabric_of_the_same_boxes_carries_the_same() {
        let forms = [
            FlowForm::Collective(Kind::AllReduce),
            FlowForm::Collective(Kind::AllGather),
            TO_ALL,
            FlowForm::Experts { leaving: 0.5 },
        ];
        let groups = [
            vec![(0..8).collect::<Vec<u32>>(), (8..16).collect()],
            (0..8).map(|rank| vec![rank, rank + 8, rank + 16]).collect(),
            vec![(0..16).collect(), (16..24).collect()],
            (0..2).map(|rank| (0..12).map(|member| rank + 2 * member).collect()).collect(),
            vec![vec![0, 1, 2, 9, 10, 11, 20]],
        ];
        for spec in ["dgx-h100:3", "dgx-b200:3", "dgx-a100:3", "dgx-h100:3:nics=4", "dgx-h100:3:rails=leaf-spine"] {
            let (boxes, fabric) = (boxes(spec), from_fabric(Fabric::parse(spec).unwrap()));
            for (form, groups) in forms.iter().flat_map(|form| groups.iter().map(move |groups| (*form, groups))) {
                let mut found = [named(&boxes, form, groups), named(&*fabric, form, groups)];
                // A minimal route may take any of several NICs where there are more of them than rails or less than GPUs.
                let on_rails = groups[0].len() != 7 && !matches!(form, FlowForm::Experts { .. } | TO_ALL);
                if !on_rails && (spec.contains("a100") || spec.contains("nics")) {
                    continue;
                }
                for found in &mut found {
                    found.retain(|name, _| !name.contains("mlx") || name.contains("ib."));
                    let of_nic = |name: &str| ["mlx", "rail", "leaf"].iter().any(|part| name.contains(part));
                    found.retain(|name, _| of_nic(name) || !(spec.contains("nics") || spec.contains("a100")));
                    found.retain(|name, _| !(name.contains("gpu") && name.contains("nic")));
                }
                assert_eq!(found[0], found[1], "{spec} {form:?} {groups:?}");
            }
        }
    }

    proptest! {
        /// What is counted by box is what all pairs of ranks send on their routes.
        #[test]
        fn all_to_all_is_the_sum_of_routes(
            spec in prop::sample::select(vec![
                "dgx-h100:4", "dgx-a100:4:nics=4", "dgx-h100:3:nics=2", "dgx-b200:70:rails=leaf-spine,ratio=2",
                "gb200-nvl72:2:gpus=9",
            ]),
            members in prop::collection::btree_set(0u32..560, 2..24),
            leaving in prop::sample::select(vec![1.0, 0.5, 0.125]),
        ) {
            let boxes = boxes(spec);
            let members: std::collections::BTreeSet<u32> = members.iter().map(|rank| rank % boxes.ranks()).collect();
            let mut machines: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            members.iter().for_each(|&rank| machines.entry(boxes.machine(rank)).or_default().push(rank));
            let machines: Vec<Vec<u32>> = machines.into_values().collect();
            let mut found = [vec![0.0; boxes.links() as usize], vec![0.0; boxes.links() as usize]];
            let [counted, routed] = &mut found;
            boxes.add_all_to_all(&machines, 1.0, leaving, &mut |link, bytes| counted[link as usize] += bytes);
            let plain = Plain(&boxes);
            plain.add_all_to_all(&machines, 1.0, leaving, &mut |link, bytes| routed[link as usize] += bytes);
            for (link, (one, other)) in (0..).zip(found[0].iter().zip(&found[1])) {
                prop_assert!((one - other).abs() < 1e-9, "{}", boxes.name(link));
            }
        }
    }

    /// The same boxes without what they count.
    struct Plain<'a>(&'a EqualBoxes);

    impl Wiring for Plain<'_> {
        fn ranks(&self) -> u32 {
            self.0.ranks()
        }
        fn links(&self) -> u32 {
            self.0.links()
        }
        fn rate(&self, link: u32) -> f64 {
            self.0.rate(link)
        }
        fn latency_s(&self, link: u32) -> f64 {
            self.0.latency_s(link)
        }
        fn name(&self, link: u32) -> String {
            self.0.name(link)
        }
        fn machine(&self, rank: u32) -> u32 {
            self.0.machine(rank)
        }
        fn route(&self, from: u32, to: u32, links: &mut Vec<u32>) {
            self.0.route(from, to, links);
        }
    }
}
