//! What presets of machines share: kinds of links that have rates of their own, which `@` replaces, and boxes.

use super::spec::Parameters;
use super::{Dimension, DimensionShape, Fabric, Link, MAX_RANKS, Node, NodeId};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Picos, Rate};

/// A kind of links of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkKind {
    /// What its links are labelled with.
    pub label: &'static str,
    /// Rate of a link in one direction.
    pub rate: Rate,
    /// Latency of a link; `None` for the system's.
    pub latency: Option<Picos>,
}

/// Latency of a link of the boxes: what TE-CCL (SIGCOMM 2024) assumes for NVLink. Other links are taken alike.
const HOP: Picos = 700_000;

impl LinkKind {
    /// A kind whose links have the latency of NVLink.
    pub const fn new(label: &'static str, gb_per_s: u64) -> LinkKind {
        LinkKind { label, rate: Rate::gb_per_s(gb_per_s), latency: Some(HOP) }
    }

    /// The link of this kind from a node to another.
    pub fn link(&self, from: NodeId, to: NodeId) -> Link {
        Link { rate: Some(self.rate), latency: self.latency, ..Link::new(from, to, self.label) }
    }

    /// Links of this kind both ways.
    pub fn both(&self, one: NodeId, other: NodeId) -> [Link; 2] {
        [self.link(one, other), self.link(other, one)]
    }

    /// A dimension in which nodes are joined by links of this kind.
    pub fn dimension(&self, shape: DimensionShape, size: u32) -> Dimension {
        let hops = if shape == DimensionShape::Switch { 2 } else { 1 };
        let latency = self.latency.map(|latency| latency.saturating_mul(hops));
        Dimension { latency, ..Dimension::new(shape, size.into()).with_link_rate(Some(self.rate)) }
    }
}

/// The kinds with what `@` gives for each in their order; what it leaves out stays as it is.
///
/// # Errors
/// [`Code::BadSpec`] unless there are no parameters or one for each kind.
pub(super) fn given<const N: usize>(
    name: &str,
    own: [LinkKind; N],
    parameters: &[Parameters],
) -> Result<[LinkKind; N]> {
    if !parameters.is_empty() && parameters.len() != N {
        let labels = own.map(|kind| kind.label).join(", ");
        let example = own.map(|kind| kind.rate.as_gb_per_s().to_string()).join("+");
        let (rates, kinds) = (plural(parameters.len(), "rate"), plural(N, "kind"));
        let how = if N == 1 { "write one" } else { "write one for each, joined by +" };
        let what = format!("fabric '{name}': {rates} for {kinds} of links ({labels}); {how}, for example @{example}");
        return Err(Error::new(Code::BadSpec, what));
    }
    let mut kinds = own;
    for (kind, &(rate, latency)) in kinds.iter_mut().zip(parameters) {
        (kind.rate, kind.latency) = (rate, latency.or(kind.latency));
    }
    Ok(kinds)
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

/// Joins the GPU with the same number of every box to a switch, `railG`, drawn in row `G` of a column, and gives the
/// dimension that they make.
pub(super) fn rails(
    (nodes, links): (&mut Vec<Node>, &mut Vec<Link>),
    rail: &LinkKind,
    [boxes, gpus]: [u32; 2],
    column: f64,
) -> Dimension {
    let first = nodes.len() as NodeId;
    nodes.extend((0..gpus).map(|gpu| Node::switch(format!("rail{gpu}"), [f64::from(gpu), column])));
    links.extend((0..boxes * gpus).flat_map(|rank| rail.both(rank, first + rank % gpus)));
    rail.dimension(DimensionShape::Switch, boxes)
}

impl Fabric {
    /// Bytes per second that leave a node over all links with a label.
    #[cfg(test)]
    pub(super) fn rate_out(&self, node: NodeId, label: &str) -> u64 {
        let links = self.out_links(node).iter().map(|&id| self.link(id));
        links.filter(|link| link.dimension == label).filter_map(|link| link.rate).map(|rate| rate.0).sum()
    }
}
