//! Links that move more than a flit a clock of the routers: flits are as fast as packets, where messages have
//! links and interfaces of their own.

use crate::common::prelude::*;

/// Time of flits over that of packets, on system `generic`, of 64 GB/s links and 1 ns clock: 64 B a flit.
fn flits_over_packets(fabric: &Fabric, kind: Kind, bytes: u64, algorithm: &str) -> f64 {
    let system = System::preset("generic").unwrap();
    let schedule = algorithm::build(fabric, &system, Collective::new(kind), bytes, algorithm).unwrap();
    let time = |fidelity| simulate(fabric, &schedule, &system, fidelity).unwrap().time_ps as f64;
    time(Fidelity::Flit) / time(Fidelity::Packet)
}

#[test]
fn flits_agree_with_packets_at_any_rate() {
    for (spec, kind, bytes, algorithm, error) in [
        ("fc:2@64/5ns", Kind::AllGather, 4 << 20, "direct", 0.01),
        ("fc:2@65/5ns", Kind::AllGather, 4 << 20, "direct", 0.01),
        ("fc:2@900/5ns", Kind::AllGather, 4 << 20, "direct", 0.01),
        ("fc:2@14400/5ns", Kind::AllGather, 16 << 20, "direct", 0.01),
        ("fc:2@100000/5us", Kind::AllGather, 64 << 20, "direct", 0.01),
        ("switch:8@450/300ns", Kind::AllReduce, 4 << 20, "ring-bi", 0.02),
        ("switch:8@450/300ns", Kind::AllReduce, 16 << 20, "ring-bi", 0.01),
        ("mesh:3x3@450/300ns", Kind::AllReduce, 4 << 20, "ring-2d", 0.01),
        ("fc:8@900/5ns", Kind::AllReduce, 4 << 20, "overlapped-tree", 0.01),
    ] {
        let ratio = flits_over_packets(&Fabric::parse(spec).unwrap(), kind, bytes, algorithm);
        assert!((ratio - 1.0).abs() < error, "{spec} {algorithm}: {ratio}");
    }
}

#[test]
fn fast_and_slow_links_meet() {
    // Two switches of fast links with a slow one between them: that one decides.
    let mut fabric = Fabric::parse("mesh:1x4@900/700ns").unwrap();
    for link in &mut fabric.links {
        if link.from.min(link.to) == 1 && link.from.max(link.to) == 2 {
            link.rate = Some(Rate::gb_per_s(50));
        }
    }
    let ratio = flits_over_packets(&fabric, Kind::AllReduce, 4 << 20, "direct");
    assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
}
