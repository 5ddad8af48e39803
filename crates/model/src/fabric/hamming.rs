//! HammingMesh: boards of accelerators in a mesh, whose rows and columns switches join ("HammingMesh: A Network
//! Topology for Large-Scale Deep Learning", Hoefler et al., SC 2022).

use super::clos::SwitchNetwork;
use super::spec::{FabricPreset, PresetRequest};
use super::{Fabric, NodeId};
use antiphon_base::error::Result;

pub(super) const HAMMINGMESH: FabricPreset = FabricPreset::new(
    "hammingmesh",
    "hammingmesh:2x2x2x2",
    "boards of A x B, X x Y of them; rows and columns of accelerators joined by switches (SC 2022)",
    |request| Some(hammingmesh(request, request.sizes()?)),
);

/// `x` x `y` boards of `a` x `b` accelerators, rows x columns, numbered row by row over all boards. Both ends of a
/// board's row are joined to the switch of the row, those of a column to that of the column, so that an accelerator
/// has four links. Where there is one board along a dimension, it needs no switch.
fn hammingmesh(request: &PresetRequest, [a, b, x, y]: [u32; 4]) -> Result<Fabric> {
    let sizes = [a, b, x, y].map(u64::from);
    if sizes.contains(&0) {
        return Err(request.refused("needs boards of at least one accelerator, and a board"));
    }
    let [rows, columns] = [[a, x], [b, y]].map(|pair| u64::from(pair[0]).saturating_mul(pair[1].into()));
    let ranks = rows.saturating_mul(columns);
    let mut network = SwitchNetwork::new(request, ranks, rows.saturating_add(columns), ranks.saturating_mul(2))?;
    let [rows, columns] = [rows, columns].map(|size| size as u32);
    for (along, label, board, boards, lines) in [(1, "row", b, y, rows), (columns, "column", a, x, columns)] {
        let first = if boards > 1 { network.switches(label, lines, f64::from(along.min(2))) } else { 0 };
        for line in 0..lines {
            let node = |at: u32| -> NodeId { line * (if along == 1 { columns } else { 1 }) + at * along };
            for at in 0..board * boards {
                if at % board > 0 {
                    network.join("board", node(at - 1), node(at));
                }
                let ends = [at % board == 0, at % board == board - 1].into_iter().filter(|&end| end && boards > 1);
                ends.for_each(|_| network.join(label, node(at), first + line));
            }
        }
    }
    network.finish(request, &["board", "row", "column"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accelerators_have_four_links() {
        for (spec, ranks, switches, hops) in [
            ("hammingmesh:2x2x2x2", 16, 8, 4),
            ("hammingmesh:4x4x16x16", 4096, 128, 8),
            ("hammingmesh:1x1x3x5", 15, 8, 4),
        ] {
            let fabric = Fabric::parse(spec).unwrap();
            assert_eq!(
                (fabric.ranks(), fabric.nodes.len() - ranks, fabric.diameter()),
                (ranks, switches, hops),
                "{spec}"
            );
            assert!((0..ranks).all(|rank| fabric.out_links(rank as NodeId).len() == 4), "{spec}");
        }
        let mesh = Fabric::parse("hammingmesh:3x4x1x1").unwrap();
        assert_eq!((mesh.links.len(), mesh.has_switches()), (34, false));
    }
}
