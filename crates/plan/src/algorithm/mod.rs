//! Collective algorithms, one per file, behind one trait.

mod boxes;
mod bruck;
mod combs;
mod cycle;
mod dbtree;
mod direct;
mod estimate;
mod exchange;
mod forest;
mod halving_doubling;
mod hierarchical;
mod in_network;
mod multitree;
mod nested_ring;
mod optimal;
mod overlapped_tree;
mod packing;
#[cfg(test)]
mod parameters;
mod path;
mod ring;
mod ring_2d;
mod ring_bi;
mod ring_bi_odd;
mod soonest;
mod tree;
mod tto;

use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::options::{Default::Fixed, Opt, Options};
use antiphon_base::parameter::Value;
use antiphon_base::registry::Registry;
use antiphon_base::units::{Bytes, MAX_BYTES, Picos, clip};
use antiphon_base::watch::Watch;
use antiphon_model::collective::{Align, Collective, Data, Kind, Matrix};
use antiphon_model::fabric::{DimensionShape, Fabric, LinkId, Product};
use antiphon_model::schedule::{Builder, Lane, MAX_DEPENDENCIES, MAX_TRANSFERS, Schedule};
use antiphon_model::system::System;
use antiphon_sim::cost::CostModel;
use std::time::Duration;

/// What an algorithm is, for people and for option checking.
#[derive(Debug, Clone, Copy)]
pub struct Info {
    /// Command-line name.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Its options.
    pub options: &'static [Opt],
    /// Paper or origin.
    pub source: &'static str,
    /// Collectives it can do.
    pub collectives: &'static [Kind],
}

/// How much time and memory the runs of an algorithm take, by its schedules: for those who run several side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Far fewer messages than there are pairs of ranks, or they soon repeat themselves: timed soon.
    Short,
    /// All others.
    Usual,
    /// A transfer or two for every pair of ranks: most memory.
    Large,
}

impl Scale {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Scale::Short => "short",
            Scale::Usual => "usual",
            Scale::Large => "large",
        }
    }
}

/// Turns a fabric and a collective into a schedule.
pub trait Algorithm: Sync {
    /// What it is.
    fn info(&self) -> &'static Info;

    /// Whether it does an AllToAll by a matrix.
    fn takes_matrix(&self) -> bool {
        false
    }

    /// How its runs are among those of others.
    fn scale(&self) -> Scale {
        Scale::Usual
    }

    /// The schedule for a request whose collective is among [`Info::collectives`], with a matrix only if it takes one.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] with the reason in one line, [`Code::BadSpec`] for option values.
    fn build(&self, request: &Request) -> Result<Schedule>;

    /// Whether it plans by prices, anew on every fabric, which takes long.
    fn plans(&self) -> bool {
        false
    }

    /// As [`antiphon_bound::busiest_ps`] of what it would build, where that is known sooner than the schedule.
    fn busiest_ps(&self, _request: &Request) -> Option<Picos> {
        None
    }

    /// The same schedule without a certificate, which can take longer to find than the schedule: for those who only time it.
    ///
    /// # Errors
    /// As [`Algorithm::build`].
    fn build_bare(&self, request: &Request) -> Result<Schedule> {
        self.build(request)
    }

    /// The same from a schedule of its own for a fabric that has lost links or ranks since; most have none to start from.
    ///
    /// # Errors
    /// As [`Algorithm::build`].
    fn rebuild(&self, request: &Request, _before: &Before) -> Result<Rebuilt> {
        let name = self.info().name;
        request.refuse(format!("only schedules of optimal have a plan to start from; build {name} anew"))
    }
}

/// A schedule, and what has become of what it was for.
pub struct Before<'a> {
    /// Of the same algorithm.
    pub schedule: &'a Schedule,
    /// What has become of every rank; `None` if it is lost.
    pub ranks: Vec<Option<u32>>,
    /// What has become of every link.
    pub links: Vec<Option<LinkId>>,
}

/// A schedule that was found from another one.
#[derive(Debug)]
pub struct Rebuilt {
    /// For what is left of the fabric.
    pub schedule: Schedule,
    /// Trees, or plans of paths, of the other one that are whole; none if they were nothing to start from.
    pub kept: usize,
    /// Those that are not, in whose place others were found.
    pub mended: usize,
    /// Time for plan and prices.
    pub planning: Duration,
    /// Time for the schedule.
    pub lowering: Duration,
}

/// Algorithms that are added while a program runs.
pub static ADDED: Registry<dyn Algorithm + Send> = Registry::new();

/// All algorithms: those of the core, and those that were added.
pub fn all() -> Vec<&'static dyn Algorithm> {
    let added = ADDED.all().into_iter().map(|(_, algorithm)| algorithm as &dyn Algorithm);
    ALL.into_iter().chain(added).collect()
}

/// The algorithms of the core in documentation order.
pub const ALL: [&dyn Algorithm; 18] = [
    &ring::Ring,
    &ring_bi::RingBi,
    &ring_bi_odd::RingBiOdd,
    &ring_2d::Ring2d,
    &nested_ring::NestedRing,
    &dbtree::DbTree,
    &multitree::MultiTree,
    &tto::Tto,
    &combs::Combs,
    &forest::Forest,
    &optimal::Optimal,
    &overlapped_tree::OverlappedTree,
    &halving_doubling::HalvingDoubling,
    &hierarchical::Hierarchical,
    &in_network::InNetwork,
    &direct::Direct,
    &bruck::Bruck,
    &exchange::ExchangeAlgorithm,
];

/// The option that all algorithms of the core have: where they may cut.
const ALIGN: Opt = Opt::bytes(
    "align",
    Fixed("4"),
    "Shards, lanes and chunks begin at multiples of so many bytes: a power of two up to 4096.",
)
.at_least(Align::LEAST);

/// What a schedule is wanted for.
pub struct Request<'a> {
    /// Fabric to run on.
    pub fabric: &'a Fabric,
    /// Its packet format decides how blocks are padded.
    pub system: &'a System,
    /// What to compute.
    pub collective: Collective,
    /// Full buffer size: with a matrix, the most that a rank sends.
    pub bytes: Bytes,
    /// What every rank has for every other one, in an AllToAll of unequal sizes.
    pub matrix: Option<Matrix>,
    /// Where shards, lanes and chunks may begin.
    pub align: Align,
    /// Specification of the algorithm.
    pub spec: &'a str,
    options: Options,
    watch: Watch<'a>,
}

/// A product that a request's fabric is, and who is where.
struct Placed<'a> {
    product: &'a Product,
    /// The rank at every position.
    ranks: Vec<u32>,
}

impl Placed<'_> {
    /// The rank at some coordinates.
    fn rank(&self, coordinates: &[u32]) -> u32 {
        self.ranks[self.product.coordinates.position(coordinates) as usize]
    }

    /// What is above every rank, where it is given for every position.
    fn by_rank(&self, parents: &[Option<u32>]) -> Vec<Option<u32>> {
        let mut list = vec![None; parents.len()];
        for (parent, &rank) in parents.iter().zip(&self.ranks) {
            list[rank as usize] = parent.map(|position| self.ranks[position as usize]);
        }
        list
    }
}

impl<'a> Request<'a> {
    /// The options that were given.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, Value)> {
        self.options.all_given()
    }

    /// The product the fabric is, if it is one.
    fn product(&self) -> Option<Placed<'a>> {
        let product = self.fabric.product()?;
        Some(Placed { product, ranks: product.ranks(self.fabric) })
    }

    /// The grid in which the ranks lie, whatever joins them.
    fn layout(&self) -> Option<Placed<'a>> {
        let product = self.fabric.layout()?;
        Some(Placed { product, ranks: product.ranks(self.fabric) })
    }

    /// The mesh of two dimensions of at least 2 that the fabric is, its rows and columns.
    fn mesh(&self) -> Option<(Placed<'a>, u32, u32)> {
        let mesh = self.product().filter(|placed| placed.product.is_all(DimensionShape::Line))?;
        let (rows, columns) = mesh.product.rows_columns()?;
        Some((mesh, rows, columns))
    }

    /// What messages cost.
    fn costs(&self) -> CostModel<'a> {
        CostModel::in_packets(self.system)
    }

    /// Number of ranks.
    fn ranks(&self) -> u32 {
        self.fabric.ranks() as u32
    }

    /// How much is moved.
    fn data(&self) -> Data {
        Data { bytes: self.bytes, matrix: self.matrix.clone(), align: self.align }
    }

    /// A schedule builder for this request.
    fn builder(&self) -> Builder<'a> {
        let builder = Builder::new(self.spec, self.fabric, self.collective, self.data()).watched(self.watch);
        builder.routed(self.system)
    }

    /// Refuses, before time and memory are taken, a schedule that would have too many transfers or dependencies.
    fn expect(&self, transfers: u64, dependencies: u64) -> Result<()> {
        for (what, count, most) in
            [("transfers", transfers, MAX_TRANSFERS), ("dependencies", dependencies, MAX_DEPENDENCIES)]
        {
            if count > most as u64 {
                let ranks = self.ranks();
                let what = format!(
                    "{} on {ranks} ranks has {count} {what}, more than {most}; use fewer ranks, or 'antiphon scale' on products",
                    self.spec
                );
                return Err(Error::new(Code::TooLarge, what));
            }
        }
        Ok(())
    }

    /// Bytes on the wire of one of `parts` equal parts of the buffer, in whole packets where the
    /// system's packets have a fixed size.
    fn block_bytes(&self, parts: u32) -> Bytes {
        self.wire_bytes(self.bytes.div_ceil(parts as u64))
    }

    /// `bytes` on the wire, as [`Request::block_bytes`].
    fn wire_bytes(&self, bytes: Bytes) -> Bytes {
        let format = &self.system.packet;
        bytes.next_multiple_of(if format.fixed_size { format.payload_bytes } else { 1 })
    }

    /// Transfers of so many rings, each of so many slots: every slot's data go once around, or twice.
    fn ring_transfers(&self, rings: u64, slots: u64) -> u64 {
        let passes = u64::from(self.scatters()) + u64::from(self.gathers());
        rings * passes * slots * (slots - 1)
    }

    /// [`Request::expect`] for so many rings of all ranks.
    fn expect_rings(&self, rings: u64) -> Result<()> {
        self.expect(self.ring_transfers(rings, self.ranks().into()), 0)
    }

    /// Adds a lane for the shard of every rank in `owners`, cut into chunks of about `chunk` bytes,
    /// `stride` slots apart.
    fn shard_lanes(
        &self,
        builder: &mut Builder,
        owners: impl Iterator<Item = u32>,
        chunk: Bytes,
        stride: u32,
    ) -> Result<()> {
        let (format, whole) = (&self.system.packet, self.block_bytes(self.ranks()));
        let unit = if format.fixed_size { format.payload_bytes } else { self.align.bytes() };
        let most = whole.div_ceil(chunk.next_multiple_of(unit));
        // Somewhat fewer where that pads less.
        let wire = |chunks: u64| whole.div_ceil(chunks).next_multiple_of(unit);
        let counts = most - (most / 2).min(32)..=most;
        let chunks = counts.rev().min_by_key(|&chunks| wire(chunks) * chunks).unwrap_or(1);
        for owner in owners {
            let (offset, bytes) = self.shard(owner);
            let chunk_bytes = wire(chunks).max(self.align.payload(bytes, chunks));
            builder.lane(Lane { offset, bytes, chunks, chunk_bytes, stride, source: owner, owner });
        }
        Ok(())
    }

    /// The part of the buffer that rank `rank` owns after ReduceScatter: start and length.
    fn shard(&self, rank: u32) -> (Bytes, Bytes) {
        self.align.shard(self.bytes, self.fabric.ranks(), rank as usize)
    }

    /// What rank `source` has for rank `owner` in an AllToAll: start in its buffer, and length.
    fn part(&self, source: u32, owner: u32) -> (Bytes, Bytes) {
        match &self.matrix {
            Some(matrix) => matrix.part(source as usize, owner as usize),
            None => self.shard(owner),
        }
    }

    /// Bytes that go from rank to rank in an AllToAll.
    fn exchanged(&self) -> Bytes {
        let ranks = u64::from(self.ranks());
        self.matrix.as_ref().map_or(self.bytes.saturating_mul(ranks - 1), Matrix::total)
    }

    /// Part `index` of so many of a region.
    fn portion(&self, region: (Bytes, Bytes), parts: usize, index: usize) -> (Bytes, Bytes) {
        let (start, length) = self.align.shard(region.1, parts, index);
        (region.0 + start, length)
    }

    /// Whether the collective starts with (or is) a ReduceScatter.
    fn scatters(&self) -> bool {
        matches!(self.collective.kind, Kind::AllReduce | Kind::ReduceScatter)
    }

    /// Whether the collective ends with (or is) an AllGather.
    fn gathers(&self) -> bool {
        matches!(self.collective.kind, Kind::AllReduce | Kind::AllGather)
    }

    /// The algorithm does not apply, because of `reason`.
    ///
    /// # Errors
    /// [`Code::NotApplicable`], always.
    pub fn refuse<T>(&self, reason: impl std::fmt::Display) -> Result<T> {
        Err(Error::new(Code::NotApplicable, format!("{} does not apply to {}: {reason}", self.spec, self.fabric.name)))
    }
}

/// Builds the schedule of `spec`, i.e. `name[:key=value,...]`, for so many bytes or a matrix.
///
/// # Errors
/// [`Code::UnknownName`] for an unknown algorithm or option, [`Code::BadSpec`] for a bad value or a matrix that does not
/// fit, [`Code::NotApplicable`] with the reason, [`Code::BadSize`] and [`Code::TooLarge`].
pub fn build(
    fabric: &Fabric,
    system: &System,
    collective: Collective,
    data: impl Into<Data>,
    spec: &str,
) -> Result<Schedule> {
    build_watched(fabric, system, collective, data, spec, Watch::default())
}

/// [`build`], reporting to `watch`.
///
/// # Errors
/// As [`build`]; [`Code::Interrupted`].
pub fn build_watched(
    fabric: &Fabric,
    system: &System,
    collective: Collective,
    data: impl Into<Data>,
    spec: &str,
    watch: Watch,
) -> Result<Schedule> {
    let data = data.into();
    let (algorithm, request) = requested(fabric, system, collective, data.clone(), spec, watch)?;
    if system.protocols.0.len() < 2 {
        return algorithm.build(&request);
    }
    // Plans for single protocols differ where sizes of chunks or the number of steps are chosen.
    let mut schedules: Vec<Schedule> = vec![];
    for system in system.variants() {
        let (algorithm, request) = requested(fabric, &system, collective, data.clone(), spec, watch)?;
        let schedule = algorithm.build(&request)?;
        if !schedules.contains(&schedule) {
            schedules.push(schedule);
        }
    }
    soonest::soonest(&request, schedules.into_iter().map(Ok))
}

/// [`build`], without a certificate.
///
/// # Errors
/// As [`build`].
pub fn build_bare(
    fabric: &Fabric,
    system: &System,
    collective: Collective,
    data: impl Into<Data>,
    spec: &str,
) -> Result<Schedule> {
    let (algorithm, request) = requested(fabric, system, collective, data.into(), spec, Watch::default())?;
    algorithm.build_bare(&request)
}

/// The schedule of `optimal` for a broadcast or a reduction along equal trees that rules give, which is soon found on any number of ranks.
///
/// # Errors
/// As [`build`]; [`Code::NotApplicable`] where no such trees are known that load links little more than they must.
pub fn equal_trees(
    fabric: &Fabric,
    system: &System,
    collective: Collective,
    bytes: Bytes,
    watch: Watch,
) -> Result<Schedule> {
    let (_, request) = requested(fabric, system, collective, bytes.into(), "optimal", watch)?;
    match optimal::equal_trees(&request)? {
        Some(schedule) => Ok(schedule),
        None => request.refuse("no equal trees for it are known by a rule"),
    }
}

/// As [`antiphon_bound::busiest_ps`] of the schedule of `spec`, for algorithms that know it sooner than the schedule.
///
/// # Errors
/// As [`build`], but what the algorithm itself finds.
pub fn busiest_ps(
    fabric: &Fabric,
    system: &System,
    collective: Collective,
    data: impl Into<Data>,
    spec: &str,
    watch: Watch,
) -> Result<Option<Picos>> {
    let (algorithm, request) = requested(fabric, system, collective, data.into(), spec, watch)?;
    Ok(algorithm.busiest_ps(&request))
}

/// Whether the algorithm of a specification plans by prices, anew on every fabric, which takes long.
pub fn plans(spec: &str) -> bool {
    let name = spec.split(':').next().unwrap_or(spec);
    ALL.iter().any(|algorithm| algorithm.info().name == name && algorithm.plans())
}

/// The schedule by `before`'s algorithm for a fabric that has lost links or ranks since, sooner found from it.
///
/// # Errors
/// As [`build_watched`]; [`Code::NotApplicable`] if the algorithm has no plan to start from.
pub fn rebuild(
    fabric: &Fabric,
    system: &System,
    collective: Collective,
    before: &Before,
    watch: Watch,
) -> Result<Rebuilt> {
    let (data, spec) = (before.schedule.data(), &before.schedule.algorithm);
    let (algorithm, request) = requested(fabric, system, collective, data, spec, watch)?;
    algorithm.rebuild(&request, before)
}

/// The algorithm of `spec`, and the request for it.
///
/// # Errors
/// As [`build`], but what the algorithm itself finds.
fn requested<'a>(
    fabric: &'a Fabric,
    system: &'a System,
    collective: Collective,
    data: Data,
    spec: &'a str,
    watch: Watch<'a>,
) -> Result<(&'static dyn Algorithm, Request<'a>)> {
    let bytes = data.bytes;
    if bytes == 0 || bytes > MAX_BYTES {
        return Err(Error::new(Code::BadSize, format!("{bytes} bytes: expected 1 to 1 PiB")));
    }
    if collective.root as usize >= fabric.ranks() {
        let what = format!("root {} does not exist; ranks are 0 to {}", collective.root, fabric.ranks() - 1);
        return Err(Error::new(Code::BadSpec, what));
    }
    let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let Some(algorithm) = all().into_iter().find(|a| a.info().name == name) else {
        let names: Vec<&str> = all().iter().map(|a| a.info().name).collect();
        let hint = nearest(name, names.iter().copied());
        let what = format!("no algorithm '{}'{hint}; known: {}", clip(name), names.join(", "));
        return Err(Error::new(Code::UnknownName, what));
    };
    let info = algorithm.info();
    let options = Options::parse(info.name, rest, info.options)?;
    let of_spec = |error: Error| error.at(format_args!("{}", clip(spec)));
    let align = match options.given(ALIGN.parameter.key) {
        Some(Value::Whole(given)) => Align::new(*given).map_err(of_spec)?,
        _ => data.align,
    };
    let data = Data { align, ..data };
    data.check(collective.kind, fabric.ranks())?;
    let Data { bytes, matrix, align } = data;
    let request = Request { fabric, system, collective, bytes, matrix, align, spec, options, watch };
    if !info.collectives.contains(&collective.kind) {
        let names: Vec<_> = info.collectives.iter().map(|kind| kind.name()).collect();
        return request.refuse(format!("it does {}, not {}", names.join(", "), collective.kind.name()));
    }
    if request.matrix.is_some() && !algorithm.takes_matrix() {
        let able: Vec<_> = ALL.iter().filter(|other| other.takes_matrix()).map(|other| other.info().name).collect();
        let able = able.join(" or ");
        return request.refuse(format!("{name} cannot do an all-to-all with a matrix; use {able}"));
    }
    Ok((algorithm, request))
}
