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

/// Share of a buffer that a node sends over each dimension if it goes through them in an order.
fn sent(sizes: &[u64], order: &[usize]) -> Vec<f64> {
    let (mut sent, mut part) = (vec![0.0; sizes.len()], 1.0);
    for &number in order {
        sent[number] = part * (1.0 - 1.0 / sizes[number] as f64);
        part /= sizes[number] as f64;
    }
    sent
}

/// Orders of dimensions, at most as many as dimensions, and shares of the data for each that together are the split of
/// [`levels`]. O(2^dimensions * dimensions^2).
///
/// An order is taken for as much as leaves the rest a mixture of orders; at that point the dimensions of some set carry
/// all they can, so that in the orders still to come they are before others. That is so first for the later levels.
pub fn orders(sizes: &[u64], rates: &[f64]) -> Vec<(Vec<usize>, f64)> {
    let inside = |set: usize, number: usize| set >> number & 1 == 1;
    let sum = |values: &[f64], set| -> f64 {
        values.iter().enumerate().filter(|&(number, _)| inside(set, number)).map(|(_, value)| value).sum()
    };
    let levels = levels(sizes, rates);
    let mut rest = vec![0.0; sizes.len()];
    // Dimensions of one go before those of the next.
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    for &(set, time) in levels.iter().rev() {
        let block: Vec<usize> = (0..sizes.len()).filter(|&number| inside(set, number)).collect();
        block.iter().for_each(|&number| rest[number] = rates[number] * time);
        blocks.push(block);
    }
    let (mut left, mut orders) = (1.0, Vec::new());
    loop {
        let order = blocks.concat();
        let by_order = sent(sizes, &order);
        // How much of the rest may go in this order, and the set that then carries all it can.
        let (mut most, mut full) = (1.0, None);
        for set in 1..1usize << sizes.len() {
            let all = sent_first(sizes, set);
            let (room, of_rest) = (all - sum(&by_order, set), (all - sum(&rest, set)).max(0.0));
            if room > TOLERANCE && of_rest / room < most - TOLERANCE {
                (most, full) = (of_rest / room, Some(set));
            }
        }
        // What is left of rounding is no order of its own.
        let Some(full) = full.filter(|_| most < 1.0 - ROUNDING) else {
            orders.push((order, left));
            return orders;
        };
        if most > ROUNDING {
            orders.push((order, left * most));
        }
        for (rest, sent) in rest.iter_mut().zip(by_order) {
            *rest = (*rest - most * sent) / (1.0 - most);
        }
        left *= 1.0 - most;
        let split = |block: Vec<usize>| -> [Vec<usize>; 2] {
            let (first, later) = block.into_iter().partition(|&number| inside(full, number));
            [first, later]
        };
        blocks = blocks.into_iter().flat_map(split).filter(|block| !block.is_empty()).collect();
    }
}

/// Numbers within this of each other are equal.
const TOLERANCE: f64 = 1e-9;
/// Shares below this are none.
const ROUNDING: f64 = 1e-7;

/// `parts` whole parts divided as `shares`, which add up to 1.
fn divide(shares: &[f64], parts: u64) -> Vec<u64> {
    let exact: Vec<f64> = shares.iter().map(|share| share * parts as f64).collect();
    let mut whole: Vec<u64> = exact.iter().map(|share| (share + TOLERANCE) as u64).collect();
    let mut largest: Vec<usize> = (0..shares.len()).collect();
    largest.sort_by(|&a, &b| (exact[b] - whole[b] as f64).total_cmp(&(exact[a] - whole[a] as f64)));
    let missing = parts.saturating_sub(whole.iter().sum());
    largest.iter().take(missing as usize).for_each(|&at| whole[at] += 1);
    whole
}

/// [`orders`] with whole numbers, together at most `most`, for shares: the fewest with which the busiest dimension
/// carries at most 0.5 % more, or those with which it carries least.
pub fn whole_orders(sizes: &[u64], rates: &[f64], most: u64) -> Vec<(Vec<usize>, u64)> {
    let (orders, shares): (Vec<Vec<usize>>, Vec<f64>) = orders(sizes, rates).into_iter().unzip();
    let busiest = |parts: &[u64]| {
        let mut load = vec![0.0; sizes.len()];
        for (order, &parts) in orders.iter().zip(parts) {
            let sent = sent(sizes, order);
            load.iter_mut().zip(&sent).zip(rates).for_each(|((load, sent), rate)| *load += sent * parts as f64 / rate);
        }
        load.into_iter().fold(0.0, f64::max) / parts.iter().sum::<u64>() as f64
    };
    let least = levels(sizes, rates).first().map_or(0.0, |&(_, time)| time);
    let mut best = (f64::INFINITY, Vec::new());
    for parts in 1..=most {
        let whole = divide(&shares, parts);
        let time = busiest(&whole);
        if time < best.0 {
            best = (time, whole);
        }
        if best.0 <= 1.005 * least {
            break;
        }
    }
    orders.into_iter().zip(best.1).filter(|(_, parts)| *parts > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_fast_dimension_comes_first() {
        let sizes = [4, 4, 4];
        // Eight times as fast as either other: too fast for what can go over it.
        assert_eq!(levels(&sizes, &[8.0, 1.0, 1.0])[0].0, 0b110);
        assert_eq!(orders(&sizes, &[8.0, 1.0, 1.0]), [(vec![0, 1, 2], 0.5), (vec![0, 2, 1], 0.5)]);
        assert_eq!(whole_orders(&sizes, &[8.0, 1.0, 1.0], 64), [(vec![0, 1, 2], 1), (vec![0, 2, 1], 1)]);
        // Between: dimensions in a circle, whichever way, do not reach it.
        let between = orders(&sizes, &[5.3, 1.0, 1.0]);
        assert_eq!(between.iter().map(|(order, _)| &order[..]).collect::<Vec<_>>(), [[0, 1, 2], [0, 2, 1], [2, 0, 1]]);
        assert_eq!(levels(&sizes, &[5.3, 1.0, 1.0])[0].0, 0b111);
        assert_eq!(divide(&[0.5, 0.3, 0.2], 7), [4, 2, 1]);
    }

    proptest! {
        #[test]
        fn orders_make_the_split(dimensions in prop::collection::vec((2u64..9, 1u32..40), 1..6)) {
            let sizes: Vec<u64> = dimensions.iter().map(|(size, _)| *size).collect();
            let rates: Vec<f64> = dimensions.iter().map(|(_, rate)| f64::from(*rate)).collect();
            let orders = orders(&sizes, &rates);
            prop_assert!(orders.len() <= sizes.len());
            let all: f64 = orders.iter().map(|(_, share)| share).sum();
            prop_assert!((all - 1.0).abs() < 1e-6, "{all}");
            for (set, time) in levels(&sizes, &rates) {
                for number in (0..sizes.len()).filter(|number| set >> number & 1 == 1) {
                    let carried: f64 = orders.iter().map(|(order, share)| share * sent(&sizes, order)[number]).sum();
                    prop_assert!((carried - rates[number] * time).abs() < 1e-6, "{carried} {}", rates[number] * time);
                }
            }
            let (mut busiest, whole) = (0f64, whole_orders(&sizes, &rates, 64));
            let parts = whole.iter().map(|(_, parts)| *parts).sum::<u64>() as f64;
            for (number, rate) in rates.iter().enumerate() {
                let carried: f64 = whole.iter().map(|(order, parts)| *parts as f64 * sent(&sizes, order)[number]).sum();
                busiest = busiest.max(carried / parts / rate);
            }
            prop_assert!(busiest <= 1.05 * levels(&sizes, &rates)[0].1);
        }
    }
}
