//! Meshes with bypass wires that can be configured: ARIES (DATE 2024, section III).
//!
//! Along every row and column run bypass wires, which routers cut into segments. A router has the four ports of a mesh, and
//! a multiplexer at each attaches one link: the mesh link of the port or a bypass segment. A *configuration* says which
//! segments there are and which mesh links are attached.

mod configuration;
mod file;
mod text;

use super::grid::{grid, joined};
use super::spec::FabricPreset;
use super::{Dimension, DimensionShape, Fabric, Link, LinkId, NodeId, Product, Shape};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::{
    Default::{Derived, Fixed},
    Opt, Options,
};
use antiphon_base::units::Picos;
use std::collections::HashMap;
use std::sync::Arc;

pub use configuration::{Attached, Configuration, Segment, Side};
pub use text::Items;

/// Its configuration comes behind commas, so [`Fabric::parse`] asks [`Aries::parse`] first.
pub(super) const ARIES: FabricPreset =
    FabricPreset::new("aries", "aries:4x4", "mesh with bypass wires that can be configured: ARIES (DATE 2024)", |_| {
        None
    });

/// Most bypass wires along a row or column.
pub const MAX_WIRES: u32 = 64;
/// Most configurations that a schedule may go through.
pub const MAX_CONFIGURATIONS: usize = 32;

/// Labels of mesh links and of bypasses, columns (the first dimension) first.
const LABELS: [&str; 2] = ["y", "x"];
const BYPASSES: [&str; 2] = ["y-bypass", "x-bypass"];

/// Which bypasses a port can attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BypassPorts {
    /// Any that ends at its router.
    Any,
    /// Those that lead to its side: `+x` and `+y` those to greater positions.
    Facing,
    /// Those that lead to its side in its own dimension, as the adaptable links of Adapt-NoC (HPCA 2021).
    Own,
}

/// A mesh with bypass wires: what can be configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aries {
    /// Chiplets along a column and along a row.
    pub sizes: [u32; 2],
    /// Bypass wires along each row and column, each in both directions.
    pub wires: u32,
    /// Which bypasses a port can attach.
    pub ports: BypassPorts,
    /// From chiplet to chiplet, in micrometres, where it is known.
    pub pitch_um: Option<u32>,
}

/// Options of a specification, behind the size.
pub const OPTIONS: &[Opt] = &[
    Opt::count("wires", 1, MAX_WIRES as u64, Fixed("1"), "Bypass wires along each row and column, each both ways."),
    Opt::choice(
        "ports",
        &["any", "facing", "own"],
        "Which bypasses a port takes: any at its router, those to its side, or those to its side in its own dimension.",
    ),
    Opt::count("pitch_um", 1, 100_000, Derived("unknown"), "From chiplet to chiplet, for the energy of wires."),
];

/// A fabric as it is configured, once or in turns.
#[derive(Debug, Clone, PartialEq)]
pub struct Configured {
    /// What is configured.
    pub aries: Aries,
    /// The mesh beneath, which gives nodes their coordinates.
    pub layout: Product,
    /// What it is configured to, in turns.
    pub configurations: Vec<Configuration>,
    /// How long a change takes.
    pub switching_ps: Picos,
    /// The configurations that each link is in, a bit each.
    pub members: Vec<u32>,
}

impl BypassPorts {
    /// Which ports a link may use that leads to a side along a dimension, and how many there are.
    pub fn class_of(self, dimension: usize, plus: bool) -> (usize, usize) {
        match self {
            BypassPorts::Any => (0, 4),
            BypassPorts::Facing => (usize::from(plus), 2),
            BypassPorts::Own => (2 * dimension + usize::from(plus), 1),
        }
    }
}

impl Aries {
    /// That of `8x8[:wires=2][:ports=own][:pitch_um=4000]`; `None` if the size is none.
    ///
    /// # Errors
    /// Those of [`Options::parse`].
    pub fn parse(text: &str) -> Result<Option<Aries>> {
        let (size, options) = text.split_once(':').unwrap_or((text, ""));
        let Some([rows, columns]) = super::spec::dimensions(size).and_then(|sizes| <[u32; 2]>::try_from(sizes).ok())
        else {
            return Ok(None);
        };
        let options = Options::parse("aries", &options.replace(':', ","), OPTIONS)?;
        let ports = match options.choice("ports") {
            "any" => BypassPorts::Any,
            "facing" => BypassPorts::Facing,
            _ => BypassPorts::Own,
        };
        let pitch_um = options.given("pitch_um").map(|pitch| pitch.whole() as u32);
        Ok(Some(Aries { sizes: [rows, columns], wires: options.count("wires") as u32, ports, pitch_um }))
    }

    /// The mesh, configured in turns.
    ///
    /// # Errors
    /// Those of [`grid`]; [`Code::BadSpec`] for a configuration that the wires or ports do not allow, naming them.
    pub fn fabric(&self, name: &str, configurations: Vec<Configuration>, switching_ps: Picos) -> Result<Fabric> {
        let Fabric { shape, nodes, links: mut mesh, .. } = grid(name, DimensionShape::Line, &self.sizes)?;
        mesh.iter_mut().for_each(|link| link.length_um = self.pitch_um);
        let Shape::Product(layout) = shape else { unreachable!("a grid is a product") };
        if configurations.len() > MAX_CONFIGURATIONS {
            let what = format!("{} configurations; at most {MAX_CONFIGURATIONS}", configurations.len());
            return Err(Error::new(Code::TooLarge, what).at(format_args!("fabric '{name}'")));
        }
        let mut members = vec![0; mesh.len()];
        let mut segments: HashMap<(Segment, usize), usize> = HashMap::new();
        let mut bypasses = Vec::new();
        for (number, configuration) in configurations.iter().enumerate() {
            let place =
                |error: Error| if number == 0 { error } else { error.at(format_args!("configuration {number}")) };
            configuration.check(self).map_err(place).map_err(|error| error.at(format_args!("fabric '{name}'")))?;
            for (link, members) in mesh.iter().zip(&mut members) {
                *members |= u32::from(!configuration.detached.contains(&(link.from, link.to))) << number;
            }
            for (place, &segment) in configuration.segments.iter().enumerate() {
                let before = configuration.segments[..place].iter().rev().take_while(|other| **other == segment);
                let at = *segments.entry((segment, before.count())).or_insert_with(|| {
                    bypasses.push((self.link(segment), 0));
                    bypasses.len() - 1
                });
                bypasses[at].1 |= 1 << number;
            }
        }
        let shape = match &configurations[..] {
            [one] => self.product(one).map_or(Shape::Graph, Shape::Product),
            _ => Shape::Graph,
        };
        let attached = mesh.into_iter().zip(members).filter(|(_, members)| *members != 0);
        let mut links: Vec<(Link, u32)> = attached.chain(bypasses).collect();
        if let Shape::Product(product) = &shape {
            // In the order of a torus, in which algorithms look at neighbours.
            links.sort_by_cached_key(|(link, _)| {
                let [from, to] = [link.from, link.to].map(|node| self.place(node));
                let dimension = usize::from(from[0] == to[0]);
                let (at, size) = (from[dimension], self.sizes[dimension]);
                let near = joined(product.dimensions[dimension].shape, at, size);
                (link.from, dimension, near.iter().position(|&other| other == to[dimension]))
            });
        }
        let (links, members) = links.into_iter().unzip();
        let mut fabric = Fabric::new(name, shape, nodes, links)?;
        fabric.configured =
            Some(Arc::new(Configured { aries: self.clone(), layout, configurations, switching_ps, members }));
        Ok(fabric)
    }

    /// The mesh or torus that a configuration is: all mesh links, and the ends of all rows or columns joined.
    fn product(&self, configuration: &Configuration) -> Option<Product> {
        let mut joined = configuration.detached.is_empty().then_some(0)?;
        let dimensions = [0, 1].map(|dimension| {
            let (along, lines) = (self.sizes[dimension], self.sizes[1 - dimension]);
            let ends = |line, from, to| Segment { dimension, line, from, to };
            let both = (0..lines).flat_map(|line| [ends(line, 0, along - 1), ends(line, along - 1, 0)]);
            let wraps = along > 2 && both.clone().all(|ends| configuration.segments.binary_search(&ends).is_ok());
            joined += if wraps { both.count() } else { 0 };
            Dimension::new(if wraps { DimensionShape::Ring } else { DimensionShape::Line }, along.into())
        });
        (joined == configuration.segments.len()).then(|| Product::last_fastest(dimensions.to_vec()))
    }

    /// The link of a segment.
    fn link(&self, segment: Segment) -> Link {
        let (from, to) = self.ends(segment);
        let length_um = self.pitch_um.map(|pitch| pitch * segment.from.abs_diff(segment.to));
        Link { length_um, ..Link::new(from, to, BYPASSES[segment.dimension]) }
    }

    /// The nodes that a segment joins.
    pub fn ends(&self, segment: Segment) -> (NodeId, NodeId) {
        let node = |at| self.node(segment.dimension, segment.line, at);
        (node(segment.from), node(segment.to))
    }

    /// The node at a position of a line along a dimension.
    fn node(&self, dimension: usize, line: u32, at: u32) -> NodeId {
        if dimension == 0 { at * self.sizes[1] + line } else { line * self.sizes[1] + at }
    }

    /// The row and column of a node.
    fn place(&self, node: NodeId) -> [u32; 2] {
        [node / self.sizes[1], node % self.sizes[1]]
    }

    /// Whether a mesh link joins two nodes.
    pub fn are_neighbours(&self, from: NodeId, to: NodeId) -> bool {
        let count = self.sizes[0] * self.sizes[1];
        let [a, b] = [from, to].map(|node| self.place(node));
        from < count && to < count && a[0].abs_diff(b[0]) + a[1].abs_diff(b[1]) == 1
    }

    /// Mesh links out of a node or into it, by their ends.
    pub fn mesh_links_of(&self, node: NodeId, outgoing: bool) -> impl Iterator<Item = (NodeId, NodeId)> {
        let [row, column] = self.place(node);
        let near = [(row > 0, node.wrapping_sub(self.sizes[1])), (column > 0, node.wrapping_sub(1))];
        let far = [(column + 1 < self.sizes[1], node + 1), (row + 1 < self.sizes[0], node + self.sizes[1])];
        let others = near.into_iter().chain(far).filter(|(there, _)| *there).map(|(_, other)| other);
        others.map(move |other| if outgoing { (node, other) } else { (other, node) })
    }

    /// All mesh links, by their ends.
    pub fn mesh_links(&self) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
        (0..self.sizes[0] * self.sizes[1]).flat_map(|node| self.mesh_links_of(node, true))
    }

    /// The segment from one node to another in its row or column.
    pub fn segment(&self, from: NodeId, to: NodeId) -> Option<Segment> {
        let (a, b) = (self.place(from), self.place(to));
        let dimension = (0..2).find(|&dimension| a[dimension] != b[dimension])?;
        let line = a[1 - dimension];
        (line == b[1 - dimension]).then_some(Segment { dimension, line, from: a[dimension], to: b[dimension] })
    }
}

impl Fabric {
    /// The product at whose positions the ranks are: the fabric itself, or the mesh beneath one that is configured.
    pub fn layout(&self) -> Option<&Product> {
        let beneath = || self.configured.as_ref().map(|configured| &configured.layout);
        self.product().or_else(|| beneath().filter(|_| self.nodes.len() == self.ranks()))
    }

    /// How many configurations it goes through; one if it cannot be configured.
    pub fn configurations(&self) -> u32 {
        self.configured.as_ref().map_or(1, |configured| configured.configurations.len() as u32)
    }

    /// The configuration of a schedule's phase: phases go through them in turn, the last one is for all that are left.
    pub fn configuration_of(&self, phase: u32) -> u32 {
        phase.min(self.configurations() - 1)
    }

    /// Whether a link is in a configuration; all are on a fabric that has none.
    pub fn has(&self, link: LinkId, configuration: u32) -> bool {
        self.configured.as_ref().is_none_or(|configured| configured.members[link as usize] >> configuration & 1 == 1)
    }

    /// Whether one configuration attaches what another does not.
    pub fn changes(&self, one: u32, other: u32) -> bool {
        self.configured.as_ref().is_some_and(|configured| {
            let [one, other] = [one, other].map(|number| configured.configurations.get(number as usize));
            one != other
        })
    }

    /// Whether links are in the same configurations.
    pub fn are_always_together(&self, links: &[LinkId]) -> bool {
        let members = |id: LinkId| self.configured.as_ref().map_or(0, |configured| configured.members[id as usize]);
        links.windows(2).all(|pair| members(pair[0]) == members(pair[1]))
    }

    /// How long a schedule waits between two phases for the fabric to change, in picoseconds.
    pub fn switching_ps(&self) -> Picos {
        self.configured.as_ref().map_or(0, |configured| configured.switching_ps)
    }
}

/// Whether a link is a bypass.
pub fn is_bypass(link: &Link) -> bool {
    BYPASSES.contains(&link.dimension.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(spec: &str) -> Fabric {
        Fabric::parse(spec).unwrap_or_else(|error| panic!("{error}"))
    }

    impl Fabric {
        fn dimensions_of(&self) -> String {
            let names: Vec<_> = self.product().unwrap().dimensions.iter().map(|along| along.shape.name()).collect();
            names.join(" ")
        }
    }

    #[test]
    fn unconfigured_it_is_the_mesh() {
        let (aries, mesh) = (parse("aries:4x5"), parse("mesh:4x5"));
        assert_eq!((&aries.links, &aries.shape, &aries.nodes), (&mesh.links, &mesh.shape, &mesh.nodes));
        assert_eq!(parse("aries:4x4@68/10ns").links, parse("mesh:4x4@68/10ns").links);
        assert_eq!(parse("aries:2x2:pitch_um=500").links[0].length_um, Some(500));
    }

    #[test]
    fn segments_are_links_beside_those_of_the_mesh() {
        let fabric = parse("aries:4x4:pitch_um=1000,x1=0-3,y3=2>3+0>2,off=5>4");
        let bypasses: Vec<_> = fabric.links.iter().filter(|link| is_bypass(link)).collect();
        let ends: Vec<_> = bypasses.iter().map(|link| (link.from, link.to, link.length_um.unwrap())).collect();
        assert_eq!(ends, [(3, 11, 2000), (11, 15, 1000), (4, 7, 3000), (7, 4, 3000)]);
        assert_eq!((fabric.links.len(), fabric.link_between(5, 4)), (47 + 4, None));
        assert_eq!((&fabric.shape, fabric.layout()), (&Shape::Graph, parse("mesh:4x4").product()));
        assert_eq!(fabric.layout().unwrap().rows_columns(), Some((4, 4)));
        // Without some ranks it has no layout; links keep their configuration.
        let fewer = parse("aries:4x4,x0=0-3,then,x0=0-2,exclude=15,drop=0-1");
        assert_eq!((fewer.layout(), fewer.configured.as_ref().unwrap().members.len()), (None, fewer.links.len()));
        let only: Vec<_> =
            (0..).zip(&fewer.links).filter(|(id, _)| !fewer.has(*id, 0)).map(|(_, l)| (l.from, l.to)).collect();
        assert_eq!(only, [(0, 2), (2, 0)]);
    }

    /// Links of a torus and of a ring with each link twice: what the wires and ports of a mesh allow.
    #[test]
    fn tori_and_doubled_rings_are_configurations() {
        let torus = parse("aries:4x4,x0=0-3,x1=0-3,x2=0-3,x3=0-3,y0=0-3,y1=0-3,y2=0-3,y3=0-3");
        assert_eq!(torus.links.len(), 64);
        let [a, b] = [&torus, &parse("torus:4x4")]
            .map(|fabric| fabric.links.iter().map(|link| (link.from, link.to)).collect::<Vec<_>>());
        assert_eq!((a, &torus.shape), (b, &parse("torus:4x4").shape));
        assert_eq!(torus.layout().unwrap().dimensions, torus.product().unwrap().dimensions);
        assert_eq!(parse("aries:4x4,x0=0-3,x1=0-3,x2=0-3,x3=0-3").dimensions_of(), "line ring");
        assert_eq!(parse("aries:4x4,x0=0-3,x1=0-3,x2=0-3").product(), None);
        // Once around 2x2, twice over.
        assert_eq!(parse("aries:2x2,x0=0-1,x1=0-1,y0=0-1,y1=0-1").links.len(), 16);
    }

    #[test]
    fn text_and_files_say_the_same() {
        let spec = "aries:4x4:wires=2:ports=facing,y0=0-2,x1=1>3+3>0,off=0-1+3-7+4-5+5-6+8-9,then,switch=50ns";
        let configured = parse(spec).configured.unwrap();
        assert_eq!(configured.configurations.len(), 2);
        assert_eq!(
            format!("{},{}", configured.aries, configured.configurations[0]),
            spec.replace(",then,switch=50ns", "")
        );
        let path = std::env::temp_dir().join(format!("antiphon-configuration-{}.json", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Fabric::parse(&format!("aries:4x4:wires=2:ports=facing,config={}", path.display()))
        };
        assert_eq!(read(&configured.to_json()).unwrap().configured.unwrap(), configured);
        for (text, why) in [
            ("{}", "missing field `schema`"),
            (r#"{"schema": "x", "fabric": "aries:4x4", "configurations": []}"#, "schema 'x' is not"),
            (&configured.to_json().replace("aries:4x4", "aries:4x5"), "made for aries:4x5"),
            (&configured.to_json().replace("\"x1\"", "\"z1\""), "configurations[0]: 'z1=1>3+3>0' is no line"),
            (&configured.to_json().replace("\"x1\"", "\"switch\""), "configurations[0]: 'switch=1>3+3>0': time"),
            (
                r#"{"schema": "antiphon-configuration/1", "fabric": "aries:4x4", "configurations": []}"#,
                "no configuration",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.message.contains(why), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_cannot_be_configured_is_named() {
        for (items, why) in [
            (
                "x0=0-2,x0=1-3",
                "x0: segments 0>2 and 1>3 overlap between 1 and 2, where there is 1 wire in that direction",
            ),
            ("x1=1-2,x1=0-1", "x1: segment 0>1 finds no free port into router 5: +x mesh link 6>5, -x mesh link 4>5"),
            ("x4=0-3", "x4: there is no row 4; they are 0 to 3"),
            ("y9=0-3", "y9: there is no column 9"),
            ("x0=0-4", "x0: segment 0>4 ends at 4; positions are 0 to 3"),
            ("x0=2-2", "x0: segment 2>2 joins a router to itself"),
            ("x0=2", "'x0=2': '2' is no pair; write 0-3 for both directions or 0>3 for one"),
            ("x0=", "'' is no pair"),
            ("off=0-2", "there is no mesh link from 0 to 2 to detach"),
            ("off=0>99999999999", "there is no mesh link from 0 to"),
            ("z0=0-1", "no such degradation"),
            ("switch=5", "'switch=5': time '5' is not a time"),
            ("then,x0=0-2+1-3", "configuration 1: x0: segments"),
            ("x0=0-1,switch=1ns,switch=2ns,then", "'switch=2ns': it is given twice"),
            ("x0=0-1,switch=1ns", "but there is none; join configurations by then"),
            ("x0=0-3,x0=3>0", "x0: segments 3>0 and 3>0 overlap"),
            ("wires=2", "'wires=2': it stands before the first comma, as in aries:4x4:wires=2"),
            ("config=none.json", "cannot read the file"),
            ("off=0-1+0-4", "disconnected"),
        ] {
            let error = Fabric::parse(&format!("aries:4x4,{items}")).unwrap_err();
            assert!(error.message.contains(why), "{items}: {error}");
            assert_eq!(error.message.matches("fabric 'aries").count(), 1, "{error}");
        }
        for (spec, why) in [
            ("aries:4", "wrong size; write for example aries:4x4"),
            ("aries:4x4:wires=0", "wires"),
            ("aries:4x4:lanes=2", "aries has no option 'lanes'"),
            ("aries:4x4:ports=own,x0=0-1", "no free port out of router 0: +x mesh link 0>1; leave one away"),
            ("aries:4x4:ports=facing,x0=0-1", "no free port out of router 0: +x mesh link 0>1, +y mesh link 0>4"),
        ] {
            let error = Fabric::parse(spec).unwrap_err();
            assert!(error.message.contains(why), "{spec}: {error}");
        }
        let many = format!("aries:4x4{}", ",then".repeat(40));
        assert!(Fabric::parse(&many).unwrap_err().message.contains("41 configurations; at most 32"));
    }
}
