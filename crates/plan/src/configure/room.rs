//! Room for a segment on wires and at ports.

use antiphon_model::fabric::NodeId;
use antiphon_model::fabric::aries::{Aries, Configuration, Segment};
use std::borrow::Cow;

/// A link in the way of a segment: the nodes that it joins, and its place among the segments; a mesh link has none.
pub type Obstacle = ((NodeId, NodeId), Option<usize>);

/// A configuration with a segment added, or with the mesh link between the same routers if that is detached.
///
/// Where a wire or the ports at an end are full, `yields` is given the configuration so far and the links there, and says the place of the one
/// that goes; the segment is not added if none may. O(segments * length).
pub fn with_segment(
    aries: &Aries,
    base: &Configuration,
    segment: Segment,
    yields: impl Fn(&Configuration, &[Obstacle]) -> Option<usize>,
) -> Option<Configuration> {
    let ends = aries.ends(segment);
    let is_mesh = base.is_detached(ends);
    let mut next = Cow::Borrowed(base);
    let mut clear = |room: usize, obstacles: &dyn Fn(&Configuration) -> Vec<Obstacle>| {
        loop {
            let there = obstacles(&next);
            if there.len() < room {
                return Some(());
            }
            match there[yields(&next, &there)?] {
                (_, Some(at)) => drop(next.to_mut().segments.remove(at)),
                (ends, None) => {
                    let detached = &mut next.to_mut().detached;
                    detached.insert(detached.partition_point(|other| *other < ends), ends);
                }
            }
        }
    };
    let gaps = segment.from.min(segment.to)..segment.from.max(segment.to);
    for gap in gaps.filter(|_| !is_mesh) {
        clear(aries.wires as usize, &|now| passing(aries, now, segment, gap))?;
    }
    for (node, outgoing, plus) in [(ends.0, true, segment.ascends()), (ends.1, false, !segment.ascends())] {
        let (class, room) = aries.ports.class_of(segment.dimension, plus);
        clear(room, &|now| attached(aries, now, node, outgoing, class))?;
    }
    let Configuration { mut segments, mut detached } = next.into_owned();
    if is_mesh {
        detached.retain(|other| *other != ends);
    } else {
        segments.push(segment);
    }
    Some(Configuration::new(segments, detached))
}

/// The segments in the direction of one that pass a gap of its line.
fn passing(aries: &Aries, of: &Configuration, segment: Segment, gap: u32) -> Vec<Obstacle> {
    let way = |s: &Segment| (s.dimension, s.line, s.ascends());
    let passes = |s: &Segment| way(s) == way(&segment) && s.from.min(s.to) <= gap && gap < s.from.max(s.to);
    let segments = of.segments.iter().enumerate().filter(|(_, other)| passes(other));
    segments.map(|(at, &other)| (aries.ends(other), Some(at))).collect()
}

/// The links out of a node, or into it, that take ports of a class.
fn attached(aries: &Aries, of: &Configuration, node: NodeId, outgoing: bool, class: usize) -> Vec<Obstacle> {
    let uses = |&((from, to), _): &Obstacle| {
        let (own, other) = if outgoing { (from, to) } else { (to, from) };
        let side = || aries.segment(own, other).map(|s| aries.ports.class_of(s.dimension, s.ascends()).0);
        own == node && side() == Some(class)
    };
    let mesh = aries.mesh_links_of(node, outgoing).filter(|ends| !of.is_detached(*ends)).map(|ends| (ends, None));
    let bypasses = of.segments.iter().enumerate().map(|(at, &other)| (aries.ends(other), Some(at)));
    mesh.chain(bypasses).filter(uses).collect()
}
