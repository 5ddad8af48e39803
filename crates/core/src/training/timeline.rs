//! Runs the operations of an iteration: one stream of computations, one network.

use super::network::{Event, Network};
use super::plan::{Plan, Work};
use crate::error::Result;
use crate::units::Picos;
use crate::workload::Pass;
use std::collections::VecDeque;

/// When an operation ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// All it waits for had finished.
    pub ready_ps: Picos,
    /// It started.
    pub start_ps: Picos,
    /// It finished.
    pub finish_ps: Picos,
}

/// The time of one iteration, and where it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iteration {
    /// All of it.
    pub time_ps: Picos,
    /// Forward pass.
    pub forward_ps: Picos,
    /// Both gradients.
    pub backward_ps: Picos,
    /// Local aggregation.
    pub aggregation_ps: Picos,
    /// Sum of the times of all exchanges, from their start to their end.
    pub communication_ps: Picos,
    /// Time the computation waited for exchanges between layers.
    pub exposed_model_ps: Picos,
    /// Time the first layer that has gradients waited for them (C-Cube's gradient turnaround).
    pub turnaround_ps: Picos,
    /// Time later layers of the forward pass waited for theirs (C-Cube's bubbles).
    pub bubbles_ps: Picos,
    /// When each operation ran.
    pub spans: Vec<Span>,
}

impl Iteration {
    /// Time spent computing.
    pub fn compute_ps(&self) -> Picos {
        self.forward_ps + self.backward_ps + self.aggregation_ps
    }

    /// Time the computation waited for exchanges.
    pub fn exposed_ps(&self) -> Picos {
        self.time_ps - self.compute_ps()
    }

    /// Time that was waited for exchanges of gradients, by the end of the iteration or by the forward pass.
    pub fn exposed_data_ps(&self) -> Picos {
        self.exposed_ps() - self.exposed_model_ps
    }
}

/// Runs `plan` on `network`, whose exchanges have the plan's numbers. Computations run one at a time
/// in their order, each after what it waits for; exchanges go to the network as they become ready,
/// those of one moment in the plan's order. O(operations).
///
/// # Errors
/// As [`Network::step`] and [`Network::finish`].
pub fn run(plan: &Plan, network: &mut dyn Network) -> Result<Iteration> {
    let operations = &plan.operations;
    let mut spans = vec![Span::default(); operations.len()];
    let mut missing: Vec<usize> = operations.iter().map(|operation| operation.after.len()).collect();
    let mut waiters: Vec<Vec<usize>> = vec![Vec::new(); operations.len()];
    let mut exchanges = vec![0; plan.exchanges.len()];
    let mut arrivals = vec![VecDeque::new(); plan.exchanges.len()];
    for (index, operation) in operations.iter().enumerate() {
        operation.after.iter().for_each(|&other| waiters[other].push(index));
        match operation.work {
            Work::Exchange(id) => exchanges[id] = index,
            Work::Arrival(id) => arrivals[id].push_back(index),
            Work::Compute(_) => {}
        }
    }
    let computes: Vec<usize> =
        (0..operations.len()).filter(|&index| matches!(operations[index].work, Work::Compute(_))).collect();
    let (mut next_compute, mut free_at, mut now) = (0, 0, 0);
    // Whether each operation became ready by an arrival; time the computation waited for others, for the first
    // arrival, and for later ones.
    let mut by_arrival = vec![false; operations.len()];
    let (mut exposed_model_ps, mut turnaround_ps, mut bubbles_ps) = (0, None, 0);
    let mut computing: Option<(Picos, usize)> = None;
    let mut last = None;
    loop {
        // Start the next computation if it is ready.
        if computing.is_none()
            && let Some(&index) = computes.get(next_compute)
            && missing[index] == 0
        {
            let Work::Compute(time) = operations[index].work else { unreachable!("a computation") };
            let start = spans[index].ready_ps.max(free_at);
            let waited = start - free_at;
            match (by_arrival[index], turnaround_ps) {
                (false, _) => exposed_model_ps += waited,
                (true, None) => turnaround_ps = Some(waited),
                (true, Some(_)) => bubbles_ps += waited,
            }
            spans[index].start_ps = start;
            computing = Some((start + time, index));
            next_compute += 1;
        }
        // The earlier of a computation's end and what happens on the network; the computation at one moment.
        let finished = match (computing, network.next()) {
            (Some((end, index)), event) if event.is_none_or(|time| end <= time) => {
                (now, free_at, computing) = (end, end, None);
                index
            }
            (_, Some(time)) => {
                let until = computing.map_or(Picos::MAX, |(end, _)| end);
                let Some(event) = network.step(until)? else { continue };
                now = time;
                let (index, start) = match event {
                    Event::Finished { exchange, start } => (exchanges[exchange], start),
                    Event::Arrived(id) => (arrivals[id].pop_front().expect("a part of the plan"), time),
                };
                spans[index].start_ps = start;
                index
            }
            _ => break,
        };
        spans[finished].finish_ps = now;
        last = Some(finished);
        for &waiter in &waiters[finished] {
            missing[waiter] -= 1;
            if missing[waiter] == 0 {
                spans[waiter].ready_ps = now;
                by_arrival[waiter] = matches!(operations[finished].work, Work::Arrival(_));
                if let Work::Exchange(id) = operations[waiter].work {
                    network.submit(now, id);
                }
            }
        }
    }
    network.finish()?;
    // A chained iteration ends with the forward pass: what it exchanges last are no gradients.
    let is_forward =
        |index: usize| operations[index].pass == Pass::Forward && matches!(operations[index].work, Work::Exchange(_));
    if last.is_some_and(is_forward) {
        exposed_model_ps += now - free_at;
    }
    let computed = |passes: &[Pass]| {
        let of = |operation: &&super::Operation| passes.contains(&operation.pass);
        let time = |operation: &super::Operation| match operation.work {
            Work::Compute(time) => time,
            Work::Exchange(_) | Work::Arrival(_) => 0,
        };
        operations.iter().filter(of).map(time).sum()
    };
    let length = |index: &usize| spans[*index].finish_ps - spans[*index].start_ps;
    Ok(Iteration {
        time_ps: now + plan.aggregation,
        forward_ps: computed(&[Pass::Forward]),
        backward_ps: computed(&[Pass::InputGradient, Pass::WeightGradient]),
        aggregation_ps: plan.aggregation,
        communication_ps: exchanges.iter().map(length).sum(),
        exposed_model_ps,
        turnaround_ps: turnaround_ps.unwrap_or(0),
        bubbles_ps,
        spans,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Kind;
    use crate::training::{Bucket, Cost, GradientQueue, Overlap, Policy, Serial};
    use crate::workload::{Exchange, Passes};
    use proptest::prelude::*;

    fn layer(times: [Picos; 3], bytes: u64, bucket: Option<u32>) -> Cost {
        let gradients = (bytes > 0).then_some(Exchange { kind: Kind::AllReduce, bytes });
        Cost { times: Passes(times), exchanges: Passes([None, None, gradients]), bucket, consumer: None }
    }

    /// Every byte takes a picosecond.
    fn iteration(costs: &[Cost], overlap: Overlap, bucket: Bucket, aggregation: Picos) -> (Plan, Iteration) {
        let policy = Policy { overlap, bucket, recompute: false, blocking: false };
        timed(costs, policy, aggregation)
    }

    /// Runs a plan whose exchanges are complete at their end only.
    fn run_at_once(plan: &Plan, times: &[Picos]) -> Iteration {
        let queue = |&time: &Picos| Some(GradientQueue::new([(0, 0, time)].into_iter()).unwrap());
        let parts = plan.arrivals(&times.iter().map(queue).collect::<Vec<_>>()).unwrap();
        run(plan, &mut Serial::new(plan, times, &parts)).unwrap()
    }

    fn timed(costs: &[Cost], policy: Policy, aggregation: Picos) -> (Plan, Iteration) {
        let plan = Plan::iteration(costs, policy, aggregation).unwrap();
        let times: Vec<Picos> = plan.exchanges.iter().map(|exchange| exchange.bytes).collect();
        let iteration = run_at_once(&plan, &times);
        (plan, iteration)
    }

    /// Spans of the exchanges.
    fn exchanged((plan, iteration): &(Plan, Iteration)) -> Vec<(Picos, Picos, Picos)> {
        let spans = plan.operations.iter().zip(&iteration.spans);
        let exchanges = spans.filter(|(operation, _)| matches!(operation.work, Work::Exchange(_)));
        exchanges.map(|(_, span)| (span.ready_ps, span.start_ps, span.finish_ps)).collect()
    }

    #[test]
    fn exact_times_of_three_layers() {
        let costs = [layer([10, 5, 5], 40, None), layer([20, 10, 10], 30, None), layer([30, 15, 15], 20, None)];
        let none = iteration(&costs, Overlap::None, Bucket::Table, 7);
        assert_eq!(exchanged(&none), [(120, 120, 210)]);
        assert_eq!((none.1.time_ps, none.1.compute_ps(), none.1.exposed_ps()), (217, 127, 90));
        // The backward pass leaves layer 2 at 90, layer 1 at 110, layer 0 at 120.
        let layerwise = iteration(&costs, Overlap::Layerwise, Bucket::Layer, 7);
        assert_eq!(exchanged(&layerwise), [(90, 90, 110), (110, 110, 140), (120, 140, 180)]);
        assert_eq!((layerwise.1.time_ps, layerwise.1.exposed_ps(), layerwise.1.communication_ps), (187, 60, 90));
    }

    /// Four chunks, a byte a picosecond; backward takes 20 + 10 + 10, forward 10, 20 and 30.
    #[test]
    fn chained_layers_start_as_their_gradients_arrive() {
        let costs = [layer([10, 5, 5], 40, None), layer([20, 10, 10], 0, None), layer([30, 15, 15], 120, None)];
        let policy = Policy { overlap: Overlap::Chained, bucket: Bucket::Table, recompute: false, blocking: false };
        let plan = Plan::iteration(&costs, policy, 7).unwrap();
        assert_eq!((plan.exchanges[0].bytes, plan.parts.clone()), (160, vec![vec![40, 160]]));
        // Layer 0 has the first chunk, at 100; it and layer 1 compute until 130, the last chunk comes at 160.
        let queue = GradientQueue::new((0..4).map(|chunk| (0, chunk, 100 + 20 * chunk))).unwrap();
        let parts = plan.arrivals(&[Some(queue)]).unwrap();
        let run = run(&plan, &mut Serial::new(&plan, &[160], &parts)).unwrap();
        assert_eq!((run.turnaround_ps, run.bubbles_ps, run.exposed_data_ps()), (100, 30, 130));
        assert_eq!((run.time_ps, run.exposed_model_ps, run.communication_ps), (130 + 60 + 60 + 7, 0, 160));
        assert!(plan.arrivals(&[]).unwrap_err().message.contains("each chunk"));
    }

    /// What the last forward pass exchanges is no gradient, though a chained iteration ends with it.
    #[test]
    fn a_chained_iteration_ends_with_an_exchange_between_layers() {
        let mut last = layer([20, 10, 10], 0, None);
        last.exchanges.0[0] = Some(Exchange { kind: Kind::AllGather, bytes: 50 });
        let costs = [layer([10, 5, 5], 40, None), last];
        for overlap in [Overlap::None, Overlap::Layerwise, Overlap::Chained, Overlap::Both] {
            let run = iteration(&costs, overlap, Bucket::Table, 0).1;
            assert_eq!((run.exposed_model_ps, run.exposed_data_ps()), (50, 40), "{overlap:?}");
        }
    }

    /// Buckets of early layers overtake those that wait; layer 0 starts behind those that are left.
    #[test]
    fn both_overlaps_with_priorities() {
        let costs = [layer([10, 5, 5], 40, None), layer([20, 5, 5], 30, None), layer([30, 5, 5], 30, None)];
        let both = iteration(&costs, Overlap::Both, Bucket::Layer, 0);
        // Layer 2's at 10; 1's waits from 20, and 0's from 30.
        assert_eq!(exchanged(&both), [(10, 10, 40), (20, 80, 110), (30, 40, 80)]);
        assert_eq!((both.1.turnaround_ps, both.1.bubbles_ps, both.1.time_ps), (50, 20, 160));
        let layerwise = iteration(&costs, Overlap::Layerwise, Bucket::Layer, 0);
        assert_eq!(layerwise.1.time_ps, 60 + 10 + 100);
    }

    #[test]
    fn buckets_join_layers() {
        let costs = [
            layer([1, 1, 1], 8, Some(4)),
            layer([1, 1, 1], 0, None),
            layer([1, 1, 1], 4, Some(2)),
            layer([1, 1, 1], 2, Some(2)),
            layer([1, 1, 1], 1, None),
        ];
        let bytes = |bucket| {
            let policy = Policy { overlap: Overlap::Layerwise, bucket, recompute: false, blocking: false };
            let plan = Plan::iteration(&costs, policy, 0).unwrap();
            plan.exchanges.iter().map(|exchange| exchange.bytes).collect::<Vec<_>>()
        };
        assert_eq!(bytes(Bucket::Table), [1, 6, 8]);
        assert_eq!(bytes(Bucket::Layer), [1, 2, 4, 8]);
        assert_eq!(bytes(Bucket::Bytes(3)), [3, 4, 8]);
        assert_eq!(bytes(Bucket::Bytes(1000)), [15]);
        let torn = [layer([1; 3], 1, Some(1)), layer([1; 3], 1, None), layer([1; 3], 1, Some(1))];
        let policy = Policy { overlap: Overlap::Layerwise, bucket: Bucket::Table, recompute: false, blocking: false };
        let error = Plan::iteration(&torn, policy, 0).unwrap_err();
        assert!(error.message.contains("bucket 1 do not adjoin"));
    }

    #[test]
    fn other_exchanges_of_weights_are_no_gradients() {
        let mut costs = [layer([1; 3], 10, None), layer([1; 3], 0, None), layer([1; 3], 10, None)];
        costs[1].exchanges.0[2] = Some(Exchange { kind: Kind::AllToAll, bytes: 1000 });
        let (plan, _) = iteration(&costs, Overlap::Layerwise, Bucket::Bytes(100), 0);
        assert_eq!(plan.exchanges.iter().map(|exchange| exchange.bytes).collect::<Vec<_>>(), [1000, 20]);
        assert_eq!(costs.iter().map(Cost::gradient_bytes).sum::<u64>(), 20);
    }

    #[test]
    fn exchanges_between_layers_are_waited_for() {
        let mut costs = [layer([10, 10, 10], 0, None), layer([10, 10, 10], 0, None)];
        costs[0].exchanges.0[0] = Some(Exchange { kind: Kind::AllToAll, bytes: 5 });
        costs[1].exchanges.0[1] = Some(Exchange { kind: Kind::AllToAll, bytes: 25 });
        // After layer 0's forward pass; after layer 1's input gradient, behind its weight gradient unless that waits too.
        for (blocking, end, exposed) in [(false, 80, 20), (true, 90, 30)] {
            let policy = Policy { overlap: Overlap::Layerwise, bucket: Bucket::Layer, recompute: false, blocking };
            let run = timed(&costs, policy, 0);
            assert_eq!(exchanged(&run), [(10, 10, 15), (35, 35, 60)]);
            assert_eq!((run.1.time_ps, run.1.exposed_ps(), run.1.exposed_model_ps), (end, exposed, exposed));
            let computed = run.0.operations.iter().zip(&run.1.spans);
            let computed = computed.filter(|(operation, _)| matches!(operation.work, Work::Compute(_)));
            let starts: Vec<Picos> = computed.map(|(_, span)| span.start_ps).collect();
            // Forward; layer 1 backward; layer 0 backward.
            assert_eq!(starts, [0, 15, 25, if blocking { 60 } else { 35 }, end - 20, end - 10]);
        }
    }

    /// As DLRM's embeddings: needed by the third layer, beside which the second computes.
    #[test]
    fn a_consumer_waits_instead_of_the_next_layer() {
        let mut costs = [layer([10, 10, 10], 7, None), layer([10, 10, 10], 0, None), layer([10, 10, 10], 0, None)];
        for pass in 0..2 {
            costs[0].exchanges.0[pass] = Some(Exchange { kind: Kind::AllToAll, bytes: 15 });
        }
        costs[0].consumer = Some(2);
        let run = iteration(&costs, Overlap::Layerwise, Bucket::Layer, 0);
        // Forward: 10 to 25, layer 2 starts at 25. Backward: after its input gradient at 45, to 60; layers 2 and 1
        // compute until 75. Gradients after the last weight gradient.
        assert_eq!(exchanged(&run), [(10, 10, 25), (45, 45, 60), (95, 95, 102)]);
        assert_eq!((run.1.time_ps, run.1.exposed_model_ps, run.1.exposed_data_ps()), (102, 5, 7));
    }

    #[test]
    fn recomputation_repeats_the_forward_pass_and_its_exchanges() {
        let mut costs = [layer([10, 1, 1], 0, None), layer([20, 1, 1], 0, None)];
        costs[0].exchanges.0[0] = Some(Exchange { kind: Kind::AllReduce, bytes: 3 });
        let policy = Policy { overlap: Overlap::None, bucket: Bucket::Table, recompute: true, blocking: false };
        let (_, run) = timed(&costs, policy, 0);
        assert_eq!((run.forward_ps, run.backward_ps, run.exposed_model_ps, run.time_ps), (60, 4, 6, 70));
    }

    proptest! {
        /// No policy computes or exchanges more or less than another, and overlapping only helps where the
        /// parts of an exchange take no longer than the whole.
        #[test]
        fn policies_do_the_same_work(
            layers in prop::collection::vec(([0u64..1000, 0u64..1000, 0u64..1000], 0u64..5000), 1..40),
            size in 1u64..20_000,
            aggregation in 0u64..100,
        ) {
            let costs: Vec<Cost> = layers.iter().map(|&(times, bytes)| layer(times, bytes, None)).collect();
            let (_, none) = iteration(&costs, Overlap::None, Bucket::Table, aggregation);
            let overlaps = [Overlap::Layerwise, Overlap::Chained, Overlap::Both];
            let buckets = [Bucket::Layer, Bucket::Bytes(size)];
            for (overlap, bucket) in overlaps.into_iter().flat_map(|overlap| buckets.map(|bucket| (overlap, bucket))) {
                let (_, run) = iteration(&costs, overlap, bucket, aggregation);
                prop_assert_eq!(run.compute_ps(), none.compute_ps());
                prop_assert_eq!(run.communication_ps, none.communication_ps);
                prop_assert!(run.time_ps <= none.time_ps);
                prop_assert!(run.exposed_ps() <= run.communication_ps);
                let longest = run.compute_ps().max(run.communication_ps);
                prop_assert!(run.time_ps >= longest);
            }
            prop_assert_eq!(none.exposed_ps(), none.communication_ps);
        }

        /// A layer starts when its last chunk is there and the layer before is done (C-Cube, HPCA 2023, section III-D).
        /// Chaining never loses, and with one chunk it gains nothing.
        #[test]
        fn chaining_is_the_recurrence(
            layers in prop::collection::vec(([0u64..1000, 0u64..1000, 0u64..1000], 0u64..5000), 1..40),
            times in prop::collection::vec(1u64..2000, 1..20),
        ) {
            let costs: Vec<Cost> = layers.iter().map(|&(times, bytes)| layer(times, bytes, None)).collect();
            let complete: Vec<Picos> = times.iter().scan(0, |sum, time| { *sum += time; Some(*sum) }).collect();
            let (count, last) = (complete.len() as u64, complete[complete.len() - 1]);
            let chained = |queue: GradientQueue| {
                let policy = Policy { overlap: Overlap::Chained, bucket: Bucket::Table, recompute: false, blocking: false };
                let plan = Plan::iteration(&costs, policy, 0).unwrap();
                let parts = plan.arrivals(&[Some(queue)]).unwrap();
                run(&plan, &mut Serial::new(&plan, &[last], &parts)).unwrap()
            };
            let whole: u64 = costs.iter().map(Cost::gradient_bytes).sum();
            let (mut done, mut part) = (0, 0);
            for cost in &costs {
                part += cost.gradient_bytes();
                let chunk = (part * count).div_ceil(whole.max(1));
                let ready = if cost.gradient_bytes() > 0 { complete[chunk as usize - 1] } else { 0 };
                done = done.max(ready) + cost.times[Pass::Forward];
            }
            let in_chunks = chained(GradientQueue::new((0..).zip(&complete).map(|(chunk, &at)| (0, chunk, at))).unwrap());
            let backward = in_chunks.backward_ps;
            prop_assert_eq!(in_chunks.time_ps, done + backward);
            prop_assert_eq!(in_chunks.exposed_ps(), in_chunks.turnaround_ps + in_chunks.bubbles_ps);
            let at_once = chained(GradientQueue::new([(0, 0, last)].into_iter()).unwrap());
            prop_assert!(in_chunks.time_ps <= at_once.time_ps);
            let first = costs.iter().position(|cost| cost.gradient_bytes() > 0);
            let before: Picos = costs[..first.unwrap_or(0)].iter().map(|cost| cost.times[Pass::Forward]).sum();
            let none = at_once.compute_ps() + if first.is_some() { last } else { 0 };
            prop_assert_eq!(at_once.time_ps, none - before.min(none - at_once.compute_ps()));
        }
    }
}
