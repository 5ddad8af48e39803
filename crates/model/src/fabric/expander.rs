//! Graphs of routers with short paths and no structure of levels: Slim Fly and Jellyfish.

use super::clos::SwitchNetwork;
use super::spec::{FabricPreset, PresetRequest, numbers};
use super::ways::mix;
use super::{Fabric, MAX_NODES};
use antiphon_base::error::Result;
use antiphon_base::options::{Default::Derived, Opt};
use std::collections::HashSet;

pub(super) const SLIMFLY: FabricPreset = FabricPreset::new(
    "slimfly",
    "slimfly:5",
    "2 Q^2 routers at most two hops apart, for an odd prime Q (SC 2014)",
    |request| Some(slimfly(request, request.sizes()?)),
)
.with(&[Opt::count("hosts", 1, 4096, Derived("half the links of a router"), "Ranks a router.")]);

pub(super) const JELLYFISH: FabricPreset = FabricPreset::new(
    "jellyfish",
    "jellyfish:8,5,2,1",
    "SWITCHES, their PORTS, ports for HOSTS, SEED: a random regular graph (NSDI 2012)",
    |request| Some(jellyfish(request, numbers(request.size?, ',')?.try_into().ok()?)),
);

/// The graph of McKay, Miller and Siran on two blocks of `q` x `q` routers ("Slim Fly: A Cost Effective Low-Diameter
/// Network Topology", Besta and Hoefler, SC 2014, section II-B): routers of a column differ by a generator, and
/// `(0, x, y)` is joined to `(1, m, c)` if `y = m x + c`.
fn slimfly(request: &PresetRequest, [q]: [u32; 1]) -> Result<Fabric> {
    let is_prime = |n: u32| n > 2 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    if u64::from(q) * u64::from(q) > MAX_NODES as u64 || !is_prime(q) {
        return Err(request.refused("Q is an odd prime, such as 5, 7 or 11"));
    }
    // q = 4 w + 1 or 4 w - 1; a primitive root has every power.
    let powers = |root: u32| -> Vec<u32> {
        (1..q).scan(1, |power, _| Some(std::mem::replace(power, *power * root % q))).collect()
    };
    let root = (2..q).find(|&root| powers(root).iter().skip(1).all(|&power| power != 1));
    let powers = powers(root.unwrap_or(1));
    let generators: [Vec<u32>; 2] = if q % 4 == 1 {
        [0, 1].map(|odd| powers.iter().skip(odd).step_by(2).copied().collect())
    } else {
        let half = (q as usize - 1) / 2;
        [0, 1].map(|odd| {
            let of = |first: usize| (0..half.div_ceil(2)).map(move |n| (first + 2 * n) % (q as usize - 1));
            of(odd).chain(of(half + odd)).map(|at| powers[at]).collect()
        })
    };
    let degree = q + generators[0].len() as u32;
    let hosts = request.options.given("hosts").map_or(degree.div_ceil(2), |hosts| hosts.whole() as u32);
    let routers = 2 * q * q;
    let ranks = u64::from(routers) * u64::from(hosts);
    let mut network = SwitchNetwork::new(request, ranks, routers.into(), ranks + u64::from(routers * degree) / 2)?;
    let first = network.switches("router", routers, 2.0);
    network.hosts(first, hosts);
    let router = |block: u32, column: u32, row: u32| first + (block * q + column) * q + row;
    for (block, column, row) in (0..2).flat_map(|b| (0..q).flat_map(move |x| (0..q).map(move |y| (b, x, y)))) {
        for other in generators[block as usize].iter().map(|step| (row + step) % q).filter(|&other| other > row) {
            network.join("router", router(block, column, row), router(block, column, other));
        }
        for slope in (0..q).filter(|_| block == 0) {
            network.join("router", router(0, column, row), router(1, slope, (row + q * q - slope * column) % q));
        }
    }
    network.finish(request, &["host", "router"])
}

/// Random graphs that are drawn before one is taken to have no connected one.
const DRAWS: u64 = 16;

/// Switches whose free ports are joined at random ("Jellyfish: Networking Data Centers Randomly", Singla et al., NSDI
/// 2012, section 3). Same seed, same graph, on every machine.
fn jellyfish(request: &PresetRequest, [switches, ports, hosts, seed]: [u32; 4]) -> Result<Fabric> {
    if hosts == 0 || ports <= hosts || ports - hosts >= switches {
        return Err(request.refused("needs a host a switch, and from 1 to SWITCHES - 1 ports for other switches"));
    }
    let (s, degree) = (u64::from(switches), ports - hosts);
    let (ranks, cables) = (s.saturating_mul(hosts.into()), s.saturating_mul(degree.into()) / 2);
    let mut draw = 0;
    loop {
        let mut network = SwitchNetwork::new(request, ranks, s, ranks.saturating_add(cables))?;
        let first = network.switches("switch", switches, 2.0);
        network.hosts(first, hosts);
        for (one, other) in random_regular(switches, degree, u64::from(seed) << 8 | draw) {
            network.join("switch", first + one, first + other);
        }
        draw += 1;
        match network.finish(request, &["host", "switch"]) {
            Err(error) if draw < DRAWS && error.message.contains("disconnected") => {}
            fabric => return fabric,
        }
    }
}

/// Pairs of `count` nodes, each in `degree` different ones, or one in one less. Random nodes with a free port are
/// joined; where none are left to join, a pair makes room for two.
fn random_regular(count: u32, degree: u32, seed: u64) -> Vec<(u32, u32)> {
    let mut drawn = 0;
    let mut below = |limit: usize| {
        drawn += 1;
        ((u128::from(mix(seed, [drawn, 0, 0])) * limit as u128) >> 64) as usize
    };
    let mut free = vec![degree; count as usize];
    let mut open: Vec<u32> = (0..count).collect();
    let (mut pairs, mut joined) = (Vec::new(), HashSet::new());
    let key = |a: u32, b: u32| (a.min(b), a.max(b));
    while !open.is_empty() {
        let can = |joined: &HashSet<_>, a, b| a != b && !joined.contains(&key(a, b));
        let mut drawn = (0..4 * open.len()).map(|_| (open[below(open.len())], open[below(open.len())]));
        let added = match drawn.find(|&(a, b)| can(&joined, a, b)) {
            Some(pair) => vec![pair],
            None => {
                let (p, q) = (open[0], open.get(1).copied().unwrap_or(open[0]));
                if p == q && free[p as usize] < 2 {
                    break;
                }
                let start = below(pairs.len());
                let mut places = (start..pairs.len()).chain(0..start);
                let place = places.find(|&at| {
                    let (x, y): (u32, u32) = pairs[at];
                    [p, q].into_iter().all(|end| end != x && end != y) && can(&joined, p, x) && can(&joined, q, y)
                });
                let Some(place) = place else { break };
                let (x, y) = pairs.swap_remove(place);
                joined.remove(&key(x, y));
                [x, y].into_iter().for_each(|end| free[end as usize] += 1);
                vec![(p, x), (q, y)]
            }
        };
        for (a, b) in added {
            joined.insert(key(a, b));
            pairs.push((a, b));
            for end in [a, b] {
                free[end as usize] -= 1;
                if free[end as usize] == 0 {
                    open.retain(|&node| node != end);
                }
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn degrees(fabric: &Fabric) -> HashSet<usize> {
        (fabric.ranks()..fabric.nodes.len()).map(|node| fabric.neighbours(node as u32).len()).collect()
    }

    #[test]
    fn slim_flies_have_diameter_two() {
        for (q, hosts, degree) in [(3, 1, 5), (5, 4, 7), (7, 2, 11), (11, 1, 17), (13, 1, 19), (17, 1, 25), (19, 2, 29)]
        {
            let fabric = Fabric::parse(&format!("slimfly:{q}:hosts={hosts}")).unwrap();
            assert_eq!((fabric.ranks(), fabric.diameter()), (2 * q * q * hosts, 2 + 2), "{q}");
            assert_eq!(degrees(&fabric), [hosts + degree].into(), "{q}");
        }
        assert_eq!(Fabric::parse("slimfly:5").unwrap().ranks(), 200);
    }

    #[test]
    fn jellyfish_are_regular_and_depend_on_their_seed() {
        for (switches, ports, hosts) in [(8, 5, 2), (20, 8, 4), (6, 6, 1), (50, 7, 4), (256, 32, 16)] {
            let [one, same, other] = [1, 1, 2].map(|seed| {
                let spec = format!("jellyfish:{switches},{ports},{hosts},{seed}");
                Fabric::parse(&spec).unwrap_or_else(|error| panic!("{error}"))
            });
            assert_eq!(degrees(&one), [ports].into(), "{switches}");
            assert_eq!(one.links, same.links);
            assert!(one.links != other.links);
        }
        // An odd number of ports leaves one.
        assert_eq!(degrees(&Fabric::parse("jellyfish:7,5,2,0").unwrap()), [4, 5].into());
    }
}
