//! Views: parts of a fabric, with the way back. A group of ranks is one, a degraded fabric another.

use super::file::read_text;
use super::{Fabric, Link, LinkId, NodeId, Product, Shape};
use crate::error::{Code, Error, Result, nearest};
use crate::units::clip;
use std::path::Path;
use std::sync::Arc;

/// Most bytes in a file of groups.
pub const MAX_GROUPS_BYTES: u64 = 1 << 20;

/// A part of a fabric. Nodes keep their ids; those without a rank only forward.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// The part, as a fabric of its own.
    pub fabric: Fabric,
    /// For every rank of the part, its rank in the whole.
    pub ranks: Vec<u32>,
    /// For every link of the part, its id in the whole.
    pub links: Vec<LinkId>,
}

impl View {
    /// The part of `whole` in which `ranks` are renumbered in this order, other nodes only forward, and links are those
    /// that `keep` says. O(nodes + links).
    ///
    /// # Errors
    /// As [`Fabric::new`].
    pub(super) fn new(whole: Fabric, shape: Shape, ranks: Vec<u32>, keep: impl Fn(LinkId) -> bool) -> Result<View> {
        let mut numbers = vec![None; whole.ranks()];
        for (number, &rank) in (0..).zip(&ranks) {
            numbers[rank as usize] = Some(number);
        }
        let Fabric { name, mut nodes, links, .. } = whole;
        for node in &mut nodes {
            node.rank = node.rank.and_then(|rank| numbers[rank as usize]);
        }
        let (ids, links): (Vec<LinkId>, Vec<Link>) = (0..).zip(links).filter(|(id, _)| keep(*id)).unzip();
        Ok(View { fabric: Fabric::new(name, shape, nodes, links)?, ranks, links: ids })
    }
}

/// The way back from a group to the fabric that it is part of.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The whole fabric.
    pub whole: Fabric,
    /// For every rank of the group, its rank in the whole.
    pub ranks: Vec<u32>,
}

impl Fabric {
    /// The part of this fabric in which only `ranks` take part, in this order: all nodes and links are there. A box of a
    /// product ([`super::Product::part`]) is a product. It is named after this fabric, with the ranks in brackets.
    ///
    /// # Errors
    /// [`Code::BadSpec`] if a rank does not exist or is there twice, or for fewer than two.
    pub fn group(&self, ranks: &[u32]) -> Result<View> {
        check(self, ranks).map_err(|error| error.at("group"))?;
        let all = ranks.len() == self.ranks() && (0..).zip(ranks).all(|(number, &rank)| number == rank);
        let nodes: Vec<NodeId> = ranks.iter().map(|&rank| self.node_of_rank(rank)).collect();
        let shape = match &self.shape {
            shape if all => shape.clone(),
            Shape::Product(product) => product.part(&nodes).map_or(Shape::Graph, Shape::Product),
            _ => Shape::Graph,
        };
        let name = format!("{}[{}]", self.name, listed(ranks));
        let mut view = View::new(Fabric { name, ..self.clone() }, shape, ranks.to_vec(), |_| true)?;
        if !all {
            view.fabric.group = Some(Arc::new(Group { whole: self.clone(), ranks: ranks.to_vec() }));
        }
        Ok(view)
    }
}

/// Ranks as [`parse_group`] reads them: `0-3,8,9`.
pub fn listed(ranks: &[u32]) -> String {
    let runs = ranks.chunk_by(|one, next| one + 1 == *next);
    let text = runs.map(|run| match run {
        [first, _, .., last] => format!("{first}-{last}"),
        few => few.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
    });
    text.collect::<Vec<_>>().join(",")
}

/// Refuses ranks that make no group of `fabric`.
fn check(fabric: &Fabric, ranks: &[u32]) -> Result<()> {
    let mut seen = vec![false; fabric.ranks()];
    for &rank in ranks {
        match seen.get_mut(rank as usize) {
            None => {
                return Err(bad(format!("rank {rank} does not exist; {} has 0 to {}", fabric.name, seen.len() - 1)));
            }
            Some(seen) if *seen => return Err(bad(format!("rank {rank} is there twice"))),
            Some(seen) => *seen = true,
        }
    }
    match ranks.len() {
        0 | 1 => Err(bad(format!("{} rank(s); a collective needs at least 2", ranks.len()))),
        _ => Ok(()),
    }
}

/// The ranks of `0,1,8,9` or `0-3,8-11`, in this order.
///
/// # Errors
/// [`Code::BadSpec`] for what is no list of ranks of `fabric`, all different, at least two.
pub fn parse_group(fabric: &Fabric, text: &str) -> Result<Vec<u32>> {
    let place = |error: Error| error.at(format_args!("group '{}'", clip(text)));
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let what = || bad(format!("'{}' is no rank; write for example 0,1,8,9 or 0-3,8-11", clip(text)));
        // What does not fit does not exist either.
        digits.then(|| text.parse().unwrap_or(u32::MAX)).ok_or_else(what)
    };
    let mut ranks = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first).map_err(place)?, number(last).map_err(place)?);
        if first > last {
            return Err(place(bad(format!("'{}' goes down; write the lower rank first", clip(part)))));
        }
        // One more than there are is enough to be refused.
        ranks.extend((first..=last).take(fabric.ranks() + 1));
        if ranks.len() > fabric.ranks() {
            break;
        }
    }
    check(fabric, &ranks).map_err(place)?;
    Ok(ranks)
}

/// Groups of ranks of one fabric; a rank is in at most one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    /// What they were made from.
    pub name: String,
    /// Ranks of each group, in order.
    pub groups: Vec<Vec<u32>>,
}

impl Groups {
    /// Groups that make up a fabric: `rows` or `columns` of a product of two dimensions, the lines along its last or its
    /// first; `dimension=K`, those along dimension K of any product, from 0 in the order of the sizes; or the path of a
    /// JSON file with a list of lists of ranks.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] if the fabric is no such product, [`Code::BadSpec`] for a dimension it does not have or
    /// one of a single node, [`Code::BadFile`] or [`Code::TooLarge`] for files.
    pub fn parse(fabric: &Fabric, text: &str) -> Result<Groups> {
        let groups = match text.strip_prefix("dimension=") {
            Some(number) => dimension(fabric, number),
            None if text == "rows" || text == "columns" => match fabric.product() {
                Some(product) if product.dimensions.len() == 2 => {
                    Ok(along(fabric, product, usize::from(text == "rows")))
                }
                _ => Err(not_applicable(fabric, "is no product of two dimensions")),
            },
            None => read(text),
        };
        let place = |error: Error| error.at(format_args!("groups '{}'", clip(text)));
        let groups = Groups { name: text.into(), groups: groups.map_err(place)? };
        groups.check(fabric).map_err(place)?;
        Ok(groups)
    }

    /// Refuses what are no groups of `fabric`.
    fn check(&self, fabric: &Fabric) -> Result<()> {
        let mut group_of = vec![None; fabric.ranks()];
        for (number, group) in self.groups.iter().enumerate() {
            check(fabric, group).map_err(|error| error.at(format_args!("group {number}")))?;
            for &rank in group {
                if let Some(other) = group_of[rank as usize].replace(number) {
                    return Err(bad(format!("rank {rank} is in groups {other} and {number}; it can be in one")));
                }
            }
        }
        if self.groups.is_empty() { Err(bad("there are none")) } else { Ok(()) }
    }
}

/// Groups of ranks along dimension `text` of a product.
fn dimension(fabric: &Fabric, text: &str) -> Result<Vec<Vec<u32>>> {
    let Some(product) = fabric.product() else {
        return Err(not_applicable(fabric, "is no product of dimensions"));
    };
    let count = product.dimensions.len();
    match text.parse::<usize>() {
        Ok(number) if number < count => Ok(along(fabric, product, number)),
        _ => Err(bad(format!("there is no such dimension; {} has 0 to {}", fabric.name, count - 1))),
    }
}

/// Groups of ranks that differ only along a dimension.
fn along(fabric: &Fabric, product: &Product, dimension: usize) -> Vec<Vec<u32>> {
    let (coordinates, ranks) = (&product.coordinates, product.ranks(fabric));
    let line = |origin| coordinates.line(origin, dimension).map(|position| ranks[position as usize]).collect();
    coordinates.origins(dimension).map(line).collect()
}

fn read(path: &str) -> Result<Vec<Vec<u32>>> {
    let text = read_text(Path::new(path), MAX_GROUPS_BYTES).map_err(|error| {
        let hint = nearest(path, ["rows", "columns"]);
        let known = "known: rows, columns, dimension=K, or a JSON file such as [[0, 1], [2, 3]]";
        Error::new(error.code, format!("{}{hint}; {known}", error.message))
    })?;
    serde_json::from_str(&text).map_err(|error| {
        Error::new(Code::BadFile, format!("{error}; write lists of ranks, for example [[0, 1], [2, 3]]"))
    })
}

fn not_applicable(fabric: &Fabric, why: &str) -> Error {
    let what = format!("{} {why}; list the groups in a file, for example [[0, 1], [2, 3]]", fabric.name);
    Error::new(Code::NotApplicable, what)
}

fn bad(why: impl AsRef<str>) -> Error {
    Error::new(Code::BadSpec, why)
}
