//! Many of one box, joined by the network cards that its file names.

use super::{Imported, Port};
use crate::fabric::file::check_name;
use crate::fabric::link::LinkParameters;
use crate::fabric::{Fabric, Link, MAX_LINKS, MAX_NODES, MAX_RANKS, Node, NodeId, Shape};
use antiphon_base::error::{Code, Error, Result};
use std::collections::BTreeMap;

/// How many boxes, and what joins a network card to its rail where the file does not say it or something else is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinedBoxes {
    /// Boxes.
    pub count: usize,
    /// What `@rails` gives of a link to a rail.
    pub rail: Option<LinkParameters>,
}

impl JoinedBoxes {
    /// The boxes side by side, `boxB.` before their names, with the ranks of the first box first. Card number `k` of every box
    /// is joined to the switch `railK`.
    ///
    /// # Errors
    /// [`Code::BadSpec`] for a file that names no cards, or not how fast they are; [`Code::TooLarge`] past the limits of a
    /// fabric, before memory is taken.
    pub fn join(self, mut imported: Imported) -> Result<Fabric> {
        let ports = std::mem::take(&mut imported.ports);
        let wrong = |what| Err(Error::new(Code::BadSpec, what));
        if ports.is_empty() {
            return wrong(
                "boxes are joined by the network cards that a topology of NCCL or lstopo names, and this file names none",
            );
        }
        if self.rail.is_none() && ports.iter().any(|port| matches!(port, Port::Card(_))) {
            return wrong("the file does not say how fast its network cards are; write for example *4@rails:50/1us");
        }
        // The link of a card to what is beyond it becomes that to the rail.
        let of = |(rail, port): (usize, &Port)| if let Port::Beyond(node) = *port { Some((node, rail)) } else { None };
        let beyond: BTreeMap<NodeId, usize> = ports.iter().enumerate().filter_map(of).collect();
        for link in &mut imported.fabric.links {
            if [link.from, link.to].iter().any(|end| beyond.contains_key(end)) {
                link.dimension = LABEL.into();
                self.set(link);
            }
        }
        let Fabric { name, nodes, links, notes, .. } = imported.with_defaults();
        let cards = ports.len() - beyond.len();
        let inside = nodes.len() - beyond.len();
        let ranks = nodes.iter().filter(|node| node.rank.is_some()).count();
        let all = |each: usize| each.saturating_mul(self.count);
        let links_of_box = links.len() + 2 * cards;
        self.check_size([ranks, inside, links_of_box], ports.len())?;
        let mut joined: Vec<Node> = Vec::with_capacity(all(inside) + ports.len());
        let mut ids = vec![vec![0; nodes.len()]; self.count];
        // Ranks have the lowest numbers.
        for is_rank in [true, false] {
            for (at, ids) in ids.iter_mut().enumerate() {
                let is_now = |(id, node): &(NodeId, &Node)| node.rank.is_some() == is_rank && !beyond.contains_key(id);
                for (id, node) in (0..).zip(&nodes).filter(is_now) {
                    let called = format!("box{at}.{}", node.name);
                    check_name(&called)?;
                    ids[id as usize] = joined.len() as NodeId;
                    let rank = node.rank.map(|rank| rank + (at * ranks) as u32);
                    joined.push(Node { name: called, rank, coords: vec![], ..node.clone() });
                }
            }
        }
        let first = joined.len() as NodeId;
        joined.extend((0..ports.len()).map(|rail| Node::switch(format!("rail{rail}"), [])));
        let mut all_links = Vec::with_capacity(all(links_of_box));
        for ids in &mut ids {
            beyond.iter().for_each(|(&node, &rail)| ids[node as usize] = first + rail as NodeId);
            let moved = |link: &Link| Link { from: ids[link.from as usize], to: ids[link.to as usize], ..link.clone() };
            all_links.extend(links.iter().map(moved));
            let cards = (first..).zip(&ports).filter_map(|(rail, port)| match *port {
                Port::Card(card) => Some(self.to_rail(ids[card as usize], rail)),
                Port::Beyond(_) => None,
            });
            all_links.extend(cards.flatten());
        }
        let mut fabric = Fabric::new(name, Shape::Graph, joined, all_links)?;
        fabric.notes.0 = notes.0.into_iter().map(|note| format!("of each box: {note}")).collect();
        fabric.notes.0.push(self.said(&fabric, &nodes, &ports));
        Ok(fabric)
    }

    /// Refuses too many of boxes of so many ranks, nodes and links, with their rails.
    fn check_size(self, [ranks, inside, links]: [usize; 3], rails: usize) -> Result<()> {
        let all = |each: usize| each.saturating_mul(self.count);
        if all(ranks) <= MAX_RANKS && all(inside).saturating_add(rails) <= MAX_NODES && all(links) <= MAX_LINKS {
            return Ok(());
        }
        let what = format!(
            "{} boxes of {ranks} ranks, {inside} nodes and {links} links; at most {MAX_RANKS} ranks, {MAX_NODES} nodes and \
             {MAX_LINKS} links in all",
            self.count
        );
        Err(Error::new(Code::TooLarge, what))
    }

    /// Links of a card to its rail and back.
    fn to_rail(self, card: NodeId, rail: NodeId) -> [Link; 2] {
        let mut link = Link::new(card, rail, LABEL);
        self.set(&mut link);
        [link.clone(), link.reversed()]
    }

    /// Sets what joins a card to its rail, where that is given.
    fn set(self, link: &mut Link) {
        if let Some(rail) = self.rail {
            rail.or(LinkParameters::of(link)).set(link);
        }
    }

    /// What joins the boxes, in a line.
    fn said(self, fabric: &Fabric, nodes: &[Node], ports: &[Port]) -> String {
        let card = |port: &Port| match *port {
            Port::Card(node) | Port::Beyond(node) => nodes[node as usize].name.as_str(),
        };
        let mut cards: Vec<_> = ports.iter().take(8).map(card).collect();
        if ports.len() > cards.len() {
            cards.push("...");
        }
        let of_rails: Vec<_> = fabric.links.iter().filter(|link| link.dimension == LABEL).collect();
        let range = |numbers: Vec<f64>, unit: &str| {
            let (least, most) =
                numbers.iter().fold((f64::MAX, 0.0_f64), |(least, most), &x| (least.min(x), most.max(x)));
            if least == most { format!("{least} {unit}") } else { format!("{least} to {most} {unit}") }
        };
        let rate = range(of_rails.iter().filter_map(|link| link.rate).map(|rate| rate.as_gb_per_s()).collect(), "GB/s");
        let latencies: Vec<_> =
            of_rails.iter().filter_map(|link| link.latency).map(|latency| latency as f64 / 1e3).collect();
        let latency = if latencies.len() == of_rails.len() {
            range(latencies, "ns")
        } else {
            "the system's latency where none is said".into()
        };
        let (count, plural) = (ports.len(), if ports.len() == 1 { "switch" } else { "switches" });
        format!(
            "{} boxes are joined by {count} {plural}, rail0 and so on, each for the card with its number in every box ({}), by links of {rate} and {latency}",
            self.count,
            cards.join(", ")
        )
    }
}

/// What links to rails are labelled with.
const LABEL: &str = "rail";
