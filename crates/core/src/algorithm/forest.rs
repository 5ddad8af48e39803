//! Forest: the packing of spanning trees that reaches the physical limit of any symmetric fabric, found by
//! matroid union, e.g. where links or chiplets have failed.
//!
//! With strength `p / q`, every edge used `q` times holds `p` spanning trees (Tutte 1961, Nash-Williams
//! 1961), after dividing out common factors. Fewer trees that load the links a little less evenly are
//! soon through, so that several packings are weighed against each other.

use super::packing::Graph;
use super::trees::{self, Planter, Table};
use super::{Algorithm, Info, Request};
use crate::bound::{Edge, strength_of, symmetric_edges};
use crate::collective::Kind;
use crate::error::Result;
use crate::schedule::Schedule;

/// See the module.
pub struct Forest;

const INFO: Info = Info {
    name: "forest",
    summary: "an optimal packing of spanning trees on any symmetric fabric, reduction and broadcast at once",
    options: trees::OPTIONS,
    source: "Tutte and Nash-Williams; Roskind and Tarjan; tree packing: Blink",
    collectives: &[Kind::AllReduce],
};

/// Most edges of all trees of a packing together, about a second of work, and of a graph.
const MOST_EDGES: usize = 1 << 14;

impl Algorithm for Forest {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let ranks = request.fabric.ranks();
        let Some(edges) = symmetric_edges(request.fabric, request.system) else {
            return request.refuse("it needs every two ranks joined equally fast both ways, and no switches");
        };
        if edges.len() > MOST_EDGES {
            return request.refuse(format_args!("{} edges are too many; at most {MOST_EDGES}", edges.len()));
        }
        let Some(packings) = packings(ranks, &edges, trees::most(request)) else {
            return request.refuse(format_args!("a packing would have more than {MOST_EDGES} edges of trees"));
        };
        let mut planter = Planter::new(request);
        let tables = packings.iter().map(|trees| {
            let trees = trees.iter().map(|parents| planter.plant(parents)).collect();
            Table::listed(request.fabric, request.system, trees)
        });
        trees::stream(request, tables)
    }
}

/// A tree as the parents of all ranks.
type Parents = Vec<Option<u32>>;

/// A lowest tree, then packings of more and more trees that load the links more and more evenly: the last
/// one exactly, unless it has more than `most` trees. `None` if packings that are not too large do not reach
/// half the strength.
fn packings(ranks: usize, edges: &[Edge], most: usize) -> Option<Vec<Vec<Parents>>> {
    let graph = Graph::new(ranks, edges.iter().map(|&(a, b, _)| (a, b)));
    let centre = graph.centre();
    let fastest = edges.iter().map(|edge| edge.2).max().unwrap_or(1);
    let strength = strength_of(ranks, edges);
    let (crossing, parts) = (strength.crossing, u128::from(strength.parts) - 1);
    // Uses of the fastest edge by the smallest packing that is exact.
    let exact = parts / gcd(crossing, parts) * fastest;
    let fewer = (0..).flat_map(|exponent| [2u128 << exponent >> 1, 3 << exponent >> 1]).take_while(|&uses| uses < exact);
    let mut packings = graph.pack(&vec![1; edges.len()], 1, centre).into_iter().collect::<Vec<_>>();
    let (mut best, mut too_large) = ((0, 1), false);
    for uses in fewer.chain([exact]) {
        let room = |&(a, b, capacity): &Edge| (a, b, capacity * uses / fastest);
        let room: Vec<Edge> = edges.iter().map(room).collect();
        let count = if room.iter().zip(edges).all(|(room, edge)| room.2 * fastest == edge.2 * uses) {
            crossing * uses / (parts * fastest)
        } else {
            let strength = strength_of(ranks, &room);
            strength.crossing / (u128::from(strength.parts) - 1)
        };
        too_large = count * (ranks as u128 - 1) > MOST_EDGES as u128;
        if too_large || count > most as u128 {
            break;
        }
        // Trees for every use of the fastest edge.
        if count * best.1 > best.0 * uses {
            best = (count, uses);
            let most: Vec<u32> = room.iter().map(|edge| edge.2.min(count) as u32).collect();
            packings.push(graph.pack(&most, count as usize, centre).expect("as many trees as the strength says"));
        }
    }
    (!too_large || 2 * best.0 * parts * fastest >= crossing * best.1).then_some(packings)
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}
