//! Segments for the shortest messages first.

use super::demand::Demands;
use antiphon_base::error::Result;
use antiphon_base::watch::Watch;
use antiphon_model::fabric::NodeId;
use antiphon_model::fabric::aries::{Aries, Configuration, Segment};
use std::collections::HashSet;

/// A dedicated segment for each pair in a row or column that exchanges messages and is not joined by the mesh, the nearest
/// first, as long as wires are free; ports are taken from mesh links between routers that send each other nothing, and of which
/// all ranks can still reach each other. What is left goes the shortest ways (ARIES, DATE 2024, section IV-B1).
/// O(pairs * links).
///
/// # Errors
/// [`antiphon_base::error::Code::Interrupted`].
pub fn greedy(aries: &Aries, base: &Configuration, demands: &Demands, watch: Watch) -> Result<Configuration> {
    let sends: HashSet<(NodeId, NodeId)> =
        demands.to.iter().flat_map(|(to, list)| list.iter().map(|(from, _)| (*from, *to))).collect();
    let segments = sends.iter().filter_map(|&(from, to)| aries.segment(from, to));
    let length = |segment: &Segment| segment.from.abs_diff(segment.to);
    let mut segments: Vec<Segment> = segments.filter(|segment| length(segment) > 1).collect();
    segments.sort_unstable_by_key(|segment| (length(segment), *segment));
    let mut routers = Routers::new(aries, base);
    let count = segments.len();
    for (place, segment) in segments.into_iter().enumerate() {
        watch.at(place * 1024, count * 1024)?;
        routers.try_segment(segment, &sends);
    }
    Ok(Configuration::new(routers.segments, routers.detached.into_iter().collect()))
}

/// A part of a wire between neighbours: dimension, line, whether it ascends, the lower position, which wire.
type Gap = (usize, u32, bool, u32, u32);

/// What wires and ports are in use.
struct Routers<'a> {
    aries: &'a Aries,
    segments: Vec<Segment>,
    detached: HashSet<(NodeId, NodeId)>,
    /// Links out of and into every router by class of ports.
    used: Vec<[[usize; 4]; 2]>,
    /// Where segments are.
    passing: HashSet<Gap>,
}

impl<'a> Routers<'a> {
    fn new(aries: &'a Aries, base: &Configuration) -> Self {
        let nodes = (aries.sizes[0] * aries.sizes[1]) as usize;
        let mut routers = Routers {
            aries,
            segments: vec![],
            detached: base.detached.iter().copied().collect(),
            used: vec![[[0; 4]; 2]; nodes],
            passing: HashSet::new(),
        };
        for ends in aries.mesh_links().filter(|ends| !base.is_detached(*ends)) {
            routers.count(ends, 1);
        }
        for &segment in &base.segments {
            routers.add(segment);
        }
        routers
    }

    /// The classes of ports of a link, at its start and at its end.
    fn classes(&self, (from, to): (NodeId, NodeId)) -> [(NodeId, usize, usize); 2] {
        let of = |own, other| {
            let way = self.aries.segment(own, other).expect("links are along lines");
            self.aries.ports.class_of(way.dimension, way.ascends())
        };
        let ((out, out_room), (into, into_room)) = (of(from, to), of(to, from));
        [(from, out, out_room), (to, into, into_room)]
    }

    fn count(&mut self, ends: (NodeId, NodeId), by: isize) {
        for (direction, (node, class, _)) in self.classes(ends).into_iter().enumerate() {
            let used = &mut self.used[node as usize][direction][class];
            *used = used.wrapping_add_signed(by);
        }
    }

    /// The places on wires that a segment takes: by gap the first wire that is free there. `None` if none is.
    fn wires(&self, segment: Segment) -> Option<Vec<Gap>> {
        let gaps = segment.from.min(segment.to)..segment.from.max(segment.to);
        let place = |gap, wire| (segment.dimension, segment.line, segment.ascends(), gap, wire);
        gaps.map(|gap| (0..self.aries.wires).map(|wire| place(gap, wire)).find(|at| !self.passing.contains(at)))
            .collect()
    }

    fn add(&mut self, segment: Segment) {
        self.passing.extend(self.wires(segment).unwrap_or_default());
        self.count(self.aries.ends(segment), 1);
        self.segments.push(segment);
    }

    /// Adds a segment if wires are free and ports are, or can be freed.
    fn try_segment(&mut self, segment: Segment, sends: &HashSet<(NodeId, NodeId)>) {
        if self.wires(segment).is_none() {
            return;
        }
        let ends = self.aries.ends(segment);
        let mut freed = vec![];
        for (direction, (node, class, room)) in self.classes(ends).into_iter().enumerate() {
            if self.used[node as usize][direction][class] < room {
                continue;
            }
            let same_class = |&link: &(NodeId, NodeId)| self.classes(link)[direction].1 == class;
            let idle = |link: &(NodeId, NodeId)| !self.detached.contains(link) && !sends.contains(link);
            let links: Vec<_> =
                self.aries.mesh_links_of(node, direction == 0).filter(|link| idle(link) && same_class(link)).collect();
            let Some(link) = links.into_iter().find(|&link| self.is_spare(link)) else {
                // What was freed for its start is not needed.
                freed.into_iter().for_each(|link| {
                    self.detached.remove(&link);
                    self.count(link, 1);
                });
                return;
            };
            self.detached.insert(link);
            self.count(link, -1);
            freed.push(link);
        }
        self.add(segment);
    }

    /// Whether one end of a mesh link still reaches the other without it.
    fn is_spare(&self, without: (NodeId, NodeId)) -> bool {
        let (from, to) = without;
        let mut out: Vec<Vec<NodeId>> = vec![vec![]; self.used.len()];
        self.segments.iter().map(|&segment| self.aries.ends(segment)).for_each(|(a, b)| out[a as usize].push(b));
        let mut seen = vec![false; self.used.len()];
        seen[from as usize] = true;
        let mut stack = vec![from];
        while let Some(node) = stack.pop() {
            let mesh = self.aries.mesh_links_of(node, true);
            let mesh = mesh.filter(|ends| *ends != without && !self.detached.contains(ends)).map(|(_, other)| other);
            for next in mesh.chain(out[node as usize].iter().copied()) {
                if next == to {
                    return true;
                }
                if !std::mem::replace(&mut seen[next as usize], true) {
                    stack.push(next);
                }
            }
        }
        false
    }
}
