//! Systems by name: what each changes of the defaults, with the source of every number.

/// A named system.
pub struct SystemPreset {
    /// Its name.
    pub name: &'static str,
    /// What it models and where its numbers are from.
    pub description: &'static str,
    /// The parameters that differ from their defaults, as `key=value`.
    pub settings: &'static [&'static str],
}

/// A GPU of a library, whose links have no headers beside the rates that it counts on.
macro_rules! gpu {
    ($name:literal, $description:literal, $($setting:literal),*) => {
        SystemPreset {
            name: $name,
            description: $description,
            settings: &[
                "link_latency_ns=700",
                "header_flits=0",
                // As of dgx1.
                "energy_link_pj_per_bit=10",
                "energy_buffer_pj_per_bit=unknown",
                "energy_crossbar_pj_per_bit=unknown",
                $($setting),*
            ],
        }
    };
}

/// All presets; the first has the defaults.
pub const PRESETS: [SystemPreset; 10] = [
    SystemPreset {
        name: "generic",
        description: "25 GB/s links, 20 ns latency, 4096 B packets with a 64 B header; reductions are free; 100 TFLOP/s and 1 TB/s a rank",
        settings: &[],
    },
    // What stage-level models leave out costs nothing here (docs/explanation/rails.md).
    SystemPreset {
        name: "ideal",
        description: "25 GB/s links, 20 ns latency, 64 KiB packets without header; hand-off and reductions are free",
        settings: &[
            "packet_payload_bytes=64KiB",
            "flit_bytes=256",
            "header_flits=0",
            "router_depth_flits=512",
            "hand_off_ns=0",
        ],
    },
    // C-Cube (HPCA 2023): the hand-off is fitted to the gain of the overlap at 64 MB in Figure 12; the other numbers are
    // the machine's.
    SystemPreset {
        name: "dgx1",
        description: "DGX-1 of C-Cube (HPCA 2023): 25 GB/s NVLinks; 12.4 us a step, a fit to its Figure 12 at 64 MB; V100 GPUs: 60 % of 15.7 TFLOP/s, 75 % of 900 GB/s; 10 pJ a bit on links of a board (MCM-GPU, ISCA 2017)",
        settings: &[
            "link_latency_ns=0",
            "header_flits=0",
            "hand_off_ns=12400",
            // As by default, 8 ns of the hand-off are spent in the routers at both ends.
            "router_hand_off_ns=12392",
            "processor=roofline:tflops=15.7,gb-per-s=900,element-bytes=4",
            // MCM-GPU (ISCA 2017), Table 2: links on a board. Nothing is known of what forwards in a GPU.
            "energy_link_pj_per_bit=10",
            "energy_buffer_pj_per_bit=unknown",
            "energy_crossbar_pj_per_bit=unknown",
        ],
    },
    // TTO (HPCA 2024), Table II, and what its artifact sets.
    SystemPreset {
        name: "tto",
        description: "TTO (HPCA 2024) Table II: 25 GB/s chiplet links, 512 B flits at 21 ns, 8192 B packets with a head flit, 4 network interfaces, 16 PEs of 256x256 MACs",
        settings: &[
            "link_latency_ns=0",
            "clock_ns=1",
            "packet_payload_bytes=8KiB",
            "flit_bytes=512",
            "fixed_size_packets=yes",
            // Outgoing FIFO 32 + per-interface message buffer 16 + injection queue 4 packets.
            "interface_depth_packets=52",
            // 4 channels of 318 flits, look-ahead routing, iSLIP.
            "router_depth_flits=318",
            "hand_off_ns=12",
            // 9 of the 12 ns are spent in the routers at both ends.
            "router_hand_off_ns=3",
            // 16 PEs x 256 four-byte sums a cycle.
            "reduce_rate_gb_per_s=16384",
            "processor=systolic",
        ],
    },
    // Section III has round-robin arbiters and circuits from input ports to the local one, section V stages and buffers. Of what ARIES
    // does not say, packets are those of the default, a flit is what a link carries in a nanosecond, and each port has an interface of its
    // own, since ranks send on all ports at a time (Table I: 4G).
    SystemPreset {
        name: "aries",
        description: "ARIES (DATE 2024) Table II: 68 GB/s chiplet links, 10 ns a hop, 68 B flits at 1 GHz, two-stage round-robin routers with 4 virtual channels of 32 flits, circuits and an interface for each port, 16 PEs of 32x32 MACs",
        settings: &[
            "link_rate_gb_per_s=68",
            "link_latency_ns=10",
            // Table II has one latency of a hop, whatever its length.
            "wire_latency_ps_per_mm=0",
            "flit_bytes=68",
            "packet_payload_bytes=1088",
            "interface_assignment=port",
            "link_arbitration=round-robin",
            "router_depth_flits=32",
            "router_traversal_cycles=0",
            "router_ejection=circuit",
            "processor=systolic:rows=32,cols=32",
        ],
    },
    // What antiphon testbed sets up. An Ethernet frame of 8,996 bytes and its header carries 20 bytes of IP, 32 of TCP, the 32 of
    // `carrier::PACKET_HEADER_BYTES`, and data. Nothing imitates latency. Threads take about 0.1 ms to wake, but a link that paused for it
    // passes at once what it could have carried meanwhile.
    SystemPreset {
        name: "testbed",
        description: "the emulated fabric of antiphon testbed: 200 Mbit/s TCP connections, frames of 9,010 bytes with 98 of headers, no latency",
        settings: &[
            "link_rate_gb_per_s=0.025",
            "link_latency_ns=0",
            "packet_payload_bytes=8912",
            "flit_bytes=2",
            "header_flits=49",
            "router_depth_flits=9010",
            "hand_off_ns=0",
        ],
    },
    // NCCL 2.30.7, src/graph/tuning.cc: base latencies of rings, 6.6, 14 and 8.4 us; a step on NVLink, 0.6, 1.9 and 3.4; bus bandwidth
    // of LL half of a ring's, at most 87.7 GB/s (A100), 141 (H100) or 282 (Blackwell), of LL128 0.92. Rates are those that it counts on
    // (src/graph/topo.h): 12 NVLinks of 20 GB/s, 18 of 20.6, 18 of 40.1. A hop of 0.7 us (TE-CCL, SIGCOMM 2024) is part of a step.
    gpu!(
        "a100-nccl",
        "NCCL's protocols on A100: 240 GB/s a GPU, latencies and shares of NCCL 2.30 (tuning.cc) for rings on NVLink; 312 TFLOP/s, 2039 GB/s; 10 pJ a bit on links (MCM-GPU, ISCA 2017)",
        "link_rate_gb_per_s=240",
        "protocols=ll:6600:600:0.365417+ll128:14000:1900:0.92+simple:8400:3400:1",
        "processor=roofline:tflops=312,gb-per-s=2039"
    ),
    gpu!(
        "h100-nccl",
        "NCCL's protocols on H100 and H200: 370.8 GB/s a GPU, latencies and shares of NCCL 2.30 (tuning.cc) for rings on NVLink; 989 TFLOP/s, 3350 GB/s; 10 pJ a bit on links (MCM-GPU, ISCA 2017)",
        "link_rate_gb_per_s=370.8",
        "protocols=ll:6600:600:0.380259+ll128:14000:1900:0.92+simple:8400:3400:1",
        "processor=roofline:tflops=989,gb-per-s=3350"
    ),
    gpu!(
        "b200-nccl",
        "NCCL's protocols on B200 and GB200: 721.8 GB/s a GPU, latencies and shares of NCCL 2.30 (tuning.cc) for rings on NVLink; 2250 TFLOP/s, 8000 GB/s; 10 pJ a bit on links (MCM-GPU, ISCA 2017)",
        "link_rate_gb_per_s=721.8",
        "protocols=ll:6600:600:0.39069+ll128:14000:1900:0.92+simple:8400:3400:1",
        "processor=roofline:tflops=2250,gb-per-s=8000"
    ),
    // RCCL 0cbce2a (2024), src/graph/tuning.cc, the table of MI300X: base latencies 12 and 17 us, a step 0.8 and 2.1, LL 0.08 of a ring's
    // rate; src/graph/topo.h: 48 GB/s a link. LL128 is only for MI200.
    gpu!(
        "mi300x-rccl",
        "RCCL's protocols on MI300X: 48 GB/s a link, latencies and shares of RCCL of 2024 (tuning.cc) for rings on xGMI; 1307 TFLOP/s, 5300 GB/s; 10 pJ a bit on links (MCM-GPU, ISCA 2017)",
        "link_rate_gb_per_s=48",
        "protocols=ll:12000:800:0.08+simple:17000:2100:1",
        "processor=roofline:tflops=1307,gb-per-s=5300"
    ),
];
