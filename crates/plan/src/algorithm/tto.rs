//! TTO: three link-disjoint trees rooted at three corners of a mesh; chunks overlap in each tree.
//!
//! TTO paper (HPCA 2024), section V, Algorithm 2; the shape of the third tree as in the artifact.
//! The fourth corner is excluded from training: it forwards and adds in two trees.

use super::tree::{Planter, Table, TreeWork};
use super::{ALIGN, Algorithm, Info, Request, Scale};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::{
    Default::{Derived, Fixed},
    Opt,
};
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{Issue, Op, Pacing, Schedule};

/// See the module.
pub struct Tto;

const INFO: Info = Info {
    name: "tto",
    summary: "three disjoint trees with overlapped chunks; one corner is excluded from training",
    options: &[
        Opt::bytes("chunk", Fixed("96KiB"), "One chunk over the three trees."),
        Opt::rank("excluded", Derived("the bottom-left one"), "Rank of the excluded corner."),
        Opt::flag("barrier", Fixed("yes"), "Chiplets gather only after all roots have reduced everything."),
        ALIGN,
    ],
    source: "TTO (HPCA 2024) section V, Algorithm 2",
    collectives: &[Kind::AllReduce],
};

/// (row, column) of a chiplet.
type Place = (u32, u32);

/// Parents in the three trees for the bottom-left corner excluded, roots top-left, top-right, bottom-right; `None` at the
/// root, and at what is not in the tree.
fn parent(tree: usize, (r, c): Place, (rows, columns): Place) -> Option<Place> {
    match tree {
        // Column 0 downwards, then every row rightwards.
        0 if c > 0 => Some((r, c - 1)),
        0 => (r > 0).then(|| (r - 1, c)),
        // From the top-right corner by L-shaped shells along row and column of the anti-diagonal;
        // column 0 can only be entered leftwards and the last row only downwards.
        1 => match (r, c) {
            (0, c) if c == columns - 1 => None,
            (r, 0) if r == rows - 1 => None,
            (r, c) if c == 0 || (r != rows - 1 && r <= columns - 1 - c && c != columns - 1) => Some((r, c + 1)),
            (r, c) => Some((r - 1, c)),
        },
        // The last row leftwards, then every column upwards.
        _ if r < rows - 1 => Some((r + 1, c)),
        _ => (c < columns - 1).then(|| (r, c + 1)),
    }
}

impl Algorithm for Tto {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn scale(&self) -> Scale {
        Scale::Short
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let Some((mesh, rows, columns)) = request.mesh() else {
            return request.refuse("it needs an intact two-dimensional mesh with both sides at least 2");
        };
        let barrier = request.options.flag("barrier");
        let excluded = request.options.rank("excluded", request.ranks())?.unwrap_or(mesh.rank(&[rows - 1, 0]));
        let corners = [0, rows - 1].into_iter().flat_map(|r| [0, columns - 1].map(|c| (r, c)));
        let Some((r, c)) = corners.into_iter().find(|&(r, c)| mesh.rank(&[r, c]) == excluded) else {
            return Err(Error::new(
                Code::BadSpec,
                format!("tto: excluded={excluded} is no corner of the {rows}x{columns} mesh"),
            ));
        };
        // Mirror the mesh so that the excluded corner takes the place of the bottom-left one.
        let rank = |(row, column): (u32, u32)| {
            let row = if r == 0 { rows - 1 - row } else { row };
            let column = if c == 0 { column } else { columns - 1 - column };
            mesh.rank(&[row, column])
        };
        // As much for each tree, so that no chunk is empty.
        let chunk = request.options.bytes("chunk").min(request.bytes).next_multiple_of(3 * request.align.bytes());
        let chunks = request.bytes.div_ceil(chunk);
        let mut builder = request.builder();
        let schedule = &mut builder.schedule;
        (schedule.endpoint.issue, schedule.endpoint.pacing) = (Issue::Links, Pacing::StopAndWait);
        (schedule.conflict_free, schedule.excluded) = (true, vec![excluded]);
        let places = || (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c)));
        let mut planter = Planter::new(request.fabric, request.system);
        let trees = [0, 1, 2].map(|tree| {
            let edge = |place| Some((rank(place), rank(parent(tree, place, (rows, columns))?)));
            planter.plant(places().filter_map(edge))
        });
        // Reduction and broadcast of a chunk cross all edges of one depth at a time.
        let height = rows + columns - 2;
        let slots = trees.each_ref().map(|tree| {
            let depths = tree.edges().iter().map(|&(child, _)| tree.depth(child));
            depths.map(|depth| [height - depth, depth - 1]).collect()
        });
        let table = Table::new(request.fabric, &trees, slots.into(), 1, TreeWork::Phases);
        table.lanes(&mut builder, |_| chunk.div_ceil(3), chunks);
        builder.phase("reduce-scatter", false);
        table.send(&mut builder, &[Op::Reduce])?;
        builder.phase("all-gather", barrier);
        table.send(&mut builder, &[Op::Copy])?;
        builder.finish()
    }
}
