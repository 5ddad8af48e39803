//! The linear program of plans that are known: how much of each, so that the busiest arc is through soonest.
//!
//! Minimise T and what the plans cost besides, where the plans of every root add up to one and the load of every arc `e` is
//! at most its rate times T. A revised simplex method on a dense inverse of the basis; the prices of arcs are the duals of
//! their rows (G. B. Dantzig and P. Wolfe, "Decomposition principle for linear programs", Operations Research 1960).

use antiphon_base::watch::checkpoint;

/// What a plan loads: arcs, and bytes on each for every byte of the collective.
pub type Loads = [(u32, f64)];

/// What is in the basis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BasisEntry {
    Time,
    /// What an arc has left.
    Slack(u32),
    Plan(u32),
}

/// Reduced costs and pivots below these are none.
const COST: f64 = 1e-10;
const PIVOT: f64 = 1e-9;
/// Relative room of every arc at the start, about: without it many vertices are one, and the method goes round.
const ROOM: f64 = 1e-9;
/// Pivots after which the inverse is computed anew.
const FRESH: usize = 400;
/// Plans that are tried after all have been looked at.
const TRIED: usize = 64;

/// Plans, and the best mixture of them.
pub struct Master {
    rates: Vec<f64>,
    roots: usize,
    /// Root of every plan; its loads are `loads[first[p]..first[p + 1]]`.
    root: Vec<u32>,
    first: Vec<usize>,
    loads: Vec<(u32, f64)>,
    costs: Vec<f64>,
    /// Rows are those of arcs, then of roots.
    basis: Vec<BasisEntry>,
    is_basic: Vec<bool>,
    /// The inverse of the basis, column by column, and which columns have no entry but a one in their own row: mostly those of arcs
    /// that are not the limit.
    inverse: Vec<f64>,
    is_unit: Vec<bool>,
    values: Vec<f64>,
    /// Of all rows.
    duals: Vec<f64>,
    time_row: usize,
    room: Vec<f64>,
    pivots: usize,
}

impl Master {
    /// With a first plan of every root, and its cost.
    pub fn new<'a>(rates: Vec<f64>, plans: impl IntoIterator<Item = (f64, &'a Loads)>) -> Master {
        let mut master = Master {
            rates,
            roots: 0,
            root: vec![],
            first: vec![0],
            loads: vec![],
            costs: vec![],
            basis: vec![],
            is_basic: vec![],
            inverse: vec![],
            is_unit: vec![],
            values: vec![],
            duals: vec![],
            time_row: 0,
            room: vec![],
            pivots: 0,
        };
        for (cost, loads) in plans {
            master.add(master.roots as u32, cost, loads);
            master.roots += 1;
        }
        let mut busy = vec![0.0; master.rates.len()];
        master.loads.iter().for_each(|&(arc, load)| busy[arc as usize] += load);
        let times = || busy.iter().zip(&master.rates).map(|(busy, rate)| busy / rate);
        let time = times().fold(0.0, f64::max);
        let busiest = times().position(|other| other == time).unwrap_or(0);
        // Different for every arc, in no order.
        let part = |arc: usize| 0.5 + (arc as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as f64 / u64::MAX as f64;
        master.room = master.rates.iter().enumerate().map(|(arc, rate)| ROOM * time * rate * part(arc)).collect();
        master.basis = (0..master.rates.len() as u32).map(BasisEntry::Slack).collect();
        master.basis[busiest] = BasisEntry::Time;
        master.basis.extend((0..master.roots as u32).map(BasisEntry::Plan));
        master.is_basic.fill(true);
        master.factor();
        master
    }

    fn rows(&self) -> usize {
        self.rates.len() + self.roots
    }

    /// Adds a plan; returns its number.
    pub fn add(&mut self, root: u32, cost: f64, loads: &Loads) -> u32 {
        self.root.push(root);
        self.costs.push(cost);
        self.loads.extend_from_slice(loads);
        self.first.push(self.loads.len());
        self.is_basic.push(false);
        self.root.len() as u32 - 1
    }

    /// Loads of a plan.
    pub fn loads(&self, plan: u32) -> &Loads {
        &self.loads[self.first[plan as usize]..self.first[plan as usize + 1]]
    }

    /// Root of a plan.
    pub fn root(&self, plan: u32) -> u32 {
        self.root[plan as usize]
    }

    /// Picoseconds for every byte.
    pub fn time(&self) -> f64 {
        self.values[self.time_row]
    }

    /// The time, and what the plans cost.
    pub fn objective(&self) -> f64 {
        self.basis.iter().zip(&self.values).map(|(&basic, value)| self.cost(basic) * value).sum()
    }

    /// Plans and how much of each.
    pub fn amounts(&self) -> Vec<(u32, f64)> {
        let amount = |(basic, &value): (&BasisEntry, &f64)| match basic {
            BasisEntry::Plan(plan) if value > 1e-9 => Some((*plan, value)),
            _ => None,
        };
        let mut amounts: Vec<(u32, f64)> = self.basis.iter().zip(&self.values).filter_map(amount).collect();
        amounts.sort_unstable_by_key(|amount| amount.0);
        amounts
    }

    /// The price of every arc; prices times rates add up to one.
    pub fn prices(&self) -> Vec<f64> {
        self.duals[..self.rates.len()].iter().map(|dual| (-dual).max(0.0)).collect()
    }

    /// By how much a plan is dearer than the cheapest of its root that is known, its price and other cost together.
    pub fn dearer(&self, root: u32, cost: f64, loads: &Loads) -> f64 {
        let price: f64 = loads.iter().map(|&(arc, load)| -self.duals[arc as usize] * load).sum();
        cost + price - self.duals[self.rates.len() + root as usize]
    }

    /// Reduced cost of what is not in the basis.
    fn reduced(&self, basic: BasisEntry) -> f64 {
        match basic {
            BasisEntry::Plan(plan) => self.dearer(self.root(plan), self.costs[plan as usize], self.loads(plan)),
            BasisEntry::Slack(arc) => -self.duals[arc as usize],
            BasisEntry::Time => 0.0,
        }
    }

    /// What a unit of a variable costs.
    fn cost(&self, basic: BasisEntry) -> f64 {
        match basic {
            BasisEntry::Time => 1.0,
            BasisEntry::Slack(_) => 0.0,
            BasisEntry::Plan(plan) => self.costs[plan as usize],
        }
    }

    /// Finds the best mixture. Some thousand pivots at most, each O(rows^2).
    pub fn solve(&mut self) {
        let scale = self.time();
        for _ in 0..4 * self.rows() + 100 {
            checkpoint();
            let slacks = (0..self.rates.len() as u32).map(BasisEntry::Slack);
            let plans = (0..self.root.len() as u32).filter(|&plan| !self.is_basic[plan as usize]).map(BasisEntry::Plan);
            // A slack counts as what its arc moves in a unit of time.
            let scaled = |basic: BasisEntry| match basic {
                BasisEntry::Slack(arc) => self.reduced(basic) * self.rates[arc as usize],
                _ => self.reduced(basic),
            };
            let found = slacks.chain(plans).map(|basic| (scaled(basic), basic));
            let mut found: Vec<(f64, BasisEntry)> = found.filter(|one| one.0 < -COST * scale).collect();
            if found.is_empty() {
                return;
            }
            if found.len() > TRIED {
                found.select_nth_unstable_by(TRIED, |a, b| a.0.total_cmp(&b.0));
                found.truncate(TRIED);
            }
            found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            let mut changed = false;
            for (_, basic) in found {
                let cost = match basic {
                    BasisEntry::Slack(arc) => self.reduced(basic) * self.rates[arc as usize],
                    _ => self.reduced(basic),
                };
                changed |= cost < -COST * scale && self.enter(basic);
            }
            if !changed {
                return;
            }
        }
    }

    /// A basic variable's column.
    fn column(&self, basic: BasisEntry, mut visit: impl FnMut(usize, f64)) {
        match basic {
            BasisEntry::Time => self.rates.iter().enumerate().for_each(|(arc, rate)| visit(arc, -rate)),
            BasisEntry::Slack(arc) => visit(arc as usize, 1.0),
            BasisEntry::Plan(plan) => {
                self.loads(plan).iter().for_each(|&(arc, load)| visit(arc as usize, load));
                visit(self.rates.len() + self.root(plan) as usize, 1.0);
            }
        }
    }

    /// How the basis' variables fall as one rises. O(rows) for each of its loads whose column is no unit.
    fn along(&self, basic: BasisEntry) -> Vec<f64> {
        let rows = self.rows();
        let mut direction = vec![0.0; rows];
        self.column(basic, |at, value| {
            if self.is_unit[at] {
                direction[at] += value;
                return;
            }
            let column = &self.inverse[at * rows..][..rows];
            direction.iter_mut().zip(column).for_each(|(along, entry)| *along += entry * value);
        });
        direction
    }

    /// Brings a variable into the basis; whether it could.
    fn enter(&mut self, basic: BasisEntry) -> bool {
        let rows = self.rows();
        let direction = self.along(basic);
        let largest = direction.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        let steps = |row: usize| (direction[row] > PIVOT * largest).then(|| self.values[row].max(0.0) / direction[row]);
        let Some(least) = (0..rows).filter_map(steps).min_by(f64::total_cmp) else { return false };
        // Of rows that leave at about the same time the one with the largest pivot, but never the time.
        let late = least * (1.0 + 1e-9) + 1e-15;
        let leaves = |&row: &usize| row != self.time_row && steps(row).is_some_and(|step| step <= late);
        let Some(row) = (0..rows).filter(leaves).max_by(|&a, &b| direction[a].total_cmp(&direction[b])) else {
            return false;
        };
        let step = self.values[row].max(0.0) / direction[row];
        let along = self.reduced(basic) / direction[row];
        let leaving = self.inverse.iter().skip(row).step_by(rows);
        self.duals.iter_mut().zip(leaving).for_each(|(dual, entry)| *dual += along * entry);
        if let BasisEntry::Plan(plan) = self.basis[row] {
            self.is_basic[plan as usize] = false;
        }
        if let BasisEntry::Plan(plan) = basic {
            self.is_basic[plan as usize] = true;
        }
        self.basis[row] = basic;
        self.values.iter_mut().zip(&direction).for_each(|(value, along)| *value -= step * along);
        self.values[row] = step;
        self.pivot(row, &direction);
        self.pivots += 1;
        if self.pivots.is_multiple_of(FRESH) {
            self.factor();
        }
        true
    }

    /// Computes the inverse and the values from the basis.
    fn factor(&mut self) {
        let rows = self.rows();
        self.inverse = vec![0.0; rows * rows];
        self.is_unit = vec![true; rows];
        (0..rows).for_each(|row| self.inverse[row * rows + row] = 1.0);
        let basis = std::mem::take(&mut self.basis);
        let mut placed: Vec<Option<BasisEntry>> = vec![None; rows];
        // Slacks are in their own rows, and change nothing.
        for &basic in &basis {
            if let BasisEntry::Slack(arc) = basic {
                placed[arc as usize] = Some(basic);
            }
        }
        for basic in basis.into_iter().filter(|basic| !matches!(basic, BasisEntry::Slack(_))) {
            let direction = self.along(basic);
            let free = (0..rows).filter(|&row| placed[row].is_none());
            let row = free
                .max_by(|&a, &b| direction[a].abs().total_cmp(&direction[b].abs()))
                .expect("as many rows as columns");
            placed[row] = Some(basic);
            self.pivot(row, &direction);
        }
        self.basis = placed.into_iter().map(|basic| basic.expect("every row has its own")).collect();
        self.time_row = self.basis.iter().position(|&basic| basic == BasisEntry::Time).expect("the time stays");
        let costs: Vec<f64> = self.basis.iter().map(|&basic| self.cost(basic)).collect();
        let limits = self.room.iter().copied().chain(std::iter::repeat(1.0));
        self.values = vec![0.0; rows];
        self.duals = costs.clone();
        for ((at, column), limit) in self.inverse.chunks_exact(rows).enumerate().zip(limits) {
            if self.is_unit[at] {
                self.values[at] += limit;
                continue;
            }
            self.values.iter_mut().zip(column).for_each(|(value, entry)| *value += entry * limit);
            self.duals[at] = column.iter().zip(&costs).map(|(entry, cost)| entry * cost).sum();
        }
    }

    /// Makes a column, as the inverse sees it, that of a row. O(rows) for each column that is no unit.
    fn pivot(&mut self, row: usize, direction: &[f64]) {
        self.is_unit[row] = false;
        let columns = self.inverse.chunks_exact_mut(direction.len()).zip(&self.is_unit);
        for (column, _) in columns.filter(|(column, is_unit)| !**is_unit && column[row] != 0.0) {
            let own = column[row] / direction[row];
            column.iter_mut().zip(direction).for_each(|(entry, along)| *entry -= own * along);
            column[row] = own;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a plan loads on each of so many arcs, and its cost.
    fn plan(arcs: usize) -> impl Strategy<Value = (Vec<u32>, u32)> {
        (prop::collection::vec(0u32..4, arcs), 0u32..4)
    }

    /// Root, cost and loads of a plan.
    type Known = (usize, f64, Vec<(u32, f64)>);

    proptest! {
        /// Amounts and prices that are feasible and of equal worth are the best (linear programming duality).
        #[test]
        fn what_is_found_proves_itself(
            rates in prop::collection::vec(1u32..5, 5),
            first in prop::collection::vec(plan(5), 1..5),
            more in prop::collection::vec((any::<prop::sample::Index>(), plan(5)), 0..40),
            costly in any::<bool>(),
        ) {
            let loads = |(loads, _): &(Vec<u32>, u32)| -> Vec<(u32, f64)> {
                // The first arc is always used, so that no time is zero.
                (0..).zip(loads).map(|(arc, &load)| (arc, f64::from(load) + f64::from(u32::from(arc == 0)))).collect()
            };
            let cost = |plan: &(Vec<u32>, u32)| if costly { f64::from(plan.1) / 8.0 } else { 0.0 };
            let rates: Vec<f64> = rates.into_iter().map(f64::from).collect();
            let mut known: Vec<Known> =
                first.iter().enumerate().map(|(root, plan)| (root, cost(plan), loads(plan))).collect();
            let mut master = Master::new(rates.clone(), known.iter().map(|plan| (plan.1, plan.2.as_slice())));
            // Some at a time, as they are generated.
            for (at, (root, plan)) in more.iter().enumerate() {
                let root = root.index(first.len());
                known.push((root, cost(plan), loads(plan)));
                master.add(root as u32, cost(plan), &loads(plan));
                if at % 3 == 0 {
                    master.solve();
                }
            }
            master.solve();
            let (mut sums, mut busy, mut paid) = (vec![0.0; first.len()], [0.0; 5], master.time());
            for (plan, amount) in master.amounts() {
                let (root, cost, loads) = &known[plan as usize];
                sums[*root] += amount;
                paid += amount * cost;
                loads.iter().for_each(|&(arc, load)| busy[arc as usize] += amount * load);
            }
            prop_assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-7), "{sums:?}");
            for (busy, rate) in busy.iter().zip(&rates) {
                prop_assert!(*busy <= rate * master.time() * (1.0 + 1e-7), "{busy} {rate} {}", master.time());
            }
            let prices = master.prices();
            let worth: f64 = prices.iter().zip(&rates).map(|(price, rate)| price * rate).sum();
            prop_assert!((worth - 1.0).abs() < 1e-7, "{worth}");
            let price = |plan: &(usize, f64, Vec<(u32, f64)>)| {
                plan.1 + plan.2.iter().map(|&(arc, load)| prices[arc as usize] * load).sum::<f64>()
            };
            let cheapest = |root: usize| known.iter().filter(|plan| plan.0 == root).map(price).fold(f64::INFINITY, f64::min);
            let least: f64 = (0..first.len()).map(cheapest).sum();
            prop_assert!((least / paid - 1.0).abs() < 1e-6, "{least} {paid}");
            prop_assert!((master.objective() / paid - 1.0).abs() < 1e-6);
        }
    }

    /// One root's data over two ways of rates 1 and 3: a quarter over the one; or none where it costs too much.
    #[test]
    fn two_ways_share_by_their_rates() {
        for (cost, amounts, time) in [(0.0, vec![(0, 0.25), (1, 0.75)], 0.25), (2.0, vec![(1, 1.0)], 1.0 / 3.0)] {
            let mut master = Master::new(vec![1.0, 3.0], [(cost, &[(0, 1.0)][..])]);
            assert_eq!(master.add(0, 0.0, &[(1, 1.0)]), 1);
            master.solve();
            assert!((master.time() - time).abs() < 1e-6);
            for ((plan, found), (expected, amount)) in master.amounts().into_iter().zip(amounts) {
                assert!(plan == expected && (found - amount).abs() < 1e-6, "{plan} {found}");
            }
        }
    }
}
