//! Recursive halving and doubling, nearest partners first.
//!
//! Blocks go in chunks, halved and doubled one after the other; a link's next message waits until the
//! receiver has the previous one, so that few packets wait in the network and long runs are
//! periodic.
//!
//! Thakur, Rabenseifner and Gropp, IJHPCA 2005. On a BiGraph the ranks are mapped so that in each
//! step every link between the layers carries one message (HDRM; Dong et al., EFLOPS, HPCA 2020).

use super::{ALIGN, Algorithm, Info, Request, Scale};
use antiphon_base::error::Result;
use antiphon_base::options::{Default::Fixed, Opt};
use antiphon_model::collective::Kind;
use antiphon_model::fabric::Shape;
use antiphon_model::schedule::{Op, Pacing, Schedule};

/// See the module.
pub struct HalvingDoubling;

const INFO: Info = Info {
    name: "halving-doubling",
    summary: "recursive halving, then doubling; rank-mapped on a BiGraph (HDRM)",
    options: &[
        Opt::bytes("chunk", Fixed("128KiB"), "What goes together of a block of one rank."),
        Opt::choice("mapping", &["auto", "linear", "hdrm"], "Where ranks are; auto: hdrm where it exists."),
        ALIGN,
    ],
    source: "Thakur et al., IJHPCA 2005; EFLOPS (HPCA 2020) for HDRM",
    collectives: &[Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather],
};

/// Rank of every logical position on a BiGraph of `side` switches with `side` hosts in each layer:
/// positions that differ in one bit are in different layers, and in every step the pairs of
/// switches are all different, because the low and the high half of the bits number the switches
/// of one layer each.
fn hdrm(side: u32) -> Vec<u32> {
    (0..2 * side * side)
        .map(|i| {
            let (low, high) = (i % side, i / side % side);
            let upper = i.count_ones() % 2;
            let (switch, host) = if upper == 0 { (low, high) } else { (high, low) };
            upper * side * side + switch * side + host
        })
        .collect()
}

impl Algorithm for HalvingDoubling {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn scale(&self) -> Scale {
        Scale::Short
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let n = request.ranks();
        if !n.is_power_of_two() {
            return request.refuse(format!("it needs a power of two of ranks, not {n}"));
        }
        let mappable = match request.fabric.shape {
            Shape::BiGraph { switches, hosts } if switches == hosts && switches.is_power_of_two() => Some(switches),
            _ => None,
        };
        let side = match request.options.choice("mapping") {
            "linear" => None,
            "hdrm" if mappable.is_none() => {
                return request
                    .refuse("hdrm needs a BiGraph with as many hosts on a switch as switches, a power of two");
            }
            _ => mappable,
        };
        let rank: Vec<u32> = side.map_or((0..n).collect(), hdrm);
        let bits = n.trailing_zeros();
        let mut builder = request.builder();
        builder.schedule.endpoint.pacing = Pacing::StopAndWait;
        builder.schedule.conflict_free = side.is_some();
        // Lane `l` belongs to the position with the reversed bits, so that the blocks exchanged
        // with near partners adjoin.
        let reversed = |l: u32| l.reverse_bits() >> (32 - bits);
        let owners = (0..n).map(|lane| rank[reversed(lane) as usize]);
        let stride = bits * (u32::from(request.scatters()) + u32::from(request.gathers()));
        request.shard_lanes(&mut builder, owners, request.options.bytes("chunk"), stride.max(1))?;
        builder.phase(request.collective.kind.name(), false);
        // The lanes of all positions that agree with `i` in their lowest `known` bits.
        let span = |i: u32, known: u32| {
            let size = n >> known;
            (reversed(i) / size * size, size)
        };
        if request.scatters() {
            for (step, i) in (0..bits).flat_map(|step| (0..n).map(move |i| (step, i))) {
                let partner = i ^ (1 << step);
                let (lane, lanes) = span(partner, step + 1);
                builder.send(Op::Reduce, rank[i as usize], rank[partner as usize], lane..lane + lanes, step)?;
            }
        }
        if request.gathers() {
            for (step, i) in (0..bits).flat_map(|step| (0..n).map(move |i| (step, i))) {
                let bit = bits - 1 - step;
                let (lane, lanes) = span(i, bit + 1);
                builder.send(
                    Op::Copy,
                    rank[i as usize],
                    rank[(i ^ (1 << bit)) as usize],
                    lane..lane + lanes,
                    stride - bits + step,
                )?;
            }
        }
        builder.finish()
    }
}
