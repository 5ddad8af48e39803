use super::*;
use antiphon_base::units::Picos;
use antiphon_jobs::graph::{ExchangeKind, JobExchange, JobGraph, OperationKind, Resource};
use antiphon_jobs::timeline;
use antiphon_jobs::transport::{Delivery, Transport};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Messages that take no time.
struct FreeTransport;

impl Transport for FreeTransport {
    fn submit(&mut self, _: Picos, _: u32) -> Result<bool> {
        Ok(false)
    }

    fn next(&self) -> Option<Picos> {
        None
    }

    fn step(&mut self, _: Option<Picos>, _: &mut VecDeque<Delivery>) -> Result<()> {
        Ok(())
    }
}

fn order(kind: PipelineKind, stages: u32, chunks: u32, micro_batches: u32) -> PipelineOrder {
    PipelineOrder::new(kind, stages, chunks, micro_batches).unwrap()
}

/// An order's job graph, where passes of a stage take `times[stage]`.
fn graph(order: &PipelineOrder, times: &[[Picos; 3]]) -> JobGraph {
    let mut graph = JobGraph::new(order.stages);
    (graph.in_order, graph.names) = (true, vec!["task".into()]);
    let mut numbers = BTreeMap::new();
    for part in 0..order.parts() {
        for micro_batch in 0..order.micro_batches {
            for pass in [Pass::Forward, Pass::InputGradient] {
                let Some(source) = order.source(pass, part) else { continue };
                let (from, to) = (order.home(source, micro_batch).0, order.home(part, micro_batch).0);
                numbers.insert((pass as u32, source, micro_batch), graph.exchanges.len() as u32);
                let kind = ExchangeKind::Message { from, to, tag: 0 };
                graph.exchanges.push(JobExchange { name: 0, kind, bytes: 0, group: 0, priority: 0 });
            }
        }
    }
    for stage in 0..order.stages {
        let rank = &mut graph.ranks[stage as usize];
        let tasks = order.tasks(stage);
        // What is passed on when the gradient of the weights is done.
        let mut to_pass_on = vec![];
        for (at, task) in tasks.iter().enumerate() {
            let inputs = if task.paired { &tasks[at..at + 2] } else { &tasks[at..=at] };
            let mut after = vec![];
            for input in inputs {
                if let Some(source) = order.source(input.pass, order.part(stage, input.chunk)) {
                    let number = numbers[&(input.pass as u32, source, input.micro_batch)];
                    after.push(rank.push(0, OperationKind::Receive(number), &[]));
                }
            }
            let time_ps = times[stage as usize][task.pass as usize];
            let done = rank.push(0, OperationKind::compute(time_ps, Resource::Stream(0)), &after);
            let output = (task.pass as u32, order.part(stage, task.chunk), task.micro_batch);
            to_pass_on.extend(numbers.get(&output));
            let waits = if task.pass == Pass::Forward { task.paired } else { !task.divided };
            if !waits || task.pass == Pass::WeightGradient {
                for number in to_pass_on.drain(..) {
                    rank.push(0, OperationKind::Exchange(number), &[done]);
                }
            }
        }
    }
    graph
}

/// When all is done, and how long each stage is idle between its first and last task.
fn run(order: &PipelineOrder, times: &[[Picos; 3]]) -> (Picos, Vec<Picos>) {
    let graph = graph(order, times);
    let line = timeline::run(&graph, &mut FreeTransport).unwrap();
    let idle = graph.ranks.iter().zip(&line.ranks).zip(times).map(|((rank, done), times)| {
        let computations = rank.operations.iter().zip(done);
        let computations = computations.filter(|(one, _)| matches!(one.kind, OperationKind::Compute { .. }));
        let first = computations.clone().map(|(_, times)| times.start_ps).min().unwrap();
        let last = computations.map(|(_, times)| times.finish_ps).max().unwrap();
        let pairs = u64::from(order.chunks * order.micro_batches);
        last - first - pairs * times.iter().sum::<Picos>()
    });
    (line.time_ps(), idle.collect())
}

/// Time beyond a stage's work, for equal stages.
fn bubble(order: &PipelineOrder, times: [Picos; 3]) -> Picos {
    let work = u64::from(order.chunks * order.micro_batches) * times.iter().sum::<Picos>();
    run(order, &vec![times; order.stages as usize]).0 - work
}

/// F, B, W with the micro batch, after the chunk's letter where there are two; a unit is in brackets.
fn text(order: &PipelineOrder, stage: u32) -> String {
    let mut open = false;
    let tasks = order.tasks(stage).into_iter().map(|task| {
        let chunk =
            if order.tasks(stage).iter().any(|task| task.chunk > 0) { ["a", "b"][task.chunk as usize] } else { "" };
        let pass = ["F", "B", "W"][task.pass as usize];
        let start = if task.paired { "(" } else { "" };
        open |= task.paired;
        let end = if open && task.pass == Pass::WeightGradient { ")" } else { "" };
        open &= end.is_empty();
        format!("{start}{pass}{chunk}{}{end}", task.micro_batch)
    });
    tasks.collect::<Vec<_>>().join(" ")
}

#[test]
fn orders_in_full() {
    let gpipe = order(PipelineKind::GPipe, 2, 1, 2);
    assert_eq!(text(&gpipe, 0), "F0 F1 B1 W1 B0 W0");
    let plain = order(PipelineKind::OneForwardOneBackward, 3, 1, 3);
    assert_eq!(text(&plain, 0), "F0 F1 F2 B0 W0 B1 W1 B2 W2");
    assert_eq!(text(&plain, 1), "F0 F1 B0 W0 F2 B1 W1 B2 W2");
    assert_eq!(text(&plain, 2), "F0 B0 W0 F1 B1 W1 F2 B2 W2");
    let interleaved = order(PipelineKind::OneForwardOneBackward, 2, 2, 2);
    assert_eq!(text(&interleaved, 0), "Fa0 Fa1 Fb0 Fb1 Bb0 Wb0 Bb1 Wb1 Ba0 Wa0 Ba1 Wa1");
    assert_eq!(text(&interleaved, 1), "Fa0 Fa1 Fb0 Bb0 Wb0 Fb1 Bb1 Wb1 Ba0 Wa0 Ba1 Wa1");
    let h1 = order(PipelineKind::ZeroBubbleH1, 2, 1, 3);
    assert_eq!(text(&h1, 0), "F0 F1 B0 W0 F2 B1 W1 B2 W2");
    assert_eq!(text(&h1, 1), "F0 B0 F1 B1 W0 F2 B2 W1 W2");
    let h2 = order(PipelineKind::ZeroBubbleH2, 2, 1, 4);
    assert_eq!(text(&h2, 0), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
    assert_eq!(text(&h2, 1), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
    let dual = order(PipelineKind::DualPipe, 2, 1, 4);
    assert_eq!(text(&dual, 0), "Fa0 Fb2 Fa1 Bb2 Wb2 (Fb3 Ba0 Wa0) Bb3 Wb3 Ba1 Wa1");
    let of_four = order(PipelineKind::DualPipe, 4, 1, 8);
    let first = "Fa0 Fa1 Fa2 Fb4 Bb4 Wb4 Fb5 (Fa3 Bb5 Wb5) (Fb6 Ba0 Wa0) Bb6 Wb6 (Fb7 Ba1 Wa1) Bb7 Wb7 Ba2 Wa2 Ba3 Wa3";
    assert_eq!(text(&of_four, 0), first);
    let third = "Fb4 Fa0 Fb5 Fa1 Fb6 Ba0 Wa0 (Fa2 Bb4 Wb4) (Fb7 Ba1 Wa1) (Fa3 Bb5 Wb5) Ba2 Wa2 Bb6 Wb6 Ba3 Bb7 Wa3 Wb7";
    assert_eq!(text(&of_four, 2), third);
}

/// Any order with few enough tasks for a test.
fn any_order() -> impl Strategy<Value = PipelineOrder> {
    let kind = prop::sample::select(PipelineKind::ALL);
    (kind, 1u32..=16, 1u32..=4, 1u32..=64).prop_map(|((_, kind), stages, chunks, micro_batches)| match kind {
        PipelineKind::OneForwardOneBackward => order(kind, stages, chunks, micro_batches),
        PipelineKind::DualPipe => {
            let stages = stages.next_multiple_of(2);
            order(kind, stages, 1, (2 * stages).max(micro_batches.next_multiple_of(2)))
        }
        _ => order(kind, stages, 1, micro_batches),
    })
}

fn any_times() -> impl Strategy<Value = [Picos; 3]> {
    [1u64..100, 1u64..100, 1u64..100]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_task_once_at_its_home(order in any_order()) {
        let mut seen = BTreeSet::new();
        for stage in 0..order.stages {
            for task in order.tasks(stage) {
                let part = order.part(stage, task.chunk);
                prop_assert_eq!(order.home(part, task.micro_batch), (stage, task.chunk));
                prop_assert!(seen.insert((task.pass as u32, part, task.micro_batch)));
                prop_assert!(part < order.parts() && task.micro_batch < order.micro_batches);
            }
        }
        prop_assert_eq!(seen.len() as u32, 3 * order.parts() * order.micro_batches);
    }

    #[test]
    fn passes_of_a_part_follow_each_other(order in any_order()) {
        for stage in 0..order.stages {
            let tasks = order.tasks(stage);
            let mut done = BTreeMap::new();
            for (at, task) in tasks.iter().enumerate() {
                let before = done.insert((task.chunk, task.micro_batch), task.pass);
                let expected = [None, Some(Pass::Forward), Some(Pass::InputGradient)][task.pass as usize];
                prop_assert_eq!(before, expected);
                let next = tasks.get(at + 1).map(|next| (next.pass, next.chunk, next.micro_batch));
                if task.pass == Pass::InputGradient && !task.divided {
                    prop_assert_eq!(next, Some((Pass::WeightGradient, task.chunk, task.micro_batch)));
                }
                if task.paired {
                    prop_assert_eq!(task.pass, Pass::Forward);
                    prop_assert!(tasks[at + 1].pass == Pass::InputGradient && tasks[at + 1].chunk != task.chunk);
                    prop_assert!(!tasks[at + 1].divided);
                }
            }
        }
    }

    #[test]
    fn no_deadlock_and_no_time_below_the_work(order in any_order(), times in prop::collection::vec(any_times(), 16)) {
        let (time, _) = run(&order, &times[..order.stages as usize]);
        let pairs = u64::from(order.chunks * order.micro_batches);
        let most = times[..order.stages as usize].iter().map(|of| of.iter().sum::<Picos>()).max().unwrap();
        prop_assert!(time >= pairs * most);
    }

    #[test]
    fn plain_bubbles(p in 1u32..=16, m in 1u32..=64, times in any_times()) {
        let expected = u64::from(p - 1) * times.iter().sum::<Picos>();
        for kind in [PipelineKind::GPipe, PipelineKind::OneForwardOneBackward] {
            prop_assert_eq!(bubble(&order(kind, p, 1, m), times), expected);
        }
    }

    /// Micro batches need not be a multiple of stages.
    #[test]
    fn interleaved_bubbles(p in 1u32..=16, v in 2u32..=6, more in 0u32..=32, times in any_times()) {
        let order = order(PipelineKind::OneForwardOneBackward, p, v, p + more);
        prop_assert_eq!(bubble(&order, times), u64::from(p - 1) * times.iter().sum::<Picos>());
    }

    #[test]
    fn slower_last_stage(p in 1u32..=16, m in 1u32..=64, times in any_times(), slower in any_times()) {
        let last = [0, 1, 2].map(|pass| times[pass] + slower[pass]);
        let mut all = vec![times; p as usize];
        all[p as usize - 1] = last;
        let sums = all.iter().map(|of| of.iter().sum::<Picos>());
        let expected = u64::from(m - 1) * last.iter().sum::<Picos>() + sums.sum::<Picos>();
        prop_assert_eq!(run(&order(PipelineKind::OneForwardOneBackward, p, 1, m), &all).0, expected);
    }

    #[test]
    fn zero_bubble_bubbles(p in 1u32..=16, more in 0u32..=32, time in 1u64..100) {
        let h1 = order(PipelineKind::ZeroBubbleH1, p, 1, p + more);
        prop_assert_eq!(bubble(&h1, [time; 3]), u64::from(p - 1) * time);
        let h2 = order(PipelineKind::ZeroBubbleH2, p, 1, 2 * p - 1 + more);
        let (end, idle) = run(&h2, &vec![[time; 3]; p as usize]);
        prop_assert_eq!(idle, vec![0; p as usize]);
        prop_assert_eq!(end, u64::from(3 * (2 * p - 1 + more) + p - 1) * time);
    }

    /// Forward pass and gradient of the input equal, that of the weights at most as long.
    #[test]
    fn dual_pipe_bubbles(half in 1u32..=8, more in 0u32..=16, time in 1u64..100, weights in 1u64..100) {
        let order = order(PipelineKind::DualPipe, 2 * half, 1, 4 * half + 2 * more);
        let weights = weights.min(time);
        let expected = u64::from(half - 1) * ((2 * time + weights) + (time + weights) - 3 * weights);
        prop_assert_eq!(bubble(&order, [time, time, weights]), expected);
    }

    #[test]
    fn activations_in_flight(p in 1u32..=16, v in 2u32..=6, m in 1u32..=64) {
        let in_flight = |kind, chunks, m| {
            let order = order(kind, p, chunks, m);
            (0..p).map(|stage| order.in_flight(stage)).collect::<Vec<_>>()
        };
        prop_assert_eq!(in_flight(PipelineKind::GPipe, 1, m), vec![m; p as usize]);
        let plain: Vec<u32> = (0..p).map(|stage| m.min(p - stage)).collect();
        prop_assert_eq!(in_flight(PipelineKind::OneForwardOneBackward, 1, m), plain);
        prop_assert_eq!(in_flight(PipelineKind::OneForwardOneBackward, v, 2 * p)[0], p * v + p - 1);
        prop_assert_eq!(in_flight(PipelineKind::ZeroBubbleH1, 1, m), vec![m.min(p); p as usize]);
        prop_assert_eq!(in_flight(PipelineKind::ZeroBubbleH2, 1, m), vec![m.min(2 * p - 1); p as usize]);
        if p % 2 == 0 {
            let m = (2 * p).max(m.next_multiple_of(2));
            prop_assert_eq!(in_flight(PipelineKind::DualPipe, 1, m), vec![p + 1; p as usize]);
        }
    }
}

#[test]
fn sources_and_homes() {
    let interleaved = order(PipelineKind::OneForwardOneBackward, 4, 2, 8);
    assert_eq!((interleaved.parts(), interleaved.part(1, 1), interleaved.home(5, 0)), (8, 5, (1, 1)));
    let sources = Pass::ALL.map(|pass| (interleaved.source(pass, 0), interleaved.source(pass, 7)));
    assert_eq!(sources, [(None, Some(6)), (Some(1), None), (None, None)]);
    let dual = order(PipelineKind::DualPipe, 4, 1, 8);
    assert_eq!((dual.parts(), dual.part(1, 0), dual.part(1, 1)), (4, 1, 2));
    assert_eq!((dual.home(1, 3), dual.home(1, 4)), ((1, 0), (2, 1)));
}

#[test]
fn what_an_order_cannot_do() {
    let refused = |kind, stages, chunks, micro_batches| {
        PipelineOrder::new(kind, stages, chunks, micro_batches).unwrap_err().to_string()
    };
    assert_eq!(
        refused(PipelineKind::GPipe, 4, 0, 8),
        "a pipeline has at least one stage, one part a stage and one micro batch [bad-size]"
    );
    assert_eq!(
        refused(PipelineKind::ZeroBubbleH1, 4, 2, 8),
        "zb-h1 has no order for 2 parts a stage; give one part or 1f1b [not-applicable]"
    );
    let even = "dualpipe needs an even number of stages, not 4, and an even number of micro batches, at least two a \
                stage, not 6; give others or 1f1b [not-applicable]";
    assert_eq!(refused(PipelineKind::DualPipe, 4, 1, 6), even);
    for (stages, micro_batches) in [(3, 8), (4, 9), (1, 2), (u32::MAX - 1, 2)] {
        assert!(PipelineOrder::new(PipelineKind::DualPipe, stages, 1, micro_batches).is_err());
    }
    assert_eq!(
        refused(PipelineKind::OneForwardOneBackward, u32::MAX, u32::MAX, u32::MAX),
        "4294967295 stages of 4294967295 parts and 4294967295 micro batches are more than 8388608 tasks; \
         give larger micro batches [too-large]"
    );
    assert_eq!(PipelineKind::NAMES, ["gpipe", "1f1b", "zb-h1", "zb-h2", "dualpipe"]);
}
