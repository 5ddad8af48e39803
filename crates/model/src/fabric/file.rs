//! Fabrics in files: JSON, schema `antiphon-fabric/1` (described with an example in `docs/reference/fabric.md`).

use super::import::{self, JoinedBoxes};
use super::spec::{FabricPreset, from_file};
use super::{Fabric, Link, MAX_LINKS, MAX_NODES, Node, NodeId, Reduces, Shape, SwitchCompute, link};
use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::{clip, clip_error};
use antiphon_base::watch::{checkpoint, interruptible};
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::marker::PhantomData;
use std::path::Path;

pub(super) const FILE: FabricPreset = FabricPreset::new(
    "file",
    "file:fabric.json",
    "any graph: JSON, or a topology of another tool, known by its content",
    |request| {
        let path = request.size.filter(|path| !path.is_empty())?;
        Some(from_file(request.name, path, request.parameters, request.boxes))
    },
);

/// Value of the `schema` key.
pub const SCHEMA: &str = "antiphon-fabric/1";
/// Most bytes in a fabric file.
pub const MAX_FILE_BYTES: u64 = 64 << 20;
/// Most characters in a node name or dimension label.
pub const MAX_NAME: usize = 128;
/// Most coordinates of a node.
pub const MAX_COORDS: usize = 16;

impl Fabric {
    /// The fabric of a file, named `file:PATH`: JSON, or a topology of another tool, known by its content
    /// (`docs/reference/fabric.md`). The structure is [`Shape::Graph`].
    ///
    /// # Errors
    /// [`Code::BadFile`] if it cannot be read or is not UTF-8, [`Code::TooLarge`] past
    /// [`MAX_FILE_BYTES`], and the errors of [`Fabric::from_json`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Fabric> {
        let path = path.as_ref();
        read(&format!("file:{}", path.display()), path, None, |_| Ok(()))
    }

    /// The fabric called `name` of a text: JSON, or a topology of another tool, known by its content
    /// (`docs/reference/fabric.md`).
    ///
    /// # Errors
    /// As [`Fabric::from_json`], with the line.
    pub fn from_text(name: &str, text: &str) -> Result<Fabric> {
        of_text(name, text, None, |_| Ok(()))
    }

    /// The fabric called `name` of a JSON text with schema [`SCHEMA`]. Ranks are numbered in node
    /// order, links in file order: each of `count` copies there and, if `both`, back.
    ///
    /// # Errors
    /// [`Code::BadFile`] or [`Code::BadSize`] with the place for a malformed text, [`Code::TooLarge`]
    /// past the limits of a fabric, [`Code::BadSpec`] for fewer than two ranks or a disconnected graph.
    pub fn from_json(name: &str, text: &str) -> Result<Fabric> {
        let (nodes, links) = parts(text).map_err(|error| error.at(format_args!("fabric '{name}'")))?;
        Fabric::new(name, Shape::Graph, nodes, links)
    }

    /// The fabric as JSON with schema [`SCHEMA`], one node or link a line. [`Fabric::from_json`] gives
    /// it back with the same link order as a [`Shape::Graph`], if node names differ, and the same ranks if they are in
    /// node order.
    pub fn to_json(&self) -> String {
        let nodes: Vec<String> = (0..).zip(&self.nodes).map(|(id, node)| node_line(id, node)).collect();
        let mut links = Vec::new();
        let mut rest = &self.links[..];
        while let [link, after @ ..] = rest {
            if links.len().is_multiple_of(1024) {
                checkpoint();
            }
            let both = after.first().is_some_and(|next| *next == link.reversed());
            links.push(link_line(link, both));
            rest = &after[usize::from(both)..];
        }
        format!(
            "{{\"schema\": \"{SCHEMA}\",\n\"nodes\": [\n{}\n],\n\"links\": [\n{}\n]}}\n",
            nodes.join(",\n"),
            links.join(",\n")
        )
    }
}

/// The fabric in the file at `path`, named `name`, as [`of_text`].
pub(super) fn read(
    name: &str,
    path: impl AsRef<Path>,
    boxes: Option<JoinedBoxes>,
    set: impl FnOnce(&mut Fabric) -> Result<()>,
) -> Result<Fabric> {
    let text = read_text(path.as_ref(), MAX_FILE_BYTES).map_err(|error| error.at(format_args!("fabric '{name}'")))?;
    of_text(name, &text, boxes, set)
}

/// The fabric of a text, or of many of its boxes; `set` gives links what the text does not, before what is taken without it.
fn of_text(
    name: &str,
    text: &str,
    boxes: Option<JoinedBoxes>,
    set: impl FnOnce(&mut Fabric) -> Result<()>,
) -> Result<Fabric> {
    let mut imported = match import::read(name, text)? {
        Some(imported) => imported,
        None => Fabric::from_json(name, text)?.into(),
    };
    set(&mut imported.fabric)?;
    match boxes {
        Some(boxes) => boxes.join(imported).map_err(|error| error.at(format_args!("fabric '{name}'"))),
        None => Ok(imported.with_defaults()),
    }
}

/// What some editors put before a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The text of a regular file of at most `most` bytes, without a byte order mark.
pub(in crate::fabric) fn read_text(path: &Path, most: u64) -> Result<String> {
    let failed = |error: std::io::Error| bad(format!("cannot read the file: {error}"));
    // Asked before opening: a pipe without a writer would block.
    let facts = std::fs::metadata(path).map_err(failed)?;
    if !facts.is_file() {
        return Err(bad("is not a regular file"));
    }
    if facts.len() > most {
        let message = format!("the file is larger than {} MiB", most >> 20);
        return Err(Error::new(Code::TooLarge, message));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(most).read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8(bytes)
        .map_err(|error| bad(format!("is not UTF-8 text (byte {})", error.utf8_error().valid_up_to())))?;
    Ok(text.strip_prefix(BYTE_ORDER_MARK).map(str::to_string).unwrap_or(text))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileFabric {
    schema: String,
    nodes: Bounded<FileNode, MAX_NODES>,
    links: Bounded<FileLink, MAX_LINKS>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileNode {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    rank: bool,
    #[serde(default, skip_serializing_if = "Bounded::is_empty")]
    coords: Bounded<f64, MAX_COORDS>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reduces: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    multicasts: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reduce_rate_gb_per_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    package: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLink {
    from: FileEnd,
    to: FileEnd,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate_gb_per_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latency_ns: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    speed: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    energy_pj_per_bit: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    length_mm: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dimension: Option<String>,
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    both: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

fn yes() -> bool {
    true
}

/// Label of links that give none.
const UNLABELLED: &str = "x";

fn node_line(id: NodeId, node: &Node) -> String {
    line(&FileNode {
        name: Some(&node.name).filter(|name| **name != id.to_string()).cloned(),
        rank: node.rank.is_some(),
        coords: Bounded { items: node.coords.clone(), dropped: 0 },
        reduces: node.compute.and_then(|compute| compute.reduces).map(|reduces| reduces.name().into()),
        multicasts: node.compute.is_some_and(|compute| compute.multicasts),
        reduce_rate_gb_per_s: node.compute.and_then(|compute| compute.rate).map(|rate| rate.as_gb_per_s()),
        package: node.package,
    })
}

fn link_line(link: &Link, both: bool) -> String {
    line(&FileLink {
        from: FileEnd::Index(link.from as u64),
        to: FileEnd::Index(link.to as u64),
        rate_gb_per_s: link.rate.map(|rate| rate.as_gb_per_s()),
        latency_ns: link.latency.map(|picos| picos as f64 / 1e3),
        speed: Some(link.speed_permille as f64 / 1e3).filter(|&speed| speed != 1.0),
        energy_pj_per_bit: link.pj_per_bit(),
        length_mm: link.length_mm(),
        dimension: Some(&link.dimension).filter(|label| *label != UNLABELLED).cloned(),
        both,
        count: None,
    })
}

fn line(item: &impl Serialize) -> String {
    serde_json::to_string(item).expect("plain structs serialise")
}

/// Nodes and links of a JSON text.
fn parts(text: &str) -> Result<(Vec<Node>, Vec<Link>)> {
    let file: FileFabric = serde_json::from_str(text).map_err(|error| bad(clip_error(&error)))?;
    if file.schema != SCHEMA {
        return Err(bad(format!("schema '{}' is not '{SCHEMA}'", clip(&file.schema))));
    }
    let nodes = nodes(file.nodes.within("nodes")?)?;
    let links = links(file.links.within("links")?, &nodes)?;
    Ok((nodes, links))
}

fn nodes(list: Vec<FileNode>) -> Result<Vec<Node>> {
    let mut ranks = 0;
    let mut nodes = Vec::with_capacity(list.len());
    for (id, given) in list.into_iter().enumerate() {
        let name = given.name.clone().unwrap_or_else(|| id.to_string());
        check_name(&name).map_err(|error| error.at(format_args!("nodes[{id}].name")))?;
        let place = |error: Error| error.at(format_args!("nodes[{id}]"));
        let compute = compute_of(&given).map_err(place)?;
        let coords = given.coords.within("coords").map_err(place)?;
        nodes.push(Node { name, rank: given.rank.then_some(ranks), coords, compute, package: given.package });
        ranks += u32::from(given.rank);
    }
    Ok(nodes)
}

/// What a switch computes.
fn compute_of(given: &FileNode) -> Result<Option<SwitchCompute>> {
    let reduces = given.reduces.as_deref().map(Reduces::parse).transpose()?;
    let rate = given.reduce_rate_gb_per_s.map(link::rate).transpose()?;
    if reduces.is_none() && !given.multicasts {
        return if rate.is_none() { Ok(None) } else { Err(bad("a rate of sums without reduces")) };
    }
    if given.rank {
        return Err(bad("a rank cannot reduce or multicast as switches do; add \"rank\": false"));
    }
    Ok(Some(SwitchCompute { reduces, multicasts: given.multicasts, rate }))
}

fn links(list: Vec<FileLink>, nodes: &[Node]) -> Result<Vec<Link>> {
    let mut ids = HashMap::with_capacity(nodes.len());
    for (id, node) in nodes.iter().enumerate() {
        if let Some(first) = ids.insert(node.name.as_str(), id as NodeId) {
            let name = clip(&node.name);
            return Err(bad(format!("nodes[{first}] and nodes[{id}] are both named '{name}'")));
        }
    }
    let mut links = Vec::with_capacity(list.len());
    for (at, given) in interruptible(list).enumerate() {
        let place = |error: Error| error.at(format_args!("links[{at}]"));
        let copies = given.count.unwrap_or(1).saturating_mul(1 + u64::from(given.both));
        if copies > (MAX_LINKS - links.len()) as u64 {
            let message = format!("more than {MAX_LINKS} directed links");
            return Err(place(Error::new(Code::TooLarge, message)));
        }
        let link = directed(&given, nodes, &ids).map_err(place)?;
        for _ in 0..given.count.unwrap_or(1) {
            if given.both {
                links.extend([link.clone(), link.reversed()]);
            } else {
                links.push(link.clone());
            }
        }
    }
    Ok(links)
}

/// The link of an entry in the direction that it names.
fn directed(given: &FileLink, nodes: &[Node], ids: &HashMap<&str, NodeId>) -> Result<Link> {
    let from = given.from.resolve(nodes, ids).map_err(|error| error.at("from"))?;
    let to = given.to.resolve(nodes, ids).map_err(|error| error.at("to"))?;
    if from == to {
        let name = clip(&nodes[from as usize].name);
        return Err(bad(format!("joins node '{name}' to itself; remove it")));
    }
    if given.count == Some(0) {
        return Err(bad("count is 0; remove the link instead"));
    }
    let dimension = given.dimension.as_deref().unwrap_or(UNLABELLED);
    check_name(dimension).map_err(|error| error.at("dimension"))?;
    Ok(Link {
        rate: given.rate_gb_per_s.map(link::rate).transpose()?,
        latency: given.latency_ns.map(link::latency).transpose()?,
        speed_permille: given.speed.map_or(Ok(1000), link::permille)?,
        energy: given.energy_pj_per_bit.map(link::energy).transpose()?,
        length_um: given.length_mm.map(link::length).transpose()?,
        ..Link::new(from, to, dimension)
    })
}

pub(in crate::fabric) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        let message = format!("'{}' is not 1 to {MAX_NAME} printable characters", clip(name));
        return Err(bad(message));
    }
    Ok(())
}

fn bad(why: impl AsRef<str>) -> Error {
    Error::new(Code::BadFile, why)
}

/// One end of a link: a node's index (a JSON number) or name (a string).
#[derive(Serialize)]
#[serde(untagged)]
enum FileEnd {
    Index(u64),
    Name(String),
}

impl FileEnd {
    fn resolve(&self, nodes: &[Node], ids: &HashMap<&str, NodeId>) -> Result<NodeId> {
        match self {
            FileEnd::Index(id) if *id < nodes.len() as u64 => Ok(*id as NodeId),
            FileEnd::Index(id) => Err(bad(format!("no node {id}; there are {}", nodes.len()))),
            FileEnd::Name(name) => ids.get(name.as_str()).copied().ok_or_else(|| {
                let hint = nearest(name, nodes.iter().map(|node| node.name.as_str()));
                bad(format!("no node named '{}'{hint}", clip(name)))
            }),
        }
    }
}

impl<'de> Deserialize<'de> for FileEnd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<FileEnd, D::Error> {
        struct EndVisitor;
        impl Visitor<'_> for EndVisitor {
            type Value = FileEnd;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a node index or name")
            }

            fn visit_u64<E>(self, index: u64) -> std::result::Result<FileEnd, E> {
                Ok(FileEnd::Index(index))
            }

            fn visit_str<E>(self, name: &str) -> std::result::Result<FileEnd, E> {
                Ok(FileEnd::Name(name.to_string()))
            }
        }
        deserializer.deserialize_any(EndVisitor)
    }
}

/// A list that keeps `LIMIT` items and only counts the others, so that a hostile file takes no memory.
struct Bounded<T, const LIMIT: usize> {
    items: Vec<T>,
    dropped: usize,
}

impl<T, const LIMIT: usize> Bounded<T, LIMIT> {
    fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The items, if all were kept.
    fn within(self, what: &str) -> Result<Vec<T>> {
        match self.dropped {
            0 => Ok(self.items),
            more => Err(Error::new(Code::TooLarge, format!("{} {what}; at most {LIMIT} are supported", LIMIT + more))),
        }
    }
}

impl<T, const LIMIT: usize> Default for Bounded<T, LIMIT> {
    fn default() -> Self {
        Bounded { items: Vec::new(), dropped: 0 }
    }
}

impl<T: Serialize, const LIMIT: usize> Serialize for Bounded<T, LIMIT> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.items.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>, const LIMIT: usize> Deserialize<'de> for Bounded<T, LIMIT> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct ListVisitor<T, const LIMIT: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const LIMIT: usize> Visitor<'de> for ListVisitor<T, LIMIT> {
            type Value = Bounded<T, LIMIT>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Self::Value, A::Error> {
                let mut list = Bounded::default();
                while list.items.len() < LIMIT {
                    if list.items.len().is_multiple_of(1024) {
                        checkpoint();
                    }
                    match seq.next_element()? {
                        Some(item) => list.items.push(item),
                        None => return Ok(list),
                    }
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    list.dropped += 1;
                }
                Ok(list)
            }
        }
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_base::units::Rate;

    fn load(nodes: &str, links: &str) -> Result<Fabric> {
        let text = format!(r#"{{"schema": "antiphon-fabric/1", "nodes": [{nodes}], "links": [{links}]}}"#);
        Fabric::from_json("t", &text)
    }

    #[test]
    fn names_indices_defaults_and_parallel_links() {
        let fabric = load(
            r#"{"name": "gpu"}, {}, {"name": "sw", "rank": false, "coords": [1, 0.5]}"#,
            r#"{"from": "gpu", "to": 2, "count": 2, "rate_gb_per_s": 12.5, "latency_ns": 0.5, "speed": 0.5},
               {"from": "1", "to": "sw", "both": false}, {"from": 2, "to": 1, "both": false, "dimension": "up"}"#,
        )
        .unwrap();
        assert_eq!((fabric.ranks(), fabric.links.len(), &fabric.shape), (2, 6, &Shape::Graph));
        let ends: Vec<_> = fabric.links.iter().map(|link| (link.from, link.to)).collect();
        assert_eq!(ends, [(0, 2), (2, 0), (0, 2), (2, 0), (1, 2), (2, 1)]);
        let link = &fabric.links[3];
        assert_eq!((link.rate, link.latency, link.speed_permille), (Some(Rate(12_500_000_000)), Some(500), 500));
        assert_eq!(fabric.links[4], Link::new(1, 2, "x"));
        assert_eq!((&*fabric.links[5].dimension, &fabric.nodes[2].coords[..]), ("up", &[1.0, 0.5][..]));
    }

    #[test]
    fn presets_and_degraded_fabrics_round_trip() {
        for spec in [
            "mesh:3x3@100/20ns,slow=0-1:0.07",
            "torus:4x4,exclude=5,dead=0",
            "bigraph:3x2,drop=0>12,drop=12>0,exclude=0",
            "switch:5",
            "dgx1v@0.000000001/0.001ns",
            "ring:3@999999.999999999/999999999.999us",
        ] {
            let Ok(fabric) = Fabric::parse(spec) else { panic!("{spec}: {}", Fabric::parse(spec).unwrap_err()) };
            let back = Fabric::from_json(spec, &fabric.to_json()).unwrap();
            let shape = Shape::Graph;
            assert_eq!(back, Fabric { shape, ..fabric }, "{spec}");
        }
    }

    #[test]
    fn hostile_texts_get_one_line() {
        let two = "{}, {}";
        for (nodes, links, code, why) in [
            (two, r#"{"from": 0, "to": 0}"#, Code::BadFile, "links[0]: joins node '0' to itself"),
            (two, r#"{"from": 0, "to": 2}"#, Code::BadFile, "links[0]: to: no node 2; there are 2"),
            (two, r#"{"from": 0, "to": -1}"#, Code::BadFile, "expected a node index or name"),
            (two, r#"{"from": 0, "to": 1e30}"#, Code::BadFile, "expected a node index or name"),
            (two, r#"{"from": "00", "to": 1}"#, Code::BadFile, "no node named '00'; did you mean '0'?"),
            (two, r#"{"from": 0}"#, Code::BadFile, "missing field `to`"),
            (two, r#"{"from": 0, "to": 1, "speeed": 1}"#, Code::BadFile, "unknown field `speeed`"),
            (two, r#"{"from": 0, "to": 1, "to": 1}"#, Code::BadFile, "duplicate field `to`"),
            (two, r#"{"from": 0, "to": 1, "count": 0}"#, Code::BadFile, "count is 0"),
            (two, r#"{"from": 0, "to": 1, "count": 18446744073709551615}"#, Code::TooLarge, "2097152"),
            (two, r#"{"from": 0, "to": 1, "rate_gb_per_s": NaN}"#, Code::BadFile, "line 1 column"),
            (two, r#"{"from": 0, "to": 1, "rate_gb_per_s": -1}"#, Code::BadSize, "links[0]: link rate -1"),
            (two, r#"{"from": 0, "to": 1, "rate_gb_per_s": 1e300}"#, Code::BadSize, "link rate"),
            (two, r#"{"from": 0, "to": 1, "rate_gb_per_s": 1e999}"#, Code::BadFile, "number out of range"),
            (two, r#"{"from": 0, "to": 1, "latency_ns": -1}"#, Code::BadSize, "link latency -1"),
            (two, r#"{"from": 0, "to": 1, "speed": 0}"#, Code::BadSize, "speed factor 0"),
            (two, r#"{"from": 0, "to": 1, "dimension": "\u001b[2J"}"#, Code::BadFile, "dimension"),
            (two, r#"{"from": 0, "to": 1, "both": false}"#, Code::BadSpec, "disconnected"),
            (two, "", Code::BadSpec, "disconnected"),
            ("{}", "", Code::BadSpec, "1 rank(s)"),
            ("", "", Code::BadSpec, "0 rank(s)"),
            (r#"{}, {"name": "0"}"#, "", Code::BadFile, "nodes[0] and nodes[1] are both named '0'"),
            (r#"{"name": ""}"#, "", Code::BadFile, "nodes[0].name"),
            (r#"{"coords": [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}"#, "", Code::TooLarge, "17 coords"),
            (r#"{"rank": 3}"#, "", Code::BadFile, "expected a boolean"),
        ] {
            let error = load(nodes, links).unwrap_err();
            assert_eq!(error.code, code, "{links}: {error}");
            assert!(error.message.contains(why), "{links}: {error}");
            assert!(error.message.starts_with("fabric 't'"), "{error}");
        }
        for text in
            ["", "[", "null", "{}", "1e999", &"[".repeat(100_000), r#"{"schema": "other/1", "nodes": [], "links": []}"#]
        {
            assert_eq!(Fabric::from_json("t", text).unwrap_err().code, Code::BadFile);
        }
    }

    #[test]
    fn counts_are_checked_before_memory_is_taken() {
        let error = load(&vec!["{}"; MAX_NODES + 5].join(","), "").unwrap_err();
        assert_eq!(error.code, Code::TooLarge);
        assert!(error.message.contains("16389 nodes; at most 16384"), "{error}");
        assert_eq!(load(&vec!["{}"; 4097].join(","), "").unwrap_err().code, Code::TooLarge);
    }
}
