//! What may fail on a fabric, and which of it fails at once.

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{clip, parse_decimal};
use antiphon_model::fabric::{Fabric, NodeId};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use std::collections::{BTreeSet, HashSet};

/// What fails, and how much of it at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FailureModel {
    /// Every link pair by itself.
    Links,
    /// Every node by itself.
    Nodes,
    /// Every link pair and every node by itself.
    Single,
    /// Two link pairs or nodes at once: all such pairs, or a sample of them.
    Pairs,
    /// Every link pair and every node fails by itself with this chance; random draws.
    Rate(f64),
}

impl FailureModel {
    /// Of `links`, `nodes`, `1`, `2` or `rate:0.01`.
    ///
    /// # Errors
    /// [`Code::BadSpec`].
    pub fn parse(text: &str) -> Result<FailureModel> {
        let rate = |text: &str| {
            let rate = parse_decimal(text).filter(|rate| (0.0..=1.0).contains(rate) && *rate > 0.0);
            rate.map(FailureModel::Rate)
        };
        match text {
            "links" => Some(FailureModel::Links),
            "nodes" => Some(FailureModel::Nodes),
            "1" => Some(FailureModel::Single),
            "2" => Some(FailureModel::Pairs),
            _ => text.strip_prefix("rate:").and_then(rate),
        }
        .ok_or_else(|| {
            let what = format!(
                "fail '{}': expected links, nodes, 1 (each by itself), 2 (pairs) or rate:P with a chance P above 0, at \
                 most 1, such as rate:0.01",
                clip(text)
            );
            Error::new(Code::BadSpec, what)
        })
    }

    /// Whether a component may fail by itself.
    pub(super) fn has(self, component: &Component) -> bool {
        match self {
            FailureModel::Links => component.ends.is_some(),
            FailureModel::Nodes => component.ends.is_none(),
            _ => true,
        }
    }
}

/// What may fail: all links between two nodes, or a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// As `--fail` of `replan` takes it: `3-4`, `3>4` where no link leads back, or a node.
    pub name: String,
    /// The nodes that the links join, the lower first; `None` for a node.
    pub ends: Option<(NodeId, NodeId)>,
    /// The node; of links the first.
    pub node: NodeId,
}

impl Component {
    /// All pairs of nodes that links join, in ascending order, then all nodes that have links. O(links log links).
    pub(super) fn all(fabric: &Fabric) -> Vec<Component> {
        let name = |id: NodeId| {
            let name = &fabric.nodes[id as usize].name;
            if fabric.node(name).ok() == Some(id) { name.clone() } else { id.to_string() }
        };
        let arcs: HashSet<(NodeId, NodeId)> = fabric.links.iter().map(|link| (link.from, link.to)).collect();
        let pairs: BTreeSet<(NodeId, NodeId)> = arcs.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
        let link = |&(low, high): &(NodeId, NodeId)| {
            let [low_name, high_name] = [low, high].map(name);
            let name = match [arcs.contains(&(low, high)), arcs.contains(&(high, low))] {
                [true, true] => format!("{low_name}-{high_name}"),
                [true, false] => format!("{low_name}>{high_name}"),
                _ => format!("{high_name}>{low_name}"),
            };
            Component { name, ends: Some((low, high)), node: low }
        };
        let joined: BTreeSet<NodeId> = pairs.iter().flat_map(|&(low, high)| [low, high]).collect();
        let node = |&node: &NodeId| Component { name: name(node), ends: None, node };
        pairs.iter().map(link).chain(joined.iter().map(node)).collect()
    }
}

/// All pairs of `count` components, or, if they are more than `most`, so many different ones at random; in ascending order.
pub(super) fn pairs(count: usize, most: usize, seed: u64) -> Vec<Vec<usize>> {
    let all = count * count.saturating_sub(1) / 2;
    let pairs = (0..count).flat_map(|first| (first + 1..count).map(move |second| vec![first, second]));
    if all <= most {
        return pairs.collect();
    }
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut below = |n: usize| (random.next_u64() % n as u64) as usize;
    let mut chosen = BTreeSet::new();
    while chosen.len() < most {
        let (first, second) = (below(count), below(count));
        if first != second {
            chosen.insert((first.min(second), first.max(second)));
        }
    }
    chosen.into_iter().map(|(first, second)| vec![first, second]).collect()
}

/// Draws in each of which every one of `count` components fails by itself with a chance.
pub(super) fn draws(count: usize, rate: f64, draws: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    // 53 bits, as many as a double has.
    let mut fails = || ((random.next_u64() >> 11) as f64) < rate * (1u64 << 53) as f64;
    (0..draws).map(|_| (0..count).filter(|_| fails()).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_have_the_names_of_their_nodes() {
        let names = |spec: &str| -> Vec<String> {
            Component::all(&Fabric::parse(spec).unwrap()).into_iter().map(|component| component.name).collect()
        };
        assert_eq!(names("mesh:2x2"), ["0-1", "0-2", "1-3", "2-3", "0", "1", "2", "3"]);
        assert_eq!(names("ring:3,drop=0>1")[..3], ["1>0", "0-2", "1-2"]);
        // Of parallel links all; a node without links cannot fail.
        assert_eq!(names("dgx1v").len(), 16 + 8);
        assert_eq!(names("mesh:2x2,dead=3").len(), 2 + 3);
        assert!(names("dgx-h100:2").contains(&"gpu0.0-rail0".into()));
    }

    #[test]
    fn pairs_are_all_or_a_sample() {
        assert_eq!(pairs(3, 3, 7), [[0, 1], [0, 2], [1, 2]]);
        let some = pairs(176, 200, 7);
        assert_eq!(some.iter().collect::<HashSet<_>>().len(), 200);
        assert_eq!(some, pairs(176, 200, 7));
        assert_ne!(some, pairs(176, 200, 8));
        assert!(pairs(1, 5, 0).is_empty() && pairs(0, 5, 0).is_empty());
    }

    #[test]
    fn draws_have_their_rate() {
        assert_eq!(draws(3, 1.0, 2, 0), [[0, 1, 2], [0, 1, 2]]);
        let failed: usize = draws(100, 0.1, 1000, 1).iter().map(Vec::len).sum();
        assert!(failed.abs_diff(10_000) < 400, "{failed}");
    }

    #[test]
    fn models_are_read() {
        for (text, model) in [("1", FailureModel::Single), ("2", FailureModel::Pairs), ("links", FailureModel::Links)] {
            assert_eq!(FailureModel::parse(text).unwrap(), model);
        }
        assert_eq!(FailureModel::parse("rate:0.25").unwrap(), FailureModel::Rate(0.25));
        for text in ["", "3", "rate", "rate:", "rate:0", "rate:1.5", "rate:nan", "rate:-1", "link"] {
            assert!(FailureModel::parse(text).unwrap_err().message.contains("such as rate:0.01"), "{text}");
        }
    }
}
