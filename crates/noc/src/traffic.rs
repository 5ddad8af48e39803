//! Synthetic traffic: sources, destinations and times of packets.
//!
//! Patterns as in Dally and Towles, Principles and Practices of Interconnection Networks, section 3.2.

use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::{clip, parse_decimal};
use antiphon_model::fabric::{Fabric, Product};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};

/// Destinations of packets, by source.
#[derive(Debug, Clone, PartialEq)]
pub enum Pattern {
    /// Every rank alike, the source included.
    Uniform,
    /// The same rank always, one entry a source.
    Permutation(Vec<u32>),
    /// One rank with a probability (of 2^64), every rank alike otherwise.
    Hotspot(u32, u64),
}

/// Names of the patterns.
pub const PATTERNS: [&str; 8] =
    ["uniform", "transpose", "tornado", "bit-complement", "bit-reverse", "shuffle", "neighbor", "hotspot"];

impl Pattern {
    /// The pattern of a specification such as `uniform` or `hotspot:rank=27,share=0.2`.
    ///
    /// # Errors
    /// [`Code::UnknownName`], [`Code::BadSpec`], or [`Code::NotApplicable`] on fabrics without the
    /// structure the pattern needs.
    pub fn parse(text: &str, fabric: &Fabric) -> Result<Pattern> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let name = if name == "bitcomp" { "bit-complement" } else { name };
        let ranks = fabric.ranks() as u32;
        let refuse =
            |why: String| Err(Error::new(Code::NotApplicable, format!("traffic {name} on {}: {why}", fabric.name)));
        if !options.is_empty() && name != "hotspot" {
            return Err(Error::new(
                Code::BadSpec,
                format!("traffic {name} has no options, but got '{}'", clip(options)),
            ));
        }
        let product = fabric.product();
        // Maps every rank's coordinates to those of its destination.
        let moved = |product: &Product, f: &dyn Fn(Vec<u32>) -> Vec<u32>| {
            let (ranks, mut list) = (product.ranks(fabric), vec![0; fabric.ranks()]);
            for (position, &rank) in (0..).zip(&ranks) {
                let to = product.coordinates.position(&f(product.coordinates.all(position)));
                list[rank as usize] = ranks[to as usize];
            }
            Pattern::Permutation(list)
        };
        // In a product every coordinate on its own, elsewhere the rank as the only one.
        let each = |f: &dyn Fn(u32, u32) -> u32| match product {
            Some(product) => {
                let sizes = product.coordinates.sizes();
                moved(product, &|at| at.into_iter().zip(sizes).map(|(c, &k)| f(c, k)).collect())
            }
            None => Pattern::Permutation((0..ranks).map(|rank| f(rank, ranks)).collect()),
        };
        let bits = |f: &dyn Fn(u32, u32) -> u32| {
            if !ranks.is_power_of_two() {
                return refuse(format!("it needs a power of two of ranks, not {ranks}"));
            }
            Ok(Pattern::Permutation((0..ranks).map(|rank| f(rank, ranks.trailing_zeros())).collect()))
        };
        Ok(match name {
            "uniform" => Pattern::Uniform,
            "transpose" => match product.map(|product| (product, product.coordinates.sizes())) {
                Some((product, [rows, columns])) if rows == columns => moved(product, &|at| vec![at[1], at[0]]),
                _ => return refuse("it needs a square grid of two dimensions".into()),
            },
            // Just short of half way round.
            "tornado" => each(&|c, k| (c + k.div_ceil(2) - 1) % k),
            "neighbor" => each(&|c, k| (c + 1) % k),
            "bit-complement" => bits(&|rank, count| !rank & (((1u64 << count) - 1) as u32))?,
            "bit-reverse" => bits(&|rank, count| rank.reverse_bits().checked_shr(32 - count).unwrap_or(0))?,
            "shuffle" => bits(&|rank, count| (rank << 1 | rank >> (count - 1)) & (((1u64 << count) - 1) as u32))?,
            "hotspot" => Pattern::hotspot(options, ranks)?,
            _ => {
                let hint = nearest(name, PATTERNS);
                let what = format!("no traffic '{}'{hint}; known: {}", clip(name), PATTERNS.join(", "));
                return Err(Error::new(Code::UnknownName, what));
            }
        })
    }

    /// A hotspot by its options `rank=N` and `share=X`, each at most once.
    fn hotspot(options: &str, ranks: u32) -> Result<Pattern> {
        let (mut rank, mut share) = (ranks / 2, 0.1);
        for option in options.split(',').filter(|option| !option.is_empty()) {
            let wrong =
                |why: &str| Error::new(Code::BadSpec, format!("traffic hotspot: {why}, not '{}'", clip(option)));
            let key = option.split_once('=').map(|(key, _)| key);
            let same = |other: &&str| other.split_once('=').map(|(key, _)| key) == key;
            if key.is_some() && options.split(',').filter(same).count() > 1 {
                return Err(wrong("every option is given once"));
            }
            match option.split_once('=') {
                Some(("rank", value)) => {
                    let given = value.parse().ok().filter(|&rank| rank < ranks);
                    rank = given.ok_or_else(|| wrong(&format!("rank is a rank from 0 to {}", ranks - 1)))?;
                }
                Some(("share", value)) => {
                    let given = parse_decimal(value).filter(|share| (0.0..=1.0).contains(share));
                    share = given.ok_or_else(|| wrong("share is a number from 0 to 1"))?;
                }
                _ => return Err(wrong("options are rank=N and share=X")),
            }
        }
        Ok(Pattern::Hotspot(rank, probability(share)))
    }

    /// Share of the packets of `source` that go to `destination`.
    pub fn share(&self, source: u32, destination: u32, ranks: u32) -> f64 {
        let uniform = 1.0 / ranks as f64;
        match self {
            Pattern::Uniform => uniform,
            Pattern::Permutation(list) => f64::from(list[source as usize] == destination),
            Pattern::Hotspot(rank, share) => {
                let share = *share as f64 / 2f64.powi(64);
                (1.0 - share) * uniform + if *rank == destination { share } else { 0.0 }
            }
        }
    }

    /// Destination of the next packet of `source`.
    pub fn destination(&self, source: u32, ranks: u32, random: &mut Random) -> u32 {
        match self {
            Pattern::Uniform => random.below(ranks),
            Pattern::Permutation(list) => list[source as usize],
            Pattern::Hotspot(rank, share) => {
                if random.happens(*share) {
                    *rank
                } else {
                    random.below(ranks)
                }
            }
        }
    }
}

/// A probability as a share of 2^64.
pub fn probability(share: f64) -> u64 {
    // Saturates: 1 happens but for one time in 2^64.
    (share * 2f64.powi(64)) as u64
}

/// Waits between events that happen in every cycle with the same probability, drawn in
/// O(log 1/probability) instead of cycle by cycle.
pub struct GeometricWaits {
    /// Probability of an event in 2^`levels` cycles; at least a half.
    any: u64,
    /// Of 2^(k + 1) cycles with an event, the probability of one in the first half.
    first_half: Vec<u64>,
}

impl GeometricWaits {
    /// For a probability above 0. Only the basic operations, which are exact alike on every machine.
    pub fn new(share: f64) -> GeometricWaits {
        let mut any = share;
        let mut first_half = vec![];
        while any < 0.5 {
            let twice = any * (2.0 - any);
            first_half.push(probability(any / twice));
            any = twice;
        }
        GeometricWaits { any: probability(any), first_half }
    }

    /// Cycles without an event before the next one.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let mut cycles = 0;
        while !random.happens(self.any) {
            cycles += 1 << self.first_half.len();
        }
        for (k, &first) in self.first_half.iter().enumerate().rev() {
            if !random.happens(first) {
                cycles += 1 << k;
            }
        }
        cycles
    }
}

/// Seeded random numbers in integers only, equal on every machine.
pub struct Random(Pcg64Mcg);

impl Random {
    /// Stream number `stream` of a seed.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..].copy_from_slice(&stream.to_le_bytes());
        let mut first = Pcg64Mcg::from_seed(bytes);
        // Close seeds start close together.
        (0..16).for_each(|_| _ = first.next_u64());
        Random(Pcg64Mcg::seed_from_u64(first.next_u64()))
    }

    /// A number below `count`.
    pub fn below(&mut self, count: u32) -> u32 {
        ((self.0.next_u32() as u64 * count as u64) >> 32) as u32
    }

    /// Whether something of a probability (of 2^64) happens.
    pub fn happens(&mut self, probability: u64) -> bool {
        self.0.next_u64() < probability
    }

    /// 32 random bits.
    pub fn bits(&mut self) -> u32 {
        self.0.next_u32()
    }
}
