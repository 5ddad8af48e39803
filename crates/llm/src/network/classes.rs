//! Links that are alike: thousands become tens, and nothing changes.

use super::flow::GroupFlow;
use std::collections::HashMap;

/// Ratios of shares are the same if they differ by less than one in this: sums of floating-point numbers differ by less.
const STEPS: f64 = (1u64 << 40) as f64;

/// Links on which all flows have the same shares, up to a factor: if the fullest can carry them, all can.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkClass {
    /// The fullest of them, of several the first.
    pub link: u32,
    /// How many they are.
    pub links: u32,
    /// Flows on them, ascending, and the share of the fullest link's rate that each takes by itself.
    pub shares: Vec<(u32, f64)>,
    /// Whether it can limit flows: no other class has as large a share of each of its flows.
    pub limits: bool,
}

/// The classes of some flows' links.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkClasses {
    /// In the order of their first links.
    pub classes: Vec<LinkClass>,
    /// For every flow the classes that limit it, and its shares of them.
    pub(super) limits: Vec<Vec<(u32, f64)>>,
}

impl LinkClasses {
    /// The classes of flows. O(loads * log loads), and the square of classes that one flow has.
    pub fn new(flows: &[GroupFlow]) -> Self {
        let loads = (0..).zip(flows).flat_map(|(flow, of): (u32, _)| of.loads().iter().map(move |load| (load, flow)));
        let mut all: Vec<(u32, u32, f64)> = loads.map(|(load, flow)| (load.link, flow, load.share)).collect();
        all.sort_unstable_by_key(|&(link, flow, _)| (link, flow));
        let (mut classes, mut known) = (Vec::<LinkClass>::new(), HashMap::new());
        for of in all.chunk_by(|one, next| one.0 == next.0) {
            let most = of.iter().map(|load| load.2).fold(0.0, f64::max);
            let key: Vec<_> =
                of.iter().map(|&(_, flow, share)| (flow, (share / most * STEPS).round() as u64)).collect();
            let shares = || of.iter().map(|&(_, flow, share)| (flow, share)).collect();
            let class: usize = *known.entry(key).or_insert(classes.len());
            match classes.get_mut(class) {
                None => classes.push(LinkClass { link: of[0].0, links: 1, shares: shares(), limits: true }),
                Some(found) => {
                    found.links += 1;
                    if of[0].2 > found.shares[0].1 * (1.0 + 1.0 / STEPS) {
                        (found.link, found.shares) = (of[0].0, shares());
                    }
                }
            }
        }
        let mut limits = vec![vec![]; flows.len()];
        for (class, of) in (0..).zip(&classes) {
            of.shares.iter().for_each(|&(flow, share)| limits[flow as usize].push((class, share)));
        }
        for class in 0..classes.len() {
            let others = &limits[classes[class].shares[0].0 as usize];
            let is_covered = others.iter().any(|&(other, _)| {
                other as usize != class && {
                    let other = &classes[other as usize];
                    other.limits && covers(&other.shares, &classes[class].shares)
                }
            });
            classes[class].limits = !is_covered;
        }
        for of in &mut limits {
            of.retain(|&(class, _)| classes[class as usize].limits);
        }
        LinkClasses { classes, limits }
    }

    /// The class of the links that take a flow longest by itself; of several the first.
    pub fn bottleneck(&self, flow: u32) -> Option<&LinkClass> {
        let most = |most: (u32, f64), of: &(u32, f64)| if of.1 > most.1 * (1.0 + 1.0 / STEPS) { *of } else { most };
        let limits = &self.limits[flow as usize];
        limits.iter().copied().reduce(|found, of| most(found, &of)).map(|(class, _)| &self.classes[class as usize])
    }
}

/// Whether the first has at least the share of every flow of the second.
fn covers(shares: &[(u32, f64)], others: &[(u32, f64)]) -> bool {
    shares.len() >= others.len()
        && others.iter().all(|&(flow, share)| {
            let at = shares.binary_search_by_key(&flow, |own| own.0);
            at.is_ok_and(|at| shares[at].1 >= share * (1.0 - 1.0 / STEPS))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{FlowForm, wiring};
    use antiphon_model::collective::Kind;

    #[test]
    fn links_of_a_large_system_are_few_classes() {
        let wiring = wiring("dgx-h100:2048").unwrap();
        let strided = |stride: u32, size: u32| -> Vec<Vec<u32>> {
            let first = (0..wiring.ranks()).filter(|rank| (rank / stride).is_multiple_of(size));
            first.map(|rank| (0..size).map(|at| rank + stride * at).collect()).collect()
        };
        let form = FlowForm::Collective(Kind::AllReduce);
        let flows = [strided(1, 8), strided(8, 2), strided(16, 64), strided(1024, 2)]
            .map(|groups| GroupFlow::new(&*wiring, form, &groups));
        let found = LinkClasses::new(&flows);
        // Links to and from GPUs, and those of NICs.
        assert_eq!(found.classes.iter().map(|class| class.links).collect::<Vec<_>>(), [32_768, 32_768]);
        assert_eq!(found.classes[1].shares, [(1, 1.0), (2, 1.0), (3, 1.0)]);
        assert_eq!(found.bottleneck(2), Some(&found.classes[1]));
        assert_eq!(found.limits, [vec![(0, 1.0)], vec![(1, 1.0)], vec![(1, 1.0)], vec![(1, 1.0)]]);
    }

    #[test]
    fn the_fullest_limits() {
        let wiring = wiring("dgx-h100:3").unwrap();
        let flow = |pairs: &[[u32; 2]]| {
            let pairs: Vec<Vec<u32>> = pairs.iter().map(|pair| pair.to_vec()).collect();
            GroupFlow::new(&*wiring, FlowForm::Message, &pairs)
        };
        let flows = [flow(&[[0, 8], [0, 16], [2, 10], [3, 11]]), flow(&[[2, 10]]), flow(&[[0, 8]])];
        let classes = LinkClasses::new(&flows).classes;
        let named: Vec<String> = classes.iter().map(|class| wiring.name(class.link)).collect();
        let found =
            classes.iter().zip(&named).map(|(class, name)| (&**name, class.links, &*class.shares, class.limits));
        let names = ["gpu0.0>rail0", "gpu0.2>rail2", "gpu0.3>rail3", "rail0>gpu1.0"];
        let shares = [vec![(0, 1.0), (2, 1.0)], vec![(0, 0.5), (1, 1.0)], vec![(0, 0.5)], vec![(0, 0.5), (2, 1.0)]];
        let expected = [(names[0], 1, &*shares[0], true), (names[1], 2, &shares[1], true)];
        assert_eq!(found.clone().take(2).collect::<Vec<_>>(), expected);
        let expected = [(names[2], 3, &*shares[2], false), (names[3], 1, &shares[3], false)];
        assert_eq!(found.skip(2).collect::<Vec<_>>(), expected);
    }
}
