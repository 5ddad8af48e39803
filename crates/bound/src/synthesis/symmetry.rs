//! Symmetries of a fabric: permutations of nodes that leave it as it is. Arcs that one can become another share a price, and
//! roots that one can become another share their plans, turned round.
//!
//! Looked for among the turns and reflections of ranks in blocks, as rows, boxes and rails are numbered; each is checked arc
//! by arc, so what is not found costs time, and what is found is right.

use super::graph::Graph;
use super::parts::DisjointSets;
use antiphon_base::watch::checkpoint;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A permutation, of ranks and of arcs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation {
    /// What becomes of every rank.
    pub ranks: Vec<u32>,
    /// What becomes of every arc.
    pub arcs: Vec<u32>,
}

impl Permutation {
    fn identity(graph: &Graph) -> Permutation {
        let [ranks, arcs] = [graph.ranks.len(), graph.arcs.len()].map(|count| (0..count as u32).collect());
        Permutation { ranks, arcs }
    }
}

/// Rows of a linear program that are few.
const FEW_ROWS: usize = 48;
/// Branches of all roots' trees that are few.
const FEW_TREES: usize = 1 << 12;
/// Most permutations of a group that are kept.
const MOST: usize = 4096;
/// Most arcs and ranks that all permutations of a group may move.
const MOST_MOVES: usize = 1 << 24;

/// A group of permutations, and what it makes alike.
#[derive(Debug, Clone)]
pub struct Symmetry {
    /// All permutations, the identity first.
    pub group: Vec<Permutation>,
    /// Class of every arc, and the arcs of every class.
    pub class_of: Vec<u32>,
    /// Arcs of every class.
    pub arcs: Vec<Vec<u32>>,
}

impl Symmetry {
    /// The symmetries of a graph that are found, of these such that leave `fixed` where it is; no more than save time.
    pub fn new(graph: &Graph, fixed: Option<u32>) -> Symmetry {
        Symmetry::found(graph, fixed, false)
    }

    /// Such of them that none leaves another rank than `fixed` where it is: they turn a tree of a root into no other of that root.
    pub fn free(graph: &Graph, fixed: Option<u32>) -> Symmetry {
        Symmetry::found(graph, fixed, true)
    }

    fn found(graph: &Graph, fixed: Option<u32>, free: bool) -> Symmetry {
        let (ranks, arcs) = (graph.ranks.len(), graph.arcs.len());
        let identity = Permutation::identity(graph);
        let mut generators: Vec<Permutation> = vec![];
        let (mut alike_ranks, mut alike_arcs) = (DisjointSets::new(ranks), DisjointSets::new(arcs));
        for permuted in candidates(ranks, fixed) {
            checkpoint();
            // Few classes of arcs and few roots to look at are left.
            if alike_arcs.count + alike_ranks.count <= FEW_ROWS && alike_ranks.count * ranks <= FEW_TREES {
                break;
            }
            let Some(arcs) = automorphism(graph, &permuted) else { continue };
            if free {
                let next = Permutation { ranks: permuted.clone(), arcs: arcs.clone() };
                let stays =
                    |one: &Permutation| (0..).zip(&one.ranks).any(|(rank, &to)| rank == to && Some(rank) != fixed);
                let group = closed(&identity, &[generators.as_slice(), &[next]].concat());
                if group.is_none_or(|group| group[1..].iter().any(stays)) {
                    continue;
                }
            }
            let merged = [merge(&mut alike_ranks, &permuted), merge(&mut alike_arcs, &arcs)];
            if merged.contains(&true) {
                generators.push(Permutation { ranks: permuted, arcs });
            }
        }
        loop {
            if let Some(group) = closed(&identity, &generators) {
                return Symmetry::of(group, arcs);
            }
            generators.pop();
        }
    }

    /// No symmetries.
    pub fn none(graph: &Graph) -> Symmetry {
        Symmetry::of(vec![Permutation::identity(graph)], graph.arcs.len())
    }

    fn of(group: Vec<Permutation>, count: usize) -> Symmetry {
        let mut class_of = vec![u32::MAX; count];
        let mut arcs: Vec<Vec<u32>> = vec![];
        for arc in 0..count {
            if class_of[arc] == u32::MAX {
                let mut class: Vec<u32> = group.iter().map(|one| one.arcs[arc]).collect();
                class.sort_unstable();
                class.dedup();
                class.iter().for_each(|&other| class_of[other as usize] = arcs.len() as u32);
                arcs.push(class);
            }
        }
        Symmetry { group, class_of, arcs }
    }

    /// Orbits of these ranks: those that the first of each can become, in order.
    pub fn orbits(&self, ranks: &[u32]) -> Vec<Vec<u32>> {
        let mut seen = HashSet::new();
        let mut orbits = vec![];
        for &rank in ranks {
            if seen.contains(&rank) {
                continue;
            }
            let mut orbit: Vec<u32> = self.group.iter().map(|one| one.ranks[rank as usize]).collect();
            orbit.sort_unstable();
            orbit.dedup();
            seen.extend(orbit.iter().copied());
            orbits.push(orbit);
        }
        orbits
    }
}

/// Makes alike what a permutation moves to each other; whether that is new.
fn merge(parts: &mut DisjointSets, permuted: &[u32]) -> bool {
    let before = parts.count;
    (0..).zip(permuted).for_each(|(at, &to)| _ = parts.join(at, to));
    parts.count < before
}

/// Turns of blocks within larger blocks, then reflections, the larger first: ranks' images. With a fixed rank, turns of the
/// other blocks, and reflections round its own.
fn candidates(ranks: usize, fixed: Option<u32>) -> Vec<Vec<u32>> {
    let divisors: Vec<usize> = (1..=ranks).filter(|by| ranks.is_multiple_of(*by)).collect();
    let mut found = [vec![], vec![]];
    for &whole in divisors.iter().rev() {
        for &unit in divisors.iter().filter(|&&unit| unit < whole && whole.is_multiple_of(unit)) {
            let blocks = whole / unit;
            let image = |at: usize| -> [usize; 2] {
                let (start, place) = (at / whole * whole, at % whole);
                let (block, inner) = (place / unit, place % unit);
                let [turned, reflected] = match fixed.map(|rank| rank as usize % whole / unit) {
                    None => [(block + 1) % blocks, blocks - 1 - block],
                    Some(own) if block == own => [own, own],
                    Some(own) => {
                        // The place among the others, from the own one on.
                        let other = (block + blocks - own) % blocks - 1;
                        [(own + 1 + (other + 1) % (blocks - 1)) % blocks, (2 * own + blocks - block) % blocks]
                    }
                };
                [turned, reflected].map(|block| start + block * unit + inner)
            };
            for (way, found) in found.iter_mut().enumerate() {
                found.push((0..ranks).map(|rank| image(rank)[way] as u32).collect());
            }
        }
    }
    let mut found: Vec<Vec<u32>> = found.concat();
    // Lines are reflected round their middle. A square grid may be turned over its diagonal, a cube over two.
    found.push((0..ranks as u32).rev().collect());
    for side in (2..=ranks).take_while(|side| side * side <= ranks) {
        if side * side == ranks {
            found.push((0..ranks).map(|at| (at % side * side + at / side) as u32).collect());
        }
        if side * side * side == ranks {
            let place = |at: usize| [at / side / side, at / side % side, at % side];
            let turned = |[z, y, x]: [usize; 3]| (x * side + z) * side + y;
            let swapped = |[z, y, x]: [usize; 3]| (z * side + x) * side + y;
            found.push((0..ranks).map(|at| turned(place(at)) as u32).collect());
            found.push((0..ranks).map(|at| swapped(place(at)) as u32).collect());
        }
    }
    found.retain(|permuted| fixed.is_none_or(|rank| permuted[rank as usize] == rank));
    found
}

/// The images of all arcs, if there are images of other nodes such that all arcs stay.
fn automorphism(graph: &Graph, permuted: &[u32]) -> Option<Vec<u32>> {
    let degree = |rank: u32| graph.out[graph.ranks[rank as usize] as usize].len();
    if (0..).zip(permuted).any(|(rank, &to)| degree(rank) != degree(to)) {
        return None;
    }
    let mut image: Vec<Option<u32>> = vec![None; graph.rank_at.len()];
    for (rank, &to) in permuted.iter().enumerate() {
        image[graph.ranks[rank] as usize] = Some(graph.ranks[to as usize]);
    }
    // Of the other nodes, those beside ranks first: by what they are joined to, whose images are known.
    let mut beside: Vec<Vec<(u32, bool, u64)>> = vec![Vec::new(); image.len()];
    for arc in &graph.arcs {
        beside[arc.from as usize].push((arc.to, true, arc.rate.to_bits()));
        beside[arc.to as usize].push((arc.from, false, arc.rate.to_bits()));
    }
    let mut open: Vec<u32> = (0..image.len() as u32).filter(|&node| image[node as usize].is_none()).collect();
    while !open.is_empty() {
        let known: HashSet<u32> = (0..image.len() as u32).filter(|&node| image[node as usize].is_some()).collect();
        let to: HashSet<u32> = known.iter().filter_map(|&node| image[node as usize]).collect();
        let signature = |node: u32, known: &HashSet<u32>, image: &dyn Fn(u32) -> u32| {
            let ends = beside[node as usize].iter().filter(|end| known.contains(&end.0));
            let mut ends: Vec<_> = ends.map(|&(other, out, rate)| (image(other), out, rate)).collect();
            ends.sort_unstable();
            ends
        };
        let mut places: BTreeMap<Vec<(u32, bool, u64)>, Vec<u32>> = BTreeMap::new();
        for node in (0..image.len() as u32).rev().filter(|node| !to.contains(node)) {
            places.entry(signature(node, &to, &|other| other)).or_default().push(node);
        }
        let mut later = vec![];
        let before = open.len();
        for node in open {
            let ends = signature(node, &known, &|other| image[other as usize].expect("its image is known"));
            if ends.is_empty() {
                later.push(node);
                continue;
            }
            image[node as usize] = Some(places.get_mut(&ends)?.pop()?);
        }
        if later.len() == before {
            return None;
        }
        open = later;
    }
    let ends = |from: u32, to: u32, rate: f64| (from, to, rate.to_bits());
    let mut at: HashMap<(u32, u32, u64), Vec<u32>> = HashMap::new();
    for (id, arc) in graph.arcs.iter().enumerate().rev() {
        at.entry(ends(arc.from, arc.to, arc.rate)).or_default().push(id as u32);
    }
    let moved = |arc: &super::Arc| {
        let [from, to] = [arc.from, arc.to].map(|node| image[node as usize].expect("all images are known"));
        at.get_mut(&ends(from, to, arc.rate))?.pop()
    };
    graph.arcs.iter().map(moved).collect()
}

/// All products of some permutations; `None` if they are too many.
fn closed(identity: &Permutation, generators: &[Permutation]) -> Option<Vec<Permutation>> {
    let most = MOST.min(MOST_MOVES / (identity.arcs.len() + identity.ranks.len()).max(1));
    let mut group = vec![identity.clone()];
    let mut seen: HashSet<Vec<u32>> = HashSet::from([identity.ranks.clone()]);
    let mut at = 0;
    while at < group.len() {
        checkpoint();
        for generator in generators {
            let ranks: Vec<u32> = group[at].ranks.iter().map(|&rank| generator.ranks[rank as usize]).collect();
            if seen.insert(ranks.clone()) {
                if group.len() == most {
                    return None;
                }
                let arcs = group[at].arcs.iter().map(|&arc| generator.arcs[arc as usize]).collect();
                group.push(Permutation { ranks, arcs });
            }
        }
        at += 1;
    }
    Some(group)
}
