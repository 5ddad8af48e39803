//! Rooted: equal trees for a broadcast or a reduction among many ranks, by rules and without prices, which would take long to find.
//!
//! Where links join ranks these are as many as the least cut, which [`equal`] packs; in large flattened butterflies a rule gives them. In boxes
//! of ranks behind switches with a network between them, every rank of the root's box gets a part and sends it by two trees to its like in all
//! boxes, each of which passes it on within its own. Of the two trees every box is an inner node in one, so that it sends as much as it gets
//! (P. Sanders, J. Speck and J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009).

use super::{equal, has_queues, is_even};
use crate::algorithm::tree::{self, Timetable, Tree, TreeWork, Tried};
use crate::algorithm::{Request, dbtree};
use antiphon_base::error::Result;
use antiphon_bound as bound;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{DimensionShape, Router};
use antiphon_model::schedule::Schedule;
use std::iter::repeat_n;

/// Most links times the square of the trees that are packed: some seconds.
const MOST_PACKED: usize = 1 << 23;

/// Rounds for every level of trees: to fill them takes less than a hundredth of the time.
const FILLING: u64 = 128;
/// Up to so many messages a simulation is short, however many rounds there are.
const MESSAGES: u64 = 1 << 24;
/// Packets of a piece over switches: of fewer the order in queues does not settle, so that a simulation takes minutes; more fill trees later.
const PACKETS: u64 = 16;

/// The busiest link takes at most this part longer than any schedule must.
const NEAR: u64 = 16;

/// Equal trees, streamed; `None` if none are known by a rule that are so [`NEAR`] the bound.
///
/// # Errors
/// As [`crate::algorithm::Algorithm::build`].
pub fn equal_trees(request: &Request) -> Result<Option<Schedule>> {
    let Request { fabric, system, collective, bytes, .. } = *request;
    let work = match collective.kind {
        Kind::Broadcast => TreeWork::Broadcast,
        Kind::Reduce => TreeWork::Reduce,
        _ => return Ok(None),
    };
    let root = fabric.node_of_rank(collective.root);
    let is_soon = equal::most_from(request, root).is_some_and(|most| most * most * fabric.links.len() <= MOST_PACKED);
    let direct = || if is_soon { equal::trees(request) } else { in_cliques(request) };
    let (trees, rounds) = if let Some(trees) = direct() {
        let height = trees.iter().map(Tree::height).max().unwrap_or(1);
        let few = MESSAGES / (trees.len() as u64 * u64::from(request.ranks()));
        (trees, 1..=few.max(u64::from(height) * FILLING))
    } else if let Some(trees) = in_boxes(request) {
        let part = bytes.div_ceil(trees.len() as u64);
        let rounds = part.div_ceil(system.packet.payload_bytes.saturating_mul(PACKETS));
        (trees, rounds..=rounds)
    } else {
        return Ok(None);
    };
    let mut timetable = Timetable::new(request, &trees, vec![1; trees.len()], work, true);
    // A size of pieces that is asked for says the rounds.
    if request.options.given(tree::PIECE.parameter.key).is_none() {
        timetable = timetable.within(rounds);
    }
    let schedule = tree::stream_timed(request, &[timetable], Tried::Some)?;
    let least = bound::lower_bound(fabric, system, collective, bytes, None)?.time_ps;
    Ok(Some(schedule)
        .filter(|schedule| bound::busiest_ps(fabric, system, schedule) <= least.saturating_add(least / NEAR)))
}

/// As many trees as a rank has links on a square of cliques, of which no two share a link; `None` for other fabrics.
///
/// Each goes from the root to one rank of its row, from there to the others, in each of their columns likewise, and last along
/// all rows to the root's column. Others go along columns first: they use the links of rows and columns that are left.
fn in_cliques(request: &Request) -> Option<Vec<Tree>> {
    let product = request.fabric.product().filter(|_| is_even(request))?.without_ones();
    let [rows, columns] = product.dimensions[..] else { return None };
    let are_cliques = [rows, columns].iter().all(|each| each.shape == DimensionShape::Clique);
    if !are_cliques || rows.size != columns.size || has_queues(request) {
        return None;
    }
    let (size, ranks) = (rows.size as u32, product.ranks(request.fabric));
    let root = (0..).zip(&ranks).find(|(_, rank)| **rank == request.collective.root)?.0;
    let home = [0, 1].map(|dimension| product.coordinates.of(root, dimension));
    let mut router = Router::new(request.fabric);
    let mut way = |from: u32, to: u32| router.route(request.fabric.node_of_rank(from), request.fabric.node_of_rank(to));
    let mut trees = vec![];
    for first in [0, 1] {
        let at = |along: u32, across: u32| {
            let place = if first == 0 { [along, across] } else { [across, along] };
            ranks[product.coordinates.position(&place) as usize]
        };
        let [along, across] = [home[first], home[1 - first]];
        let all_but = |left_out: u32| (0..size).filter(move |&place| place != left_out);
        for step in 1..size {
            let [by, then_by] = [along, across].map(|from| (from + step) % size);
            let to_row = all_but(along).map(|x| (at(x, across), at(if x == by { along } else { by }, across)));
            let to_columns = all_but(along)
                .flat_map(|x| all_but(across).map(move |y| (x, y, if y == then_by { across } else { then_by })));
            let to_columns = to_columns.map(|(x, y, from)| (at(x, y), at(x, from)));
            let back = all_but(across).map(|y| (at(along, y), at(by, y)));
            let edge = |(child, parent): (u32, u32)| (child, parent, [way(child, parent), way(parent, child)]);
            trees.push(Tree::new(ranks.len(), to_row.chain(to_columns).chain(back).map(edge)));
        }
    }
    Some(trees)
}

/// Two trees over the boxes for every rank of a box, which may be the only one; `None` if the fabric is no product of boxes and a switch for each
/// of their ranks.
fn in_boxes(request: &Request) -> Option<Vec<Tree>> {
    let product = request.fabric.product().filter(|_| is_even(request))?.without_ones();
    let (across, inside) = product.dimensions.split_last()?;
    let is_whole = |shape| matches!(shape, DimensionShape::Clique | DimensionShape::Switch);
    if inside.len() > 1 || !inside.iter().all(|each| is_whole(each.shape)) || across.shape != DimensionShape::Switch {
        return None;
    }
    let ranks = product.ranks(request.fabric);
    let (size, boxes) = (inside.first().map_or(1, |inside| inside.size as u32), across.size as u32);
    let at =
        |place: u32, number: u32| ranks[product.coordinates.position(&[place, number][1 - inside.len()..]) as usize];
    let root = (0..).zip(&ranks).find(|(_, rank)| **rank == request.collective.root)?.0;
    let first = product.coordinates.of(root, inside.len());
    let own = if inside.is_empty() { 0 } else { product.coordinates.of(root, 0) };
    let mut router = Router::new(request.fabric);
    let mut way = |from: u32, to: u32| router.route(request.fabric.node_of_rank(from), request.fabric.node_of_rank(to));
    // Of the other boxes, from the one after the root's on. Each could send twice; two of these sends are left.
    let pair = dbtree::two_trees(boxes - 1);
    let sent = |number: u32| pair.iter().flatten().filter(|parent| **parent == Some(number)).count();
    let idle: Vec<u32> =
        (0..boxes - 1).flat_map(|number| repeat_n(number, 2usize.saturating_sub(sent(number)))).collect();
    let other = |number: u32| (first + 1 + number) % boxes;
    let mut trees = vec![];
    for part in 0..size {
        for (parents, &back) in pair.iter().zip(&idle) {
            let over = (0..)
                .zip(parents)
                .map(|(number, parent)| (at(part, other(number)), at(part, parent.map_or(first, other))));
            let inside = |number: u32| {
                let places = (0..size).filter(move |&place| place != part);
                places.map(move |place| (at(place, other(number)), at(part, other(number))))
            };
            // The root is busy with the other parts, so its own comes back from who can still send.
            let at_home = (0..size).filter(|&place| place != own).map(|place| match part == own {
                true => (at(place, first), at(place, other(back))),
                false if place == part => (at(place, first), request.collective.root),
                false => (at(place, first), at(part, first)),
            });
            let edges = over.chain((0..boxes - 1).flat_map(inside)).chain(at_home);
            let edge = |(child, parent): (u32, u32)| (child, parent, [way(child, parent), way(parent, child)]);
            trees.push(Tree::new(ranks.len(), edges.map(edge)));
        }
    }
    Some(trees)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{build, equal_trees};
    use antiphon_base::watch::Watch;
    use antiphon_model::collective::Collective;
    use antiphon_model::fabric::Fabric;
    use antiphon_model::system::System;
    use antiphon_proof::verify;
    use antiphon_run::check_by_execution;

    /// From any root, the busiest link carries no more than it must.
    #[test]
    fn every_root_is_proven_and_executed() {
        let (system, bytes) = (System::preset("ideal").unwrap(), 1 << 20);
        for (spec, root) in [
            ("torus:3x4", 5),
            ("mesh:3x3", 4),
            ("hypercube:4", 0),
            ("fbfly:17x17", 100),
            ("switch:5", 3),
            ("dgx-h100:2", 0),
            ("dgx-h100:5", 19),
        ] {
            let fabric = Fabric::parse(spec).unwrap();
            for kind in [Kind::Broadcast, Kind::Reduce] {
                let collective = Collective { root, ..Collective::new(kind) };
                let schedule = equal_trees(&fabric, &system, collective, bytes, Watch::default()).unwrap();
                assert!(verify(&fabric, &schedule).unwrap().complete, "{spec} {kind:?}");
                check_by_execution(&schedule, Some(1)).unwrap();
                let least = bound::by_cuts(&fabric, &system, collective, bytes).unwrap().time_ps;
                let busiest = bound::busiest_ps(&fabric, &system, &schedule);
                assert!((least..=least + least / 1000).contains(&busiest), "{spec} {kind:?}: {busiest} {least}");
            }
        }
    }

    #[test]
    fn pieces_may_be_given() {
        let (system, collective) = (System::default(), Collective::new(Kind::Broadcast));
        for spec in ["mesh:33x33", "dgx-h100:130"] {
            let fabric = Fabric::parse(spec).unwrap();
            let found = build(&fabric, &system, collective, 1u64 << 24, "optimal:piece=64KiB").unwrap();
            let part = (1u64 << 24) / found.lanes.len() as u64;
            assert_eq!(found.lanes[0].chunks, part.div_ceil(1 << 16), "{spec}");
        }
    }

    /// Uneven links make many trees, whose packing would take minutes.
    #[test]
    fn many_trees_are_not_packed() {
        let fabric = Fabric::parse("mesh:64x64,slow=0-1:0.02").unwrap();
        let collective = Collective::new(Kind::Broadcast);
        let refused = equal_trees(&fabric, &System::default(), collective, 1 << 30, Watch::default()).unwrap_err();
        assert!(refused.message.contains("no equal trees"), "{refused:?}");
    }

    /// No link carries more than one tree, so every chunk takes one round.
    #[test]
    fn optimal_takes_them_on_many_ranks() {
        let (fabric, system) = (Fabric::parse("mesh:32x32").unwrap(), System::default());
        let collective = Collective::new(Kind::Broadcast);
        let found = build(&fabric, &system, collective, 1u64 << 30, "optimal").unwrap();
        let trees = equal_trees(&fabric, &system, collective, 1 << 30, Watch::default()).unwrap();
        assert_eq!((found.lanes.len(), found.transfers.len()), (2, 2 * 1023));
        assert!(found.transfers == trees.transfers && found.lanes == trees.lanes);
        assert_eq!(found.certificate.unwrap().share_ppm, 1_000_000);
    }

    /// Two trees for every rank of a box fill links best; a plan has more, and fewer steps.
    #[test]
    fn optimal_takes_what_is_sooner() {
        let (fabric, system) = (Fabric::parse("dgx-h100:16").unwrap(), System::default());
        for (bytes, takes_them) in [(1u64 << 28, true), (1 << 20, false)] {
            let found = build(&fabric, &system, Collective::new(Kind::Broadcast), bytes, "optimal").unwrap();
            assert_eq!(found.lanes.len() == 16, takes_them, "{bytes}");
        }
    }

    #[test]
    fn they_are_for_what_a_rule_covers() {
        let system = System::default();
        for (spec, kind) in [("torus:4x4", Kind::AllReduce), ("fat-tree:4", Kind::Broadcast), ("h800:4", Kind::Reduce)]
        {
            let fabric = Fabric::parse(spec).unwrap();
            let refused = equal_trees(&fabric, &system, Collective::new(kind), 1 << 20, Watch::default()).unwrap_err();
            assert!(refused.message.contains("no equal trees"), "{refused:?}");
        }
    }
}
