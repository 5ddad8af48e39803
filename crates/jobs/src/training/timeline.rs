//! Runs the operations of an iteration: streams of computations, one network.

use super::network::{Event, Network};
use super::plan::{Operation, Plan, Work};
use antiphon_base::error::Result;
use antiphon_base::units::Picos;
use antiphon_base::watch::interruptible;
use antiphon_model::workload::Pass;
use std::collections::{BTreeMap, VecDeque};

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
    /// Time in which a forward pass was computed, in whatever stream.
    pub forward_ps: Picos,
    /// Time in which only gradients were computed.
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
    /// Time in which something was computed.
    pub fn compute_ps(&self) -> Picos {
        self.forward_ps + self.backward_ps + self.aggregation_ps
    }

    /// Time in which nothing was computed.
    pub fn exposed_ps(&self) -> Picos {
        self.time_ps - self.compute_ps()
    }

    /// Time that was waited for exchanges of gradients, by the end of the iteration or by the forward pass.
    pub fn exposed_data_ps(&self) -> Picos {
        self.exposed_ps() - self.exposed_model_ps
    }
}

/// Runs `plan` on `network`, whose exchanges have the plan's numbers. Computations of a stream run one at a time
/// in their order, each after what it waits for; exchanges go to the network as they become ready,
/// those of one moment in the plan's order. Where no stream computes, the wait counts for the computation that ends it.
/// O(operations (streams + log operations)).
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
    let mut streams: BTreeMap<u8, Stream> = BTreeMap::new();
    for (index, operation) in operations.iter().enumerate() {
        operation.after.iter().for_each(|&other| waiters[other].push(index));
        match operation.work {
            Work::Exchange(id) => exchanges[id] = index,
            Work::Arrival(id) => arrivals[id].push_back(index),
            Work::Compute { time_ps, beside_ps, stream } => {
                let stream: &mut Stream = streams.entry(stream).or_default();
                stream.waiting.push_back(Computation { index, time_ps, beside_ps, left: 0, since: 0, end: 0 });
            }
        }
    }
    let mut streams: Vec<Stream> = streams.into_values().collect();
    // Since when no stream computes; exchanges under way.
    let (mut idle_since, mut now, mut under_way) = (0, 0, 0u32);
    // Whether each operation became ready by an arrival; time the computation waited for others, for the first
    // arrival, and for later ones.
    let mut by_arrival = vec![false; operations.len()];
    let (mut exposed_model_ps, mut turnaround_ps, mut bubbles_ps) = (0, None, 0);
    let mut last = None;
    for _ in interruptible(0u64..) {
        // Start what is next in every stream and ready.
        for stream in 0..streams.len() {
            let Some(index) = streams[stream].startable(&missing) else { continue };
            let idle = streams.iter().all(|stream| stream.computing.is_none());
            let waited = if idle { now - idle_since } else { 0 };
            match (by_arrival[index], turnaround_ps) {
                (false, _) => exposed_model_ps += waited,
                (true, None) => turnaround_ps = Some(waited),
                (true, Some(_)) => bubbles_ps += waited,
            }
            spans[index].start_ps = now;
            streams[stream].start(now, under_way > 0);
        }
        // The earlier of a computation's end and what happens on the network; the computation at one moment.
        let earliest = (0..streams.len()).filter_map(|stream| Some((streams[stream].ends()?, stream))).min();
        let finished = match (earliest, network.next()) {
            (Some(((end, index), stream)), event) if event.is_none_or(|time| end <= time) => {
                (now, idle_since, streams[stream].computing) = (end, end, None);
                index
            }
            (_, Some(time)) => {
                let until = earliest.map_or(Picos::MAX, |((end, _), _)| end);
                let Some(event) = network.step(until)? else { continue };
                now = time;
                let (index, start) = match event {
                    Event::Finished { exchange, start } => {
                        under_way -= 1;
                        if under_way == 0 {
                            streams.iter_mut().for_each(|stream| stream.turn(now, false));
                        }
                        (exchanges[exchange], start)
                    }
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
                    under_way += 1;
                    if under_way == 1 {
                        streams.iter_mut().for_each(|stream| stream.turn(now, true));
                    }
                    network.submit(now, id)?;
                }
            }
        }
    }
    network.finish()?;
    // A chained iteration ends with the forward pass: what it exchanges last are no gradients.
    let is_forward =
        |index: usize| operations[index].pass == Pass::Forward && matches!(operations[index].work, Work::Exchange(_));
    if last.is_some_and(is_forward) {
        exposed_model_ps += now - idle_since;
    }
    let computed = |of: fn(Pass) -> bool| {
        let computes = |operation: &Operation| matches!(operation.work, Work::Compute { .. }) && of(operation.pass);
        let runs = operations.iter().zip(&spans).filter(|(operation, _)| computes(operation));
        covered(runs.map(|(_, span)| (span.start_ps, span.finish_ps)).collect())
    };
    let forward_ps = computed(|pass| pass == Pass::Forward);
    let length = |index: &usize| spans[*index].finish_ps - spans[*index].start_ps;
    Ok(Iteration {
        time_ps: now + plan.aggregation,
        forward_ps,
        backward_ps: computed(|_| true) - forward_ps,
        aggregation_ps: plan.aggregation,
        communication_ps: exchanges.iter().map(length).sum(),
        exposed_model_ps,
        turnaround_ps: turnaround_ps.unwrap_or(0),
        bubbles_ps,
        spans,
    })
}

/// A computation, to be done or under way.
#[derive(Clone, Copy)]
struct Computation {
    index: usize,
    /// How long it takes alone, and while something is exchanged.
    time_ps: Picos,
    beside_ps: Picos,
    /// Under way: what was left of `time_ps * beside_ps` at a time, and when it ends if nothing changes.
    left: u128,
    since: Picos,
    end: Picos,
}

impl Computation {
    /// What is done in a picosecond.
    fn speed(&self, beside: bool) -> u128 {
        u128::from(if beside { self.time_ps } else { self.beside_ps })
    }

    /// Goes on from `now` with what is left.
    fn go_on(&mut self, now: Picos, beside: bool) {
        self.since = now;
        self.end = now + self.left.div_ceil(self.speed(beside).max(1)) as Picos;
    }
}

/// Computations that run one at a time.
#[derive(Default)]
struct Stream {
    /// Those that have not started.
    waiting: VecDeque<Computation>,
    /// The one that runs.
    computing: Option<Computation>,
}

impl Stream {
    /// The computation that can start.
    fn startable(&self, missing: &[usize]) -> Option<usize> {
        let &Computation { index, .. } = self.waiting.front()?;
        (self.computing.is_none() && missing[index] == 0).then_some(index)
    }

    fn start(&mut self, now: Picos, beside: bool) {
        self.computing = self.waiting.pop_front().map(|mut one| {
            one.left = u128::from(one.time_ps) * u128::from(one.beside_ps);
            one.go_on(now, beside);
            one
        });
    }

    /// When the one that runs ends, and its number.
    fn ends(&self) -> Option<(Picos, usize)> {
        self.computing.map(|one| (one.end, one.index))
    }

    /// From `now` on something is exchanged, or nothing any more.
    fn turn(&mut self, now: Picos, beside: bool) {
        if let Some(one) = &mut self.computing {
            one.left = one.left.saturating_sub(u128::from(now - one.since) * one.speed(!beside));
            one.go_on(now, beside);
        }
    }
}

/// Time that at least one of the intervals covers.
fn covered(mut intervals: Vec<(Picos, Picos)>) -> Picos {
    intervals.sort_unstable();
    let (mut sum, mut until) = (0, 0);
    for (start, end) in intervals {
        sum += end.saturating_sub(start.max(until));
        until = until.max(end);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::{Bucket, Cost, GradientQueue, Overlap, Policy, Serial};
    use antiphon_model::collective::Kind;
    use antiphon_model::workload::{Exchange, Passes};
    use proptest::prelude::*;

    fn layer(times: [Picos; 3], bytes: u64, bucket: Option<u32>) -> Cost {
        let gradients = (bytes > 0).then_some(Exchange { kind: Kind::AllReduce, bytes });
        Cost {
            times: Passes(times),
            beside: Passes(times),
            exchanges: Passes([None, None, gradients]),
            bucket,
            consumer: None,
            stream: 0,
        }
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

    /// A layer that takes 20 alone takes 40 beside an exchange, and only beside it.
    #[test]
    fn what_exchanges_take_slows_computation_down() {
        let run = |bytes| {
            let mut costs = [layer([10, 20, 0], 10, None), layer([10, 5, 5], bytes, None)];
            costs[0].beside = Passes([20, 40, 0]);
            let (plan, timed) = iteration(&costs, Overlap::Layerwise, Bucket::Layer, 0);
            let at =
                plan.operations.iter().position(|one| one.layers.0 == 0 && one.pass == Pass::InputGradient).unwrap();
            (timed.spans[at].start_ps, timed.spans[at].finish_ps, timed.time_ps)
        };
        // Layer 1 is done at 30 and exchanges.
        assert_eq!(run(100), (30, 70, 140));
        assert_eq!(run(40), (30, 70, 80));
        // Half of it is done at 50; what is left takes 10.
        assert_eq!(run(20), (30, 60, 70));
        // 13 / 40 are done at 43, the other 13.5 end in the fourteenth picosecond.
        assert_eq!(run(13), (30, 57, 67));
    }

    /// Two iterations are two, and the second waits for the exchanges of the first, or each layer for its own.
    #[test]
    fn iterations_follow_each_other() {
        let costs = [layer([10, 5, 5], 0, None), layer([20, 10, 10], 30, None)];
        let run = |overlap, count| {
            let policy = Policy { overlap, bucket: Bucket::Layer, recompute: false, blocking: false };
            let plan = Plan::iterations(&costs, policy, 7, count).unwrap();
            run_at_once(&plan, &plan.exchanges.iter().map(|exchange| exchange.bytes).collect::<Vec<_>>())
        };
        let one = run(Overlap::Layerwise, 1);
        assert_eq!(run(Overlap::Layerwise, 3).time_ps, 3 * one.time_ps);
        // Layer 1's gradients are there at 80, when layer 0 has computed again; the last at 150.
        assert_eq!((one.time_ps, run(Overlap::Both, 2).time_ps), (80 + 7, 150 + 14));
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
            let computed = computed.filter(|(operation, _)| matches!(operation.work, Work::Compute { .. }));
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

    /// As DLRM's embeddings: beside the layers below the one that joins both.
    #[test]
    fn streams_compute_at_once() {
        let mut costs = [layer([30, 10, 10], 7, None), layer([10, 10, 10], 9, None), layer([10, 10, 10], 0, None)];
        (costs[0].consumer, costs[0].stream) = (Some(2), 1);
        let run = iteration(&costs, Overlap::Layerwise, Bucket::Layer, 0);
        let spans = |run: &(Plan, Iteration)| {
            let of = run.0.operations.iter().zip(&run.1.spans);
            let computed = of.filter(|(operation, _)| matches!(operation.work, Work::Compute { .. }));
            computed.map(|(operation, span)| (operation.layers.0, span.start_ps, span.finish_ps)).collect::<Vec<_>>()
        };
        // Layer 2 joins both at 30; backward, layer 0 needs its input gradient, and layer 1 follows in the same stream.
        let forward = [(0, 0, 30), (1, 0, 10), (2, 30, 40)];
        let backward = [(2, 40, 50), (2, 50, 60), (1, 60, 70), (1, 70, 80), (0, 50, 60), (0, 60, 70)];
        assert_eq!(spans(&run), [forward.as_slice(), &backward].concat());
        assert_eq!(exchanged(&run), [(80, 80, 89), (70, 70, 77)]);
        assert_eq!((run.1.forward_ps, run.1.backward_ps, run.1.exposed_data_ps()), (40, 40, 9));
        // One bucket waits for the gradients of both streams.
        let run = iteration(&costs, Overlap::None, Bucket::Table, 0);
        assert_eq!((exchanged(&run), run.1.time_ps), (vec![(80, 80, 96)], 96));
        // The exchange of what layer 0 put out is waited for while nothing computes: from 30 to 45.
        costs[0].exchanges.0[0] = Some(Exchange { kind: Kind::AllToAll, bytes: 15 });
        let run = iteration(&costs, Overlap::None, Bucket::Table, 0);
        assert_eq!((run.1.exposed_model_ps, run.1.time_ps), (15, 111));
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

        /// Streams only say what may be computed at once: every stream computes one layer at a time, nothing starts before
        /// what it needs, and whatever is not exposed is computed.
        #[test]
        fn streams_keep_dependencies(
            layers in prop::collection::vec(([0u64..100, 0u64..100, 0u64..100], 0u64..500, 0u8..3, 1usize..5), 1..20),
            between in prop::collection::vec((0u64..300, any::<bool>()), 20),
            policy in (0usize..4, any::<bool>(), any::<bool>()),
        ) {
            let mut costs: Vec<Cost> = layers.iter().map(|&(times, bytes, ..)| layer(times, bytes, None)).collect();
            let count = costs.len();
            for (index, (cost, &(.., stream, ahead))) in costs.iter_mut().zip(&layers).enumerate() {
                cost.stream = stream;
                cost.consumer = (ahead > 1 && index + ahead < count).then_some((index + ahead) as u32);
                let (bytes, exchanged) = between[index];
                let exchange = exchanged.then_some(Exchange { kind: Kind::AllToAll, bytes });
                (cost.exchanges.0[0], cost.exchanges.0[1]) = (exchange, exchange);
            }
            let overlap = [Overlap::None, Overlap::Layerwise, Overlap::Chained, Overlap::Both][policy.0];
            let policy = Policy { overlap, bucket: Bucket::Layer, recompute: policy.1, blocking: policy.2 };
            let (plan, run) = timed(&costs, policy, 0);
            let spans: Vec<(&Operation, Span)> = plan.operations.iter().zip(run.spans.iter().copied()).collect();
            let mut free = [0; 3];
            for (operation, span) in &spans {
                prop_assert!(operation.after.iter().all(|&other| spans[other].1.finish_ps <= span.start_ps));
                let Work::Compute { time_ps, stream, .. } = operation.work else { continue };
                prop_assert!(free[stream as usize] <= span.start_ps);
                prop_assert_eq!(span.finish_ps, span.start_ps + time_ps);
                free[stream as usize] = span.finish_ps;
            }
            // The last computation of each layer in a pass (a forward pass may be repeated), and its first.
            let of = |layer: usize, pass: Pass| {
                spans.iter().filter(move |(operation, _)| {
                    matches!(operation.work, Work::Compute { .. }) && (operation.layers.0, operation.pass) == (layer, pass)
                }).map(|(_, span)| *span)
            };
            for (index, cost) in costs.iter().enumerate() {
                let consumer = cost.consumer.map_or(index + 1, |consumer| consumer as usize);
                if consumer == count {
                    continue;
                }
                if !policy.recompute {
                    let (own, needs) = (of(index, Pass::Forward).next().unwrap(), of(consumer, Pass::Forward).next().unwrap());
                    let exchanged = cost.exchanges.0[0].map_or(0, |exchange| exchange.bytes);
                    prop_assert!(own.finish_ps + exchanged <= needs.start_ps);
                }
                let gradient = of(consumer, Pass::InputGradient).next().unwrap();
                prop_assert!(gradient.finish_ps <= of(index, Pass::InputGradient).next().unwrap().start_ps);
            }
            let longest = free.into_iter().max().unwrap();
            prop_assert!(run.compute_ps() <= longest && longest <= run.time_ps);
            prop_assert!(run.exposed_model_ps + run.turnaround_ps + run.bubbles_ps <= run.exposed_ps());
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
