//! What is to be scheduled, as people ask for it.

use super::orders::{Basic, MAX_CHUNKS, RailsPlan, Stage};
use super::packets::RailsPackets;
use super::scheduler::{ADDED, Added, Baseline, OrderSearch, Phased, Scheduler, Themis};
use super::stage_endpoint;
use super::stage_loop::{QueuePolicy, RailsTimes, run};
use crate::ace::work::{after_link, before_link};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::{Choice, Domain, Stored, Value};
use antiphon_base::units::{Bytes, Picos, clip};
use antiphon_model::collective::Kind;
use antiphon_model::system::Endpoint;
use antiphon_model::topology::Topology;

/// Schedulers by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// [`Baseline`].
    Baseline,
    /// [`Themis`].
    Themis,
    /// [`OrderSearch`].
    Search,
    /// [`Phased`].
    Phased,
    /// [`Added`].
    Added(&'static str),
}

impl Choice for Policy {
    const WHAT: &'static str = "scheduler";
    const ALL: &'static [(&'static str, Self)] = &[
        ("baseline", Policy::Baseline),
        ("themis", Policy::Themis),
        ("search", Policy::Search),
        ("phased", Policy::Phased),
    ];

    fn added() -> Vec<(&'static str, Self)> {
        ADDED.all().into_iter().map(|(name, _)| (name, Policy::Added(name))).collect()
    }
}

impl Policy {
    /// The queue policy it is meant for.
    pub fn queue(self) -> QueuePolicy {
        match self {
            Policy::Baseline => QueuePolicy::Fifo,
            Policy::Themis | Policy::Added(_) => QueuePolicy::Smallest,
            Policy::Search => QueuePolicy::Tail,
            Policy::Phased => QueuePolicy::Oldest,
        }
    }

    /// The scheduler, with the parameters of either kind.
    pub fn scheduler(self, themis: Themis, search: OrderSearch) -> Box<dyn Scheduler> {
        match self {
            Policy::Baseline => Box::new(Baseline),
            Policy::Themis => Box::new(themis),
            Policy::Search => Box::new(search),
            Policy::Phased => Box::new(Phased),
            Policy::Added(name) => Box::new(Added(name)),
        }
    }
}

/// A number of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunks {
    /// So many.
    Count(u32),
    /// The fewest that are about as fast as any: [`OrderSearch::chunks`].
    Best,
    /// As many as have the size of the endpoint's ([`chunks_of`]).
    Endpoint,
}

impl Chunks {
    /// A whole number, or `best`.
    ///
    /// # Errors
    /// [`Code::BadSize`].
    pub fn parse(text: &str) -> Result<Chunks> {
        match (text, text.parse()) {
            ("best", _) => Ok(Chunks::Best),
            (_, Ok(count)) => Ok(Chunks::Count(count)),
            _ => Err(Error::new(Code::BadSize, format!("'{}' is neither a whole number nor 'best'", clip(text)))),
        }
    }
}

impl Stored for Chunks {
    fn show(&self, _: &Domain) -> Value {
        match self {
            Chunks::Count(count) => Value::Whole((*count).into()),
            Chunks::Best => Value::Text("best".into()),
            Chunks::Endpoint => Value::Text("of the endpoint".into()),
        }
    }

    fn read(value: &Value, _: &Domain) -> Chunks {
        Chunks::parse(value.text()).expect("values are checked")
    }
}

/// Chunks where nobody says how many, nor how large.
const CHUNKS: u32 = 64;

/// Chunks of a buffer that have the size of the endpoint's; 64 where it has none.
///
/// # Errors
/// [`Code::TooLarge`] past [`MAX_CHUNKS`].
pub fn chunks_of(endpoint: &Endpoint, bytes: Bytes) -> Result<u32> {
    let Some(chunk) = endpoint.chunk() else { return Ok(CHUNKS) };
    match bytes.div_ceil(chunk) {
        count if count <= u64::from(MAX_CHUNKS) => Ok(count.max(1) as u32),
        count => {
            let what = format!("{count} chunks of {chunk} bytes; at most {MAX_CHUNKS}: give chunks, or a larger chunk");
            Err(Error::new(Code::TooLarge, what).at(format_args!("endpoint {}", endpoint.name())))
        }
    }
}

/// Most steps at an endpoint: about half a minute, and two gigabytes.
const MAX_STEPS: u64 = 1 << 25;

/// Steps of all chunks of some plans, apart from those of an engine for itself: a message is served by the link and by
/// parts of the endpoint.
fn steps_of<'a>(endpoint: &Endpoint, plans: impl Iterator<Item = (&'a Topology, &'a RailsPlan)>) -> u64 {
    let parts = before_link(endpoint, 1).len() + usize::from(after_link(endpoint).is_some());
    let steps = |(topology, plan): (&Topology, &RailsPlan)| {
        let messages = |stage: Stage| match stage.basic {
            Basic::Exchange => 1,
            Basic::Reduce | Basic::Gather => topology.dimensions[usize::from(stage.dimension)].steps(),
        };
        let of = |order| plan.stages(topology, order).map(messages).fold(0, u64::saturating_add);
        plan.orders.iter().map(of).fold(0, u64::saturating_add)
    };
    plans.map(steps).fold(0, u64::saturating_add).saturating_mul(1 + parts as u64)
}

/// Refuses plans that take too long step by step, as rings of thousands do.
///
/// # Errors
/// [`Code::TooLarge`] with the number of steps.
pub fn check_steps<'a>(
    endpoint: &Endpoint,
    plans: impl Iterator<Item = (&'a Topology, &'a RailsPlan)> + Clone,
) -> Result<()> {
    let steps = steps_of(endpoint, plans.clone());
    if steps <= MAX_STEPS {
        return Ok(());
    }
    let chunks: usize = plans.map(|(_, plan)| plan.orders.len()).sum();
    let what = format!("{chunks} chunks take {steps} steps; at most {MAX_STEPS}: give fewer chunks, or a larger chunk");
    Err(Error::new(Code::TooLarge, what).at(format_args!("endpoint {}", endpoint.name())))
}

/// A collective to schedule, and how.
#[derive(Debug, Clone)]
pub struct RailsTask {
    /// Where.
    pub topology: Topology,
    /// What.
    pub kind: Kind,
    /// Full buffer size.
    pub bytes: Bytes,
    /// Who orders the chunks.
    pub policy: Policy,
    /// Queue policy of the dimensions; the scheduler's own where there is none.
    pub queue: Option<QueuePolicy>,
    /// Parts of the buffer.
    pub chunks: Chunks,
    /// Chunks that share a dimension.
    pub sharing: u32,
    /// Whether switches reduce and multicast by themselves.
    pub offload: bool,
    /// What Themis is like.
    pub themis: Themis,
    /// Packets of the dimensions, if messages have headers.
    pub packets: Option<RailsPackets>,
    /// Seed of the search.
    pub seed: u64,
    /// What stands between memory and links.
    pub endpoint: Endpoint,
}

impl RailsTask {
    /// The plan, the queue policy it is for, and its timing. A search without a given queue policy
    /// chooses that too ([`OrderSearch::best`]). Schedulers do not know of endpoints: there a search gives the fastest of
    /// what it and the others find.
    ///
    /// # Errors
    /// As [`RailsPlan::uniform`], [`check_steps`] and [`stage_endpoint::run`].
    pub fn run(&self) -> Result<(RailsPlan, QueuePolicy, RailsTimes)> {
        let chunks = match self.chunks {
            Chunks::Count(chunks) => chunks,
            Chunks::Best => self.search().chunks(&self.topology, self.kind, self.bytes, self.offload)?,
            Chunks::Endpoint => chunks_of(&self.endpoint, self.bytes)?,
        };
        let mut plan = RailsPlan::uniform(&self.topology, self.kind, self.bytes, chunks, self.offload)?;
        if let Some(packets) = &self.packets {
            plan = plan.in_packets(&self.topology, packets)?;
        }
        if self.endpoint == Endpoint::System {
            let (plan, queue) = self.scheduled(self.policy, plan);
            let timed = run(&self.topology, &plan, queue, self.sharing);
            return Ok((plan, queue, timed));
        }
        if self.sharing > 1 {
            let what = "chunks that share a dimension are not modelled with an endpoint; leave sharing 1";
            return Err(Error::new(Code::NotApplicable, what));
        }
        check_steps(&self.endpoint, std::iter::once((&self.topology, &plan)))?;
        // Endpoints bound what is under way: a chunk that has begun is to be done.
        let queue = self.queue.unwrap_or(QueuePolicy::Oldest);
        let timed = |policy| {
            let (plan, _) = self.scheduled(policy, plan.clone());
            let timed = stage_endpoint::run(&self.topology, &plan, queue, self.endpoint)?;
            Ok((plan, queue, timed))
        };
        let own = timed(self.policy);
        if self.policy != Policy::Search {
            return own;
        }
        let time = |found: &Result<(RailsPlan, QueuePolicy, RailsTimes)>| {
            found.as_ref().map_or(Picos::MAX, |(.., timed)| timed.time_ps)
        };
        let others = [Policy::Baseline, Policy::Themis, Policy::Phased].into_iter().map(timed);
        others.fold(own, |best, other| if time(&other) < time(&best) { other } else { best })
    }

    fn search(&self) -> OrderSearch {
        OrderSearch { sharing: self.sharing, seed: self.seed, ..OrderSearch::default() }
    }

    /// A plan ordered by a scheduler, and the queue policy it is for.
    fn scheduled(&self, policy: Policy, mut plan: RailsPlan) -> (RailsPlan, QueuePolicy) {
        if policy == Policy::Search && self.queue.is_none() {
            let queue = self.search().best(&self.topology, &mut plan);
            return (plan, queue);
        }
        let queue = self.queue.unwrap_or(policy.queue());
        policy.scheduler(self.themis, OrderSearch { queue, ..self.search() }).schedule(&self.topology, &mut plan);
        (plan, queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(topology: &str, policy: Policy, bytes: Bytes, endpoint: &str) -> RailsTask {
        RailsTask {
            topology: Topology::parse(topology).unwrap(),
            kind: Kind::AllReduce,
            bytes,
            policy,
            queue: None,
            chunks: Chunks::Endpoint,
            sharing: 1,
            offload: false,
            themis: Themis::default(),
            packets: None,
            seed: 1,
            endpoint: Endpoint::parse(endpoint).unwrap(),
        }
    }

    fn a_search_never_loses(topology: &str, endpoint: &str) {
        let time = |policy| task(topology, policy, 8 << 20, endpoint).run().unwrap().2.time_ps;
        let search = time(Policy::Search);
        for other in [Policy::Baseline, Policy::Themis, Policy::Phased] {
            assert!(search <= time(other), "{topology}, {endpoint}, {}", other.name());
        }
    }

    /// On switches with microseconds of latency an engine is much faster with the baseline's orders than with those that use
    /// all links.
    #[test]
    fn a_search_at_an_endpoint_never_loses() {
        a_search_never_loses("3D-SW_SW_SW_hetero", "ideal");
        a_search_never_loses("ace:4x4x4", "ace");
    }

    #[test]
    #[ignore = "takes a quarter of a minute"]
    fn a_search_at_any_endpoint_never_loses() {
        for topology in ["3D-SW_SW_SW_hetero", "ace:4x4x4"] {
            for endpoint in ["ideal", "ace-baseline-compopt", "ace"] {
                a_search_never_loses(topology, endpoint);
            }
        }
    }

    #[test]
    fn steps_are_counted_before_they_are_made() {
        let refused = task("ace:100000x2x2", Policy::Phased, 100_000_000, "npu").run().unwrap_err();
        // (99,999 messages there and back, four on the small rings) x (read, bus, link), for each chunk.
        let steps = 1526 * (2 * 99_999 + 4) * 3;
        let what = format!(
            "endpoint npu: 1526 chunks take {steps} steps; at most 33554432: give fewer chunks, or a larger chunk"
        );
        assert_eq!((refused.code, refused.message), (Code::TooLarge, what));
        assert!(task("ace:100000x2x2", Policy::Phased, 100_000_000, "system").run().is_ok());
        assert!(task("ace:5000x2x2", Policy::Phased, 1 << 20, "npu").run().is_ok());
    }

    /// As many as are made where an endpoint has no parts of its own.
    #[test]
    fn steps_are_those_of_the_plan() {
        for (topology, policy) in [("ace:4x3x2", Policy::Phased), ("sw8@800/700ns,fc3@100/20ns", Policy::Baseline)] {
            for kind in [Kind::AllReduce, Kind::AllGather, Kind::AllToAll] {
                let task = RailsTask { kind, ..task(topology, policy, 1 << 20, "npu") };
                let (plan, ..) = task.run().unwrap();
                let group = stage_endpoint::RailsGroup::whole(&task.topology);
                let node = stage_endpoint::RailsEndpoint::new(
                    task.topology.dimensions.len(),
                    task.endpoint,
                    &[(&group, &plan)],
                )
                .unwrap();
                let made: usize = node.chunks(&group, &plan).iter().map(|steps| steps.len()).sum();
                assert_eq!(steps_of(&task.endpoint, std::iter::once((&task.topology, &plan))), made as u64);
            }
        }
    }
}
