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

/// The segments on a line along a dimension, with their places.
fn on_line(of: &Configuration, dimension: usize, line: u32) -> impl Iterator<Item = (usize, Segment)> {
    let first = of.segments.partition_point(|s| (s.dimension, s.line) < (dimension, line));
    let there = of.segments[first..].iter().take_while(move |s| (s.dimension, s.line) == (dimension, line));
    there.enumerate().map(move |(at, &segment)| (first + at, segment))
}

/// The segments in the direction of one that pass a gap of its line.
fn passing(aries: &Aries, of: &Configuration, segment: Segment, gap: u32) -> Vec<Obstacle> {
    let passes = |s: &Segment| s.ascends() == segment.ascends() && s.from.min(s.to) <= gap && gap < s.from.max(s.to);
    let there = on_line(of, segment.dimension, segment.line).filter(|(_, other)| passes(other));
    there.map(|(at, other)| (aries.ends(other), Some(at))).collect()
}

/// The links out of a node, or into it, that take ports of a class.
fn attached(aries: &Aries, of: &Configuration, node: NodeId, outgoing: bool, class: usize) -> Vec<Obstacle> {
    let place = [node / aries.sizes[1], node % aries.sizes[1]];
    let takes = |s: &Segment| aries.ports.class_of(s.dimension, s.ascends() == outgoing).0 == class;
    let ends_here = |s: &Segment| place[s.dimension] == if outgoing { s.from } else { s.to };
    let mesh = aries.mesh_links_of(node, outgoing).filter(|&ends| !of.is_detached(ends));
    let mesh = mesh.filter(|&(from, to)| aries.segment(from, to).is_some_and(|s| takes(&s)));
    let bypasses = (0..2).flat_map(|dimension| on_line(of, dimension, place[1 - dimension]));
    let bypasses = bypasses.filter(|(_, other)| ends_here(other) && takes(other));
    mesh.map(|ends| (ends, None)).chain(bypasses.map(|(at, other)| (aries.ends(other), Some(at)))).collect()
}
