//! Segments for the shortest messages first.

use super::demand::Demands;
use super::room::with_segment;
use antiphon_base::watch::checkpoint;
use antiphon_model::fabric::NodeId;
use antiphon_model::fabric::aries::{Aries, Configuration, Segment};
use std::collections::HashSet;

/// A dedicated segment for each pair in a row or column that exchanges messages and is not joined by the mesh, the nearest
/// first, as long as wires are free; ports are taken from mesh links between routers that send each other nothing, and of which
/// all ranks can still reach each other. What is left goes the shortest ways (ARIES, DATE 2024, section IV-B1).
/// O(pairs * links).
pub fn greedy(aries: &Aries, base: &Configuration, demands: &Demands) -> Configuration {
    let sends: HashSet<(NodeId, NodeId)> =
        demands.to.iter().flat_map(|(to, list)| list.iter().map(|(from, _)| (*from, *to))).collect();
    let segments = sends.iter().filter_map(|&(from, to)| aries.segment(from, to));
    let length = |segment: &Segment| segment.from.abs_diff(segment.to);
    let mut segments: Vec<Segment> = segments.filter(|segment| length(segment) > 1).collect();
    segments.sort_unstable_by_key(|segment| (length(segment), *segment));
    let mut at = base.clone();
    for segment in segments {
        checkpoint();
        let next = with_segment(aries, &at, segment, |now, links| {
            let is_spare = |ends| !sends.contains(&ends) && reaches(aries, now, ends);
            links.iter().position(|&(ends, place)| place.is_none() && is_spare(ends))
        });
        at = next.unwrap_or(at);
    }
    at
}

/// Whether one end of a mesh link reaches the other without it.
fn reaches(aries: &Aries, configuration: &Configuration, without: (NodeId, NodeId)) -> bool {
    let mut out: Vec<Vec<NodeId>> = vec![vec![]; (aries.sizes[0] * aries.sizes[1]) as usize];
    let mesh = aries.mesh_links().filter(|ends| *ends != without && !configuration.is_detached(*ends));
    let segments = configuration.segments.iter().map(|&segment| aries.ends(segment));
    mesh.chain(segments).for_each(|(from, to)| out[from as usize].push(to));
    let mut seen = vec![false; out.len()];
    let mut stack = vec![without.0];
    while let Some(node) = stack.pop() {
        if !std::mem::replace(&mut seen[node as usize], true) {
            stack.extend(&out[node as usize]);
        }
    }
    seen[without.1 as usize]
}
