//! Switches that add what ranks send and multiply what one sends: NVLink SHARP (NVLS) in a box, SHARP between boxes.

use super::{Fabric, NodeId};
use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::{Rate, clip};
use serde::{Deserialize, Serialize};

/// How a switch adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reduces {
    /// A rank reads the sum of a group of ranks that it is one of, and writes to all of such a group. The switch keeps nothing, so that
    /// a sum goes to one rank before it is multiplied, and the reader and the writer send and receive like the others (NVIDIA,
    /// "CUDA C++ Programming Guide", multimem instructions; NCCL's NVLS).
    OnRead,
    /// Messages are added as they come, and the sum goes on to any number of nodes (Graham et al., "SHARP", COMHPC 2016).
    InTree,
}

/// What a switch does with data besides passing them on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SwitchCompute {
    /// Whether it adds, and how.
    pub reduces: Option<Reduces>,
    /// Whether it sends what it has to several nodes.
    pub multicasts: bool,
    /// Bytes a second that it adds or multicasts from each of its links; as fast as they come if `None`.
    pub rate: Option<Rate>,
}

impl SwitchCompute {
    /// One that adds and multicasts as fast as its links.
    pub const fn of(reduces: Reduces) -> SwitchCompute {
        SwitchCompute { reduces: Some(reduces), multicasts: true, rate: None }
    }

    /// Whether who reads a sum, or writes to several, is one of the group.
    pub fn is_on_read(&self) -> bool {
        self.reduces == Some(Reduces::OnRead)
    }
}

/// What `switches=` knows.
const MODES: [(&str, Option<SwitchCompute>); 3] = [
    ("plain", None),
    ("on-read", Some(SwitchCompute::of(Reduces::OnRead))),
    ("in-tree", Some(SwitchCompute::of(Reduces::InTree))),
];

impl Reduces {
    /// What a file calls it.
    ///
    /// # Errors
    /// [`Code::BadFile`] for another word.
    pub(super) fn parse(text: &str) -> Result<Reduces> {
        match text {
            "on-read" => Ok(Reduces::OnRead),
            "in-tree" => Ok(Reduces::InTree),
            _ => Err(Error::new(Code::BadFile, format!("reduces is '{}', expected on-read or in-tree", clip(text)))),
        }
    }

    /// What a file calls it.
    pub fn name(self) -> &'static str {
        match self {
            Reduces::OnRead => "on-read",
            Reduces::InTree => "in-tree",
        }
    }
}

impl Fabric {
    /// Switches that add or multicast, in node order.
    pub fn computing_switches(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..).zip(&self.nodes).filter(|(_, node)| node.compute.is_some()).map(|(id, _)| id)
    }

    /// How fast a switch takes in what it adds or multicasts: at its rate from each link that leads to it; as it comes if `None`. O(links).
    pub fn adding_rate(&self, switch: NodeId) -> Option<Rate> {
        let rate = self.nodes[switch as usize].compute.and_then(|compute| compute.rate)?;
        let ports = self.links.iter().filter(|link| link.to == switch).count() as u64;
        Some(Rate(rate.0.saturating_mul(ports)))
    }

    /// Sets all switches to `MODE`, or those whose names begin with `PREFIX` by `PREFIX:MODE`: what `switches=` says.
    ///
    /// # Errors
    /// [`Code::BadSpec`] for another mode, or if there is no such switch.
    pub(super) fn set_switches(&mut self, text: &str) -> Result<()> {
        let (prefix, mode) = text.rsplit_once(':').unwrap_or(("", text));
        let names = || MODES.iter().map(|mode| mode.0);
        let Some(&(_, compute)) = MODES.iter().find(|known| known.0 == mode) else {
            let hint = nearest(mode, names());
            let known = names().collect::<Vec<_>>().join(", ");
            return Err(Error::new(Code::BadSpec, format!("no such kind of switches{hint}; known: {known}")));
        };
        let mut found = false;
        for node in self.nodes.iter_mut().filter(|node| node.rank.is_none() && node.name.starts_with(prefix)) {
            (node.compute, found) = (compute, true);
        }
        match found {
            true => Ok(()),
            false if prefix.is_empty() => Err(Error::new(Code::BadSpec, "it has no switches")),
            false => {
                Err(Error::new(Code::BadSpec, format!("it has no switch whose name begins with {}", clip(prefix))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_set_by_name() {
        let modes = |spec: &str| -> Vec<Option<Reduces>> {
            let fabric = Fabric::parse(spec).unwrap();
            let switches = fabric.nodes.iter().filter(|node| node.rank.is_none());
            switches.map(|node| node.compute.and_then(|compute| compute.reduces)).collect()
        };
        assert_eq!(modes("switch:4"), [None]);
        assert_eq!(modes("switch:4,switches=in-tree"), [Some(Reduces::InTree)]);
        assert_eq!(modes("switch:4,switches=on-read,switches=plain"), [None]);
        let rails = modes("dgx-h100:2,switches=plain,switches=rail:in-tree");
        assert_eq!(rails.iter().flatten().count(), 8);
        for (spec, why) in [
            ("switch:4,switches=fast", "no such kind of switches"),
            ("switch:4,switches=in-tre", "did you mean 'in-tree'?"),
            ("switch:4,switches=rail:plain", "no switch whose name begins with rail"),
            ("mesh:2x2,switches=in-tree", "it has no switches"),
        ] {
            let error = Fabric::parse(spec).unwrap_err();
            assert!(error.code == Code::BadSpec && error.message.contains(why), "{error}");
        }
    }
}
