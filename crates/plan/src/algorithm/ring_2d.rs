//! Ring-2D: rings along rows and columns; half the data goes rows first, half columns first. Where rows and columns have
//! different rates, the parts are such that the phases take least together.
//!
//! On a mesh a row is a line and its ring wraps around through the intermediate chiplets, one
//! store-and-forward step each, as in the TTO artifact (HPCA 2024): on the way back they get what they have once more, which changes
//! nothing, though others may be reading it (docs/explanation/proofs.md, "What a proof says"). By default a barrier
//! stands between the two dimensions; without (`held`) sums of the second dimension wait at their receivers until these
//! have the complete parts of the first.

use super::path::{self, Way};
use super::{ALIGN, Algorithm, Info, Placed, Request, Scale};
use antiphon_base::error::Result;
use antiphon_base::options::Opt;
use antiphon_base::units::{Bytes, Rate};
use antiphon_model::collective::Kind;
use antiphon_model::schedule::Schedule;

/// See the module.
pub struct Ring2d;

const INFO: Info = Info {
    name: "ring-2d",
    summary: "rings along both dimensions at once, half the data each way (more or less where rates differ)",
    options: &[
        Opt::choice(
            "dependencies",
            &["complete", "held"],
            "What a rank waits for. complete: on meshes a barrier between the dimensions; held: no barrier, sums wait at their receivers.",
        ),
        ALIGN,
    ],
    source: "TTO (HPCA 2024) as baseline",
    collectives: &[Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather],
};

/// The order in which the part owned by position `owner` visits a line of `length`.
fn gather_path(owner: u32, length: u32, wraps: bool) -> Vec<u32> {
    if wraps {
        return (0..length).map(|i| (owner + i) % length).collect();
    }
    let mut path: Vec<u32> = (owner..length).collect();
    if owner > 0 {
        path.extend((0..length - 1).rev());
        path.extend(1..owner);
    }
    path
}

/// Parts of the data that go along rows first and along columns first, as whole numbers.
///
/// In a phase a part of what a line has makes all steps of its ring. With `u` and `v` the steps over the rate of rows, of
/// `n` places, and of columns, of `m`, the phases for shares `a` and `1 - a` take as long as `max(a u / n, (1 - a) v / m)`
/// and `max(a v, (1 - a) u) / (n m)`: least at an end or where the two of either are equal.
fn shares(grid: &Placed, system_rate: Rate) -> [u64; 2] {
    let rate = |at: usize| grid.product.dimensions[at].link_rate().unwrap_or(system_rate).0;
    if rate(0) == rate(1) {
        return [1, 1];
    }
    let cost = |at: usize| {
        let (size, wraps) = (grid.product.coordinates.sizes()[at], grid.product.dimensions[at].wraps());
        let steps = (0..size).map(|owner| gather_path(owner, size, wraps).len() - 1).max().unwrap_or(0);
        (steps as f64 / rate(at) as f64, f64::from(size))
    };
    let ((u, n), (v, m)) = (cost(1), cost(0));
    let time = |a: f64| {
        let b = 1.0 - a;
        (a * u / n).max(b * v / m) + (a * v).max(b * u) / (n * m)
    };
    let places = [0.0, 1.0, v * n / (u * m + v * n), u / (u + v)];
    let best = places.into_iter().min_by(|a, b| time(*a).total_cmp(&time(*b))).unwrap_or(0.5);
    let first = (best * PARTS as f64).round() as u64;
    [first, PARTS - first]
}

/// Unlike shares are told apart so finely.
const PARTS: u64 = 1 << 10;

impl Algorithm for Ring2d {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn scale(&self) -> Scale {
        Scale::Short
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let grid = request.product().and_then(|grid| Some((grid.product.rows_columns()?, grid)));
        let Some(((rows, columns), grid)) = grid else {
            return request.refuse("it needs an intact two-dimensional grid");
        };
        let held = request.options.choice("dependencies") == "held";
        // Of rows, which lie along the second dimension, and of columns.
        let wraps = [1, 0].map(|dimension: usize| grid.product.dimensions[dimension].wraps());
        let shares = shares(&grid, request.system.link_rate);
        let parts = shares[0] + shares[1];
        let block = |which: usize| (request.block_bytes(request.ranks()) * shares[which]).div_ceil(parts);
        let region = |owner, which| {
            let (start, length) = request.shard(owner);
            let cut = match shares[1] {
                0 => length,
                _ => request.align.down((u128::from(length) * u128::from(shares[0]) / u128::from(parts)) as Bytes),
            };
            if which == 0 { (start, cut) } else { (start + cut, length - cut) }
        };
        let mut builder = request.builder();
        builder.schedule.conflict_free = true;
        builder.hold_sums = held;
        // Extents of the first and second dimension of each part that there is, and the rank at a position.
        let extents = [(columns, rows), (rows, columns)];
        let halves = || extents.into_iter().enumerate().filter(|(which, _)| shares[*which] > 0);
        let rank = |which: usize, first: u32, second: u32| {
            grid.rank(&if which == 0 { [second, first] } else { [first, second] })
        };
        // Lanes by (half, first, second): all lanes of one part of the first dimension adjoin.
        let lane = |which: usize, first: u32, second: u32| {
            let before = if which == 1 && shares[0] > 0 { rows * columns } else { 0 };
            before + first * extents[which].1 + second
        };
        for (which, (firsts, seconds)) in halves() {
            for (first, second) in (0..firsts).flat_map(|f| (0..seconds).map(move |s| (f, s))) {
                let owner = rank(which, first, second);
                builder.shard_block(owner, region(owner, which), block(which));
            }
        }
        // A phase is one dimension of both halves: whole parts along the first, blocks along the second.
        let mut dimension = |name: &str, along_first: bool, reduce: bool| -> Result<()> {
            // On a line the owner of a part relays it before it gets it back complete, so the second
            // dimension must not add to it earlier.
            builder.phase(name, !held && wraps != [true; 2] && reduce && !along_first);
            let mut ways = vec![];
            for (which, (firsts, seconds)) in halves() {
                for (first, second) in (0..firsts).flat_map(|f| (0..seconds).map(move |s| (f, s))) {
                    // Along the first dimension `second` is the line, along the second `first` is.
                    let (mut path, id, lanes): (Vec<u32>, u32, u32) = if along_first {
                        let positions = gather_path(first, firsts, wraps[which]);
                        (positions.iter().map(|&p| rank(which, p, second)).collect(), lane(which, first, 0), seconds)
                    } else {
                        let positions = gather_path(second, seconds, wraps[1 - which]);
                        (positions.iter().map(|&p| rank(which, first, p)).collect(), lane(which, first, second), 1)
                    };
                    if reduce {
                        path.reverse();
                    }
                    ways.push(Way { lanes: id..id + lanes, path });
                }
            }
            let along = if reduce { path::reduce_along } else { path::copy_along };
            along(&mut builder, &ways, 0)
        };
        if request.scatters() {
            dimension("reduce-scatter 1", true, true)?;
            dimension("reduce-scatter 2", false, true)?;
        }
        if request.gathers() {
            dimension("all-gather 2", false, false)?;
            dimension("all-gather 1", true, false)?;
        }
        builder.finish()
    }
}
