//! TTO: three link-disjoint trees rooted at three corners of a mesh; chunks overlap in each tree.
//!
//! TTO paper (HPCA 2024), section V, Algorithm 2; the shape of the third tree as in the artifact, or by the paper's words.
//! The fourth corner is excluded from training: it forwards and adds in two trees. Where it has no rank it forwards.

use super::tree::{Planter, Table, Tree, TreeWork};
use super::{ALIGN, Algorithm, Info, Request, Scale};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::{
    Default::{Derived, Fixed},
    Opt,
};
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{DimensionShape, Fabric, LinkId, NodeId};
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
        Opt::choice(
            "third",
            &["shells", "breadth-first"],
            "The third tree. shells: L-shaped, as in the artifact; breadth-first: over the links that the others leave, as the paper says.",
        ),
        ALIGN,
    ],
    source: "TTO (HPCA 2024) section V, Algorithm 2",
    collectives: &[Kind::AllReduce],
};

/// (row, column) of a chiplet.
type Place = (u32, u32);

/// Parents in the three trees for the bottom-left corner excluded, roots top-left, top-right, bottom-right; `None` at the
/// root, and at what is not in the tree.
fn parent(tree: usize, (r, c): Place, (rows, columns): Place, shells: bool) -> Option<Place> {
    match tree {
        // Column 0 downwards, then every row rightwards.
        0 if c > 0 => Some((r, c - 1)),
        0 => (r > 0).then(|| (r - 1, c)),
        // From the top-right corner; the other trees leave the ways leftwards but in the last row, and downwards but in
        // column 0. By shells it goes along row and column of the anti-diagonal; breadth-first, where a chiplet's
        // neighbour in the row comes first, what is reached from above and from the right is reached from above first.
        1 => match (r, c) {
            (0, c) if c == columns - 1 => None,
            (r, 0) if r == rows - 1 => None,
            (_, 0) => Some((r, 1)),
            (0, _) => Some((0, c + 1)),
            (r, c) if shells && r != rows - 1 && r <= columns - 1 - c => Some((r, c + 1)),
            _ => Some((r - 1, c)),
        },
        // The last row leftwards, then every column upwards.
        _ if r < rows - 1 => Some((r + 1, c)),
        _ => (c < columns - 1).then(|| (r, c + 1)),
    }
}

/// Rows and columns of a mesh, numbered row by row, of which a corner has no rank but forwards; and that corner.
fn without_corner(fabric: &Fabric) -> Option<(Place, NodeId)> {
    let missing = (0..).zip(&fabric.nodes).find(|(_, node)| node.rank.is_none())?.0;
    let count = fabric.nodes.len() as u32;
    let is_mesh = |&(rows, columns): &Place| {
        let corner = [0, columns - 1, count - columns, count - 1].contains(&missing);
        let joined = |a, b| fabric.link_between(a, b).is_some() && fabric.link_between(b, a).is_some();
        let mut places = (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c, r * columns + c)));
        corner
            && fabric.links.len() as u32 == 2 * (2 * count - rows - columns)
            && places.all(|(r, c, at)| {
                (c + 1 == columns || joined(at, at + 1)) && (r + 1 == rows || joined(at, at + columns))
            })
    };
    let sides =
        (2..=count / 2).filter(|columns| count.is_multiple_of(*columns)).map(|columns| (count / columns, columns));
    let all_others = fabric.ranks() as u32 + 1 == count;
    Some((sides.filter(|_| all_others).find(is_mesh)?, missing))
}

impl Algorithm for Tto {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn scale(&self) -> Scale {
        Scale::Short
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let fabric = request.fabric;
        let joins = |shape| matches!(shape, DimensionShape::Line | DimensionShape::Ring);
        let grid = request.product().filter(|grid| grid.product.dimensions.iter().all(|one| joins(one.shape)));
        let whole = grid.as_ref().and_then(|grid| Some((grid.product.rows_columns()?, None)));
        let Some(((rows, columns), missing)) = whole.or_else(|| {
            let (sides, missing) = without_corner(fabric)?;
            Some((sides, Some(missing)))
        }) else {
            return request.refuse(
                "it needs a two-dimensional mesh or torus with both sides at least 2, whole or but for a corner of a mesh \
                 that only forwards",
            );
        };
        let at = |row, column| grid.as_ref().map_or(row * columns + column, |grid| grid.product.node(&[row, column]));
        let given = request.options.rank("excluded", request.ranks())?;
        if let Some(missing) = missing.filter(|_| given.is_some()) {
            return request.refuse(format!("node {missing}, a corner, has no rank already; leave out excluded"));
        }
        let excluded = missing.or(given.map(|rank| fabric.node_of_rank(rank))).unwrap_or(at(rows - 1, 0));
        let corners = [0, rows - 1].into_iter().flat_map(|r| [0, columns - 1].map(|c| (r, c)));
        let Some((r, c)) = corners.into_iter().find(|&(r, c)| at(r, c) == excluded) else {
            let rank = given.unwrap_or_default();
            return Err(Error::new(
                Code::BadSpec,
                format!("tto: excluded={rank} is no corner of the {rows}x{columns} mesh"),
            ));
        };
        // Mirror the mesh so that the excluded corner takes the place of the bottom-left one.
        let node = |(row, column): Place| {
            let row = if r == 0 { rows - 1 - row } else { row };
            at(row, if c == 0 { column } else { columns - 1 - column })
        };
        let rank = |place| fabric.nodes[node(place) as usize].rank;
        // As much for each tree, so that no chunk is empty.
        let chunk = request.options.bytes("chunk").min(request.bytes).next_multiple_of(3 * request.align.bytes());
        let chunks = request.bytes.div_ceil(chunk);
        let mut builder = request.builder();
        let schedule = &mut builder.schedule;
        schedule.endpoint.issue = Issue::Links;
        if missing.is_none() {
            // Past a corner that only forwards a chunk is on two links, of which each would wait for the other.
            schedule.endpoint.pacing = Pacing::StopAndWait;
        }
        (schedule.conflict_free, schedule.excluded) =
            (true, fabric.nodes[excluded as usize].rank.into_iter().collect());
        let places = || (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c)));
        let mut planter = Planter::new(fabric, request.system);
        let shells = request.options.choice("third") == "shells";
        let trees = [0, 1, 2].map(|tree| {
            let up = |place| parent(tree, place, (rows, columns), shells);
            if missing.is_none() {
                return planter.plant(places().filter_map(|place| Some((rank(place)?, rank(up(place)?)?))));
            }
            // Past the corner that only forwards, to what is above it.
            let edge = |place| {
                let mut way = vec![place, up(place)?];
                if rank(way[1]).is_none() {
                    way.push(up(way[1])?);
                }
                let link = |one, other| fabric.link_between(node(one), node(other)).expect("neighbours");
                let there: Vec<LinkId> = way.windows(2).map(|hop| link(hop[0], hop[1])).collect();
                let back = way.windows(2).rev().map(|hop| link(hop[1], hop[0])).collect();
                Some((rank(place)?, rank(*way.last()?)?, [there, back]))
            };
            Tree::new(fabric.ranks(), places().filter_map(edge))
        });
        // Reduction and broadcast of a chunk cross all edges of one depth at a time.
        let height = rows + columns - 2;
        let slots = trees.each_ref().map(|tree| {
            let depths = tree.edges().iter().map(|&(child, _)| tree.depth(child));
            depths.map(|depth| [height - depth, depth - 1]).collect()
        });
        let table = Table::new(fabric, &trees, slots.into(), 1, TreeWork::Phases);
        table.lanes(&mut builder, |_| chunk.div_ceil(3), chunks);
        builder.phase("reduce-scatter", false);
        table.send(&mut builder, &[Op::Reduce])?;
        builder.phase("all-gather", request.options.flag("barrier"));
        table.send(&mut builder, &[Op::Copy])?;
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet, VecDeque};

    /// Parents by a breadth-first search from the top-right corner, the neighbour in the row first, over what the two
    /// other trees leave; Algorithm 2 of the paper.
    fn searched(sides: Place) -> HashMap<Place, Place> {
        let places: Vec<Place> = (0..sides.0).flat_map(|r| (0..sides.1).map(move |c| (r, c))).collect();
        let used: HashSet<(Place, Place)> = [0, 2]
            .iter()
            .flat_map(|&tree| places.iter().filter_map(move |&place| Some((place, parent(tree, place, sides, true)?))))
            .collect();
        let excluded = (sides.0 - 1, 0);
        let root: Place = (0, sides.1 - 1);
        let (mut above, mut queue): (HashMap<Place, Place>, _) = (HashMap::new(), VecDeque::from([root]));
        while let Some((r, c)) = queue.pop_front() {
            let near = [(r, c.wrapping_sub(1)), (r, c + 1), (r.wrapping_sub(1), c), (r + 1, c)];
            for next in near.into_iter().filter(|next| places.contains(next) && *next != root && *next != excluded) {
                if !used.contains(&(next, (r, c))) && !above.contains_key(&next) {
                    above.insert(next, (r, c));
                    queue.push_back(next);
                }
            }
        }
        above
    }

    #[test]
    fn trees_share_no_link_and_are_as_low_as_can_be() {
        for sides in (2..8).flat_map(|rows| (2..8).map(move |columns| (rows, columns))) {
            let (rows, columns) = sides;
            let places: Vec<Place> = (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))).collect();
            let up = |tree, place, shells| parent(tree, place, sides, shells);
            for shells in [true, false] {
                let (mut links, roots) = (HashSet::new(), [(0, 0), (0, columns - 1), (rows - 1, columns - 1)]);
                for (tree, &place) in (0..3).flat_map(|tree| places.iter().map(move |place| (tree, place))) {
                    let depth = std::iter::successors(Some(place), |&at| up(tree, at, shells)).count() as u32 - 1;
                    let away = place.0.abs_diff(roots[tree].0) + place.1.abs_diff(roots[tree].1);
                    let is_in = tree != 1 || place != (rows - 1, 0);
                    assert_eq!(depth, if is_in { away } else { 0 }, "{sides:?} {tree} {place:?}");
                    assert!(up(tree, place, shells).is_none_or(|above| links.insert((place, above))));
                }
                assert_eq!(links.len() as u32, 3 * rows * columns - 4);
            }
            let third = places.iter().filter_map(|&place| Some((place, up(1, place, false)?))).collect();
            assert_eq!(searched(sides), third, "{sides:?}");
        }
    }
}
