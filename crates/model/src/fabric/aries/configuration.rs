//! What is attached to what, and whether wires and ports allow it.

use super::{Aries, LABELS};
use crate::fabric::NodeId;
use antiphon_base::error::{Code, Error, Result};

/// A part of a bypass wire, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Segment {
    /// 0 along a column, 1 along a row.
    pub dimension: usize,
    /// Which column or row.
    pub line: u32,
    /// Position on the line from which it sends.
    pub from: u32,
    /// Position at which it ends.
    pub to: u32,
}

impl Segment {
    /// The same part in the other direction.
    pub fn reversed(self) -> Segment {
        Segment { from: self.to, to: self.from, ..self }
    }

    /// Whether it leads to greater positions.
    pub fn ascends(self) -> bool {
        self.from < self.to
    }

    /// The line's name: `x3` for row 3, `y3` for column 3.
    pub fn name(self) -> String {
        format!("{}{}", LABELS[self.dimension], self.line)
    }
}

/// Which segments there are, and which mesh links are not attached.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Configuration {
    /// In order; one that is there twice takes two wires.
    pub segments: Vec<Segment>,
    /// Mesh links without a port, by their ends, in order.
    pub detached: Vec<(NodeId, NodeId)>,
}

/// Where a link goes in or out of a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Side {
    /// 0 for `y`, 1 for `x`.
    pub dimension: usize,
    /// Towards greater positions.
    pub plus: bool,
}

impl Side {
    /// `+x`, `-x`, `+y` or `-y`.
    pub fn name(self) -> String {
        format!("{}{}", if self.plus { '+' } else { '-' }, LABELS[self.dimension])
    }

    /// All four, in the order of `RouterPorts`.
    pub const ALL: [Side; 4] = [
        Side { dimension: 1, plus: true },
        Side { dimension: 1, plus: false },
        Side { dimension: 0, plus: true },
        Side { dimension: 0, plus: false },
    ];
}

/// What a port attaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attached {
    /// Its mesh link.
    Mesh,
    /// A bypass.
    Bypass(Segment),
}

/// The four output or input ports of a router.
pub type RouterPorts = [Option<Attached>; 4];

impl Configuration {
    /// In order.
    pub fn new(mut segments: Vec<Segment>, mut detached: Vec<(NodeId, NodeId)>) -> Configuration {
        segments.sort_unstable();
        detached.sort_unstable();
        detached.dedup();
        Configuration { segments, detached }
    }

    /// Refuses what the wires or the ports do not allow.
    ///
    /// # Errors
    /// [`Code::BadSpec`] with the wire or port, the segment and what it conflicts with.
    pub fn check(&self, aries: &Aries) -> Result<()> {
        for &segment in &self.segments {
            self.check_range(aries, segment)?;
        }
        if let Some((from, to)) = self.detached.iter().find(|&&(from, to)| !aries.are_neighbours(from, to)) {
            return Err(bad(format!("there is no mesh link from {from} to {to} to detach")));
        }
        self.check_wires(aries)?;
        self.ports(aries).map(|_| ())
    }

    fn check_range(&self, aries: &Aries, segment: Segment) -> Result<()> {
        let name = segment.name();
        let (lines, along) = (aries.sizes[1 - segment.dimension], aries.sizes[segment.dimension]);
        let kind = if segment.dimension == 0 { "column" } else { "row" };
        if segment.line >= lines {
            return Err(bad(format!("{name}: there is no {kind} {}; they are 0 to {}", segment.line, lines - 1)));
        }
        if let Some(end) = [segment.from, segment.to].into_iter().find(|&end| end >= along) {
            return Err(bad(format!("{name}: segment {segment} ends at {end}; positions are 0 to {}", along - 1)));
        }
        if segment.from == segment.to {
            return Err(bad(format!("{name}: segment {segment} joins a router to itself")));
        }
        Ok(())
    }

    /// No gap between two routers is passed by more segments than there are wires. Intervals of which at most so many
    /// meet anywhere fit on so many wires. O(segments * length).
    fn check_wires(&self, aries: &Aries) -> Result<()> {
        let mut passing = std::collections::HashMap::<_, Vec<Segment>>::new();
        for &segment in &self.segments {
            let (low, high) = (segment.from.min(segment.to), segment.from.max(segment.to));
            for gap in low..high {
                let others = passing.entry((segment.dimension, segment.line, segment.ascends(), gap)).or_default();
                others.push(segment);
                if others.len() > aries.wires as usize {
                    let list: Vec<String> = others.iter().map(Segment::to_string).collect();
                    let wires =
                        if aries.wires == 1 { "is 1 wire".into() } else { format!("are {} wires", aries.wires) };
                    return Err(bad(format!(
                        "{}: segments {} overlap between {gap} and {}, where there {wires} in that direction",
                        segment.name(),
                        list.join(" and "),
                        gap + 1
                    )));
                }
            }
        }
        Ok(())
    }

    /// What the output and the input ports of every router attach, `+x`, `-x`, `+y`, `-y`: mesh links their own port,
    /// then each bypass the first port that takes it.
    ///
    /// # Errors
    /// [`Code::BadSpec`] for a segment for which no port is free.
    pub fn ports(&self, aries: &Aries) -> Result<[Vec<RouterPorts>; 2]> {
        let count = (aries.sizes[0] * aries.sizes[1]) as usize;
        let mut ports = [vec![RouterPorts::default(); count], vec![RouterPorts::default(); count]];
        let [rows, columns] = aries.sizes;
        for node in 0..rows * columns {
            let place = aries.place(node);
            for (port, side) in Side::ALL.into_iter().enumerate() {
                let at = place[side.dimension];
                let next = if side.plus { at + 1 } else { at.wrapping_sub(1) };
                if next >= aries.sizes[side.dimension] {
                    continue;
                }
                let other = aries.node(side.dimension, place[1 - side.dimension], next);
                for (ports, ends) in ports.iter_mut().zip([(node, other), (other, node)]) {
                    if !self.is_detached(ends) {
                        ports[node as usize][port] = Some(Attached::Mesh);
                    }
                }
            }
        }
        for &segment in &self.segments {
            let (from, to) = aries.ends(segment);
            // Where it ends it comes from the other side.
            for (direction, (node, plus)) in
                [(from, segment.ascends()), (to, !segment.ascends())].into_iter().enumerate()
            {
                let class = |dimension, plus| aries.ports.class_of(dimension, plus);
                let takes = |side: Side| class(side.dimension, side.plus) == class(segment.dimension, plus);
                let at = &mut ports[direction][node as usize];
                match (0..4).find(|&port| at[port].is_none() && takes(Side::ALL[port])) {
                    Some(port) => at[port] = Some(Attached::Bypass(segment)),
                    None => return Err(no_port(aries, segment, node, direction, at, takes)),
                }
            }
        }
        Ok(ports)
    }

    /// Whether the mesh link between two neighbours is not attached.
    pub fn is_detached(&self, ends: (NodeId, NodeId)) -> bool {
        self.detached.binary_search(&ends).is_ok()
    }
}

/// A segment finds no port at a node.
fn no_port(
    aries: &Aries,
    segment: Segment,
    node: NodeId,
    direction: usize,
    at: &RouterPorts,
    takes: impl Fn(Side) -> bool,
) -> Error {
    let place = aries.place(node);
    let taken = Side::ALL.into_iter().zip(at).filter(|(side, _)| takes(*side)).map(|(side, attached)| {
        let what = match attached {
            Some(Attached::Bypass(other)) => format!("segment {} {other}", other.name()),
            _ => {
                let [row, column] = place;
                let (row, column) = match (side.dimension, side.plus) {
                    (0, true) => (row + 1, column),
                    (0, false) => (row - 1, column),
                    (_, true) => (row, column + 1),
                    (_, false) => (row, column - 1),
                };
                let other = row * aries.sizes[1] + column;
                let (from, to) = if direction == 0 { (node, other) } else { (other, node) };
                format!("mesh link {from}>{to}")
            }
        };
        format!("{} {what}", side.name())
    });
    let taken: Vec<String> = taken.collect();
    let way = ["out of", "into"][direction];
    bad(format!(
        "{}: segment {segment} finds no free port {way} router {node}: {}; leave one away, or detach a mesh link by off=",
        segment.name(),
        taken.join(", ")
    ))
}

impl std::fmt::Display for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}>{}", self.from, self.to)
    }
}

fn bad(why: impl AsRef<str>) -> Error {
    Error::new(Code::BadSpec, why)
}
