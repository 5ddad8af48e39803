//! The bound by endpoints: what ranks must read from memory, bring over a bus and write.

use super::task::Task;
use antiphon_base::units::{Picos, Rate};
use antiphon_model::collective::Kind;
use antiphon_model::fabric::Fabric;
use antiphon_model::system::{Endpoint, System};

/// The least time for which the endpoint of some rank is busy; zero where ranks neither read nor write, or share a node.
///
/// Interfaces prove nothing: a schedule may have one for each link. Proofs, for D bytes on N ranks:
///
/// - An accelerator (`npu`) reads a message to send it, and twice if its receiver adds it. Whoever first has the sum of an
///   element has it by N - 1 additions. These messages end before it has the sum, and all others of an AllReduce receive the sum later,
///   by N - 1 more messages. So all ranks together read 3 (N - 1) D for an AllReduce, 2 (N - 1) D for a
///   ReduceScatter and (N - 1) D for an AllGather; some rank reads the mean. Those that are left out may read, too.
///   The root of a Broadcast reads D; a rank that is not the root of a Reduce reads 2 D.
/// - Switches that compute read nothing, and a message to one is read once. Then a rank still sends what it contributes, or, if
///   it is the first to have the sum of an AllReduce, that sum: N D together. Of an AllGather every shard is sent once.
/// - An engine (`ace`) reads what a rank contributes and brings it over its bus, and writes each of its results, in paths of
///   their own.
pub(super) fn endpoint(fabric: &Fabric, system: &System, task: &Task) -> Picos {
    if task.sites.len() < 2 || task.sites.iter().any(|site| site.ranks > 1) {
        return 0;
    }
    match system.endpoint {
        Endpoint::System | Endpoint::Ideal(_) => 0,
        Endpoint::Npu(npu) => {
            let [read, bus] = accelerator(fabric, task);
            time(read, npu.read_rate()).max(time(bus, npu.bus_rate))
        }
        Endpoint::Ace(ace) => {
            let [read, written] = engine(task);
            time(read, ace.memory_rate.min(ace.bus_rate)).max(time(written, ace.memory_rate))
        }
    }
}

/// Bytes, and by how many endpoints.
type EndpointLoad = (u128, u128);

/// Rounded down to a picosecond.
fn time((bytes, ranks): EndpointLoad, rate: Rate) -> Picos {
    let picos = bytes * 1_000_000_000_000 / (ranks * u128::from(rate.0)).max(1);
    Picos::try_from(picos).unwrap_or(Picos::MAX)
}

/// What accelerators read, and what they bring over their buses.
fn accelerator(fabric: &Fabric, task: &Task) -> [EndpointLoad; 2] {
    let (bytes, ranks) = (u128::from(task.bytes), task.ranks());
    let (others, workers) = (ranks - 1, task.workers);
    let computes = fabric.computing_switches().next().is_some();
    let of = |read: u128, sent: u128, ranks: u128| [(read, ranks), (sent, ranks)];
    match (task.kind, computes) {
        (Kind::AllReduce, false) => of(3 * others * bytes, 2 * others * bytes, workers),
        (Kind::AllReduce, true) => of(ranks * bytes, ranks * bytes, workers),
        (Kind::ReduceScatter, false) => of(2 * others * bytes, others * bytes, workers),
        (Kind::ReduceScatter, true) => of(others * bytes, others * bytes, workers),
        (Kind::AllGather, false) => of(others * bytes, others * bytes, workers),
        (Kind::AllGather, true) => of(bytes, bytes, workers),
        (Kind::Reduce, false) => of(2 * bytes, bytes, 1),
        (Kind::Reduce, true) | (Kind::Broadcast, _) => of(bytes, bytes, 1),
        (Kind::AllToAll, _) => {
            let sent = most_of_a_site(task, |task, own, other| task.between(own, other));
            of(sent, sent, 1)
        }
    }
}

/// What an engine reads, and what it writes, at the rank with most of each.
fn engine(task: &Task) -> [EndpointLoad; 2] {
    let bytes = u128::from(task.bytes);
    let shards = || task.sites.iter().map(|site| site.shards);
    let (most, least) = (shards().max().unwrap_or(0), shards().min().unwrap_or(0));
    let [read, written] = match task.kind {
        Kind::AllReduce | Kind::Reduce | Kind::Broadcast => [bytes, bytes],
        Kind::ReduceScatter => [bytes, most],
        Kind::AllGather => [most, bytes - least],
        Kind::AllToAll => [
            most_of_a_site(task, |task, own, other| task.between(own, other)),
            most_of_a_site(task, |task, own, other| task.between(other, own)),
        ],
    };
    [(read, 1), (written, 1)]
}

/// The most that a site has with all others together. O(sites squared).
fn most_of_a_site(task: &Task, between: impl Fn(&Task, usize, usize) -> u128) -> u128 {
    let sites = || 0..task.sites.len();
    let of = |own: usize| sites().filter(|&other| other != own).map(|other| between(task, own, other)).sum();
    sites().map(of).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use crate::lower_bound;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::fabric::Fabric;
    use antiphon_model::system::System;

    const KINDS: [Kind; 6] =
        [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::Reduce, Kind::Broadcast, Kind::AllToAll];

    /// Nanoseconds of 8,000 bytes, by kind, and whether they bind.
    fn of(spec: &str, endpoint: &str) -> [f64; 6] {
        let mut system = System::preset("ideal").unwrap();
        system.set("endpoint", endpoint).unwrap();
        let fabric = Fabric::parse(spec).unwrap();
        KINDS.map(|kind| {
            let bound = lower_bound(&fabric, &system, Collective::new(kind), 8000, None).unwrap();
            assert_eq!(bound.binding == "endpoint", bound.endpoint_ps > 0, "{bound:?}");
            bound.endpoint_ps as f64 / 1e3
        })
    }

    #[test]
    fn what_must_be_read_and_written_by_hand() {
        for endpoint in ["system", "ideal"] {
            assert_eq!(of("ring:4", endpoint), [0.0; 6]);
        }
        // 1 byte a nanosecond is read, and 10 go over the bus.
        let npu = "npu:memory_gb_per_s=1,bus_gb_per_s=10";
        assert_eq!(of("ring:4", npu), [18_000.0, 12_000.0, 6_000.0, 16_000.0, 8_000.0, 6_000.0]);
        assert_eq!(of("switch:4", npu), of("ring:4", npu));
        assert_eq!(of("switch:4,switches=in-tree", npu), [8_000.0, 6_000.0, 2_000.0, 8_000.0, 8_000.0, 6_000.0]);
        let bus = "npu:memory_gb_per_s=100,sms=80,bus_gb_per_s=1";
        assert_eq!(of("ring:4", bus), [12_000.0, 6_000.0, 6_000.0, 8_000.0, 8_000.0, 6_000.0]);
        let ace = "ace:memory_gb_per_s=1,bus_gb_per_s=10";
        assert_eq!(of("ring:4", ace), [8_000.0, 8_000.0, 6_000.0, 8_000.0, 8_000.0, 6_000.0]);
        let bus = "ace:memory_gb_per_s=10,bus_gb_per_s=1";
        assert_eq!(of("ring:4", bus), [8_000.0, 8_000.0, 2_000.0, 8_000.0, 8_000.0, 6_000.0]);
    }
}
