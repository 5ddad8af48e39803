//! The best split of what goes through a product over its dimensions.
//!
//! Data goes through the dimensions one after another, and each divides it by its size: orders decide which bytes go over
//! which dimension. A node can send at most `f(A) = 1 - 1 / prod(P_k)` of a buffer over the dimensions in a set `A` (when
//! they come first), and sends `f(all)` over all together. `f` is submodular, so by Edmonds' theorem mixtures of orders
//! reach every split that keeps to these limits, and a time `T` is enough just when for every set `S` of dimensions
//! `T * rate(S) >= f(all) - f(all but S)`: what must go over `S` however data is ordered. The same holds for spanning
//! trees that have all lines of one dimension, those of the next where they cross the centres of these, and so on.

/// Share of a buffer that a node sends over the dimensions in `set` if they come first.
pub fn sent_first(sizes: &[u64], set: usize) -> f64 {
    let members = sizes.iter().enumerate().filter(|(number, _)| set >> number & 1 == 1);
    1.0 - 1.0 / members.map(|(_, &size)| size as f64).product::<f64>()
}

/// The split of a buffer over dimensions with `rates` that keeps the slowest of them busy for the least time, then
/// those that are left: sets of dimensions that are busy equally long, and how long, from the longest on. Data uses
/// the dimensions of later sets before those of earlier ones (Edmonds' polymatroid greedy). O(2^dimensions) a level.
pub fn levels(sizes: &[u64], rates: &[f64]) -> Vec<(usize, f64)> {
    let (mut left, mut levels) = ((1usize << rates.len()) - 1, Vec::new());
    while left != 0 {
        let needed = |set: usize| {
            let together: f64 =
                (0..rates.len()).filter(|number| set >> number & 1 == 1).map(|number| rates[number]).sum();
            (sent_first(sizes, left) - sent_first(sizes, left & !set)) / together
        };
        let needs: Vec<(usize, f64)> =
            (1..=left).filter(|set| set & !left == 0).map(|set| (set, needed(set))).collect();
        // The largest set of those that need the longest time.
        let time = needs.iter().map(|(_, time)| *time).fold(0.0, f64::max);
        let longest = needs.iter().filter(|(_, needed)| *needed > time * (1.0 - 1e-9));
        let set = longest.map(|(set, _)| *set).max_by_key(|set| set.count_ones()).unwrap_or(left);
        levels.push((set, time));
        left &= !set;
    }
    levels
}

/// Orders of dimensions, with how often each is taken, whose mixture is near the split of [`levels`]: the busiest
/// dimension has at most 0.1 % more than there, or as little as `most` orders allow. O(2^dimensions + most * dimensions).
pub fn orders(sizes: &[u64], rates: &[f64], most: usize) -> Vec<(Vec<usize>, u64)> {
    let levels = levels(sizes, rates);
    let mut level = vec![(0, 0.0); sizes.len()];
    for (depth, &(set, time)) in levels.iter().enumerate() {
        (0..sizes.len()).filter(|number| set >> number & 1 == 1).for_each(|number| level[number] = (depth, time));
    }
    let best = levels.first().map_or(0.0, |&(_, time)| time);
    let (mut sent, mut taken) = (vec![0.0; sizes.len()], Vec::<Vec<usize>>::new());
    let mut nearest = (f64::INFINITY, 0);
    while taken.len() < most && nearest.0 > best * 1.001 {
        // In a level those first that are behind.
        let ahead = |number: usize| sent[number] / rates[number] - taken.len() as f64 * level[number].1;
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by(|&a, &b| level[b].0.cmp(&level[a].0).then(ahead(a).total_cmp(&ahead(b))));
        let mut part = 1.0;
        for &number in &order {
            sent[number] += part * (1.0 - 1.0 / sizes[number] as f64);
            part /= sizes[number] as f64;
        }
        taken.push(order);
        let busiest = sent.iter().zip(rates).map(|(sent, rate)| sent / rate).fold(0.0, f64::max);
        if busiest / (taken.len() as f64) < nearest.0 {
            nearest = (busiest / taken.len() as f64, taken.len());
        }
    }
    taken.truncate(nearest.1);
    taken.sort();
    taken.chunk_by(|one, next| one == next).map(|same| (same[0].clone(), same.len() as u64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn busiest(sizes: &[u64], rates: &[f64], orders: &[(Vec<usize>, u64)]) -> f64 {
        let (mut sent, mut count) = (vec![0.0; sizes.len()], 0.0);
        for (order, copies) in orders {
            let mut part = *copies as f64;
            count += part;
            for &number in order {
                sent[number] += part * (1.0 - 1.0 / sizes[number] as f64);
                part /= sizes[number] as f64;
            }
        }
        sent.iter().zip(rates).map(|(sent, rate)| sent / rate / count).fold(0.0, f64::max)
    }

    #[test]
    fn a_fast_dimension_comes_first() {
        // Eight times as fast as either other: too fast for what can go over it.
        let found = orders(&[4, 4, 4], &[8.0, 1.0, 1.0], 64);
        assert_eq!(found, [(vec![0, 1, 2], 1), (vec![0, 2, 1], 1)]);
        assert_eq!(levels(&[4, 4, 4], &[8.0, 1.0, 1.0])[0].0, 0b110);
        // Between: neither order of the circle does by itself.
        let between = [5.3, 1.0, 1.0];
        let bound = levels(&[4, 4, 4], &between)[0];
        assert_eq!(bound.0, 0b111);
        assert!(busiest(&[4, 4, 4], &between, &orders(&[4, 4, 4], &between, 64)) <= 1.005 * bound.1);
    }

    proptest! {
        #[test]
        fn few_orders_are_near_the_bound(dimensions in prop::collection::vec((2u64..9, 1u32..40), 1..5)) {
            let sizes: Vec<u64> = dimensions.iter().map(|(size, _)| *size).collect();
            let rates: Vec<f64> = dimensions.iter().map(|(_, rate)| f64::from(*rate)).collect();
            let bound = levels(&sizes, &rates)[0].1;
            let reached = busiest(&sizes, &rates, &orders(&sizes, &rates, 64));
            prop_assert!((bound * (1.0 - 1e-9)..1.02 * bound).contains(&reached), "{reached} {bound}");
        }
    }
}
