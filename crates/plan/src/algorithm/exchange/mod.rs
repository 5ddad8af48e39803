//! Exchange: an AllToAll on a product of lines and rings that keeps its busiest links busy from the first moment to the last.
//!
//! Data goes along one dimension after the other, the shorter way, so that no block crosses more links than it must, and all
//! links of a ring and all in the middle of lines carry the same. It is cut into as many parts as there are
//! dimensions, and each part begins with another one, so that all are busy at once. The busiest never waits for others: while
//! it carries a part, each of them carries one too, in no more time. Within a dimension what has farthest to go
//! is first ([`timetable`]). What goes the same way in a dimension goes as one message.
//!
//! Ranks forward what goes farther than to a neighbour, since that keeps the order on every link and needs no buffers in
//! the network; where handing over takes long, the network does.

mod timetable;

use super::{ALIGN, Algorithm, Info, Request, Scale};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::{Default::Derived, Opt};
use antiphon_base::parameter::{Domain, Parameter, Value};
use antiphon_base::units::{Bytes, Picos};
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{Dimension, DimensionShape, Fabric, LinkId, Product};
use antiphon_model::schedule::{Builder, Lane, MAX_LANE_TRANSFERS, MAX_TRANSFERS, Op, Payload, Schedule};
use antiphon_sim::cost::{CostModel, LinkCost, MessageCost};
use timetable::{ExchangeHop, Forward, Timetable};

/// See the module.
pub struct ExchangeAlgorithm;

const INFO: Info = Info {
    name: "exchange",
    summary: "all-to-all along one dimension after the other, farthest first; parts in different orders keep all busy",
    options: &[
        Opt::bytes(
            "chunk",
            Derived(
                "a whole message; half of one where hand-offs between dimensions would take more than 1 % of the time",
            ),
            "About the size into which messages are cut. Chunks follow each other through the dimensions.",
        ),
        Opt {
            parameter: Parameter {
                key: "forward",
                domain: Domain::Choice(&["ranks", "network"]),
                meaning: "Who forwards within a dimension.",
            },
            default: Derived(
                "ranks; the network where hand-offs would take more than a quarter of the time of the busiest link, or \
                 there would be too many messages",
            ),
        },
        ALIGN,
    ],
    source: "farthest first: Leighton, Introduction to Parallel Algorithms and Architectures, 1992, section 1.7; dimensions \
             in different orders: Themis (ISCA 2022)",
    collectives: &[Kind::AllToAll],
};

/// Most ranks: lanes grow with their square.
const MAX_RANKS: u32 = 1024;

impl Algorithm for ExchangeAlgorithm {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn scale(&self) -> Scale {
        Scale::Large
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let Some(product) = straight(request.fabric) else {
            return request.refuse("it needs a mesh, a torus or another product of lines and rings");
        };
        let forward = request.options.given("forward").map(|value| match value.text() {
            "network" => Forward::Network,
            _ => Forward::Ranks,
        });
        schedule(request, product, forward, request.options.given("chunk").map(Value::whole))
    }
}

/// The product of lines and rings that a fabric is, if it is one.
pub(super) fn straight(fabric: &Fabric) -> Option<&Product> {
    let is_straight = |dimension: &Dimension| matches!(dimension.shape, DimensionShape::Line | DimensionShape::Ring);
    fabric.product().filter(|product| product.dimensions.iter().all(is_straight))
}

/// The schedule of an AllToAll on a product of lines and rings.
///
/// # Errors
/// As [`schedule`].
pub(super) fn exchange(request: &Request, product: &Product) -> Result<Schedule> {
    schedule(request, product, None, None)
}

/// The schedule of an AllToAll on a product of lines and rings, in messages of about `chunk` bytes if they are to be cut.
///
/// # Errors
/// [`Code::TooLarge`] for more ranks, messages or blocks than are supported.
fn schedule(request: &Request, product: &Product, forward: Option<Forward>, chunk: Option<Bytes>) -> Result<Schedule> {
    let product = product.without_ones();
    let plan = ExchangePlan::new(request, &product, forward, chunk)?;
    let mut builder = request.builder();
    plan.lanes(request, &mut builder);
    builder.phase("all-to-all", false);
    plan.send(&mut builder)?;
    builder.finish()
}

/// Shapes and sizes of the dimensions.
fn dimensions(product: &Product) -> impl Iterator<Item = (DimensionShape, u32)> {
    product.dimensions.iter().map(|dimension| (dimension.shape, dimension.size as u32))
}

/// What every schedule takes, by its busiest link and its ways.
struct Busiest<'a> {
    costs: CostModel<'a>,
    link: LinkCost,
    /// Messages that cross a link in the middle of the busiest dimension, of all parts.
    crossing: u128,
    /// Pairs of ranks whose blocks make up a message there.
    pairs: u32,
    /// Bytes of a message.
    bytes: Bytes,
    /// From dimension to dimension, and from rank to rank within dimensions on the longest way.
    turns: Picos,
    stops: Picos,
    /// For how long the rank that sends most reads what it sends.
    reading: u128,
}

impl<'a> Busiest<'a> {
    /// The busiest of all dimensions of more than one node.
    fn of(request: &Request<'a>, product: &Product, parts: u32) -> Self {
        let (n, costs) = (request.ranks(), request.costs());
        let stop = |(shape, size)| Picos::from(timetable::longest(shape, size) - 1);
        let message = |size: u32| costs.message(request.bytes.div_ceil(u64::from(size) * u64::from(parts)), Op::Copy);
        let read = |(shape, size)| {
            2 * timetable::crossing(shape, size) * u128::from(parts) * u128::from(message(size).fetch.busy_ps())
        };
        let of_dimension = |(dimension, (shape, size))| {
            let neighbour = product.coordinates.with(0, dimension, 1);
            let link = request.fabric.link_between(product.nodes[0], product.nodes[neighbour as usize])?;
            Some(Busiest {
                costs,
                link: costs.link(request.fabric.link(link)),
                crossing: timetable::crossing(shape, size) * u128::from(parts),
                pairs: n / size,
                bytes: request.bytes.div_ceil(u64::from(size) * u64::from(parts)),
                turns: product.dimensions.len() as Picos - 1,
                stops: dimensions(product).map(stop).sum(),
                reading: dimensions(product).map(read).sum(),
            })
        };
        let all = dimensions(product).enumerate().filter_map(of_dimension);
        all.max_by_key(|busiest| busiest.sending_ps(1)).expect("neighbours are joined")
    }

    /// For how long the busiest link sends, or a rank reads, where messages are cut into so many chunks.
    fn sending_ps(&self, chunks: u64) -> Picos {
        let each = u128::from(self.message(chunks).on_link(self.link.flit_ps));
        u64::try_from((self.crossing * u128::from(chunks) * each).max(self.reading)).unwrap_or(Picos::MAX)
    }

    fn message(&self, chunks: u64) -> MessageCost {
        self.costs.message(self.bytes.div_ceil(chunks), Op::Copy)
    }

    /// About the time of all data. Where ranks forward, they hand over as often as the longest way has stops. The network
    /// serves packets in the order in which they come, those of several messages in turn, and links in the middle of lines then
    /// wait, at the end, for up to a quarter of their time. A chunk is handed over between dimensions while another one is sent, if that takes as long.
    fn time_ps(&self, forward: Forward, chunks: u64) -> Picos {
        let (sending, message, hand_off) = (self.sending_ps(chunks), self.message(chunks), self.costs.hand_off_ps());
        let way = hand_off.saturating_add(message.fetch.first_ps());
        let is_hidden = chunks > 1 && message.on_link(self.link.flit_ps) >= way;
        let turns = if is_hidden { 1 } else { self.turns + 1 };
        let within = match forward {
            Forward::Ranks => self.stops.saturating_mul(way),
            Forward::Network => sending / 4 - sending / 4 / message.packets.count,
        };
        let latency = self.link.latency_ps.saturating_mul(self.stops + self.turns + 1);
        [turns.saturating_mul(way), within, latency].into_iter().fold(sending, Picos::saturating_add)
    }

    /// Who forwards, if ranks can.
    fn forward(&self) -> Forward {
        let [ranks, network] = [Forward::Ranks, Forward::Network].map(|forward| self.time_ps(forward, 1));
        if ranks <= network { Forward::Ranks } else { Forward::Network }
    }

    /// Chunks of messages: two if that gains more than a hundredth. Where the network forwards, they have to fill packets as
    /// well, or those of more messages meet.
    fn chunks(&self, forward: Forward) -> u64 {
        let [whole, halves] = [1, 2].map(|chunks| self.time_ps(forward, chunks));
        let fills = self.sending_ps(2) - self.sending_ps(1) <= self.sending_ps(1) / 200;
        if halves < whole - whole / 100 && (fills || forward == Forward::Ranks) { 2 } else { 1 }
    }
}

/// How the data is cut, and its ways.
struct ExchangePlan<'a> {
    product: &'a Product,
    fabric: &'a Fabric,
    /// The rank at every position.
    ranks: Vec<u32>,
    /// One for each dimension.
    timetables: Vec<Timetable>,
    /// Into how many each part is cut to go both ways round a ring.
    halves: u32,
    /// Parts that begin with different dimensions.
    parts: u32,
    chunks: u64,
}

impl<'a> ExchangePlan<'a> {
    fn new(
        request: &Request<'a>,
        product: &'a Product,
        forward: Option<Forward>,
        chunk: Option<Bytes>,
    ) -> Result<Self> {
        let n = request.ranks();
        if n > MAX_RANKS {
            let what = format!("{} on {n} ranks; at most {MAX_RANKS} are supported", request.spec);
            return Err(Error::new(Code::TooLarge, what));
        }
        let mut halves = dimensions(product).map(|(shape, size)| timetable::halves(shape, size)).max().unwrap_or(1);
        let mut parts = product.dimensions.len() as u32;
        if request.bytes / u64::from(n) < request.align.bytes() * u64::from(halves * parts) {
            (halves, parts) = (1, 1);
        }
        let busiest = Busiest::of(request, product, parts);
        let counts = |forward| {
            let (mut transfers, mut blocks) = (0, 0);
            for (shape, size) in dimensions(product) {
                let lines = u64::from(n / size);
                let of_dimension = lines * timetable::transfers(shape, size, halves, forward);
                transfers += u64::from(parts) * of_dimension;
                blocks += u64::from(parts * halves) * of_dimension * lines;
            }
            (transfers, blocks)
        };
        let forward = forward.unwrap_or_else(|| {
            let (transfers, blocks) = counts(Forward::Ranks);
            let fits = transfers <= MAX_TRANSFERS as u64 && blocks <= MAX_LANE_TRANSFERS as u64;
            if fits { busiest.forward() } else { Forward::Network }
        });
        let (transfers, blocks) = counts(forward);
        request.expect(transfers, 0)?;
        if blocks > MAX_LANE_TRANSFERS as u64 {
            let (spec, most) = (request.spec, MAX_LANE_TRANSFERS);
            let what =
                format!("{spec} on {n} ranks has {blocks} blocks in messages, more than {most}; use fewer ranks");
            return Err(Error::new(Code::TooLarge, what));
        }
        let timetables =
            dimensions(product).map(|(shape, size)| Timetable::new(shape, size, halves, forward)).collect();
        let block = request.bytes.div_ceil(u64::from(n * halves * parts));
        let message = u64::from(busiest.pairs * halves) * block;
        let chunks = chunk.map_or_else(|| busiest.chunks(forward), |chunk| message.div_ceil(chunk));
        // What is whole of every block.
        let chunks = block.div_ceil(request.align.payload(block, chunks));
        let ranks = product.ranks(request.fabric);
        Ok(ExchangePlan { product, fabric: request.fabric, ranks, timetables, halves, parts, chunks })
    }

    /// The dimension of a stage of a part.
    fn dimension(&self, part: u32, stage: usize) -> usize {
        (part as usize + stage) % self.product.dimensions.len()
    }

    /// Sizes of the dimensions in the order of a part.
    fn sizes(&self, part: u32) -> Vec<u32> {
        let sizes = self.product.coordinates.sizes();
        (0..sizes.len()).map(|stage| sizes[self.dimension(part, stage)]).collect()
    }

    /// Steps of a stage, enough for any dimension.
    fn stage_steps(&self) -> u32 {
        self.timetables.iter().map(|table| table.steps).max().unwrap_or(1)
    }

    /// Steps from a chunk to the next.
    fn stride(&self) -> u32 {
        self.stage_steps() * self.product.dimensions.len() as u32
    }

    /// The step in which a stage begins. The next chunk begins its stage before, so that links do not wait for what has only
    /// just been sent.
    fn first_step(&self, stage: usize) -> u32 {
        stage as u32 * (self.stage_steps() + self.stride())
    }

    /// Where among the lanes of a half of a part those from a position begin, in blocks of as many as there are ranks, and
    /// where in a block that to this position is. In the order of the part's dimensions, the first changes fastest
    /// among sources and the last among destinations: so all lanes adjoin whose sources differ in dimensions of
    /// earlier stages, and all whose destinations differ in those of later ones.
    fn places(&self, part: u32, position: u32) -> (u32, u32) {
        let (mut source, mut destination, mut step) = (0, 0, 1);
        for (stage, size) in self.sizes(part).into_iter().enumerate() {
            let at = self.product.coordinates.of(position, self.dimension(part, stage));
            source += at * step;
            step *= size;
            destination = destination * size + at;
        }
        (source, destination)
    }

    /// Adds the lanes: by part, half, source and destination.
    fn lanes(&self, request: &Request, builder: &mut Builder) {
        let all = (self.parts * self.halves) as usize;
        for part in 0..self.parts {
            let (mut sources, mut destinations) = (self.ranks.clone(), self.ranks.clone());
            for (position, &rank) in (0..).zip(&self.ranks) {
                let (source, destination) = self.places(part, position);
                (sources[source as usize], destinations[destination as usize]) = (rank, rank);
            }
            for half in 0..self.halves {
                let region = |&owner: &u32| {
                    let (start, length) = request.shard(owner);
                    let (offset, bytes) = request.align.shard(length, all, (part * self.halves + half) as usize);
                    (owner, start + offset, bytes)
                };
                let regions: Vec<_> = destinations.iter().map(region).collect();
                for &source in &sources {
                    for &(owner, offset, bytes) in &regions {
                        let (chunks, stride) = (self.chunks, self.stride());
                        let chunk_bytes = request.align.payload(bytes, chunks).min(bytes).max(1);
                        builder.lane(Lane { offset, bytes, chunks, chunk_bytes, stride, source, owner });
                    }
                }
            }
        }
    }

    /// Adds the transfers.
    fn send(&self, builder: &mut Builder) -> Result<()> {
        for part in 0..self.parts {
            for stage in 0..self.timetables.len() {
                for origin in self.product.coordinates.origins(self.dimension(part, stage)) {
                    self.send_along(builder, part, stage, origin)?;
                }
            }
        }
        Ok(())
    }

    /// Adds those of a stage of a part along the line or ring from a position on.
    fn send_along(&self, builder: &mut Builder, part: u32, stage: usize, origin: u32) -> Result<()> {
        let (sizes, dimension, n) = (self.sizes(part), self.dimension(part, stage), self.ranks.len() as u32);
        let before: u32 = sizes[..stage].iter().product();
        let after: u32 = sizes[stage + 1..].iter().product();
        // Sources are anywhere in the dimensions of earlier stages, destinations in those of later ones.
        let (source, destination) = self.places(part, origin);
        let source = source - source % (before * sizes[stage]);
        let destination = destination - destination % (after * sizes[stage]);
        let table = &self.timetables[dimension];
        let payload = |hop: &ExchangeHop| {
            let message = &table.messages[hop.message as usize];
            let (from, to) = (source + message.from * before, destination + message.to * after);
            let first = |half: u32, source: u32| ((part * self.halves + half) * n + source) * n + to;
            let lanes = |half| (from..from + before).map(move |source| first(half, source));
            Payload::of(message.halves.clone().flat_map(lanes).map(|lane| lane..lane + after))
        };
        let place = |at| self.product.coordinates.with(origin, dimension, at) as usize;
        for hop in &table.hops {
            let [from, to] = [hop.at, hop.to].map(|at| self.ranks[place(at)]);
            let step = self.first_step(stage) + hop.step;
            let way: Vec<_> = table.way(hop).map(|at| self.product.nodes[place(at)]).collect();
            if way.len() == 2 {
                builder.send(Op::Copy, from, to, payload(hop), step)?;
                continue;
            }
            let link = |pair: &[u32]| self.fabric.link_between(pair[0], pair[1]).expect("neighbours are joined");
            let route: Vec<LinkId> = way.windows(2).map(link).collect();
            builder.send_via(Op::Copy, from, to, payload(hop), step, route)?;
        }
        Ok(())
    }
}

/// What is expected of messages that ranks forward, and their schedule.
#[cfg(test)]
pub(super) fn estimated(request: &Request) -> (u128, Schedule) {
    let product = straight(request.fabric).unwrap().without_ones();
    let plan = ExchangePlan::new(request, &product, Some(Forward::Ranks), Some(Bytes::MAX)).unwrap();
    let time = Busiest::of(request, &product, plan.parts).time_ps(Forward::Ranks, 1);
    (time.into(), schedule(request, &product, Some(Forward::Ranks), Some(Bytes::MAX)).unwrap())
}

#[cfg(test)]
mod tests;
