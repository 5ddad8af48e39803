//! Inference: how long a prompt and the next tokens of a batch take, and what their exchanges add.
//!
//! Prefill is a forward pass of training's model. Of what was fitted on training, decode keeps only rates: products of a
//! few tokens take as long as their operations or bytes do, without the time that products of training lose, and
//! exchanges as long as links do, without times measured with larger buffers. So decode's times are from below; what the
//! host needs is an option. Not counted: activations in memory, sampling, the exchange of embedding and logits,
//! and what exchanges do to computation beside them.

use crate::compute::cache_bytes;
use crate::constants::Constants;
use crate::memory::{RankParameters, end_parameters};
use crate::network::{CarriedExchange, FlowForm, GroupFlow, SharedLinks, Wiring};
use crate::parallel::{GroupKind, OPTIONS, Parallelism};
use crate::shape::ModelShape;
use crate::step::StepParts;
use crate::step::StepWork;
use crate::step::exchanges::group_flow;
use crate::step::graph::picos;
use crate::step::pieces::{Calls, LayerCosts, LayerPiece, times};
use crate::step::times::exchange_kind;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::Options;
use antiphon_base::parameter::{Choice, Value};
use antiphon_base::units::{Bytes, Picos};
use antiphon_jobs::graph::{ExchangeKind, JobExchange, JobGraph, OperationKind, Resource};
use antiphon_jobs::timeline::{self, TimeLine};
use antiphon_model::collective::Collective;
use std::collections::BTreeMap;
use std::ops::Range;

/// Options of a plan that say something about inference.
const PLAN_KEYS: [&str; 8] = ["tp", "pp", "ep", "etp", "dp", "ep-overlap", "precision", "order"];
/// Operations up to which every layer is simulated by itself.
const OPERATIONS: u64 = 50_000;
/// Most tokens and sequences.
const MOST: u64 = 1 << 32;
/// Tokens that are simulated for each sequence, where stages wait for each other: the first fills the stages, and
/// behind the third others are still under way.
const ROUNDS: u32 = 4;
/// By how much the smallest useful link may make a token slower.
const SLOWER: f64 = 1.1;

/// The plan that `text` writes for `batch` sequences on `ranks` ranks: as [`Parallelism::parse`], but experts are not
/// divided where `ep` is given without `etp`. Each copy's sequences are divided into as many micro batches as stages.
///
/// # Errors
/// As [`Parallelism::parse`]; [`Code::BadSpec`] for options of training.
pub fn inference_plan(text: &str, ranks: u32, batch: u64, model: &ModelShape) -> Result<Parallelism> {
    let given = Options::parse("plan", text, OPTIONS)?;
    if let Some((key, _)) = given.all_given().find(|(key, _)| !PLAN_KEYS.contains(key)) {
        let what = format!("{key} is for training; leave it out: inference has {}", PLAN_KEYS.join(", "));
        return Err(Error::new(Code::BadSpec, what).at("plan"));
    }
    let mut text = text.to_string();
    let mut add = |more: &str| text += &format!("{}{more}", if text.is_empty() { "" } else { "," });
    let [tensor, expert] = ["tp", "ep"].map(|key| given.count(key));
    let expert_tensor = given.given("etp").map_or(if expert > 1 { 1 } else { tensor }, Value::whole);
    if given.given("etp").is_none() && expert > 1 {
        add("etp=1");
    }
    // Ranks of a tensor group have all tokens, unless experts are not divided as the rest is.
    if tensor > 1 && expert == 1 && expert_tensor == tensor {
        add("sp=no");
    }
    // Tokens need not be divisible by ranks here.
    let divisible = ModelShape { sequence: tensor, ..model.clone() };
    let mut plan = Parallelism::parse(&text, ranks, batch, &divisible)?;
    let of_copy = plan.micro_batches;
    plan.micro_batch = of_copy.div_ceil(plan.pipeline);
    plan.micro_batches = of_copy.div_ceil(plan.micro_batch);
    Ok(plan)
}

impl Parallelism {
    /// The text that [`inference_plan`] reads as this plan, with all dimensions.
    pub fn inference_spec(&self, model: &ModelShape) -> String {
        let experts = model.experts.map(|_| format!(",ep={},etp={}", self.expert, self.expert_tensor));
        let [precision, overlap] = [(self.fp8, ",precision=fp8"), (!self.expert_overlap, ",ep-overlap=no")]
            .map(|(is, text)| if is { text } else { "" });
        let order: Vec<&str> = self.rank_order.iter().map(|kind| kind.name()).collect();
        let order =
            if order.join("-") == "tp-cp-ep-dp-pp" { String::new() } else { format!(",order={}", order.join("-")) };
        let [tp, pp, dp] = [self.tensor, self.pipeline, self.data];
        format!("tp={tp},pp={pp},dp={dp}{}{precision}{overlap}{order}", experts.unwrap_or_default())
    }
}

/// A model that answers.
pub struct Inference<'a> {
    /// The model.
    pub model: &'a ModelShape,
    /// How it is divided, of [`inference_plan`].
    pub plan: &'a Parallelism,
    /// What computes.
    pub constants: &'a Constants,
    /// Sequences at once, of all copies of the model together.
    pub batch: u64,
    /// Tokens of a prompt.
    pub prompt: u64,
    /// Tokens that the next one attends to.
    pub context: u64,
    /// Least time of a layer in microseconds: the host starts its kernels. 0 if it starts all of them at once (CUDA graphs).
    pub host_us: f64,
}

/// What the time of a pass through the model consists of, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PassTimes {
    /// All of it.
    pub total_s: f64,
    /// It is computed.
    pub compute_s: f64,
    /// It waits for exchanges, by kind of group.
    pub exposed_s: [f64; StepWork::KINDS],
    /// It waits for its turn on a stage.
    pub waiting_s: f64,
}

/// What each rank of a stage keeps at once, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InferenceMemory {
    /// Which stage.
    pub stage: u32,
    /// Parameters.
    pub parameters: f64,
    /// Keys and values of all sequences.
    pub cache: f64,
}

/// How long inference takes.
#[derive(Debug, Clone, PartialEq)]
pub struct InferenceTimes {
    /// One prompt on each copy of the model, until its first token.
    pub first_token: PassTimes,
    /// The next token of every sequence.
    pub next_token: PassTimes,
    /// The slowest link that decode uses, in bytes a second; none if ranks exchange nothing.
    pub slowest_link: Option<f64>,
    /// Its rate where the rates of all links are scaled alike until a token takes 10 % longer than on infinitely fast
    /// links, whose latencies stay.
    pub smallest_link: Option<f64>,
}

impl InferenceMemory {
    /// All of it, in bytes.
    pub fn total(&self) -> f64 {
        self.parameters + self.cache
    }

    /// Refuses what takes more than `capacity_bytes`.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] with both parts, and what would make the larger one smaller.
    pub fn check(&self, capacity_bytes: Bytes) -> Result<()> {
        if self.total() <= capacity_bytes as f64 {
            return Ok(());
        }
        let change = if self.parameters > self.cache {
            "a larger tp, pp or, for experts, ep, or precision=fp8"
        } else {
            "a smaller batch, a shorter context, or a larger tp or pp"
        };
        let [total, capacity, parameters, cache] =
            [self.total(), capacity_bytes as f64, self.parameters, self.cache].map(|bytes| bytes / f64::from(1 << 30));
        let what = format!(
            "stage {} takes {total:.1} GiB a rank of {capacity:.1} GiB: parameters {parameters:.1} GiB, keys and values \
             {cache:.1} GiB; {change} would help",
            self.stage
        );
        Err(Error::new(Code::NotApplicable, what))
    }
}

impl Inference<'_> {
    /// Bytes of every stage: parameters in 16 bits, or 8 with `precision=fp8` but for embeddings; keys and values of
    /// `context` tokens in 16 bits.
    pub fn memory(&self) -> Vec<InferenceMemory> {
        let (model, plan) = (self.model, self.plan);
        let element = if plan.fp8 { 1.0 } else { 2.0 };
        let tokens = self.batch as f64 / f64::from(plan.data) * self.context as f64;
        let stages = (0..).zip(plan.part_layers(model));
        let of_stage = |(stage, layers): (u32, Range<u32>)| {
            let cache = tokens * f64::from(layers.end - layers.start) * cache_bytes(model, plan);
            let of_layer = |layer| {
                let parameters = RankParameters::of_layer(model, plan, layer);
                parameters.dense + parameters.routed
            };
            let ends = end_parameters(model, plan, stage == 0, stage + 1 == plan.pipeline);
            let parameters = element * layers.map(of_layer).sum::<f64>() + 2.0 * ends;
            InferenceMemory { stage, parameters, cache }
        };
        stages.map(of_stage).collect()
    }

    /// Times it on a network. O(operations log operations), for about twenty rates of links.
    ///
    /// # Errors
    /// [`Code::BadSize`] for numbers out of their ranges; those of routes and time line.
    pub fn simulate(&self, wiring: &dyn Wiring) -> Result<InferenceTimes> {
        self.check()?;
        let first_token = self.prefill().build(wiring)?.run(1.0)?;
        let decode = self.decode().build(wiring)?;
        let next_token = decode.run(1.0)?;
        let slowest_link = decode.slowest_link(wiring);
        let smallest_link = match slowest_link {
            Some(rate) => Some(rate * decode.smallest_factor()?),
            None => None,
        };
        Ok(InferenceTimes { first_token, next_token, slowest_link, smallest_link })
    }

    /// Refuses numbers out of their ranges.
    ///
    /// # Errors
    /// [`Code::BadSize`] with the number.
    pub fn check(&self) -> Result<()> {
        let bad = |what: String| Err(Error::new(Code::BadSize, what));
        for (key, tokens) in [("prompt", self.prompt), ("context", self.context)] {
            if !(1..=MOST).contains(&tokens) {
                return bad(format!("{key} is {tokens} tokens; it must be between 1 and {MOST}"));
            }
        }
        if self.context < self.prompt {
            let what = "a token attends to its whole prompt; take a context at least as long";
            return bad(format!("context {} is shorter than prompt {}: {what}", self.context, self.prompt));
        }
        if !(0.0..=1e6).contains(&self.host_us) {
            return bad(format!("host_us is {}; it must be from 0 to 10^6", self.host_us));
        }
        Ok(())
    }

    /// One prompt on each copy.
    fn prefill(&self) -> TokenPass {
        TokenPass {
            model: ModelShape { sequence: self.prompt, ..self.model.clone() },
            plan: Parallelism { micro_batch: 1, micro_batches: 1, ..self.plan.clone() },
            constants: Constants { host_ms: self.host_ms(), ..self.constants.clone() },
            context: None,
            rounds: 1,
            at_once: 1,
        }
    }

    /// Next tokens of all sequences.
    fn decode(&self) -> TokenPass {
        let plan = self.plan;
        let rounds = if plan.pipeline > 1 { ROUNDS } else { 1 };
        let operations = 6 * u64::from(self.model.layers) * u64::from(plan.micro_batches) * u64::from(rounds);
        TokenPass {
            model: ModelShape { sequence: 1, ..self.model.clone() },
            plan: plan.clone(),
            constants: Constants {
                host_ms: self.host_ms(),
                product_half_gflop: 0.0,
                all_reduces: vec![],
                ..self.constants.clone()
            },
            context: Some(self.context as f64),
            rounds,
            at_once: (operations / OPERATIONS + 1) as u32,
        }
    }

    /// What [`Constants::host_s`] takes for the host's time of a forward pass.
    fn host_ms(&self) -> f64 {
        4.0 * self.host_us / 1e3
    }
}

/// A pass through the model, some times.
struct TokenPass {
    model: ModelShape,
    plan: Parallelism,
    constants: Constants,
    /// Of decode, tokens that are attended to.
    context: Option<f64>,
    /// How often each micro batch goes through all stages.
    rounds: u32,
    /// Equal layers that are computed and exchanged at once.
    at_once: u32,
}

/// The job graph of a pass, one rank for each stage, and what its exchanges put on links.
struct PassGraph {
    graph: JobGraph,
    flows: Vec<GroupFlow>,
    carried: Vec<CarriedExchange>,
    /// For each stage the operations of each micro batch's visits, round by round, without receiving.
    visits: Vec<Vec<Range<usize>>>,
    micro_batches: u32,
    rounds: u32,
}

impl TokenPass {
    /// What a stage does with a micro batch.
    fn pieces(&self, stage: u32, layers: Range<u32>) -> Vec<LayerPiece> {
        let (model, plan, constants) = (&self.model, &self.plan, &self.constants);
        let has_experts = |layer: u32| layer >= model.dense_layers();
        let (mut pieces, mut start) = (vec![], layers.start);
        while start < layers.end {
            let same = (start..layers.end).take_while(|&layer| has_experts(layer) == has_experts(start)).count() as u32;
            let mut costs = LayerCosts::new(constants, model, start, plan);
            if let Some(context) = self.context {
                costs = costs.with_seconds(constants.next_token_layer(model, start, plan, context));
            }
            let forward = costs.forward();
            for first in (0..same).step_by(self.at_once as usize) {
                pieces.extend(times(&forward, f64::from(self.at_once.min(same - first))));
            }
            start += same;
        }
        if stage + 1 == plan.pipeline {
            // Of the last token of each sequence.
            let one = ModelShape { sequence: 1, ..model.clone() };
            let constants = Constants { product_half_gflop: 0.0, ..constants.clone() };
            pieces.push(LayerPiece::Compute(constants.logits_s(&one, plan)));
        }
        pieces
    }

    fn build(&self, wiring: &dyn Wiring) -> Result<PassGraph> {
        let stages = self.plan.pipeline;
        let mut graph = JobGraph::new(stages);
        graph.in_order = true;
        graph.names = StepWork::NAMES.map(String::from).to_vec();
        let micro_batches = self.plan.micro_batches;
        let visits = vec![vec![]; stages as usize];
        let mut built = PassGraph { graph, flows: vec![], carried: vec![], visits, micro_batches, rounds: self.rounds };
        let messages = self.messages(wiring, &mut built);
        let parts = self.plan.part_layers(&self.model);
        for (stage, layers) in (0..stages).zip(parts) {
            let pieces = self.pieces(stage, layers);
            let (mut known, mut before) = (BTreeMap::new(), vec![]);
            for visit in 0..self.rounds * micro_batches {
                if let Some(message) = messages[visit as usize][stage as usize] {
                    before.push(built.push(stage, GroupKind::Pipeline, OperationKind::Receive(message), &[]));
                }
                let start = built.graph.ranks[stage as usize].operations.len();
                for piece in &pieces {
                    before = self.piece(&mut built, wiring, stage, *piece, (&before, &mut known))?;
                }
                let next = match messages.get((visit + micro_batches * u32::from(stage + 1 == stages)) as usize) {
                    Some(next) => next[((stage + 1) % stages) as usize],
                    None => None,
                };
                if let Some(message) = next {
                    built.push(stage, GroupKind::Pipeline, OperationKind::Exchange(message), &before);
                }
                let end = built.graph.ranks[stage as usize].operations.len();
                built.visits[stage as usize].push(start..end);
            }
        }
        Ok(built)
    }

    /// What each visit of each stage waits for: a message of the stage before, or of the last one with the token before.
    fn messages(&self, wiring: &dyn Wiring, built: &mut PassGraph) -> Vec<Vec<Option<u32>>> {
        let (plan, stages) = (&self.plan, self.plan.pipeline);
        let visits = self.rounds * plan.micro_batches;
        let mut messages = vec![vec![None; stages as usize]; visits as usize];
        if stages == 1 {
            return messages;
        }
        let sequences = f64::from(plan.micro_batch);
        let divided = if plan.sequence_parallel { f64::from(plan.tensor) } else { 1.0 };
        let residual = 2.0 * sequences * self.model.sequence as f64 * self.model.hidden as f64 / divided;
        for to in 0..stages {
            let from = (to + stages - 1) % stages;
            let pairs: Vec<Vec<u32>> = plan.neighbours(from, to).into_iter().map(Vec::from).collect();
            let flow = built.add_flow(GroupFlow::new(wiring, FlowForm::Message, &pairs));
            // The number of a word.
            let bytes = if to == 0 { 4.0 * sequences } else { residual };
            for visit in if to == 0 { plan.micro_batches } else { 0 }..visits {
                let kind = ExchangeKind::Message { from, to, tag: 0 };
                let id = built.exchange(kind, GroupKind::Pipeline, CarriedExchange { flow, bytes, count: 1.0 });
                messages[visit as usize][to as usize] = Some(id);
            }
        }
        messages
    }

    /// Adds a piece after others; what the next one waits for.
    fn piece(
        &self,
        built: &mut PassGraph,
        wiring: &dyn Wiring,
        stage: u32,
        piece: LayerPiece,
        (before, known): (&[u32], &mut BTreeMap<(GroupKind, u8), u32>),
    ) -> Result<Vec<u32>> {
        let (calls, seconds) = match piece {
            LayerPiece::Compute(seconds) => (None, Some(seconds)),
            LayerPiece::Exchange(calls) => (Some(calls), None),
            LayerPiece::Both(calls, seconds) => (Some(calls), Some(seconds)),
        };
        let mut after = vec![];
        if let Some(seconds) = seconds {
            let kind = OperationKind::compute(picos(seconds), Resource::Stream(0));
            let operation = built.graph.ranks[stage as usize].push(StepWork::Forward.number(), kind, before);
            after.push(operation);
        }
        if let Some(Calls { kind, collective, bytes, count }) = calls {
            let flow = match known.get(&(kind, collective as u8)) {
                Some(&flow) => flow,
                None => {
                    let (model, plan, constants) = (&self.model, &self.plan, &self.constants);
                    let parts = StepParts { model, plan, constants, wiring, tables: &[] };
                    let flow = built.add_flow(group_flow(parts, (kind, stage), collective)?);
                    known.insert((kind, collective as u8), flow);
                    flow
                }
            };
            let exchange = ExchangeKind::Collective(Collective::new(collective));
            let id = built.exchange(exchange, kind, CarriedExchange { flow, bytes, count });
            after.push(built.push(stage, kind, OperationKind::Exchange(id), before));
        }
        Ok(after)
    }
}

impl PassGraph {
    fn add_flow(&mut self, flow: GroupFlow) -> u32 {
        self.flows.push(flow);
        self.flows.len() as u32 - 1
    }

    fn push(&mut self, stage: u32, kind: GroupKind, operation: OperationKind, after: &[u32]) -> u32 {
        self.graph.ranks[stage as usize].push(StepWork::Exchange(kind).number(), operation, after)
    }

    fn exchange(&mut self, kind: ExchangeKind, group: GroupKind, carried: CarriedExchange) -> u32 {
        let (name, bytes) = (StepWork::Exchange(group).number(), (carried.bytes * carried.count).ceil() as u64);
        self.graph.exchanges.push(JobExchange { name, kind, bytes, group: 0, priority: 0 });
        self.carried.push(carried);
        self.carried.len() as u32 - 1
    }

    /// Times it where the rates of all links are `factor` times as high.
    fn run(&self, factor: f64) -> Result<PassTimes> {
        let flows: Vec<GroupFlow> = self.flows.iter().map(|flow| flow.on_faster_links(factor)).collect();
        let mut links = SharedLinks::new(&flows, &self.graph, &self.carried, false);
        let line = timeline::run(&self.graph, &mut links)?;
        Ok(self.times(&line))
    }

    /// Of some rounds, what one takes.
    fn times(&self, line: &TimeLine) -> PassTimes {
        // The first only fills the stages; the last is there to be under way.
        let measured = if self.rounds > 2 { 1..self.rounds - 1 } else { 0..self.rounds };
        let of_round = |round: u32| (round * self.micro_batches) as usize;
        let places = of_round(measured.start)..of_round(measured.end);
        let (mut compute_ps, mut exposed_ps) = (0, [0; StepWork::KINDS]);
        for (stage, visits) in self.visits.iter().enumerate() {
            let operations = &self.graph.ranks[stage].operations;
            for visit in &visits[places.clone()] {
                let mut until = line.ranks[stage][visit.start].start_ps;
                for place in visit.clone() {
                    let of = line.ranks[stage][place];
                    let more = of.finish_ps.saturating_sub(until.max(of.start_ps));
                    until = until.max(of.finish_ps);
                    match exchange_kind(operations[place].name) {
                        Some(kind) => exposed_ps[kind] += more,
                        None => compute_ps += more,
                    }
                }
            }
        }
        let stage = self.visits.len() - 1;
        let end = |round: u32| -> Picos {
            let visit = &self.visits[stage][of_round(round) - 1];
            let computed = |&place: &usize| {
                matches!(self.graph.ranks[stage].operations[place].kind, OperationKind::Compute { .. })
            };
            let last = visit.clone().rev().find(computed).expect("a stage computes");
            line.ranks[stage][last].finish_ps
        };
        let from = if measured.start == 0 { 0 } else { end(measured.start) };
        let rounds = f64::from(measured.end - measured.start);
        let seconds = |time: Picos, of: f64| time as f64 / of * 1e-12;
        let total_s = seconds(end(measured.end) - from, rounds);
        let sequences = rounds * f64::from(self.micro_batches);
        let compute_s = seconds(compute_ps, sequences);
        let exposed_s = exposed_ps.map(|time| seconds(time, sequences));
        let waiting_s = (total_s - compute_s - exposed_s.iter().sum::<f64>()).max(0.0);
        // What is left of sums is none.
        let waiting_s = if waiting_s < 1e-9 * total_s { 0.0 } else { waiting_s };
        PassTimes { total_s, compute_s, exposed_s, waiting_s }
    }

    /// The rate of the slowest link that carries something.
    fn slowest_link(&self, wiring: &dyn Wiring) -> Option<f64> {
        let loads = self.flows.iter().flat_map(|flow| flow.loads());
        loads.map(|load| wiring.rate(load.link)).min_by(f64::total_cmp)
    }

    /// By what rates of links may be multiplied so that a token takes [`SLOWER`] times what it does on infinitely fast
    /// ones. Exact to 0.1 %.
    fn smallest_factor(&self) -> Result<f64> {
        let limit = SLOWER * self.run(f64::INFINITY)?.total_s;
        let is_slow = |factor: f64| Ok(self.run(factor)?.total_s > limit);
        let mut slow = 1.0;
        while !is_slow(slow)? {
            slow /= 16.0;
        }
        let mut fast = slow;
        while is_slow(fast)? {
            (slow, fast) = (fast, fast * 16.0);
        }
        while fast / slow > 1.001 {
            let middle = (slow * fast).sqrt();
            if is_slow(middle)? { slow = middle } else { fast = middle }
        }
        Ok(fast)
    }
}

#[cfg(test)]
mod tests;
