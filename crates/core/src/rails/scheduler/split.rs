//! Orders whose loads follow the best split.

use super::Scheduler;
use crate::collective::Kind;
use crate::rails::plan::{Order, Path, Plan, StageTable};
use crate::rails::topology::Topology;

pub struct Split;

impl Scheduler for Split {
    fn schedule(&self, topology: &Topology, plan: &mut Plan) {
        let count = topology.dimensions.len();
        // seconds per byte
        let rates: Vec<f64> = topology.dimensions.iter().map(|d| d.rate.0 as f64).collect();
        let first = |set: usize| {
            let members = (0..count).filter(|number| set >> number & 1 == 1);
            1.0 - 1.0 / members.map(|number| topology.dimensions[number].size as f64).product::<f64>()
        };
        let mut left = (1usize << count) - 1;
        let mut level = vec![0; count];
        let mut target = vec![0.0; count];
        let mut number = 0;
        while left != 0 {
            let needed = |set: usize| (first(left) - first(left & !set)) / (0..count).filter(|n| set >> n & 1 == 1).map(|n| rates[n]).sum::<f64>();
            let subsets = || (1..=left).filter(move |set| set & !left == 0);
            let time = subsets().map(needed).fold(0.0, f64::max);
            let set = subsets().filter(|&set| needed(set) > time * (1.0 - 1e-9)).max_by_key(|set| set.count_ones()).unwrap();
            for n in (0..count).filter(|n| set >> n & 1 == 1) {
                level[n] = number;
                target[n] = time * plan.bytes as f64 / plan.orders.len() as f64 * 1e12;
            }
            number += 1;
            left &= !set;
        }
        let table = StageTable::new(topology, plan);
        let mut excess = vec![0.0; count];
        let norm = std::env::var("NORM").is_ok();
        for index in 0..plan.orders.len() {
            let mut take = |excess: &[f64]| {
                let mut path = Path::ascending(count);
                path.as_mut_slice().sort_by(|&a, &b| {
                    let key = |n: u8| excess[usize::from(n)] / if norm { 1.0 } else { rates[usize::from(n)] };
                    level[usize::from(b)].cmp(&level[usize::from(a)]).then(key(a).total_cmp(&key(b)))
                });
                path
            };
            let path = take(&excess);
            plan.orders[index] = Order::mirrored(path);
            let stages: Vec<_> = table.of(&plan.orders[index]).collect();
            let halves = if plan.kind == Kind::AllReduce { 2 } else { 1 };
            for stage in &stages[..count] {
                excess[usize::from(stage.dimension)] += stage.busy_ps as f64;
            }
            excess.iter_mut().zip(&target).for_each(|(e, t)| *e -= t);
            if halves == 2 {
                let path = take(&excess);
                plan.orders[index].gather = path.reversed();
                let stages: Vec<_> = table.of(&plan.orders[index]).collect();
                for stage in &stages[count..] {
                    excess[usize::from(stage.dimension)] += stage.busy_ps as f64;
                }
                excess.iter_mut().zip(&target).for_each(|(e, t)| *e -= t);
            }
        }
    }
}
