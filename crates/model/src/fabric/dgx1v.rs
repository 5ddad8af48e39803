//! The hybrid cube mesh of a DGX-1 with V100 GPUs: two fully joined quads 0-3 and 4-7, GPU `i` joined
//! to `i + 4`; eight of the sixteen pairs have two NVLinks, so that every GPU has six
//! (C-Cube, HPCA 2023, section V-A and Fig. 10(c)).

use super::machine::{RAW, given};
use super::spec::{FabricPreset, PresetRequest};
use super::{Fabric, Link, Node, Shape};
use antiphon_base::error::Result;

pub(super) const DGX1V: FabricPreset =
    FabricPreset::new("dgx1v", "dgx1v", "hybrid cube mesh of eight V100 GPUs", |request| {
        let [] = request.sizes()?;
        Some(request.with_parameters(dgx1v(request.name)))
    });

pub(super) const DGX_V100: FabricPreset =
    FabricPreset::new("dgx-v100", "dgx-v100", "dgx1v with the rates of NVLink; usable rates, or :raw", |request| {
        let [] = request.sizes()?;
        Some(with_rates(request))
    })
    .with(&[RAW]);

/// Links with rates of their own.
fn with_rates(request: &PresetRequest) -> Result<Fabric> {
    let [nvlink] = given("dgx-v100", request)?;
    let mut fabric = dgx1v(request.name)?;
    fabric.links.iter_mut().for_each(|link| *link = nvlink.link(link.from, link.to));
    Ok(fabric)
}

/// Pairs of GPUs and their number of parallel links in each direction.
const PAIRS: [(u32, u32, usize); 16] = [
    (0, 1, 1),
    (0, 2, 1),
    (0, 3, 2),
    (0, 4, 2),
    (1, 2, 2),
    (1, 3, 1),
    (1, 5, 2),
    (2, 3, 2),
    (2, 6, 1),
    (3, 7, 1),
    (4, 5, 1),
    (4, 6, 1),
    (4, 7, 2),
    (5, 6, 2),
    (5, 7, 1),
    (6, 7, 2),
];

/// Row and column of every GPU in a drawing: two squares side by side, the second lower.
const PLACES: [[f64; 2]; 8] =
    [[0.0, 0.0], [0.0, 2.0], [2.0, 2.0], [2.0, 0.0], [1.0, 3.0], [1.0, 5.0], [3.0, 5.0], [3.0, 3.0]];

/// A DGX-1 (V100): eight ranks, 48 directed links; `quad` links inside a quad, `cross` between them.
///
/// # Errors
/// None; the signature is that of the other presets.
pub fn dgx1v(name: &str) -> Result<Fabric> {
    let nodes = (0..).zip(PLACES).map(|(rank, place)| Node::rank(rank, place)).collect();
    let links = PAIRS.iter().flat_map(|&(a, b, count)| {
        let link = Link::new(a, b, if b == a + 4 { "cross" } else { "quad" });
        let pair = [link.clone(), link.reversed()];
        std::iter::repeat_n(pair, count).flatten()
    });
    Fabric::new(name, Shape::HybridCubeMesh, nodes, links.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_links_a_gpu() {
        let fabric = dgx1v("dgx1v").unwrap();
        assert_eq!(fabric.links.len(), 48);
        assert!((0..8).all(|gpu| fabric.out_links(gpu).len() == 6));
        assert!(fabric.is_symmetric());
        assert_eq!(fabric.neighbours(0), [1, 2, 3, 4]);
        assert_eq!((fabric.link_between(2, 4), fabric.link_between(3, 5)), (None, None));
    }
}
