//! Views: parts of a fabric, with the way back. A group of ranks is one, a degraded fabric another.

use super::file::read_text;
use super::{Fabric, Link, LinkId, NodeId, Product, Shape};
use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::{clip, clip_error};
use std::borrow::Cow;
use std::collections::BTreeMap;
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
    pub fn new(whole: Fabric, shape: Shape, ranks: Vec<u32>, keep: impl Fn(LinkId) -> bool) -> Result<View> {
        let mut numbers = vec![None; whole.ranks()];
        for (number, &rank) in (0..).zip(&ranks) {
            numbers[rank as usize] = Some(number);
        }
        let Fabric { name, mut nodes, links, mut configured, notes, .. } = whole;
        for node in &mut nodes {
            node.rank = node.rank.and_then(|rank| numbers[rank as usize]);
        }
        let all_links = links.len();
        let (ids, links): (Vec<LinkId>, Vec<Link>) = (0..).zip(links).filter(|(id, _)| keep(*id)).unzip();
        if let Some(configured) = configured.as_mut().filter(|_| ids.len() < all_links) {
            let configured = Arc::make_mut(configured);
            configured.members = ids.iter().map(|&id| configured.members[id as usize]).collect();
        }
        Ok(View { fabric: Fabric { configured, notes, ..Fabric::new(name, shape, nodes, links)? }, ranks, links: ids })
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
        // A group of a group is one of the whole.
        let (whole, there) = match &self.group {
            Some(group) => (&group.whole, ranks.iter().map(|&rank| group.ranks[rank as usize]).collect()),
            None => (self, ranks.to_vec()),
        };
        let name = format!("{}[{}]", whole.name, listed(&there));
        let mut view = View::new(Fabric { name, ..self.clone() }, shape, ranks.to_vec(), |_| true)?;
        if !all || self.group.is_some() {
            view.fabric.group = Some(Arc::new(Group { whole: whole.clone(), ranks: there }));
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
    /// first; `dimension=K`, those along dimension K of any product, from 0 in the order of the sizes; `dp of tp=8,cp=2,dp=16`
    /// or `tp+cp of` it, those along dimensions of a grid of all ranks whose first is the fastest; `package`, the ranks of each
    /// package; or the path of a JSON file with a list of lists of ranks.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] if the fabric is no such product or names no packages, [`Code::BadSpec`] for a dimension it does not have or
    /// one of a single node and for a grid that is not of its ranks, [`Code::BadFile`] or [`Code::TooLarge`] for files.
    pub fn parse(fabric: &Fabric, text: &str) -> Result<Groups> {
        let groups = match text.strip_prefix("dimension=") {
            Some(number) => dimension(fabric, number),
            None if text == "rows" || text == "columns" => match laid_out(fabric) {
                Some(product) if product.dimensions.len() == 2 => {
                    Ok(along(fabric, &product, usize::from(text == "rows")))
                }
                _ => Err(not_applicable(fabric, "is no product of two dimensions")),
            },
            None if text == "package" => by_package(fabric),
            None => match text.split_once(" of ") {
                Some((names, grid)) if grid.contains('=') => along_names(fabric, names, grid),
                _ => read(text),
            },
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

/// Ranks of each package, in the order of the packages' numbers.
fn by_package(fabric: &Fabric) -> Result<Vec<Vec<u32>>> {
    let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for rank in 0..fabric.ranks() as u32 {
        let node = &fabric.nodes[fabric.node_of_rank(rank) as usize];
        let Some(package) = node.package else {
            return Err(not_applicable(fabric, &format!("says of no package that node {} is in it", clip(&node.name))));
        };
        groups.entry(package).or_default().push(rank);
    }
    Ok(groups.into_values().collect())
}

/// The product in which ranks lie, if need be by the labels of links.
fn laid_out(fabric: &Fabric) -> Option<Cow<'_, Product>> {
    fabric.layout().map(Cow::Borrowed).or_else(|| Product::named(fabric).map(Cow::Owned))
}

/// Groups of ranks along dimension `text` of a product.
fn dimension(fabric: &Fabric, text: &str) -> Result<Vec<Vec<u32>>> {
    let Some(product) = laid_out(fabric) else {
        return Err(not_applicable(fabric, "is no product of dimensions"));
    };
    let count = product.dimensions.len();
    match text.parse::<usize>() {
        Ok(number) if number < count => Ok(along(fabric, &product, number)),
        _ => Err(bad(format!("there is no such dimension; {} has 0 to {}", fabric.name, count - 1))),
    }
}

/// Groups of ranks that differ only along a dimension.
fn along(fabric: &Fabric, product: &Product, dimension: usize) -> Vec<Vec<u32>> {
    let (coordinates, ranks) = (&product.coordinates, product.ranks(fabric));
    let line = |origin| coordinates.line(origin, dimension).map(|position| ranks[position as usize]).collect();
    coordinates.origins(dimension).map(line).collect()
}

/// Groups of ranks that differ only along the named dimensions of a grid `tp=8,dp=16`, the first of which is the fastest.
fn along_names(fabric: &Fabric, names: &str, grid: &str) -> Result<Vec<Vec<u32>>> {
    let mut sizes: Vec<(&str, usize)> = vec![];
    for part in grid.split(',') {
        let (name, size) = part.trim().split_once('=').unwrap_or((part, ""));
        match size.parse() {
            _ if name.is_empty() || name.contains('+') => {
                return Err(bad(format!("'{}' has no name; write for example tp=8,dp=16", clip(part))));
            }
            _ if sizes.iter().any(|(other, _)| *other == name) => {
                return Err(bad(format!("'{}' is twice in the grid", clip(name))));
            }
            Ok(size) if size > 0 => sizes.push((name, size)),
            _ => return Err(bad(format!("'{}' has no size; write for example tp=8,dp=16", clip(part)))),
        }
    }
    let ranks = fabric.ranks();
    let product = sizes.iter().try_fold(1usize, |product, (_, size)| product.checked_mul(*size));
    if product != Some(ranks) {
        let all = product.map_or("too many".into(), |product| product.to_string());
        return Err(bad(format!("the grid has {all} ranks, {} has {ranks}", fabric.name)));
    }
    let mut is_along = vec![false; sizes.len()];
    for name in names.split('+').map(str::trim) {
        match sizes.iter().position(|(known, _)| *known == name) {
            None => {
                let known: Vec<&str> = sizes.iter().map(|(known, _)| *known).collect();
                return Err(bad(format!("no dimension '{}'; the grid has {}", clip(name), known.join(", "))));
            }
            Some(at) if std::mem::replace(&mut is_along[at], true) => {
                return Err(bad(format!("'{name}' is named twice")));
            }
            Some(_) => {}
        }
    }
    // Ranks of a group agree in where they are along the others.
    let mut groups: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for rank in 0..ranks {
        let (mut origin, mut step) = (0, 1);
        for (&(_, size), along) in sizes.iter().zip(&is_along) {
            origin += if *along { 0 } else { rank / step % size * step };
            step *= size;
        }
        groups.entry(origin).or_default().push(rank as u32);
    }
    Ok(groups.into_values().collect())
}

fn read(path: &str) -> Result<Vec<Vec<u32>>> {
    let text = read_text(Path::new(path), MAX_GROUPS_BYTES).map_err(|error| {
        let hint = nearest(path, ["rows", "columns", "package"]);
        let known =
            "known: rows, columns, dimension=K, package, dp of tp=8,dp=16, or a JSON file such as [[0, 1], [2, 3]]";
        Error::new(error.code, format!("{}{hint}; {known}", error.message))
    })?;
    serde_json::from_str(&text).map_err(|error| {
        let what = clip_error(&error);
        Error::new(Code::BadFile, format!("{what}; write lists of ranks, for example [[0, 1], [2, 3]]"))
    })
}

fn not_applicable(fabric: &Fabric, why: &str) -> Error {
    let what = format!("{} {why}; list the groups in a file, for example [[0, 1], [2, 3]]", fabric.name);
    Error::new(Code::NotApplicable, what)
}

fn bad(why: impl AsRef<str>) -> Error {
    Error::new(Code::BadSpec, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::DimensionShape;

    fn parse(spec: &str) -> Fabric {
        Fabric::parse(spec).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_group_keeps_nodes_and_links() {
        let mesh = parse("mesh:4x4");
        let View { fabric, ranks, links } = mesh.group(&[5, 4, 0, 1]).unwrap();
        assert_eq!((fabric.name.as_str(), fabric.ranks(), fabric.nodes.len()), ("mesh:4x4[5,4,0,1]", 4, 16));
        assert_eq!((ranks, fabric.node_of_rank(0), fabric.nodes[0].rank), (vec![5, 4, 0, 1], 5, Some(2)));
        assert_eq!((&fabric.links, links), (&mesh.links, (0..48).collect()));
        let product = fabric.product().unwrap();
        assert_eq!((product.ranks(&fabric), &product.nodes[..]), (vec![2, 3, 1, 0], &[0, 1, 4, 5][..]));
        assert_eq!(mesh.group(&[0, 1, 4]).unwrap().fabric.shape, Shape::Graph);
        // A group of a group, and one that forwards through the others.
        let inner = fabric.group(&[1, 2]).unwrap();
        assert_eq!((inner.fabric.node_of_rank(0), inner.fabric.node_of_rank(1)), (4, 0));
        assert_eq!(mesh.group(&[0, 15]).unwrap().fabric.ranks(), 2);
        // All ranks in their order are the fabric itself.
        let bigraph = parse("bigraph:2");
        assert_eq!(bigraph.group(&(0..8).collect::<Vec<_>>()).unwrap().fabric.shape, bigraph.shape);
        assert_eq!(bigraph.group(&[1, 0]).unwrap().fabric.shape, Shape::Graph);
    }

    #[test]
    fn rows_are_rings_and_parts_of_rings_lines() {
        let torus = parse("torus:4x6@50+25");
        let shape = |ranks: &[u32]| {
            let view = torus.group(ranks).unwrap();
            let along = view.fabric.product().unwrap().dimensions.clone();
            along
                .iter()
                .map(|along| (along.shape, along.size, along.link_rate().unwrap().as_gb_per_s()))
                .collect::<Vec<_>>()
        };
        assert_eq!(shape(&[6, 7, 8, 9, 10, 11]), [(DimensionShape::Ring, 6, 25.0)]);
        assert_eq!(shape(&[11, 6, 7]), [(DimensionShape::Line, 3, 25.0)]);
        assert_eq!(shape(&[1, 19, 7, 13]), [(DimensionShape::Ring, 4, 50.0)]);
        let switch = parse("switch:8").group(&[7, 0, 3]).unwrap();
        assert_eq!(switch.fabric.product().unwrap().nodes, [0, 3, 7]);
    }

    #[test]
    fn groups_of_a_specification() {
        let groups = |spec: &str, text: &str| Groups::parse(&parse(spec), text).map(|groups| groups.groups);
        assert_eq!(groups("mesh:2x3", "rows").unwrap(), [vec![0, 1, 2], vec![3, 4, 5]]);
        assert_eq!(groups("mesh:2x3", "columns").unwrap(), [[0, 3], [1, 4], [2, 5]]);
        assert_eq!(groups("torus:2x2x3", "dimension=1").unwrap().len(), 6);
        assert_eq!(groups("torus:2x2x3", "dimension=1").unwrap()[1], [1, 4]);
        let jobs = |names: &str| groups("switch:12", &format!("{names} of tp=2,cp=3,dp=2")).unwrap();
        assert_eq!(jobs("tp").len(), 6);
        assert_eq!(jobs("cp"), [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11]]);
        assert_eq!(jobs("dp")[1..3], [[1, 7], [2, 8]]);
        assert_eq!(jobs("dp + tp"), [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]);
        assert_eq!(jobs("tp+cp+dp"), [(0..12).collect::<Vec<_>>()]);
        let group = |text: &str| parse_group(&parse("mesh:4x4"), text);
        assert_eq!(group("0,1,8,9").unwrap(), [0, 1, 8, 9]);
        assert_eq!(group("12-15,3,0-1").unwrap(), [12, 13, 14, 15, 3, 0, 1]);
        assert_eq!(listed(&[12, 13, 14, 15, 3, 0, 1]), "12-15,3,0,1");
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        for (text, why) in [
            ("", "'' is no rank; write for example 0,1,8,9"),
            ("0,x", "'x' is no rank"),
            ("0,-1", "'' is no rank"),
            ("0,16", "rank 16 does not exist; mesh:4x4 has 0 to 15"),
            ("0,99999999999", "rank 4294967295 does not exist"),
            ("0-4294967295", "rank 16 does not exist"),
            ("3,4,3", "rank 3 is there twice"),
            ("5", "1 rank(s); a collective needs at least 2"),
            ("5-3", "'5-3' goes down"),
        ] {
            let error = parse_group(&parse("mesh:4x4"), text).unwrap_err();
            assert_eq!(error.code, Code::BadSpec);
            assert!(error.message.contains(why) && error.message.starts_with("group '"), "{text}: {error}");
        }
        assert!(parse("mesh:4x4").group(&[1, 1]).unwrap_err().message.starts_with("group: rank 1 is there twice"));
        for (spec, text, code, why) in [
            ("mesh:4x4x2", "rows", Code::NotApplicable, "is no product of two dimensions; list the groups in a file"),
            ("mesh:4x4,drop=0-1", "columns", Code::NotApplicable, "is no product of two dimensions"),
            ("dgx1v", "dimension=0", Code::NotApplicable, "dgx1v is no product of dimensions"),
            ("mesh:4x4", "dimension=2", Code::BadSpec, "there is no such dimension; mesh:4x4 has 0 to 1"),
            ("mesh:4x4", "dimension=", Code::BadSpec, "no such dimension"),
            ("mesh:1x4", "dimension=0", Code::BadSpec, "group 0: 1 rank(s)"),
            (
                "mesh:2x2",
                "package",
                Code::NotApplicable,
                "mesh:2x2 says of no package that node 0 is in it; list the groups",
            ),
            ("packages:2x2:of=1x1", "package", Code::BadSpec, "group 0: 1 rank(s)"),
            ("mesh:4x4", "packages", Code::BadFile, "did you mean 'package'?"),
            ("mesh:4x4", "dp of tp=2,dp=4", Code::BadSpec, "the grid has 8 ranks, mesh:4x4 has 16"),
            ("mesh:4x4", "dp of dp=9999999999,tp=9999999999", Code::BadSpec, "too many ranks"),
            ("mesh:4x4", "pd of tp=4,dp=4", Code::BadSpec, "no dimension 'pd'; the grid has tp, dp"),
            ("mesh:4x4", "dp+dp of tp=4,dp=4", Code::BadSpec, "'dp' is named twice"),
            ("mesh:4x4", "dp of dp=4,dp=4", Code::BadSpec, "'dp' is twice in the grid"),
            ("mesh:4x4", "dp of tp=4,dp=0", Code::BadSpec, "'dp=0' has no size"),
            ("mesh:4x4", "dp of tp=4,dp", Code::BadSpec, "'dp' has no size"),
            ("mesh:4x4", "dp of =4,dp=4", Code::BadSpec, "'=4' has no name"),
            ("mesh:4x4", "tp of dp=16,tp=1", Code::BadSpec, "group 0: 1 rank(s)"),
            (
                "mesh:4x4",
                "rwos",
                Code::BadFile,
                "did you mean 'rows'?; known: rows, columns, dimension=K, package, dp of tp=8,dp=16, or a JSON file",
            ),
        ] {
            let error = Groups::parse(&parse(spec), text).unwrap_err();
            assert_eq!(error.code, code, "{error}");
            assert!(error.message.contains(why) && error.message.contains(text), "{text}: {error}");
        }
    }

    #[test]
    fn groups_by_package() {
        let fabric = parse("packages:2x3:of=2x2,exclude=5");
        let groups = Groups::parse(&fabric, "package").unwrap().groups;
        assert_eq!((groups.len(), &groups[0], &groups[1]), (6, &vec![0, 1, 2, 3], &vec![4, 5, 6]));
        // A package by itself is a mesh.
        let package = fabric.group(&groups[2]).unwrap().fabric;
        assert_eq!((package.ranks(), package.product()), (4, None));
        let intact = parse("packages:2x3:of=2x2@100+25");
        let package = intact.group(&[4, 5, 6, 7]).unwrap().fabric;
        assert_eq!(package.product().unwrap().coordinates.sizes(), [2, 2]);
        let read = Fabric::from_json("t", &intact.to_json()).unwrap();
        assert_eq!(Groups::parse(&read, "package").unwrap().groups, Groups::parse(&intact, "package").unwrap().groups);
    }

    #[test]
    fn groups_along_labels() {
        let mesh = parse("mesh:3x4");
        let read = Fabric::from_json("t", &mesh.to_json()).unwrap();
        for text in ["rows", "columns", "dimension=1"] {
            assert_eq!(Groups::parse(&read, text).unwrap(), Groups::parse(&mesh, text).unwrap());
        }
    }

    #[test]
    fn groups_of_files() {
        let path = std::env::temp_dir().join(format!("antiphon-groups-{}.json", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Groups::parse(&parse("mesh:4x4"), path.to_str().unwrap()).map(|groups| groups.groups)
        };
        assert_eq!(read("[[0, 5], [3, 2, 1]]").unwrap(), [vec![0, 5], vec![3, 2, 1]]);
        for (text, why) in [
            ("[[0, 5], [5, 1]]", "rank 5 is in groups 0 and 1; it can be in one"),
            ("[[0, 1], [2]]", "group 1: 1 rank(s)"),
            ("[[0, 16]]", "group 0: rank 16 does not exist"),
            ("[]", "there are none"),
            ("[0, 1]", "write lists of ranks, for example [[0, 1], [2, 3]]"),
            ("[[0, -1]]", "write lists of ranks"),
            (&"[".repeat(100_000), "write lists of ranks"),
            (&" ".repeat(MAX_GROUPS_BYTES as usize + 1), "larger than 1 MiB"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.message.contains(why) && error.message.starts_with("groups '"), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
