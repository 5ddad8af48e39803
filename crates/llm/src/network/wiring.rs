//! Which links join ranks: equal boxes in closed form, or any fabric.

use super::{EqualBoxes, FabricWiring};
use antiphon_base::error::Result;
use antiphon_model::fabric::Fabric;

/// Takes a link and bytes on it.
pub type AddBytes<'a> = dyn FnMut(u32, f64) + 'a;

/// Ranks, directed links, and the route between every two ranks.
pub trait Wiring: Send + Sync {
    /// Number of ranks.
    fn ranks(&self) -> u32;

    /// Number of links.
    fn links(&self) -> u32;

    /// Bytes a second that a link carries.
    fn rate(&self, link: u32) -> f64;

    /// Latency of a link in seconds.
    fn latency_s(&self, link: u32) -> f64;

    /// Name of a link, `FROM>TO`.
    fn name(&self, link: u32) -> String;

    /// The box that a rank is in; where there are no boxes, the rank.
    fn machine(&self, rank: u32) -> u32;

    /// Adds the links of the route between two ranks, in order; none from a rank to itself.
    fn route(&self, from: u32, to: u32, links: &mut Vec<u32>);

    /// Latency of the route between two ranks in seconds.
    fn route_latency_s(&self, from: u32, to: u32) -> f64 {
        let mut links = vec![];
        self.route(from, to, &mut links);
        links.iter().map(|&link| self.latency_s(link)).sum()
    }

    /// Adds `bytes` to the links of the route between two ranks.
    fn add_route(&self, from: u32, to: u32, bytes: f64, links: &mut Vec<u32>, add: &mut AddBytes) {
        links.clear();
        self.route(from, to, links);
        links.iter().for_each(|&link| add(link, bytes));
    }

    /// Adds what members of one box send each other when each sends `bytes`, on rings in all orders: an equal part to
    /// every other. O(members^2 * route).
    fn add_inside(&self, members: &[u32], bytes: f64, add: &mut AddBytes) {
        let (mut links, part) = (vec![], bytes / (members.len().max(2) - 1) as f64);
        for &from in members {
            for &to in members.iter().filter(|&&to| to != from) {
                self.add_route(from, to, part, &mut links, add);
            }
        }
    }

    /// Adds what an AllToAll of a group puts on links when each member sends `part` bytes to every other. Of what leaves a
    /// box only the share `leaving` does so; the rest is copied inside the box where it arrives, where the group has other
    /// members. `machines` are the members, box by box. O(members^2 * route).
    fn add_all_to_all(&self, machines: &[Vec<u32>], part: f64, leaving: f64, add: &mut AddBytes) {
        let mut links = vec![];
        let members: usize = machines.iter().map(Vec::len).sum();
        for (at, of) in machines.iter().enumerate() {
            for (other, from) in machines.iter().enumerate() {
                let bytes = if at == other { part } else { part * leaving };
                for (&from, &to) in from.iter().flat_map(|from| of.iter().map(move |to| (from, to))) {
                    if from != to {
                        self.add_route(from, to, bytes, &mut links, add);
                    }
                }
            }
            if of.len() > 1 && leaving < 1.0 {
                self.add_inside(of, (members - of.len()) as f64 * part * (1.0 - leaving), add);
            }
        }
    }
}

/// The wiring of a fabric specification. Boxes of GPUs around switches, such as `dgx-h100:2048`, may have up to
/// [`MAX_BOX_RANKS`](super::boxes::MAX_BOX_RANKS) ranks, and `gpus=N` if only the first N of each box are ranks; what is
/// degraded, a group, or of another kind is a [`Fabric`], with its limits.
///
/// # Errors
/// As [`EqualBoxes::parse`] and [`Fabric::parse`].
pub fn wiring(spec: &str) -> Result<Box<dyn Wiring>> {
    match EqualBoxes::parse(spec)? {
        Some(boxes) => Ok(Box::new(boxes)),
        None => Ok(from_fabric(Fabric::parse(spec)?)),
    }
}

/// The wiring of a fabric, with minimal routes.
pub fn from_fabric(fabric: Fabric) -> Box<dyn Wiring> {
    Box::new(FabricWiring::new(fabric))
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_base::error::Code;

    #[test]
    fn boxes_may_be_many_and_others_are_fabrics() {
        for (spec, ranks) in [("dgx-h100:2048", 16_384), ("ring:4@25", 4), ("dgx-h100:4[0,8]", 2), ("dgx-a100:1", 8)] {
            assert_eq!(wiring(spec).unwrap().ranks(), ranks, "{spec}");
        }
        let code = |spec| wiring(spec).err().map(|error| error.code);
        assert_eq!(code("dgx-x100:4"), Some(Code::UnknownName));
        assert_eq!(code("mi300x:2048"), Some(Code::TooLarge));
    }

    /// A slow link makes boxes a fabric, on which the rest is the same.
    #[test]
    fn degraded_boxes_are_fabrics() {
        let slow = wiring("dgx-h100:2@400+50,slow=gpu0.3>rail3:0.5").unwrap();
        let link = (0..slow.links()).find(|&link| slow.name(link) == "gpu0.3>rail3");
        assert_eq!((link.map(|link| slow.rate(link)), slow.machine(8)), (Some(25e9), 1));
    }
}
