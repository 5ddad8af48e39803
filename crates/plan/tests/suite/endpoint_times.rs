//! Endpoints, computed by hand: two ranks, links of 10 GB/s with a latency of 100 ns, no headers.

use crate::common::prelude::*;

fn system(endpoint: &str) -> System {
    let mut system = System::preset("ideal").unwrap();
    system.set("packet_payload_bytes", "8KiB").unwrap();
    system.set("endpoint", endpoint).unwrap();
    system
}

/// Each of two ranks sends half of the buffer, and the other adds it; at every fidelity but flits, which have routers.
fn reduce_scatter(endpoint: &str, bytes: u64) -> Vec<u64> {
    let (fabric, system) = (Fabric::parse("ring:2@10/100ns").unwrap(), system(endpoint));
    let collective = Collective::new(Kind::ReduceScatter);
    let schedule = algorithm::build(&fabric, &system, collective, bytes, "direct:chunk=64KiB").unwrap();
    let time = |fidelity| simulate(&fabric, &schedule, &system, fidelity).unwrap().time_ps;
    [Fidelity::AlphaBeta, Fidelity::Packet].map(time).to_vec()
}

#[test]
fn ideal_is_a_cycle_late() {
    assert_eq!(reduce_scatter("ideal:chunk=128KiB", 81_920), [4_096_000 + 100_000 + 803; 2]);
}

/// The step of a machine costs as much at any of them, and for flits less by what routers take.
#[test]
fn the_hand_off_of_a_system_stays() {
    let fabric = Fabric::parse("ring:2@10/100ns").unwrap();
    let collective = Collective::new(Kind::ReduceScatter);
    for endpoint in ["ideal", "npu", "ace"] {
        for (fidelity, key) in [(Fidelity::Packet, "hand_off_ns"), (Fidelity::Flit, "router_hand_off_ns")] {
            let time = |ns: &str| {
                let mut system = system(endpoint);
                system.set(key, ns).unwrap();
                let schedule = algorithm::build(&fabric, &system, collective, 81_920, "direct:chunk=64KiB").unwrap();
                simulate(&fabric, &schedule, &system, fidelity).unwrap().time_ps
            };
            assert_eq!(time("12400"), time("0") + 12_400_000, "{endpoint} {fidelity:?}");
        }
    }
}

#[test]
fn an_npu_reads_twice_what_is_added() {
    // 8,192 ns to read, 81.92 on the bus, then the link.
    let whole = reduce_scatter("npu:memory_gb_per_s=10,message=1MB,chunk=128KiB", 81_920);
    assert_eq!(whole, [8_192_000 + 81_920 + 4_096_000 + 100_000; 2]);
    // By messages of 8 KiB the last goes when it is there: read, 16.384 ns on the bus, 819.2 on the link.
    let parts = reduce_scatter("npu:memory_gb_per_s=10,chunk=128KiB", 81_920);
    assert_eq!(parts, [8_192_000 + 16_384 + 819_200 + 100_000; 2]);
    // Where the link is slower it waits for the first only: 163.84 ns to read.
    let fast = reduce_scatter("npu:memory_gb_per_s=100,sms=80,chunk=128KiB", 81_920);
    assert_eq!(fast, [163_840 + 16_384 + 4_096_000 + 100_000; 2]);
}

#[test]
fn an_engine_reads_and_writes_once() {
    // Both halves are read, in 8,192 ns, a packet is 0.512 on the bus; the sum takes 409.6 and is written in 4,096.
    let times = reduce_scatter("ace:memory_gb_per_s=10,alus=1,alu_gb_per_s=100,chunk=128KiB", 81_920);
    assert_eq!(times, [8_192_000 + 512 + 4_096_000 + 100_000 + 409_600 + 4_096_000; 2]);
    // A packet is read in 2.56 ns; then the bus is busy for 16,384.
    let times = reduce_scatter("ace:memory_gb_per_s=100,bus_gb_per_s=5,alus=1,alu_gb_per_s=100,chunk=128KiB", 81_920);
    assert_eq!(times, [2_560 + 16_384_000 + 4_096_000 + 100_000 + 409_600 + 409_600; 2]);
}

/// Six chunks of 8 KiB around a ring of four, half each way: with one state machine they follow each other.
#[test]
fn state_machines_and_sram_bound_what_is_under_way() {
    let fabric = Fabric::parse("ring:4@10/100ns").unwrap();
    let outcome = |chunk: u64, endpoint: &str, fidelity| {
        let system = system(endpoint);
        let collective = Collective::new(Kind::AllReduce);
        let schedule = algorithm::build(
            &fabric,
            &system,
            collective,
            6 * chunk,
            "hierarchical:chunks=6,slices=1,scheduler=baseline",
        )
        .unwrap();
        simulate(&fabric, &schedule, &system, fidelity).map(|result| result.time_ps)
    };
    let time = |endpoint: &str, fidelity| outcome(8_192, endpoint, fidelity).unwrap();
    for fidelity in [Fidelity::AlphaBeta, Fidelity::Packet, Fidelity::Flit] {
        let free = time("ace:memory_gb_per_s=900", fidelity);
        let one = time("ace:memory_gb_per_s=900,fsms=1", fidelity);
        let small = time("ace:memory_gb_per_s=900,sram=8KiB,chunk=8KiB", fidelity);
        // A chunk alone takes six steps of 102.4 ns and the latency.
        assert!(one > 6 * 6 * 202_400 && one < 6 * 6 * 240_000, "{fidelity:?}: {one}");
        assert!(free < one * 6 / 10 && small >= one, "{fidelity:?}: {free}, {one}, {small}");
        // Those of 64 KiB are cut into four, each with its latencies.
        let [whole, cut] = ["64KiB", "16KiB"].map(|size| {
            outcome(65_536, &format!("ace:memory_gb_per_s=900,sram={size},chunk={size},fsms=1"), fidelity).unwrap()
        });
        assert!(cut > whole + 6 * 3 * 6 * 100_000, "{fidelity:?}: {cut}, {whole}");
        // Messages of 2 KiB are not: headers would be most of them.
        let error = outcome(8_192, "ace:sram=4KiB,chunk=4KiB", fidelity).unwrap_err();
        assert_eq!(error.code, Code::BadSize);
        assert!(error.message.contains("8KiB of rank 0 are one chunk, and its SRAM has 4KiB"), "{error}");
    }
}
