//! Meshes of more ranks than a fabric has.

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::clip;
use antiphon_model::fabric::{Fabric, Link};

/// Most ranks of a grid.
pub const MOST_RANKS: u32 = 1 << 17;
/// What other ranks and links than those of a mesh begin with.
const OTHER: [&str; 7] = ["drop=", "slow=", "exclude=", "dead=", "switches=", "express=", "concentration="];

/// A mesh of rows and columns, numbered row by row, whose links are all alike; without a list of nodes and links.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    name: String,
    sides: [u32; 2],
    link: Link,
}

impl Grid {
    /// The mesh of a specification of a fabric: `mesh:256x256@100/20ns`, up to 131,072 ranks.
    ///
    /// What stands behind the sides is read by [`Fabric::parse`], for a mesh of a few ranks.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] for other fabrics, and for links that are not all alike, [`Code::TooLarge`], and as
    /// [`Fabric::parse`].
    pub fn parse(spec: &str) -> Result<Grid> {
        let refuse = |code, what: &str| Err(Error::new(code, format!("fabric '{}': {what}", clip(spec))));
        let text = spec.strip_prefix("mesh:").unwrap_or("");
        let end = text.find(|c: char| !c.is_ascii_digit() && c != 'x').unwrap_or(text.len());
        let (sides, rest) = text.split_at(end);
        let sides: Vec<Option<u32>> = sides.split('x').map(|side| side.parse().ok()).collect();
        let [Some(rows), Some(columns)] = sides[..] else {
            return refuse(
                Code::NotApplicable,
                "with combs or ring, or more than 4096 ranks, only meshes of two dimensions are described; write for example \
                 mesh:256x256@100/20ns",
            );
        };
        if rows == 0 || columns == 0 {
            return refuse(Code::BadSpec, "each side is at least 1");
        }
        if rows.checked_mul(columns).is_none_or(|ranks| ranks > MOST_RANKS) {
            return refuse(Code::TooLarge, &format!("a described mesh has at most {MOST_RANKS} ranks"));
        }
        let is_other = |item: &str| OTHER.iter().any(|start| item.starts_with(start));
        if rest.contains('[') || rest.split([',', ':']).any(is_other) {
            let what = "a mesh is described at scale only whole, with its own ranks and links";
            return refuse(Code::NotApplicable, what);
        }
        // Three nodes in a line have all ports that those of a longer one have; they may share a rate.
        let small = format!("mesh:{}x{}{rest}", rows.min(3), columns.min(3));
        let in_words = |error: Error| Error { message: error.message.replace(&small, spec), ..error };
        let fabric = Fabric::parse(&small).map_err(in_words)?;
        let alike = |link: &Link| Link { from: 0, to: 0, dimension: String::new(), ..link.clone() };
        let link = alike(&fabric.links[0]);
        if fabric.links.iter().any(|other| alike(other) != link) {
            return refuse(
                Code::NotApplicable,
                "meshes are described at scale where rows and columns have links alike",
            );
        }
        Ok(Grid { name: spec.into(), sides: [rows, columns], link })
    }

    /// Its specification.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Rows and columns.
    pub fn sides(&self) -> [u32; 2] {
        self.sides
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.sides[0] * self.sides[1]
    }

    /// What all links are like.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Row and column of a rank.
    pub(super) fn place(&self, rank: u32) -> [u32; 2] {
        [rank / self.sides[1], rank % self.sides[1]]
    }

    /// Whether a link joins two ranks.
    pub(super) fn joins(&self, one: u32, other: u32) -> bool {
        let ([a, b], [c, d]) = (self.place(one), self.place(other));
        one.max(other) < self.ranks() && a.abs_diff(c) + b.abs_diff(d) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_base::units::Rate;

    #[test]
    fn a_grid_is_read_as_a_fabric() {
        let grid = Grid::parse("mesh:256x512@100/20ns").unwrap();
        assert_eq!((grid.sides(), grid.ranks(), grid.name()), ([256, 512], 1 << 17, "mesh:256x512@100/20ns"));
        assert_eq!((grid.link().rate, grid.link().latency), (Some(Rate::gb_per_s(100)), Some(20_000)));
        assert_eq!(Grid::parse("mesh:3x5").unwrap().link().rate, None);
        // Four ports share it, on a line two.
        for (spec, rate) in [("mesh:256x256:pitch=2mm,io=100GB/s", 25), ("mesh:1x64:io=100GB/s", 50)] {
            assert_eq!(
                Grid::parse(spec).unwrap().link(),
                &Link {
                    from: 0,
                    to: 0,
                    dimension: String::new(),
                    ..Fabric::parse(&spec.replace("256x256", "8x8")).unwrap().links[0].clone()
                }
            );
            assert_eq!(Grid::parse(spec).unwrap().link().rate, Some(Rate::gb_per_s(rate)));
        }
        assert!(grid.joins(0, 512) && grid.joins(1, 0) && !grid.joins(511, 512) && !grid.joins(0, 1 << 17));
        for (spec, code, what) in [
            ("torus:4x4", Code::NotApplicable, "only meshes"),
            ("mesh:4x4x4", Code::NotApplicable, "only meshes"),
            ("mesh", Code::NotApplicable, "only meshes"),
            ("mesh:99999999999x2", Code::NotApplicable, "only meshes"),
            ("mesh:0x4", Code::BadSpec, "at least 1"),
            ("mesh:1x1", Code::BadSpec, "at least 2"),
            ("mesh:512x257", Code::TooLarge, "at most 131072"),
            ("mesh:65536x65536", Code::TooLarge, "at most 131072"),
            ("mesh:8x8,drop=0-1", Code::NotApplicable, "only whole"),
            ("mesh:8x8[0,1]", Code::NotApplicable, "only whole"),
            ("mesh:256x256:express=4", Code::NotApplicable, "only whole"),
            ("mesh:8x8@100+50", Code::NotApplicable, "alike"),
            ("mesh:8x8@x", Code::BadSpec, "mesh:8x8@x"),
            ("mesh:8x8:colour=red", Code::UnknownName, "colour"),
        ] {
            let error = Grid::parse(spec).unwrap_err();
            assert!(error.code == code && error.message.contains(what), "{spec}: {error:?}");
        }
    }
}
