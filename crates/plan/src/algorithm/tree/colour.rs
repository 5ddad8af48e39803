//! Slots for messages of two links.

use super::table::{Slots, Table};
use super::{OPS, Tree, TreeWork};
use antiphon_model::schedule::Op;

/// A message of a table: tree, edge and direction.
type TableMessage = (usize, u32, usize);

/// Slots modulo the period of a table such that no link has two messages in one, if links are all alike and messages have
/// at most two each, as over a switch: the edges of a bipartite graph of links are coloured with as many colours as its
/// degree (König 1916). `None` if the graph is another. O(messages * (period + messages)).
pub(super) fn residues(table: &Table) -> Option<Slots> {
    let (trees, period, links) = (table.trees, table.period, table.widths.len());
    if trees.iter().flat_map(Tree::routes).any(|route| route.len() > 2) || table.widths.iter().any(|&width| width > 1) {
        return None;
    }
    let mut residues = table.slots.clone();
    // The message of every link and residue.
    let mut taken: Vec<Option<TableMessage>> = vec![None; 2 * links * period as usize];
    let ends = |(tree, edge, way): TableMessage| {
        let first = table.phase(OPS[way]) * links;
        trees[tree].route(edge, OPS[way]).iter().map(move |&link| first + link as usize)
    };
    let at = |end: usize, residue: u32| end * period as usize + residue as usize;
    for (slot, message) in in_order(table) {
        let free = |end: usize, residue: &u32| taken[at(end, *residue)].is_none();
        let mut common = (slot..slot + period).map(|slot| slot % period);
        let residue = match common.find(|residue| ends(message).all(|end| free(end, residue))) {
            Some(residue) => residue,
            None => {
                // Where both ends have room, but at other times: swap the two residues along a path.
                let (first, second) = (ends(message).next()?, ends(message).nth(1)?);
                let [here, there] = [first, second].map(|end| (0..period).find(|residue| free(end, residue)));
                let (here, there) = (here?, there?);
                let (mut path, mut end, mut residue) = (vec![], second, here);
                while let Some(next) = taken[at(end, residue)] {
                    path.push((next, residue));
                    residue = here + there - residue;
                    let Some(other) = ends(next).find(|&other| other != end) else { break };
                    end = other;
                    if end == first {
                        return None;
                    }
                }
                for &(next, residue) in &path {
                    ends(next).for_each(|end| taken[at(end, residue)] = None);
                }
                for (next, residue) in path {
                    let swapped = here + there - residue;
                    ends(next).for_each(|end| taken[at(end, swapped)] = Some(next));
                    residues[next.0][next.1 as usize][next.2] = swapped;
                }
                here
            }
        };
        ends(message).for_each(|end| taken[at(end, residue)] = Some(message));
        residues[message.0][message.1 as usize][message.2] = residue;
    }
    Some(residues)
}

/// The messages of a table with the slots at which they would go out if links were free, in their order.
fn in_order(table: &Table) -> Vec<(u32, TableMessage)> {
    let mut messages = vec![];
    for (index, tree) in table.trees.iter().enumerate() {
        for edge in 0..tree.edges().len() as u32 {
            let start = if table.work == TreeWork::Overlapped { tree.height() } else { 0 };
            for &op in table.work.ops() {
                let sender = tree.ends(edge, op).0;
                messages.push(match op {
                    Op::Reduce => (tree.height_of(sender), (index, edge, 0)),
                    Op::Copy => (start + tree.of(op).depth(sender), (index, edge, 1)),
                });
            }
        }
    }
    messages.sort_unstable();
    messages
}
