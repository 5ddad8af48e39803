//! `antiphon.Fabric`.

use crate::prelude::*;
use antiphon_model::fabric;
use antiphon_model::topology::Topology;
use antiphon_sim::rails::Expansion;
use pyo3::types::{PyTuple, PyType};
use std::sync::Arc;

/// A directed multigraph of ranks and switches, from a specification such as `mesh:8x8`, `torus:4x4x4`, `dgx1v` or
/// `file:PATH`; `fabrics()` lists the forms. Immutable, hashable, picklable, compared by value.
///
/// >>> mesh = Fabric("mesh:2x3")
/// >>> mesh.ranks, len(mesh.links["from"])
/// (6, 14)
///
/// Raises AntiphonError: `unknown-name`, `bad-spec`, `bad-size`, `bad-file` or `too-large`.
#[pyclass(module = "antiphon", frozen, eq)]
#[derive(PartialEq)]
pub struct Fabric(pub Arc<fabric::Fabric>);

impl From<fabric::Fabric> for Fabric {
    fn from(fabric: fabric::Fabric) -> Self {
        Fabric(Arc::new(fabric))
    }
}

impl Fabric {
    /// Calls a Python function that turns a foreign graph into fabric JSON and reads that.
    fn from_graph(module_function: &str, graph: &Bound<'_, PyAny>, name: Option<Text<'_>>) -> PyResult<Self> {
        let converted =
            graph.py().import("antiphon.graphs")?.call_method1(module_function, (graph, name.map(|name| name.0)))?;
        let (name, text): (String, String) = converted.extract()?;
        Fabric::read_json(graph.py(), &name, &text)
    }

    fn read_json(py: Python<'_>, name: &str, text: &str) -> PyResult<Self> {
        run(py, || fabric::Fabric::from_json(name, text)).map(Fabric::from)
    }
}

/// Ranks of a group, as text or as a list.
#[derive(FromPyObject)]
enum Ranks {
    Text(String),
    List(Vec<u32>),
}

/// A node, by number or name.
#[derive(FromPyObject)]
enum NodeLike {
    Number(i128),
    Name(String),
}

impl NodeLike {
    fn of(self, fabric: &fabric::Fabric) -> Result<fabric::NodeId, Error> {
        match self {
            NodeLike::Number(number) => fabric.node(&number.to_string()),
            NodeLike::Name(name) => fabric.node(&name),
        }
    }
}

#[literal_defaults]
#[pymethods]
impl Fabric {
    #[new]
    fn new(py: Python<'_>, spec: Text<'_>) -> PyResult<Self> {
        run(py, || fabric::Fabric::parse(spec.0)).map(Fabric::from)
    }

    /// The fabric that JSON text describes (schema in docs/reference/fabric.md); `name` is shown in results.
    ///
    /// Raises AntiphonError: `bad-file`, `bad-size`, `bad-spec` or `too-large`, saying where in the text.
    #[classmethod]
    #[pyo3(signature = (text, name = "json"))]
    fn from_json(class: &Bound<'_, PyType>, text: Text<'_>, name: Text<'_>) -> PyResult<Self> {
        Fabric::read_json(class.py(), name.0, text.0)
    }

    /// The fabric of a text that is JSON or a topology of another tool, known by its content
    /// (docs/reference/fabric.md); `name` is shown in results.
    ///
    /// Raises AntiphonError: as `from_json`, saying where in the text.
    #[classmethod]
    #[pyo3(signature = (text, name = "text"))]
    fn from_text(class: &Bound<'_, PyType>, text: Text<'_>, name: Text<'_>) -> PyResult<Self> {
        run(class.py(), || fabric::Fabric::from_text(name.0, text.0)).map(Fabric::from)
    }

    /// The fabric of a networkx graph: a link for every directed edge, one each way for every undirected edge. Read are
    /// the edge attributes `rate_gb_per_s`, `latency_ns`, `speed` and `dimension` and the node attributes `rank` (false
    /// or -1: a switch), `coords` and `package`.
    ///
    /// Raises AntiphonError: `bad-file` for attributes that are no such values, and as `from_json`.
    #[classmethod]
    #[pyo3(signature = (graph, name = None))]
    fn from_networkx(_class: &Bound<'_, PyType>, graph: &Bound<'_, PyAny>, name: Option<Text<'_>>) -> PyResult<Self> {
        Fabric::from_graph("from_networkx", graph, name)
    }

    /// The fabric of the GraphML file at `path`, read by networkx and then as in `from_networkx`.
    ///
    /// Raises AntiphonError: `not-applicable` without networkx, `bad-file`, and as `from_json`.
    #[classmethod]
    #[pyo3(signature = (path: "str | PathLike[str]", name = None))]
    fn from_graphml(_class: &Bound<'_, PyType>, path: &Bound<'_, PyAny>, name: Option<Text<'_>>) -> PyResult<Self> {
        Fabric::from_graph("from_graphml", path, name)
    }

    /// The fabric of a rails topology such as `ring4@1000/20ns,sw8@800/700ns`, with every NPU, switch and link as
    /// itself (docs/explanation/rails.md).
    ///
    /// Raises AntiphonError: `bad-spec`, `unknown-name`, `bad-size` or `too-large`.
    #[classmethod]
    fn from_rails(class: &Bound<'_, PyType>, topology: Text<'_>) -> PyResult<Self> {
        run(class.py(), || Ok(Expansion::new(&Topology::parse(topology.0)?)?.fabric.into()))
    }

    /// JSON text from which `from_json` makes a fabric of the same nodes and links: a graph, without dimensions or group.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        run(py, || Ok(self.0.to_json()))
    }

    /// The same nodes and links with only these ranks taking part, renumbered from 0 in the order given; every other
    /// node forwards. `ranks` is a list, or text such as `0-3,8-11`.
    ///
    /// Raises AntiphonError: `bad-spec` if a rank does not exist or is there twice, and for fewer than two.
    fn group(&self, py: Python<'_>, ranks: Ranks) -> PyResult<Self> {
        let whole = &self.0;
        run(py, || {
            let ranks = match ranks {
                Ranks::Text(text) => fabric::parse_group(whole, &text)?,
                Ranks::List(ranks) => ranks,
            };
            Ok(whole.group(&ranks)?.fabric.into())
        })
    }

    /// Groups without a common rank, each as `group` gives it. `which` is `rows` or `columns` of two dimensions,
    /// `dimension=K` (from 0); `dp of tp=8,cp=2,dp=16`, or `tp+cp of` it, along dimensions of a grid of all ranks, whose first
    /// is the fastest; `package`, the ranks of each package; or the path of a JSON file with lists of ranks. Dimensions are those
    /// of a product, or those that the labels of the links of a file name.
    ///
    /// Raises AntiphonError: `not-applicable` if the fabric has no such dimensions or packages, `bad-spec`, `bad-file` or
    /// `too-large`.
    fn groups(&self, py: Python<'_>, which: Text<'_>) -> PyResult<Vec<Self>> {
        let whole = &self.0;
        run(py, || {
            let groups = fabric::Groups::parse(whole, which.0)?.groups;
            groups.iter().map(|ranks| Ok(whole.group(ranks)?.fabric.into())).collect()
        })
    }

    /// The nodes that the links of a node, given by number or name, lead to, each once, in the order of the links.
    ///
    /// Raises AntiphonError: `bad-spec` for a node that does not exist.
    fn neighbors(&self, node: NodeLike) -> PyResult<Vec<fabric::NodeId>> {
        Ok(self.0.neighbours(node.of(&self.0).map_err(raise)?))
    }

    /// The number of the link from node `a` to node `b`, given by number or name; the first where several join them.
    ///
    /// Raises AntiphonError: `bad-spec` for nodes that do not exist or that no link joins.
    fn link(&self, a: NodeLike, b: NodeLike) -> PyResult<fabric::LinkId> {
        let fabric = &self.0;
        let (a, b) = (a.of(fabric).map_err(raise)?, b.of(fabric).map_err(raise)?);
        fabric.link_between(a, b).ok_or_else(|| raise(fabric.no_link(a, b)))
    }

    /// The rank at a position of a product, a coordinate for each dimension in the order of its sizes: row and column
    /// of a mesh.
    ///
    /// Raises AntiphonError: `not-applicable` if the fabric is no product of dimensions, `bad-spec` for a position that
    /// does not exist.
    #[pyo3(signature = (*position))]
    fn rank(&self, position: Fit<Vec<u32>>) -> PyResult<u32> {
        let position = position.0;
        let wrong = |code, what: String| Err(raise(Error::new(code, what)));
        let Some(product) = self.0.layout() else {
            return wrong(Code::NotApplicable, format!("{} is no product of dimensions", self.0.name));
        };
        let sizes = product.coordinates.sizes();
        if position.len() != sizes.len() || position.iter().zip(sizes).any(|(at, size)| at >= size) {
            return wrong(Code::BadSpec, format!("there is no position {position:?}; the sizes are {sizes:?}"));
        }
        Ok(self.0.nodes[product.node(&position) as usize].rank.unwrap_or_default())
    }

    /// A dictionary of numpy arrays, one entry a node: `name`, `rank` (-1 for a switch), `reduces` (`on-read`, `in-tree` or
    /// empty: how a switch adds), `multicasts`, `reduce_rate_gb_per_s` of each of its links (NaN: as fast as they come), `package` (-1 where none is named), `coord_0`, `coord_1`, ... (NaN where a node has fewer coordinates).
    #[getter]
    fn nodes<'py>(&self, py: Python<'py>) -> PyResult<Table<'py>> {
        let nodes = &self.0.nodes;
        let mut table = table!(py, node in nodes.iter(), {
            name: &*node.name,
            rank: node.rank.map_or(-1, i64::from),
            reduces: node.compute.and_then(|compute| compute.reduces).map_or("", fabric::Reduces::name),
            multicasts: node.compute.is_some_and(|compute| compute.multicasts),
            reduce_rate_gb_per_s:
                node.compute.and_then(|compute| compute.rate).map_or(f64::NAN, |rate| rate.as_gb_per_s()),
            package: node.package.map_or(-1, i64::from),
        })?;
        let dimensions = nodes.iter().map(|node| node.coords.len()).max().unwrap_or(0);
        for dimension in 0..dimensions {
            let values = nodes.iter().map(|node| node.coords.get(dimension).copied().unwrap_or(f64::NAN));
            table = table.column(&format!("coord_{dimension}"), values)?;
        }
        Ok(table)
    }

    /// A dictionary of numpy arrays, one entry a directed link: the nodes `from` and `to`, `dimension`, `rate_gb_per_s`
    /// (1e9 bytes per second) and `latency_ns`, both NaN where the system decides, and `speed` as a share of the rate,
    /// 1 if not slowed; `energy_pj_per_bit`, NaN where the system decides, and `length_mm`, NaN where it is not known.
    #[getter]
    fn links<'py>(&self, py: Python<'py>) -> PyResult<Table<'py>> {
        let links = &self.0.links;
        table!(py, link in links.iter(), {
            from: i64::from(link.from),
            to: i64::from(link.to),
            dimension: &*link.dimension,
            rate_gb_per_s: link.rate.map_or(f64::NAN, |rate| rate.as_gb_per_s()),
            latency_ns: link.latency.map_or(f64::NAN, nanos),
            speed: f64::from(link.speed_permille) / 1000.0,
            energy_pj_per_bit: link.pj_per_bit().unwrap_or(f64::NAN),
            length_mm: link.length_mm().unwrap_or(f64::NAN),
        })
    }

    /// A dictionary of numpy arrays, one entry a dimension of a product, in the order of its sizes: `shape` (`line`,
    /// `ring`, `clique` or `switch`), `size` in nodes, `rate_gb_per_s` from a node to one neighbour and `latency_ns` to
    /// it (NaN where the system decides). Empty arrays for other fabrics.
    #[getter]
    fn dimensions<'py>(&self, py: Python<'py>) -> PyResult<Table<'py>> {
        let dimensions = self.0.product().map_or(&[][..], |product| &product.dimensions);
        table!(py, along in dimensions.iter(), {
            shape: along.shape.name(),
            size,
            rate_gb_per_s: along.link_rate().map_or(f64::NAN, |rate| rate.as_gb_per_s()),
            latency_ns: along.latency.map_or(f64::NAN, nanos),
        })
    }

    /// A dictionary of numpy arrays, one entry a port of every router of a fabric that can be configured: `configuration`,
    /// `router`, `port` (`+x`, `-x`, `+y` or `-y`), and what its `output` and `input` attach: `mesh`, a segment such as
    /// `x0 0>3`, or nothing. Empty arrays for other fabrics.
    #[getter]
    fn ports<'py>(&self, py: Python<'py>) -> PyResult<Table<'py>> {
        crate::configure::ports(py, &self.0)
    }

    getters! {
        /// The specification, or the name given to JSON or a graph.
        name: &str = &self.0.name;
        /// Number of ranks; they are numbered from 0.
        ranks: usize = self.0.ranks();
        /// What was taken where the file that it was read from says nothing, a line each; empty where nothing was.
        notes: Vec<String> = self.0.notes.0.clone();
        /// For a group, the ranks of the whole fabric in the order of the group's own; None for a whole fabric.
        members: Option<Vec<u32>> = self.0.members().map(<[u32]>::to_vec);
        /// The configurations of a fabric that can be configured, as JSON with schema `antiphon-configuration/1`; None for
        /// others.
        configuration: Option<String> = self.0.configured.as_ref().map(|configured| configured.to_json());
    }

    fn __repr__(&self) -> String {
        format!("<Fabric {}: {}>", self.0.name, self.0.describe())
    }

    fn __hash__(&self) -> u64 {
        hash_of((&self.0.name, self.0.nodes.len(), self.0.links.len()))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (class, fabric) = (slf.get_type(), &slf.get().0);
        if let Some(group) = &fabric.group {
            let whole = Bound::new(slf.py(), Fabric::from(group.whole.clone()))?;
            return Ok((whole.getattr("group")?, PyTuple::new(slf.py(), [group.ranks.clone()])?));
        }
        match fabric.shape {
            fabric::Shape::Graph if fabric.configured.is_none() => {
                let arguments = PyTuple::new(slf.py(), [fabric.to_json(), fabric.name.clone()])?;
                Ok((class.getattr("from_json")?, arguments))
            }
            _ => {
                let arguments = PyTuple::new(slf.py(), [&fabric.name])?;
                let maker =
                    if fabric.name.starts_with("rails:") { class.getattr("from_rails")? } else { class.into_any() };
                Ok((maker, arguments))
            }
        }
    }
}
