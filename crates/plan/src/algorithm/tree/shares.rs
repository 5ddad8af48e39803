//! Shares in whole units: pieces of trees that fill the flits or packets in which they are sent.

use std::cmp::Reverse;

/// Sizes of trees such that those of each group sum to `units`, in about the proportions of `sizes`: at least one each, and rounded so
/// that as many as possible are next to their exact share. `None` if a group has more trees than units. O(trees * log trees).
pub(super) fn whole(sizes: &[u32], groups: &[usize], units: u64) -> Option<Vec<u32>> {
    let count = groups.iter().max().map_or(0, |most| most + 1);
    let (mut sums, mut trees) = (vec![0u64; count], vec![0u64; count]);
    for (&size, &group) in sizes.iter().zip(groups) {
        sums[group] += u64::from(size);
        trees[group] += 1;
    }
    if units > u64::from(u32::MAX) || trees.iter().any(|&trees| trees > units) {
        return None;
    }
    // Of a tree: whole units, and what is left of its exact share, in parts of a unit over the group's sum.
    let exact = |size: u32| u128::from(units) * u128::from(size);
    let mut whole: Vec<u32> = vec![];
    let mut left: Vec<i128> = vec![];
    let mut missing = vec![units as i64; count];
    for (&size, &group) in sizes.iter().zip(groups) {
        let units = ((exact(size) / u128::from(sums[group])) as u32).max(1);
        whole.push(units);
        left.push(exact(size) as i128 - i128::from(units) * i128::from(sums[group]));
        missing[group] -= i64::from(units);
    }
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&tree| (Reverse(left[tree]), tree));
    for &tree in &order {
        if missing[groups[tree]] > 0 {
            whole[tree] += 1;
            missing[groups[tree]] -= 1;
        }
    }
    // Trees that got one unit though less was theirs.
    while missing.iter().any(|&missing| missing < 0) {
        for &tree in order.iter().rev() {
            if missing[groups[tree]] < 0 && whole[tree] > 1 {
                whole[tree] -= 1;
                missing[groups[tree]] += 1;
            }
        }
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_largest_remainders_are_rounded_up() {
        let sizes = [5, 3, 2, 7, 7, 1];
        let groups = [0, 0, 0, 1, 1, 1];
        assert_eq!(whole(&sizes, &groups, 10).unwrap(), [5, 3, 2, 5, 4, 1]);
        assert_eq!(whole(&sizes, &groups, 4).unwrap(), [2, 1, 1, 2, 1, 1]);
        assert_eq!(whole(&sizes, &groups, 3).unwrap(), [1; 6]);
        assert_eq!(whole(&sizes, &groups, 2), None);
        assert_eq!(whole(&[1, 1], &[0, 0], 1 << 33), None);
    }

    proptest! {
        /// Every unit of every group is some tree's, and none has a unit more or less than its exact share where all have one.
        #[test]
        fn shares_sum_to_the_units(
            trees in prop::collection::vec((1u32..70_000, 0usize..4), 1..40),
            units in 1u64..100_000,
        ) {
            // Groups that have trees, numbered.
            let mut known: Vec<usize> = trees.iter().map(|tree| tree.1).collect();
            known.sort_unstable();
            known.dedup();
            let sizes: Vec<u32> = trees.iter().map(|tree| tree.0).collect();
            let groups: Vec<usize> = trees.iter().map(|tree| known.binary_search(&tree.1).unwrap()).collect();
            let of = |group: usize| (0..sizes.len()).filter(|&tree| groups[tree] == group).collect::<Vec<_>>();
            let found = whole(&sizes, &groups, units);
            prop_assert_eq!(found.is_none(), (0..known.len()).any(|group| of(group).len() as u64 > units));
            for group in (0..known.len()).map(of) {
                let Some(found) = &found else { break };
                let sum: u64 = group.iter().map(|&tree| u64::from(sizes[tree])).sum();
                let exact = |tree: usize| units as f64 * f64::from(sizes[tree]) / sum as f64;
                prop_assert_eq!(group.iter().map(|&tree| u64::from(found[tree])).sum::<u64>(), units);
                prop_assert!(group.iter().all(|&tree| found[tree] > 0));
                if group.iter().all(|&tree| exact(tree) >= 1.0) {
                    let near = |&tree: &usize| (f64::from(found[tree]) - exact(tree)).abs() < 1.0 + 1e-9;
                    prop_assert!(group.iter().all(near), "{found:?}");
                }
            }
        }
    }
}
