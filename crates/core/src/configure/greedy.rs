//! Segments for the shortest messages first.

use super::demand::Demands;
use super::estimate::Estimate;
use crate::fabric::NodeId;
use crate::fabric::aries::{Aries, Configuration, Segment};
use std::collections::HashSet;

/// A dedicated segment for each pair in a row or column that exchanges messages and is not joined by the mesh, the nearest
/// first, as long as wires are free; ports are taken from mesh links between routers that send each other nothing. What is
/// left goes the shortest ways (ARIES, DATE 2024, section IV-B1). O(pairs * ports of all routers).
pub fn greedy(aries: &Aries, demands: &Demands) -> Configuration {
    let sends: HashSet<(NodeId, NodeId)> =
        demands.to.iter().flat_map(|(to, list)| list.iter().map(|(from, _)| (*from, *to))).collect();
    let segments = sends.iter().filter_map(|&(from, to)| aries.segment(from, to));
    let length = |segment: &Segment| segment.from.abs_diff(segment.to);
    let mut segments: Vec<Segment> = segments.filter(|segment| length(segment) > 1).collect();
    segments.sort_unstable_by_key(|segment| (length(segment), *segment));
    let mut at = Estimate::new(aries, Configuration::default(), demands);
    for segment in segments {
        let Some(next) = freed(aries, &at.configuration, segment, &sends) else { continue };
        let next = Estimate::new(aries, next, demands);
        if next.cost.is_finite() {
            at = next;
        }
    }
    at.configuration
}

/// A configuration with a segment, and without mesh links that nobody needs where it takes their ports; `None` if it does
/// not fit.
fn freed(
    aries: &Aries,
    base: &Configuration,
    segment: Segment,
    sends: &HashSet<(NodeId, NodeId)>,
) -> Option<Configuration> {
    let segments = [&base.segments[..], &[segment]].concat();
    let (from, to) = aries.ends(segment);
    let idle = |node, outgoing| {
        let links =
            aries.mesh_links_of(node, outgoing).filter(|ends| !base.is_detached(*ends) && !sends.contains(ends));
        std::iter::once(None).chain(links.map(Some)).collect::<Vec<_>>()
    };
    let (starts, ends) = (idle(from, true), idle(to, false));
    let pairs = starts.iter().flat_map(|&start| ends.iter().map(move |&end| [start, end]));
    // With as few links as possible detached.
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort_by_key(|pair| pair.iter().flatten().count());
    pairs.into_iter().find_map(|pair| {
        let detached = base.detached.iter().copied().chain(pair.into_iter().flatten());
        let configuration = Configuration::new(segments.clone(), detached.collect());
        configuration.check(aries).is_ok().then_some(configuration)
    })
}
