//! A single switch: every rank has one link to it and one from it.

use super::product::{Dimension, DimensionShape, Product};
use super::spec::FabricPreset;
use super::{Fabric, Link, MAX_RANKS, Node, Shape};
use antiphon_base::error::{Code, Error, Result};

pub(super) const SWITCH: FabricPreset =
    FabricPreset::new("switch", "switch:16", "ranks around one switch", |request| {
        let [ranks] = request.sizes()?;
        Some(request.with_parameters(switch(request.name, ranks)))
    });

/// A star of `ranks` ranks (nodes `0..ranks`) around one switch (node `ranks`).
///
/// # Errors
/// [`Code::TooLarge`] past [`MAX_RANKS`], [`Code::BadSpec`] below two ranks.
pub fn switch(name: &str, ranks: u32) -> Result<Fabric> {
    if ranks as usize > MAX_RANKS {
        return Err(Error::new(Code::TooLarge, format!("fabric '{name}' has more than {MAX_RANKS} ranks")));
    }
    let mut nodes: Vec<Node> = (0..ranks).map(|rank| Node::rank(rank, [1.0, rank as f64])).collect();
    nodes.push(Node::switch("switch", [0.0, ranks.saturating_sub(1) as f64 / 2.0]));
    let links = (0..ranks).flat_map(|rank| [Link::new(rank, ranks, "host"), Link::new(ranks, rank, "host")]);
    let product = Product::last_fastest(vec![Dimension::new(DimensionShape::Switch, ranks.into())]);
    Fabric::new(name, Shape::Product(product), nodes, links.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star() {
        let fabric = switch("switch:4", 4).unwrap();
        assert_eq!((fabric.ranks(), fabric.nodes.len(), fabric.links.len()), (4, 5, 8));
        assert_eq!(fabric.neighbours(4), [0, 1, 2, 3]);
        assert_eq!(fabric.neighbours(2), [4]);
        assert_eq!(switch("t", u32::MAX).unwrap_err().code, Code::TooLarge);
        assert_eq!(switch("t", 0).unwrap_err().code, Code::BadSpec);
    }
}
