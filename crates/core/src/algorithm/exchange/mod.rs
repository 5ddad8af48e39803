//! Exchange: an AllToAll on a product of lines and rings that keeps its busiest links busy from the first moment to the last.
//!
//! Data goes along one dimension after the other, from neighbour to neighbour the shorter way, so that no message crosses
//! more links than it must and all links of a ring, and all in the middle of lines, carry the same. It is cut into as many
//! parts as there are dimensions; each part begins with another one, so that all are busy at once. None waits
//! for the busiest: while that carries a part, every other dimension carries one too, in less time. Within a dimension what has
//! farthest to go is first ([`timetable`]).
//!
//! Chunks follow each other: what a chunk does in its second dimension comes after what the next chunk does in its first, so
//! that nothing waits for what has only just been sent.

mod timetable;

use super::{Algorithm, Info, Request};
use crate::collective::{Kind, shard};
use crate::error::{Code, Error, Result};
use crate::fabric::{DimensionShape, Fabric, LinkId, Product};
use crate::options::{Default::Derived, Opt};
use crate::parameter::{Domain, Parameter, Value};
use crate::schedule::{Builder, Lane, MAX_LANE_TRANSFERS, Op, Payload, Schedule};
use crate::units::Bytes;
use timetable::{Forward, Hop, Timetable};

/// See the module.
pub struct Exchange;

const INFO: Info = Info {
    name: "exchange",
    summary: "one dimension after the other, farthest first; parts of the data in different orders keep all busy",
    options: &[
        Opt::bytes("chunk", Derived("whole"), "Messages are cut into chunks of about this size, which follow each other."),
        Opt {
            parameter: Parameter {
                key: "forward",
                domain: Domain::Choice(&["ranks", "network"]),
                meaning: "Who forwards what goes farther than to a neighbour.",
            },
            default: Derived("ranks"),
        },
    ],
    source: "this project",
    collectives: &[Kind::AllToAll],
};

/// Most ranks: lanes grow with their square.
const MAX_RANKS: u32 = 1024;

impl Algorithm for Exchange {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let straight = |product: &Product| {
            product.dimensions.iter().all(|d| matches!(d.shape, DimensionShape::Line | DimensionShape::Ring))
        };
        match request.fabric.product().filter(|product| straight(product)) {
            Some(product) => {
                let forward = match request.options.given("forward").map(Value::text) {
                    Some("network") => Forward::Network,
                    _ => Forward::Ranks,
                };
                schedule(request, product, forward, request.options.given("chunk").map(Value::whole))
            }
            None => request.refuse("it needs a mesh, a torus or another product of lines and rings"),
        }
    }
}

/// The schedule for a request on a product of lines and rings, in messages of about `chunk` bytes.
fn schedule(request: &Request, product: &Product, forward: Forward, chunk: Option<Bytes>) -> Result<Schedule> {
    let product = product.without_ones();
    let plan = Plan::new(request, &product, forward, chunk)?;
    let mut builder = request.builder();
    plan.lanes(request, &mut builder);
    builder.phase("all-to-all", false);
    plan.send(&mut builder)?;
    builder.finish()
}

struct Plan<'a> {
    product: &'a Product,
    fabric: &'a Fabric,
    /// The rank at every position.
    ranks: Vec<u32>,
    timetables: Vec<Timetable>,
    /// Into how many each part is cut to go both ways round a ring.
    halves: u32,
    /// Parts that begin with different dimensions.
    parts: u32,
    chunks: u64,
}

impl<'a> Plan<'a> {
    fn new(request: &'a Request, product: &'a Product, forward: Forward, chunk: Option<Bytes>) -> Result<Self> {
        let n = request.ranks();
        if n > MAX_RANKS {
            let what = format!("{} on {n} ranks; at most {MAX_RANKS} are supported", request.spec);
            return Err(Error::new(Code::TooLarge, what));
        }
        let dimensions = || product.dimensions.iter().map(|dimension| (dimension.shape, dimension.size as u32));
        let mut halves = dimensions().map(|(shape, size)| timetable::halves(shape, size)).max().unwrap_or(1);
        let mut parts = product.dimensions.len().max(1) as u32;
        let pair = request.bytes / u64::from(n);
        if pair < u64::from(4 * halves * parts) {
            (halves, parts) = (1, 1);
        }
        let of_dimension = |(shape, size)| u64::from(n / size) * timetable::transfers(shape, size, halves, forward);
        request.expect(u64::from(parts) * dimensions().map(of_dimension).sum::<u64>(), 0)?;
        let lanes = |(shape, size)| u64::from(n / size) * of_dimension((shape, size));
        let lane_transfers = u64::from(halves * parts) * dimensions().map(lanes).sum::<u64>();
        if lane_transfers > MAX_LANE_TRANSFERS as u64 {
            let what = format!(
                "{} on {n} ranks has {lane_transfers} blocks in messages, more than {MAX_LANE_TRANSFERS}",
                request.spec
            );
            return Err(Error::new(Code::TooLarge, what));
        }
        let timetables = dimensions().map(|(shape, size)| Timetable::new(shape, size, halves, forward)).collect();
        // Lanes of the shortest messages.
        let blocks = u64::from(n / dimensions().map(|(_, size)| size).max().unwrap_or(1));
        let block = request.bytes.div_ceil(u64::from(n * halves * parts));
        let chunks = chunk.map_or(1, |chunk| {
            let least = chunk.div_ceil(blocks).next_multiple_of(4);
            block.div_ceil(Lane::payload(block, block.div_ceil(least)))
        });
        Ok(Plan { product, fabric: request.fabric, ranks: product.ranks(request.fabric), timetables, halves, parts, chunks })
    }

    /// Number of positions.
    fn count(&self) -> u32 {
        self.product.coordinates.count()
    }

    /// The dimension of a stage of a part.
    fn dimension(&self, part: u32, stage: usize) -> usize {
        (part as usize + stage) % self.product.dimensions.len()
    }

    /// Steps from a stage to the next, long enough for any dimension.
    fn stage_steps(&self) -> u32 {
        self.timetables.iter().map(|table| table.steps).max().unwrap_or(1)
    }

    /// Steps from a chunk to the next.
    fn stride(&self) -> u32 {
        self.stage_steps() * self.product.dimensions.len().max(1) as u32
    }

    /// The step in which a stage begins. A stage later is a chunk later too.
    fn first_step(&self, stage: usize) -> u32 {
        stage as u32 * (self.stage_steps() + self.stride())
    }

    /// Sizes of the dimensions in the order of a part.
    fn sizes(&self, part: u32) -> Vec<u32> {
        let sizes = self.product.coordinates.sizes();
        (0..sizes.len()).map(|stage| sizes[self.dimension(part, stage)]).collect()
    }

    /// Where among the lanes of a half of a part those of a source begin, by the source's position, and where in these is
    /// that for a destination. In the order of the part, the first dimension changes fastest among sources, the last
    /// one among destinations: so all lanes whose sources differ in dimensions of earlier stages, or whose
    /// destinations in those of later stages, adjoin.
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

    fn lanes(&self, request: &Request, builder: &mut Builder) {
        let n = self.count();
        let all = (self.parts * self.halves) as usize;
        for part in 0..self.parts {
            let (mut sources, mut destinations) = (vec![0; n as usize], vec![0; n as usize]);
            for position in 0..n {
                let (source, destination) = self.places(part, position);
                sources[source as usize] = self.ranks[position as usize];
                destinations[destination as usize] = self.ranks[position as usize];
            }
            for half in 0..self.halves {
                let region = |&owner: &u32| {
                    let (start, length) = request.shard(owner);
                    let (offset, bytes) = shard(length, all, (part * self.halves + half) as usize);
                    (start + offset, bytes)
                };
                let regions: Vec<_> = destinations.iter().map(region).collect();
                for &source in &sources {
                    for (&owner, &(offset, bytes)) in destinations.iter().zip(&regions) {
                        let chunk_bytes = Lane::payload(bytes, self.chunks).min(bytes).max(1);
                        let (chunks, stride) = (self.chunks, self.stride());
                        builder.lane(Lane { offset, bytes, chunks, chunk_bytes, stride, source, owner });
                    }
                }
            }
        }
    }

    fn send(&self, builder: &mut Builder) -> Result<()> {
        let (n, coordinates) = (self.count(), &self.product.coordinates);
        for part in 0..self.parts {
            let sizes = self.sizes(part);
            for stage in 0..sizes.len() {
                let dimension = self.dimension(part, stage);
                let table = &self.timetables[dimension];
                let before: u32 = sizes[..stage].iter().product();
                let after: u32 = sizes[stage + 1..].iter().product();
                for origin in coordinates.origins(dimension) {
                    let (source, destination) = self.places(part, origin);
                    // Sources are anywhere in the dimensions that are behind, destinations in those ahead.
                    let source = source / (before * sizes[stage]) * before * sizes[stage];
                    let destination = destination / (after * sizes[stage]) * after * sizes[stage];
                    let payload = |hop: &Hop| {
                        let message = &table.messages[hop.message as usize];
                        let (from, to) = (source + message.from * before, destination + message.to * after);
                        Payload::of(message.halves.clone().flat_map(|half| {
                            let first = (part * self.halves + half) * n;
                            (from..from + before).map(move |source| {
                                let lane = (first + source) * n + to;
                                lane..lane + after
                            })
                        }))
                    };
                    let place = |at| coordinates.with(origin, dimension, at) as usize;
                    for hop in &table.hops {
                        let [from, to] = [hop.at, hop.to].map(|at| self.ranks[place(at)]);
                        let step = self.first_step(stage) + hop.step;
                        let way: Vec<_> = table.way(hop).map(|at| self.product.nodes[place(at)]).collect();
                        if way.len() == 2 {
                            builder.send(Op::Copy, from, to, payload(hop), step)?;
                            continue;
                        }
                        let link = |pair: &[u32]| self.fabric.link_between(pair[0], pair[1]).expect("neighbours");
                        let route: Vec<LinkId> = way.windows(2).map(link).collect();
                        builder.send_via(Op::Copy, from, to, payload(hop), step, route)?;
                    }
                }
            }
        }
        Ok(())
    }
}
