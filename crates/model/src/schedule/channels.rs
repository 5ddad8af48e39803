//! Which links carry messages together.

use super::Schedule;
use crate::fabric::{Fabric, LinkId};
use std::collections::{BTreeMap, HashMap};

/// A *channel* is a link by itself, or all links with the ends of one of [`Schedule::bundled_links`].
pub struct Channels {
    /// First link of every link's channel.
    first: Vec<LinkId>,
    /// Links of channels that were bundled, by their first.
    bundles: BTreeMap<LinkId, Vec<LinkId>>,
}

impl Channels {
    /// The channels of a fabric, where all links with the ends of one of `bundled` act together. O(links).
    pub fn new(fabric: &Fabric, bundled: impl IntoIterator<Item = LinkId>) -> Channels {
        let ends = |id: LinkId| (fabric.link(id).from, fabric.link(id).to);
        let mut first: Vec<LinkId> = (0..fabric.links.len() as LinkId).collect();
        let mut bundled: HashMap<_, Option<LinkId>> = bundled.into_iter().map(|id| (ends(id), None)).collect();
        let mut bundles: BTreeMap<LinkId, Vec<LinkId>> = BTreeMap::new();
        for id in 0..if bundled.is_empty() { 0 } else { first.len() as LinkId } {
            if let Some(leader) = bundled.get_mut(&ends(id)) {
                first[id as usize] = *leader.get_or_insert(id);
                bundles.entry(first[id as usize]).or_default().push(id);
            }
        }
        Channels { first, bundles }
    }

    /// The first link of a link's channel, which stands for it.
    pub fn first_of(&self, link: LinkId) -> LinkId {
        self.first[link as usize]
    }

    /// Links of the channel that `first` stands for.
    pub fn links(&self, first: LinkId) -> &[LinkId] {
        self.bundles.get(&first).map_or(std::slice::from_ref(&self.first[first as usize]), Vec::as_slice)
    }

    /// Divides what the first link of each channel has among its links, by weight.
    pub fn share(&self, amounts: &mut [u64], weight: impl Fn(LinkId) -> u64) {
        for (&first, links) in &self.bundles {
            let mut amount = amounts[first as usize];
            let mut weights: u128 = links.iter().map(|&id| weight(id) as u128).sum();
            for &id in links {
                let part = (amount as u128 * weight(id) as u128 / weights.max(1)) as u64;
                amounts[id as usize] = part;
                amount -= part;
                weights -= weight(id) as u128;
            }
        }
    }
}

impl Schedule {
    /// The channels of a fabric, whose links it has been checked against. O(links).
    pub fn channels(&self, fabric: &Fabric) -> Channels {
        Channels::new(fabric, self.bundled_links.iter().copied())
    }
}
