//! Certificate: why no schedule of the same collective can be much faster.

use crate::fabric::LinkId;
use serde::{Deserialize, Serialize};

/// Prices of links, from which a reader computes a time that no schedule is below: what the cheapest plan costs at these
/// prices, over what all links sell in a second (linear programming duality). Whatever the prices are, that is true; the right
/// ones make it close. `bound::certified` computes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The least time of any schedule over the time for which the busiest link of this one is busy, in millionths; what
    /// it claims.
    pub share_ppm: u32,
    /// Links with a price, in ascending order, and their prices: above zero, at most [`Certificate::MOST`].
    pub prices: Vec<(LinkId, u64)>,
}

impl Certificate {
    /// The highest price.
    pub const MOST: u64 = 1 << 32;

    /// From prices in whatever unit; none of zero or below. No claim yet.
    pub fn new(prices: impl IntoIterator<Item = (LinkId, f64)>) -> Certificate {
        let prices: Vec<(LinkId, f64)> = prices.into_iter().collect();
        let most = prices.iter().map(|price| price.1).fold(0.0, f64::max);
        let whole = |price: f64| (price / most * Certificate::MOST as f64).round() as u64;
        let whole = prices.into_iter().map(|(link, price)| (link, whole(price)));
        let mut prices: Vec<(LinkId, u64)> = whole.filter(|price| price.1 > 0).collect();
        prices.sort_unstable();
        Certificate { share_ppm: 0, prices }
    }

    /// What is out of range, if anything is, for a fabric of so many links.
    pub(super) fn wrong(&self, links: usize) -> Option<String> {
        if let Some(&(link, price)) =
            self.prices.iter().find(|&&(link, price)| link as usize >= links || price == 0 || price > Self::MOST)
        {
            return Some(format!("link {link} of {links} has price {price}; prices are 1 to {}", Self::MOST));
        }
        if !self.prices.is_sorted_by(|a, b| a.0 < b.0) {
            return Some("links with prices do not ascend".into());
        }
        if self.prices.is_empty() {
            return Some("no link has a price".into());
        }
        None
    }
}
