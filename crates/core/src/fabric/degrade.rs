//! Degradations of a fabric: dropped and slowed links, excluded and dead ranks.

use super::{Fabric, LinkId, NodeId, Shape, View, link};
use crate::error::{Code, Error, Result, nearest};
use crate::units::{clip, parse_decimal};
use std::collections::HashSet;

/// The degradations, for messages.
const KINDS: [&str; 4] = ["drop", "slow", "exclude", "dead"];

/// `intact` with degradations such as `drop=3-4`, `drop=3>4`, `slow=2-3:0.5`, `exclude=5`, `dead=5`;
/// their numbers are node ids of `intact`. Without dropped links and dead switches, what is left of a product stays one if it is a
/// box of it, as a group does; else only slowed links leave more than a plain [`Shape::Graph`].
pub(super) fn degrade<'a>(mut intact: Fabric, items: impl Iterator<Item = &'a str>) -> Result<View> {
    let mut dropped = vec![false; intact.links.len()];
    let mut dead = vec![false; intact.nodes.len()];
    let mut excluded = dead.clone();
    let mut same_structure = true;
    for item in items {
        let place = |error: Error| error.at(format_args!("fabric '{}': '{}'", intact.name, clip(item)));
        let (kind, value) = item.split_once('=').unwrap_or((item, ""));
        same_structure &= kind == "slow";
        match kind {
            "drop" => {
                for id in links_between(&intact, value).map_err(place)? {
                    dropped[id as usize] = true;
                }
            }
            "slow" => {
                let (ids, permille) = slowed(&intact, value).map_err(place)?;
                for id in ids {
                    intact.links[id as usize].speed_permille = permille;
                }
            }
            "exclude" => excluded[node_of_rank(&intact, value).map_err(place)? as usize] = true,
            "dead" => dead[node(&intact, value).map_err(place)? as usize] = true,
            _ => {
                let hint = nearest(kind, KINDS);
                return Err(place(Error::new(
                    Code::BadSpec,
                    format!("no such degradation{hint}; known: {}", KINDS.join(", ")),
                )));
            }
        }
    }
    let left = |&rank: &u32| {
        let node = intact.node_of_rank(rank) as usize;
        !dead[node] && !excluded[node]
    };
    let ranks: Vec<u32> = (0..intact.ranks() as u32).filter(left).collect();
    let is_whole =
        !dropped.contains(&true) && intact.nodes.iter().zip(&dead).all(|(node, dead)| !dead || node.rank.is_some());
    let shape = match &intact.shape {
        shape if same_structure => shape.clone(),
        Shape::Product(product) if is_whole && ranks.len() > 1 => {
            let nodes: Vec<NodeId> = ranks.iter().map(|&rank| intact.node_of_rank(rank)).collect();
            product.part(&nodes).map_or(Shape::Graph, Shape::Product)
        }
        _ => Shape::Graph,
    };
    for (link, dropped) in intact.links.iter().zip(&mut dropped) {
        *dropped |= dead[link.from as usize] || dead[link.to as usize];
    }
    View::new(intact, shape, ranks, |id| !dropped[id as usize])
}

impl Fabric {
    /// What is left when links (`3-4` both ways, `3>4` one way) or nodes (`40`) have failed; the numbers are those of nodes.
    /// Ranks that are left are renumbered from 0 without gaps.
    ///
    /// # Errors
    /// [`Code::BadSpec`] for a failure that names nothing, or that leaves some rank out of reach.
    pub fn failed(&self, failures: &[&str]) -> Result<View> {
        if failures.is_empty() {
            return Err(bad("no failure; name a link, as 3-4 or 3>4, or a node, as 40"));
        }
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let item = |failure: &&str| match failure.split_once(['-', '>']) {
            Some((a, b)) if is_number(a) && is_number(b) => Ok(format!("drop={failure}")),
            None if is_number(failure) => Ok(format!("dead={failure}")),
            _ => Err(bad(format!("'{}' names no failure; write 3-4, 3>4 or 40, one at a time", clip(failure)))),
        };
        // One that is named twice has failed once.
        let mut seen = HashSet::new();
        let items: Vec<String> =
            failures.iter().filter(|failure| seen.insert(**failure)).map(item).collect::<Result<_>>()?;
        let name = format!("{},{}", self.name, items.join(","));
        degrade(Fabric { name, ..self.clone() }, items.iter().map(String::as_str))
    }
}

/// All links of `A-B` (both directions) or `A>B`.
fn links_between(fabric: &Fabric, text: &str) -> Result<Vec<LinkId>> {
    let (a, b, both) = match (text.split_once('-'), text.split_once('>')) {
        (Some((a, b)), _) => (a, b, true),
        (None, Some((a, b))) => (a, b, false),
        _ => return Err(bad("names no link; write 3-4 for both directions or 3>4 for one")),
    };
    let (a, b) = (node(fabric, a)?, node(fabric, b)?);
    let joins = |from: NodeId, to: NodeId| {
        let ids = fabric.out_links(from).iter().copied();
        ids.filter(move |&id| fabric.link(id).to == to)
    };
    let mut ids: Vec<LinkId> = joins(a, b).collect();
    if both {
        ids.extend(joins(b, a));
    }
    if ids.is_empty() {
        let near: Vec<String> = fabric.neighbours(a).iter().take(8).map(NodeId::to_string).collect();
        let near = if near.is_empty() { "none".to_string() } else { near.join(", ") };
        return Err(bad(format!("no link from {a} to {b}; node {a} has links to {near}")));
    }
    Ok(ids)
}

/// Links and speed of `A-B:FACTOR`.
fn slowed(fabric: &Fabric, text: &str) -> Result<(Vec<LinkId>, u32)> {
    let (pair, factor) = text.split_once(':').ok_or_else(|| bad("has no speed factor; write slow=2-3:0.5"))?;
    let factor = parse_decimal(factor).ok_or_else(|| bad("the speed factor is not a number such as 0.5"))?;
    Ok((links_between(fabric, pair)?, link::permille(factor)?))
}

/// A node that has a rank to lose.
fn node_of_rank(fabric: &Fabric, text: &str) -> Result<NodeId> {
    let id = node(fabric, text)?;
    match fabric.nodes[id as usize].rank {
        Some(_) => Ok(id),
        None => Err(bad(format!("node {id} has no rank to exclude; use dead={id} to remove a switch"))),
    }
}

fn node(fabric: &Fabric, text: &str) -> Result<NodeId> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits {
        return Err(bad(format!("'{}' is not a node number", clip(text))));
    }
    match text.parse::<NodeId>() {
        Ok(id) if (id as usize) < fabric.nodes.len() => Ok(id),
        _ => Err(bad(format!("there is no node {}; nodes are 0 to {}", clip(text), fabric.nodes.len() - 1))),
    }
}

fn bad(why: impl AsRef<str>) -> Error {
    Error::new(Code::BadSpec, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(spec: &str) -> Fabric {
        Fabric::parse(spec).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn dropped_links() {
        let both = parse("mesh:2x2,drop=0-1");
        assert_eq!((both.links.len(), &both.shape), (6, &Shape::Graph));
        assert_eq!((both.link_between(0, 1), both.link_between(1, 0)), (None, None));
        let one = parse("mesh:2x2,drop=0>1");
        assert_eq!(one.links.len(), 7);
        assert!(one.link_between(0, 1).is_none() && one.link_between(1, 0).is_some());
        assert_eq!(parse("dgx1v,drop=2-3").links.len(), 44); // both parallel links
    }

    #[test]
    fn slowed_links_keep_the_structure() {
        let fabric = parse("mesh:2x2,slow=0-1:0.5,slow=1>0:0.125");
        let speed = |a, b| fabric.link(fabric.link_between(a, b).unwrap()).speed_permille;
        assert_eq!([speed(0, 1), speed(1, 0), speed(0, 2)], [500, 125, 1000]);
        assert!(fabric.product().is_some());
    }

    #[test]
    fn excluded_ranks_forward_and_dead_ones_do_not() {
        let excluded = parse("mesh:3x3,exclude=4");
        assert_eq!((excluded.ranks(), excluded.links.len()), (8, 24));
        assert_eq!((excluded.nodes[4].rank, excluded.node_of_rank(4)), (None, 5));
        let dead = parse("mesh:3x3,dead=4");
        assert_eq!((dead.ranks(), dead.links.len(), dead.nodes.len()), (8, 16, 9));
        assert!(dead.out_links(4).is_empty());
        assert_eq!(parse("ring:8,dead=0,exclude=1").ranks(), 6);
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        for (spec, why) in [
            ("mesh:2x2,drop=0-3", "no link from 0 to 3; node 0 has links to 2, 1"),
            ("mesh:2x2,drop=0-9", "there is no node 9; nodes are 0 to 3"),
            ("mesh:2x2,drop=0-99999999999", "there is no node 99999999999"),
            ("mesh:2x2,drop=+0-1", "'+0' is not a node number"),
            ("mesh:2x2,drop=3", "names no link"),
            ("mesh:2x2,drop", "names no link"),
            ("mesh:2x2,slow=0-1", "has no speed factor"),
            ("mesh:2x2,slow=0-1:0", "speed factor 0"),
            ("mesh:2x2,slow=0-1:1.5", "speed factor 1.5"),
            ("mesh:2x2,slow=0-1:nan", "not a number"),
            ("mesh:2x2,dorp=0-1", "did you mean 'drop'?"),
            ("mesh:2x2,", "no such degradation"),
            ("switch:4,exclude=4", "node 4 has no rank"),
            ("mesh:1x4,drop=1-2", "disconnected: no path from rank 0 to rank 2"),
            ("mesh:1x4,drop=1>2", "disconnected: no path from rank 0 to rank 2"),
            ("mesh:1x2,dead=1", "1 rank(s)"),
            ("switch:4,dead=4", "disconnected"),
        ] {
            let error = Fabric::parse(spec).unwrap_err();
            assert!(error.message.contains(why), "{spec}: {error}");
            assert_eq!(error.message.matches(spec).count(), 1, "{error}");
        }
    }
}
