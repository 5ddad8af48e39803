//! What a fabric is, at a glance.

use super::{Fabric, Link};
use std::collections::HashMap;

/// Most dimensions that [`Fabric::describe`] lists.
const LISTED: usize = 8;

impl Fabric {
    /// One line: ranks, switches (excluded ranks among them), directed links, links of each dimension.
    pub fn describe(&self) -> String {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        let mut index = HashMap::new();
        for link in &self.links {
            let at = *index.entry(link.dimension.as_str()).or_insert_with(|| {
                counts.push((&link.dimension, 0));
                counts.len() - 1
            });
            counts[at].1 += 1;
        }
        let listed: Vec<String> = counts.iter().take(LISTED).map(|(label, n)| format!("{label} {n}")).collect();
        format!(
            "{}, {}, {}, {} ({}{})",
            count(self.ranks(), "rank", "ranks"),
            count(self.nodes.len() - self.ranks(), "switch", "switches") + &self.describe_computing(),
            count(self.links.len(), "directed link", "directed links"),
            count(counts.len(), "dimension", "dimensions"),
            listed.join(", "),
            if counts.len() > LISTED { ", ..." } else { "" },
        )
    }

    /// How many of its switches add and multicast, if some do.
    fn describe_computing(&self) -> String {
        match self.computing_switches().count() {
            0 => String::new(),
            1 if self.nodes.len() == self.ranks() + 1 => " that adds and multicasts".into(),
            some => format!(", {some} of which add and multicast"),
        }
    }

    /// Whether every link has its own link back, of the same rate, latency, speed and length; parallel links
    /// count. O(links log links).
    pub fn is_symmetric(&self) -> bool {
        let ends = |link: &Link, from, to| (from, to, link.rate, link.latency, link.speed_permille, link.length_um);
        let mut there: Vec<_> = self.links.iter().map(|l| ends(l, l.from, l.to)).collect();
        let mut back: Vec<_> = self.links.iter().map(|l| ends(l, l.to, l.from)).collect();
        there.sort_unstable();
        back.sort_unstable();
        there == back
    }
}

fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes() {
        for (spec, text) in [
            ("mesh:8x4", "32 ranks, 0 switches, 104 directed links, 2 dimensions (y 56, x 48)"),
            ("switch:4", "4 ranks, 1 switch, 8 directed links, 1 dimension (host 8)"),
            (
                "switch:4,switches=in-tree",
                "4 ranks, 1 switch that adds and multicasts, 8 directed links, 1 dimension (host 8)",
            ),
        ] {
            assert_eq!(Fabric::parse(spec).unwrap().describe(), text);
        }
    }

    #[test]
    fn symmetry() {
        for (spec, symmetric) in [
            ("mesh:3x3", true),
            ("bigraph:2", true),
            ("mesh:3x3,drop=0-1", true),
            ("mesh:3x3,drop=0>1", false),
            ("mesh:3x3,slow=0-1:0.5", true),
            ("mesh:3x3,slow=0>1:0.5", false),
        ] {
            assert_eq!(Fabric::parse(spec).unwrap().is_symmetric(), symmetric, "{spec}");
        }
    }
}
