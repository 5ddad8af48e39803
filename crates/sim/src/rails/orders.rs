//! A plan: in which order each chunk goes through the dimensions.

use super::packets::{RailsPacket, RailsPackets};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, MAX_BYTES, Picos};
use antiphon_model::collective::{Align, Kind};
use antiphon_model::fabric::{Dimension, DimensionShape};
use antiphon_model::topology::{MAX_DIMENSIONS, Topology};

/// Most chunks of a collective.
pub const MAX_CHUNKS: u32 = 1 << 16;
/// Longest time of all chunks on one dimension, in picoseconds: about three hours.
const MAX_TIME: u128 = 10_000_000_000_000_000;

/// A basic collective on one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Basic {
    /// ReduceScatter.
    Reduce,
    /// AllGather.
    Gather,
    /// AllToAll.
    Exchange,
}

/// Dimensions, by number, in the order in which one chunk uses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StagePath {
    dimensions: [u8; MAX_DIMENSIONS],
    len: u8,
}

impl StagePath {
    /// All dimensions, by [nearness](Dimension::nearness), of equally near ones as they are written.
    pub fn nearest_first(topology: &Topology) -> StagePath {
        let len = topology.dimensions.len() as u8;
        let mut path = StagePath { dimensions: std::array::from_fn(|index| index as u8), len };
        path.as_mut_slice().sort_by_key(|&number| topology.dimensions[usize::from(number)].nearness());
        path
    }

    /// Dimensions by number; `None` unless each of so many is there once.
    pub fn of(numbers: &[u64], dimensions: usize) -> Option<StagePath> {
        let mut path = StagePath { dimensions: [0; MAX_DIMENSIONS], len: dimensions as u8 };
        for (place, &number) in path.as_mut_slice().iter_mut().zip(numbers) {
            *place = number as u8;
        }
        let once = (0..dimensions as u64).all(|number| numbers.contains(&number));
        (once && numbers.len() == dimensions).then_some(path)
    }

    /// The dimension numbers.
    pub fn as_slice(&self) -> &[u8] {
        &self.dimensions[..usize::from(self.len)]
    }

    /// The same for changes.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.dimensions[..usize::from(self.len)]
    }

    /// The other way round.
    pub fn reversed(mut self) -> StagePath {
        self.as_mut_slice().reverse();
        self
    }
}

/// The order of one chunk: its ReduceScatter (or AllToAll) stages and its AllGather stages. The
/// collective says which of them are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkOrder {
    /// ReduceScatter or AllToAll.
    pub first: StagePath,
    /// AllGather.
    pub gather: StagePath,
}

impl ChunkOrder {
    /// Stages in `path` order, then back (Themis paper, section 2.3).
    pub fn mirrored(path: StagePath) -> ChunkOrder {
        ChunkOrder { first: path, gather: path.reversed() }
    }

    /// The AllGather stages, or those before.
    pub fn half_mut(&mut self, gather: bool) -> &mut StagePath {
        if gather { &mut self.gather } else { &mut self.first }
    }
}

/// One chunk on one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// Number of the dimension.
    pub dimension: u8,
    /// What is done there.
    pub basic: Basic,
    /// Into how many parts the chunk is divided where it is largest, before or after the stage.
    pub parts: u64,
    /// Its size there, in 1 / 4096 of a byte.
    pub size: u64,
    /// The same before the stage.
    pub size_before: u64,
    /// Time the dimension is busy.
    pub busy_ps: Picos,
    /// Latency after which the chunk moves on.
    pub latency_ps: Picos,
}

/// What is asked for, and the order of every chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailsPlan {
    /// AllReduce, ReduceScatter, AllGather or AllToAll.
    pub kind: Kind,
    /// Full buffer size.
    pub bytes: Bytes,
    /// Where data may be cut.
    pub align: Align,
    /// Whether switches reduce and multicast by themselves (paper, section 4.5).
    pub offload: bool,
    /// Whether an AllReduce gathers along every dimension but the first as soon as it has reduced there
    /// ([`super::scheduler::Phased`]), not only after it has reduced along all.
    pub phased: bool,
    /// Packets of each dimension; none have headers where it is empty.
    pub packets: Vec<RailsPacket>,
    /// ChunkOrder of each chunk; all chunks are of the same size.
    pub orders: Vec<ChunkOrder>,
}

impl RailsPlan {
    /// A plan in which every chunk has the same order.
    ///
    /// # Errors
    /// [`Code::BadSize`] for sizes and counts, [`Code::NotApplicable`] for other collectives.
    pub fn uniform(topology: &Topology, kind: Kind, bytes: Bytes, chunks: u32, offload: bool) -> Result<RailsPlan> {
        if !matches!(kind, Kind::AllReduce | Kind::ReduceScatter | Kind::AllGather | Kind::AllToAll) {
            let what = format!("rails do all-reduce, reduce-scatter, all-gather and all-to-all, not {}", kind.name());
            return Err(Error::new(Code::NotApplicable, what));
        }
        if bytes == 0 || bytes > MAX_BYTES {
            return Err(Error::new(Code::BadSize, format!("{bytes} bytes: expected 1 to 1 PiB")));
        }
        if !(1..=MAX_CHUNKS).contains(&chunks) {
            return Err(Error::new(Code::BadSize, format!("{chunks} chunks: expected 1 to {MAX_CHUNKS}")));
        }
        let path = StagePath::nearest_first(topology);
        let plan = RailsPlan {
            kind,
            bytes,
            align: Align::default(),
            offload,
            phased: false,
            packets: Vec::new(),
            orders: vec![ChunkOrder::mirrored(path); chunks as usize],
        };
        plan.check_times(topology)?;
        Ok(plan)
    }

    /// The plan in packets.
    ///
    /// # Errors
    /// [`Code::BadSize`] for another number of formats than dimensions; [`Code::TooLarge`].
    pub fn in_packets(mut self, topology: &Topology, packets: &RailsPackets) -> Result<RailsPlan> {
        self.packets = packets.of(topology.dimensions.len())?;
        self.check_times(topology)?;
        Ok(self)
    }

    fn check_times(&self, topology: &Topology) -> Result<()> {
        for (number, dimension) in topology.dimensions.iter().enumerate() {
            let stage = self.busy(number, dimension, Basic::Exchange, 1)
                + u128::from(dimension.npu_latency()) * u128::from(dimension.steps());
            if stage.saturating_mul(2 * self.orders.len() as u128) > MAX_TIME {
                let what = format!("dimension {}: its stages could take more than two hours; send less", number + 1);
                return Err(Error::new(Code::TooLarge, what));
            }
        }
        Ok(())
    }

    /// Stages of one order, first to last. An AllGather starts from a chunk divided over all
    /// dimensions, and an AllToAll never divides it.
    pub fn stages<'a>(&'a self, topology: &'a Topology, order: &'a ChunkOrder) -> impl Iterator<Item = Stage> + 'a {
        let (first, gather): (&[u8], &[u8]) = match self.kind {
            Kind::AllReduce => (order.first.as_slice(), order.gather.as_slice()),
            Kind::AllGather => (&[], order.gather.as_slice()),
            _ => (order.first.as_slice(), &[]),
        };
        let basic = if self.kind == Kind::AllToAll { Basic::Exchange } else { Basic::Reduce };
        let mut parts = if first.is_empty() { topology.npus() } else { 1 };
        let phased = self.phased && self.kind == Kind::AllReduce;
        // Where the AllGather of all but the first comes at once, it is not to come again.
        let gather = if phased { &gather[gather.len().saturating_sub(1)..] } else { gather };
        let before = if phased { (2 * first.len()).saturating_sub(1) } else { first.len() };
        (0..before + gather.len()).map(move |place| {
            let (number, basic) = match place.checked_sub(before) {
                Some(place) => (gather[place], Basic::Gather),
                None if !phased => (first[place], basic),
                None => (first[place.div_ceil(2)], if place == 0 || place % 2 == 1 { basic } else { Basic::Gather }),
            };
            let (stage, after) = self.stage(topology, number, basic, parts);
            parts = after;
            stage
        })
    }

    /// One stage of a chunk that is divided into `parts_before`; and into how many it is afterwards.
    fn stage(&self, topology: &Topology, number: u8, basic: Basic, parts_before: u64) -> (Stage, u64) {
        let dimension = &topology.dimensions[usize::from(number)];
        let parts = match basic {
            // A plan that uses a dimension twice is wrong, but no reason to fail here.
            Basic::Reduce => parts_before.saturating_mul(dimension.size),
            Basic::Gather => (parts_before / dimension.size).max(1),
            Basic::Exchange => parts_before,
        };
        let largest = parts.min(parts_before);
        let stage = Stage {
            dimension: number,
            basic,
            parts: largest,
            size: self.size(largest),
            size_before: self.size(parts_before),
            busy_ps: self.busy(usize::from(number), dimension, basic, largest) as Picos,
            latency_ps: self.latency(dimension),
        };
        (stage, parts)
    }

    /// Size of a part of a chunk, in 1 / 4096 of a byte.
    fn size(&self, parts: u64) -> u64 {
        ((u128::from(self.bytes) << 12) / (u128::from(parts) * self.orders.len().max(1) as u128)) as u64
    }

    /// What a stage on a dimension pays besides its bytes: A_K of the Themis paper (section 4.4).
    pub(super) fn latency(&self, dimension: &Dimension) -> Picos {
        dimension.npu_latency() * if self.offloads(dimension) { 1 } else { dimension.steps() }
    }

    fn offloads(&self, dimension: &Dimension) -> bool {
        self.offload && dimension.shape == DimensionShape::Switch
    }

    /// Time a chunk takes on a dimension where it is `1 / parts` of its size: what an NPU sends, and its headers, over
    /// its rate, rounded up (Themis, ISCA 2022, sections 2.3 and 4.4).
    fn busy(&self, number: usize, dimension: &Dimension, basic: Basic, parts: u64) -> u128 {
        let (numerator, denominator) = self.share(dimension, basic);
        let headers = self.headers(number, dimension, basic, parts).saturating_mul(1_000_000_000_000);
        let headers_ps = headers.div_ceil(u128::from(dimension.npu_rate().0));
        // At most 2^50 * 2^40 * 10^12 (2^40) / ..., so the denominator is divided in two steps.
        let bytes_ps = u128::from(self.bytes) * 1_000_000_000_000;
        let parts = u128::from(parts) * self.orders.len().max(1) as u128;
        let scale = parts * u128::from(dimension.npu_rate().0);
        headers_ps
            + match bytes_ps.checked_mul(u128::from(numerator)) {
                Some(product) => product.div_ceil(scale.saturating_mul(u128::from(denominator))),
                None => (bytes_ps / u128::from(denominator)).saturating_mul(u128::from(numerator)).div_ceil(scale),
            }
    }

    /// Bytes of the headers that an NPU sends with a chunk in one stage: each message of the basic algorithm is cut into
    /// packets by itself, those around a ring are halves, one for either direction.
    fn headers(&self, number: usize, dimension: &Dimension, basic: Basic, parts: u64) -> u128 {
        let Some(format) = self.packets.get(number) else { return 0 };
        let size = u128::from(dimension.size);
        let parts = u128::from(parts) * self.orders.len().max(1) as u128;
        // Packets of a message that is one of so many parts of the chunk.
        let cut = |into: u128| u128::from(self.bytes).div_ceil(parts * into * u128::from(format.payload));
        let packets = match (dimension.shape, basic) {
            (_, Basic::Reduce | Basic::Gather) if self.offloads(dimension) && self.kind == Kind::AllReduce => cut(2),
            (DimensionShape::Switch, Basic::Reduce | Basic::Gather) => {
                (1..=dimension.size.ilog2()).map(|step| cut(1 << step)).sum()
            }
            (DimensionShape::Ring, Basic::Exchange) => size * size / 4 * cut(size),
            (DimensionShape::Ring, _) => 2 * (size - 1) * cut(2 * size),
            _ => (size - 1) * cut(size),
        };
        packets.saturating_mul(u128::from(format.header))
    }

    /// What an NPU sends in one stage, as a share of the chunk where it is largest. In an AllToAll on a
    /// ring the NPUs between pass data on: the mean distance counts; on a line what its middle link carries. A switch that reduces and
    /// multicasts halves an AllReduce's traffic: each NPU sends a chunk once and receives it once, and
    /// either stage is counted as half of both directions.
    pub(super) fn share(&self, dimension: &Dimension, basic: Basic) -> (u64, u64) {
        let size = dimension.size;
        match basic {
            Basic::Exchange if matches!(dimension.shape, DimensionShape::Ring | DimensionShape::Line) => {
                (size * size / 4, size)
            }
            Basic::Reduce | Basic::Gather if self.offloads(dimension) && self.kind == Kind::AllReduce => (1, 2),
            _ => (size - 1, size),
        }
    }

    /// Bytes an NPU sends on each dimension, without headers.
    pub fn bytes_sent(&self, topology: &Topology) -> Vec<f64> {
        self.sums(topology, |stage, dimension| {
            let (numerator, denominator) = self.share(dimension, stage.basic);
            stage.size as f64 / 4096.0 * numerator as f64 / denominator as f64
        })
    }

    /// Share of headers in all bytes that an NPU sends.
    pub fn header_share(&self, topology: &Topology) -> f64 {
        let headers = self.sums(topology, |stage, dimension| {
            self.headers(usize::from(stage.dimension), dimension, stage.basic, stage.parts) as f64
        });
        let headers: f64 = headers.iter().sum();
        headers / (headers + self.bytes_sent(topology).iter().sum::<f64>())
    }

    /// A sum over the stages of every dimension.
    fn sums(&self, topology: &Topology, of: impl Fn(&Stage, &Dimension) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; topology.dimensions.len()];
        for stage in self.orders.iter().flat_map(|order| self.stages(topology, order)) {
            let number = usize::from(stage.dimension);
            sums[number] += of(&stage, &topology.dimensions[number]);
        }
        sums
    }
}

/// Every stage that a chunk of a plan, which is not [phased](RailsPlan::phased), can have: there are few, by the other dimensions that it is divided over.
pub struct StageTable {
    kind: Kind,
    dimensions: usize,
    /// By half (AllGather second), set of other dimensions and dimension.
    stages: Vec<Stage>,
}

impl StageTable {
    /// All stages of the chunks of `plan`. O(2^dimensions * dimensions).
    pub fn new(topology: &Topology, plan: &RailsPlan) -> StageTable {
        let dimensions = topology.dimensions.len();
        let parts = |set: usize| -> u64 {
            let members = topology.dimensions.iter().enumerate().filter(|(number, _)| set >> number & 1 == 1);
            members.map(|(_, dimension)| dimension.size).product()
        };
        let half = |basic: Basic| {
            let places = (0..1usize << dimensions).flat_map(|set| (0..dimensions).map(move |number| (set, number)));
            let stage = move |(set, number): (usize, usize)| {
                let parts_before = match basic {
                    Basic::Reduce => parts(set & !(1 << number)),
                    Basic::Gather => parts(set | 1 << number),
                    Basic::Exchange => 1,
                };
                plan.stage(topology, number as u8, basic, parts_before).0
            };
            places.map(stage)
        };
        let first = if plan.kind == Kind::AllToAll { Basic::Exchange } else { Basic::Reduce };
        StageTable { kind: plan.kind, dimensions, stages: half(first).chain(half(Basic::Gather)).collect() }
    }

    /// How many dimensions there are.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// All stages, by place.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The stage of a whole chunk on a dimension.
    pub fn whole(&self, dimension: usize) -> Stage {
        let half = if self.kind == Kind::AllGather { self.stages.len() / 2 } else { 0 };
        self.stages[half + dimension]
    }

    /// Stages of one order, first to last, as [`RailsPlan::stages`] gives them.
    pub fn of<'a>(&'a self, order: &'a ChunkOrder) -> impl Iterator<Item = Stage> + 'a {
        self.places(order).map(|place| self.stages[place])
    }

    /// Places of the stages of one order, first to last.
    pub fn places<'a>(&self, order: &'a ChunkOrder) -> impl Iterator<Item = usize> + use<'a> {
        let first = if self.kind == Kind::AllGather { &[] } else { order.first.as_slice() };
        let gather = if matches!(self.kind, Kind::AllReduce | Kind::AllGather) { order.gather.as_slice() } else { &[] };
        let (dimensions, half) = (self.dimensions, self.stages.len() / 2);
        let (mut divided, mut left) = (0, (1usize << dimensions) - 1);
        let first = first.iter().map(move |&number| {
            let place = divided * dimensions + usize::from(number);
            divided |= 1 << number;
            place
        });
        first.chain(gather.iter().map(move |&number| {
            left &= !(1 << number);
            half + left * dimensions + usize::from(number)
        }))
    }
}
