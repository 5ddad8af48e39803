//! A wiring some of whose links are faster or slower.

use super::wiring::{AddBytes, Wiring};

/// A wiring, and by what the rate of each of its links is multiplied.
pub struct ChangedWiring<'a> {
    wiring: &'a dyn Wiring,
    factors: Vec<f64>,
}

impl<'a> ChangedWiring<'a> {
    /// A wiring whose `links` are `factor` times as fast. Routes stay the same.
    ///
    /// # Panics
    /// If there is no such link, or `factor` is not above 0.
    pub fn new(wiring: &'a dyn Wiring, links: &[u32], factor: f64) -> Self {
        assert!(factor > 0.0, "links carry something");
        let mut factors = vec![1.0; wiring.links() as usize];
        links.iter().for_each(|&link| factors[link as usize] = factor);
        ChangedWiring { wiring, factors }
    }
}

impl Wiring for ChangedWiring<'_> {
    fn ranks(&self) -> u32 {
        self.wiring.ranks()
    }

    fn links(&self) -> u32 {
        self.wiring.links()
    }

    fn rate(&self, link: u32) -> f64 {
        self.factors[link as usize] * self.wiring.rate(link)
    }

    fn latency_s(&self, link: u32) -> f64 {
        self.wiring.latency_s(link)
    }

    fn name(&self, link: u32) -> String {
        self.wiring.name(link)
    }

    fn machine(&self, rank: u32) -> u32 {
        self.wiring.machine(rank)
    }

    fn route(&self, from: u32, to: u32, links: &mut Vec<u32>) {
        self.wiring.route(from, to, links);
    }

    fn add_inside(&self, members: &[u32], bytes: f64, add: &mut AddBytes) {
        self.wiring.add_inside(members, bytes, add);
    }

    fn add_all_to_all(&self, machines: &[Vec<u32>], part: f64, leaving: f64, add: &mut AddBytes) {
        self.wiring.add_all_to_all(machines, part, leaving, add);
    }
}

/// Where links lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkPlaces {
    /// Links on routes between ranks of one box.
    pub inside: Vec<u32>,
    /// All others.
    pub between: Vec<u32>,
    /// Of them those that leave the first box first, and those that enter it last: its NICs.
    pub nics: [Vec<u32>; 2],
}

impl LinkPlaces {
    /// The places of a wiring's links. O(ranks * ranks of a box * route).
    pub fn new(wiring: &dyn Wiring) -> Self {
        let ranks = wiring.ranks();
        let (mut is_inside, mut route) = (vec![false; wiring.links() as usize], vec![]);
        // Ranks of a box follow each other, or are found by its name.
        let mut machines = std::collections::BTreeMap::<u32, Vec<u32>>::new();
        (0..ranks).for_each(|rank| machines.entry(wiring.machine(rank)).or_default().push(rank));
        for members in machines.values() {
            for (&from, &to) in members.iter().flat_map(|from| members.iter().map(move |to| (from, to))) {
                route.clear();
                wiring.route(from, to, &mut route);
                route.iter().for_each(|&link| is_inside[link as usize] = true);
            }
        }
        let mut nics = [vec![], vec![]];
        let mut boxes = machines.values();
        if let (Some(first), Some(second)) = (boxes.next(), boxes.next()) {
            for (at, &rank) in first.iter().enumerate() {
                let other = second[at % second.len()];
                for (way, (from, to)) in [(rank, other), (other, rank)].into_iter().enumerate() {
                    route.clear();
                    wiring.route(from, to, &mut route);
                    let mut outside = route.iter().filter(|&&link| !is_inside[link as usize]);
                    nics[way].extend(if way == 0 { outside.next() } else { outside.next_back() });
                }
            }
        }
        for of in &mut nics {
            of.sort_unstable();
            of.dedup();
        }
        let (inside, between) = (0..wiring.links()).partition(|&link| is_inside[link as usize]);
        LinkPlaces { inside, between, nics }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{FlowForm, GroupFlow, wiring};
    use antiphon_model::collective::Kind;

    #[test]
    fn places_of_links() {
        let boxes = wiring("dgx-h100:3:nics=4").unwrap();
        let places = LinkPlaces::new(&*boxes);
        assert_eq!((places.inside.len(), places.between.len()), (48, 24));
        let names = |of: &[u32]| of.iter().map(|&link| boxes.name(link)).collect::<Vec<_>>();
        let [out, into] = &places.nics;
        assert_eq!(names(out), ["nic0.0>rail0", "nic0.1>rail1", "nic0.2>rail2", "nic0.3>rail3"]);
        assert_eq!(names(into), ["rail0>nic0.0", "rail1>nic0.1", "rail2>nic0.2", "rail3>nic0.3"]);
        let ring = wiring("ring:4@25/1us").unwrap();
        let places = LinkPlaces::new(&*ring);
        assert_eq!((places.inside.len(), places.between.len()), (0, 8));
    }

    #[test]
    fn faster_links_take_less_time() {
        let boxes = wiring("dgx-h100:2@400/0ns+50/0ns").unwrap();
        let places = LinkPlaces::new(&*boxes);
        let time = |wiring: &dyn Wiring, group: &[u32]| {
            GroupFlow::new(wiring, FlowForm::Collective(Kind::AllGather), &[group.to_vec()]).time_alone_s(1e9)
        };
        let changed = ChangedWiring::new(&*boxes, &places.between, 2.0);
        assert_eq!(time(&changed, &[0, 8]), time(&*boxes, &[0, 8]) / 2.0);
        assert_eq!(time(&changed, &[0, 1]), time(&*boxes, &[0, 1]));
        let changed = ChangedWiring::new(&*boxes, &places.inside, 2.0);
        assert_eq!(time(&changed, &[0, 1]), time(&*boxes, &[0, 1]) / 2.0);
        assert_eq!(time(&changed, &[0, 8]), time(&*boxes, &[0, 8]));
        let changed = ChangedWiring::new(&*boxes, &places.nics[0], 0.5);
        assert_eq!(time(&changed, &[0, 8]), 2.0 * time(&*boxes, &[0, 8]));
    }
}
