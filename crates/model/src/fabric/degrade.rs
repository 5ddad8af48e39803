//! Degradations of a fabric: dropped and slowed links, excluded and dead ranks; and what its switches compute.

use super::ways::mix;
use super::{Fabric, LinkId, NodeId, Shape, View, link, listed};
use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::{clip, parse_decimal};
use std::collections::HashSet;

/// The degradations, for messages.
const KINDS: [&str; 5] = ["drop", "slow", "exclude", "dead", "switches"];

/// `intact` with degradations such as `drop=3-4`, `drop=3>4`, `slow=2-3:0.5`, `exclude=5`, `dead=5`;
/// their nodes are numbers or names of nodes of `intact`. `dead=random:COUNT:SEED` and `exclude=random:COUNT:SEED` draw
/// among the ranks that are left by what stands before. Without dropped links and dead switches, what is left of a product stays one if it is a
/// box of it, as a group does; else only slowed links leave more than a plain [`Shape::Graph`].
pub(super) fn degrade<'a>(mut intact: Fabric, items: impl Iterator<Item = &'a str>) -> Result<View> {
    let mut dropped = vec![false; intact.links.len()];
    let mut dead = vec![false; intact.nodes.len()];
    let mut excluded = dead.clone();
    let mut slowed_links = HashSet::new();
    let mut same_structure = true;
    let mut is_random = false;
    for item in items {
        let name = intact.name.clone();
        let place = |error: Error| error.at(format_args!("fabric '{name}': '{}'", clip(item)));
        let (kind, value) = item.split_once('=').unwrap_or((item, ""));
        same_structure &= ["slow", "switches"].contains(&kind);
        match kind {
            "drop" => {
                for id in links_between(&intact, value).map_err(place)? {
                    dropped[id as usize] = true;
                }
            }
            "slow" => {
                let (ids, permille) = slowed(&intact, value).map_err(place)?;
                // One way after both is meant; the same twice is not.
                if !slowed_links.insert(ids.clone()) {
                    return Err(place(bad("these links are slowed twice; give one factor")));
                }
                for id in ids {
                    intact.links[id as usize].speed_permille = permille;
                }
            }
            "exclude" | "dead" if value.starts_with(RANDOM) => {
                let lost = |rank: &u32| {
                    let node = intact.node_of_rank(*rank) as usize;
                    dead[node] || excluded[node]
                };
                let left: Vec<u32> = (0..intact.ranks() as u32).filter(|rank| !lost(rank)).collect();
                let drawn = random_ranks(left, value).map_err(place)?;
                let (list, what) = if kind == "dead" { (&mut dead, "dead") } else { (&mut excluded, "excluded") };
                let nodes: Vec<NodeId> = drawn.into_iter().map(|rank| intact.node_of_rank(rank)).collect();
                nodes.iter().for_each(|&node| list[node as usize] = true);
                intact.notes.0.push(format!("{}: nodes {} are {what}", clip(item), listed(&nodes)));
                is_random = true;
            }
            "exclude" => excluded[node_of_rank(&intact, value).map_err(place)? as usize] = true,
            "dead" => dead[intact.node(value).map_err(place)? as usize] = true,
            "switches" => intact.set_switches(value).map_err(place)?,
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
    View::new(intact, shape, ranks, |id| !dropped[id as usize]).map_err(|error| {
        if is_random && error.message.contains("disconnected") {
            let what = format!("{}; another seed may leave it connected, or fewer that are drawn", error.message);
            return Error::new(error.code, what);
        }
        error
    })
}

/// What draws instead of naming.
const RANDOM: &str = "random:";

/// The ranks that `random:COUNT:SEED` draws out of some, in order: the same on every machine.
fn random_ranks(mut ranks: Vec<u32>, text: &str) -> Result<Vec<u32>> {
    let parts: Option<(usize, u64)> = text.strip_prefix(RANDOM).and_then(|text| {
        let (count, seed) = text.split_once(':')?;
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number(count) && is_number(seed) { Some((count.parse().ok()?, seed.parse().ok()?)) } else { None }
    });
    let Some((count, seed)) = parts else {
        return Err(bad("is not random:COUNT:SEED, two whole numbers, as in dead=random:5:1"));
    };
    if count > ranks.len() {
        return Err(bad(format!("there are {} ranks to draw from", ranks.len())));
    }
    for at in 0..count {
        let drawn = u128::from(mix(seed, [at as NodeId, 0, 0]));
        let place = at + ((drawn * (ranks.len() - at) as u128) >> 64) as usize;
        ranks.swap(at, place);
    }
    ranks.truncate(count);
    ranks.sort_unstable();
    Ok(ranks)
}

impl Fabric {
    /// What is left when links (`3-4` both ways, `3>4` one way) or nodes (`40`, `rail0`) have failed, each text one or several
    /// with commas; nodes are numbers or names. Ranks that are left are renumbered from 0 without gaps.
    ///
    /// # Errors
    /// [`Code::BadSpec`] for a failure that names nothing, or that leaves some rank out of reach.
    pub fn failed(&self, failures: &[&str]) -> Result<View> {
        if failures.is_empty() {
            return Err(bad("no failure; name a link, as 3-4 or 3>4, or a node, as 40"));
        }
        let item = |failure: &str| match self.node(failure) {
            Ok(_) => format!("dead={failure}"),
            Err(_) if failure.contains(['-', '>']) => format!("drop={failure}"),
            Err(_) => format!("dead={failure}"),
        };
        // One that is named twice has failed once.
        let mut seen = HashSet::new();
        let each = failures.iter().flat_map(|text| text.split(','));
        let items: Vec<String> = each.filter(|failure| seen.insert(*failure)).map(item).collect();
        let name = format!("{},{}", self.name, items.join(","));
        degrade(Fabric { name, ..self.clone() }, items.iter().map(String::as_str))
    }
}

/// All links of `A-B` (both directions) or `A>B`.
fn links_between(fabric: &Fabric, text: &str) -> Result<Vec<LinkId>> {
    // Names may hold a hyphen, too.
    let splits = || text.match_indices(['>', '-']).map(|(at, mark)| (&text[..at], &text[at + 1..], mark == "-"));
    let Some(first) = splits().next() else {
        return Err(bad("names no link; write 3-4 for both directions or 3>4 for one"));
    };
    let are_nodes = |(a, b, _): &(&str, &str, bool)| fabric.node(a).is_ok() && fabric.node(b).is_ok();
    let mut meant = splits().filter(are_nodes);
    let (a, b, both) = meant.next().unwrap_or(first);
    if let Some((c, d, _)) = meant.next() {
        return Err(bad(format!("may be from {a} to {b} or from {c} to {d}; write the numbers of the nodes")));
    }
    let (a, b) = (fabric.node(a)?, fabric.node(b)?);
    let joins = |from: NodeId, to: NodeId| {
        let ids = fabric.out_links(from).iter().copied();
        ids.filter(move |&id| fabric.link(id).to == to)
    };
    let mut ids: Vec<LinkId> = joins(a, b).collect();
    if both {
        ids.extend(joins(b, a));
    }
    if ids.is_empty() { Err(fabric.no_link(a, b)) } else { Ok(ids) }
}

/// Links and speed of `A-B:FACTOR`.
fn slowed(fabric: &Fabric, text: &str) -> Result<(Vec<LinkId>, u32)> {
    let (pair, factor) = text.rsplit_once(':').ok_or_else(|| bad("has no speed factor; write slow=2-3:0.5"))?;
    let factor = parse_decimal(factor).ok_or_else(|| bad("the speed factor is not a number such as 0.5"))?;
    Ok((links_between(fabric, pair)?, link::permille(factor)?))
}

/// A node that has a rank to lose.
fn node_of_rank(fabric: &Fabric, text: &str) -> Result<NodeId> {
    let id = fabric.node(text)?;
    match fabric.nodes[id as usize].rank {
        Some(_) => Ok(id),
        None => Err(bad(format!("node {id} has no rank to exclude; use dead={id} to remove a switch"))),
    }
}

fn bad(why: impl AsRef<str>) -> Error {
    Error::new(Code::BadSpec, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{Link, Node};

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
    fn nodes_have_names() {
        let by_name = |spec: &str, same: &str| {
            let [mut fabric, same] = [spec, same].map(|spec| Fabric::parse(spec).unwrap());
            fabric.name.clone_from(&same.name);
            assert_eq!(fabric, same, "{spec}");
        };
        let id = |fabric: &Fabric, name| fabric.node(name).unwrap();
        let boxes = parse("dgx-h100:2");
        let (gpu, rail) = (id(&boxes, "gpu0.0"), id(&boxes, "rail0"));
        by_name("dgx-h100:2,drop=gpu0.0-rail0", &format!("dgx-h100:2,drop={gpu}-{rail}"));
        by_name("dgx-h100:2,slow=rail0>gpu0.0:0.5", &format!("dgx-h100:2,slow={rail}>{gpu}:0.5"));
        by_name("dgx-h100:2,exclude=gpu0.0", &format!("dgx-h100:2,exclude={gpu}"));
        let failed = |failures: &[&str]| boxes.failed(failures).unwrap().fabric;
        assert_eq!(failed(&["rail0,gpu0.1-rail1"]), failed(&["rail0", "gpu0.1-rail1"]));
        assert_eq!(failed(&["rail0"]).name, "dgx-h100:2,dead=rail0");
        // Names with a hyphen.
        let names = ["0", "a", "b-c", "a-b", "c"];
        let mut nodes = names.map(|name| Node::switch(name, [])).to_vec();
        (nodes[0].rank, nodes[1].rank) = (Some(0), Some(1));
        let links = (0..5).flat_map(|id| [Link::new(id, (id + 1) % 5, ""), Link::new((id + 1) % 5, id, "")]).collect();
        let ring = Fabric::new("ring", Shape::Graph, nodes, links).unwrap();
        assert_eq!(links_between(&ring, "b-c-a-b").unwrap().len(), 2);
        assert_eq!(links_between(&ring, "a-b>b-c").unwrap().len(), 1);
        let error = links_between(&ring, "a-b-c").unwrap_err();
        assert!(error.message.contains("may be from a to b-c or from a-b to c"), "{error}");
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
    fn random_failures_are_drawn_by_seed() {
        let [one, same, other] = [1, 1, 2].map(|seed| parse(&format!("mesh:8x8,dead=random:5:{seed}")));
        assert_eq!((one.ranks(), &one.links), (59, &same.links));
        assert!(one.links != other.links);
        // As if they were named.
        let note = &one.notes.0[0];
        let nodes: Vec<&str> = note
            .strip_prefix("dead=random:5:1: nodes ")
            .unwrap()
            .strip_suffix(" are dead")
            .unwrap()
            .split(',')
            .collect();
        let named = parse(&format!(
            "mesh:8x8,{}",
            nodes.iter().map(|node| format!("dead={node}")).collect::<Vec<_>>().join(",")
        ));
        assert_eq!((named.ranks(), &named.links), (59, &one.links));
        let harvested = parse("mesh:8x8,exclude=random:5:1");
        assert_eq!((harvested.ranks(), harvested.links.len()), (59, 224));
        // Of those that are left.
        assert_eq!(parse("fc:4,dead=0,exclude=random:1:7,dead=random:0:1").ranks(), 2);
        for rank in 0..8 {
            let hits = (0..4000)
                .filter(|&seed| random_ranks((0..8).collect(), &format!("random:2:{seed}")).unwrap().contains(&rank));
            assert!((900..1100).contains(&hits.count()), "{rank}");
        }
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        for (spec, why) in [
            ("mesh:2x2,drop=0-3", "no link from 0 to 3; node 0 has links to 2, 1"),
            ("mesh:2x2,drop=0-9", "there is no node 9; nodes are 0 to 3"),
            ("mesh:2x2,drop=0-99999999999", "there is no node 99999999999"),
            ("mesh:2x2,drop=+0-1", "there is no node '+0'"),
            ("dgx-h100:2,drop=gpu0.0-rial0", "there is no node 'rial0'; did you mean 'rail0'?"),
            ("dgx-h100:2,drop=gpu0.0-rail1", "no link from 0 to"),
            ("mesh:2x2,drop=3", "names no link"),
            ("mesh:2x2,drop", "names no link"),
            ("mesh:2x2,slow=0-1", "has no speed factor"),
            ("mesh:2x2,slow=0-1:0", "speed factor 0"),
            ("mesh:2x2,slow=0-1:1.5", "speed factor 1.5"),
            ("mesh:2x2,slow=0-1:nan", "not a number"),
            ("mesh:2x2,slow=0-1:0.5,slow=0-1:0.2", "slowed twice"),
            ("mesh:2x2,dorp=0-1", "did you mean 'drop'?"),
            ("mesh:2x2,", "no such degradation"),
            ("switch:4,exclude=4", "node 4 has no rank"),
            ("mesh:1x4,drop=1-2", "disconnected: no path from rank 0 to rank 2"),
            ("mesh:1x4,drop=1>2", "disconnected: no path from rank 0 to rank 2"),
            ("mesh:1x2,dead=1", "1 rank(s)"),
            ("switch:4,dead=4", "disconnected"),
            ("mesh:4x4,dead=random:5", "is not random:COUNT:SEED"),
            ("mesh:4x4,dead=random:-5:1", "is not random:COUNT:SEED"),
            ("mesh:4x4,exclude=random:x:1", "is not random:COUNT:SEED"),
            ("mesh:4x4,dead=random:99999999999999999999:1", "is not random:COUNT:SEED"),
            ("mesh:4x4,dead=random:17:1", "there are 16 ranks to draw from"),
            ("mesh:4x4,dead=random:15:1", "1 rank(s)"),
            ("mesh:1x9,dead=random:5:1", "; another seed may leave it connected"),
        ] {
            let error = Fabric::parse(spec).unwrap_err();
            assert!(error.message.contains(why), "{spec}: {error}");
            assert_eq!(error.message.matches(spec).count(), 1, "{error}");
        }
    }
}
