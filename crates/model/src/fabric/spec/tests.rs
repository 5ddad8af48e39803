//! Specifications, and what is refused.

use super::*;
use crate::fabric::Shape;
use antiphon_base::units::Rate;

#[test]
fn every_example_is_a_fabric() {
    for preset in PRESETS.iter().filter(|preset| preset.kind != "file") {
        let fabric = Fabric::parse(preset.example).unwrap();
        assert_eq!(fabric.name, preset.example);
        assert!(fabric.is_symmetric());
        let graphs = ["dgx-a100", "mi250", "fat-tree", "dragonfly", "slimfly", "jellyfish", "hammingmesh", "wafer"];
        assert!(fabric.shape != Shape::Graph || graphs.contains(&preset.kind));
        let coords = fabric.nodes[0].coords.len();
        assert!(fabric.nodes.iter().all(|node| node.coords.len() == coords));
    }
}

#[test]
fn a_group_comes_last() {
    for spec in ["mesh:8x8[0,1]@100", "mesh:8x8[0,1],drop=1-2", "mesh:8x8[0,1", "mesh:8x8]0,1", "[0,1]mesh:8x8"] {
        let error = Fabric::parse(spec).unwrap_err();
        assert!(error.message.contains("comes last"), "{}", error.message);
    }
}

#[test]
fn sizes() {
    for (spec, ranks, links) in [
        ("mesh:4x4x4", 64, 288),
        ("torus:4x4x4", 64, 384),
        ("torus:2x2", 4, 8),
        ("ring:2", 2, 2),
        ("ring:16", 16, 32),
        ("fc:8", 8, 56),
        ("fbfly:8x8", 64, 896),
        ("hypercube:4", 16, 64),
        ("hypercube:12", 4096, 12 * 4096),
        ("switch:16", 16, 32),
        ("bigraph:4", 32, 96),
        ("bigraph:4x4", 32, 96),
        ("dgx1v", 8, 48),
        ("dgx-a100:1", 8, 16),
        ("dgx-a100:2", 16, 96),
        ("dgx-h100:2", 16, 64),
        ("dgx-h100:512", 4096, 4 * 4096),
        ("mi250:2", 32, 2 * 56 + 64),
        ("mi300x:2", 16, 2 * 56 + 32),
        ("dgx-v100:raw", 8, 48),
        ("dgx-a100:3:nics=2", 24, 24 * 2 + 24 * 2 + 6 * 2),
        ("dgx-a100:2:nics=1,raw", 16, 16 * 2 + 16 * 2 + 2 * 2),
        ("dgx-h200:4:nics=4", 32, 32 * 2 + 32 * 2 + 16 * 2),
        ("dgx-b200:512:nics=8", 4096, 4 * 4096),
        ("h800:1:raw", 8, 16),
        ("gb200-nvl72:56", 4032, 4 * 4032),
        ("mi300x:3:nics=1:raw", 24, 3 * 56 + 24 * 2 + 3 * 2),
        ("ub-mesh:8x8x8x8", 4096, 28 * 4096),
        ("tt-galaxy", 32, 128),
        ("fugaku:2x2x2", 8, 24),
        ("fugaku:4x4x4", 64, 6 * 64),
        ("fat-tree:64x64", 4096, 2 * 4096 + 2 * 4096),
        ("jellyfish:512,16,8,1,slow=0-4096:0.5", 4096, 2 * 4096 + 512 * 8),
        ("tpu-v4:16x16x16", 4096, 6 * 4096),
        ("tpu-v5p:8x16x16:twisted", 2048, 6 * 2048),
        ("tpu-v4:2x2x1", 4, 8),
        ("mesh:8x8:express=4", 64, 224 + 2 * 16),
        ("mesh:3x8,express=4", 24, 74 + 2 * 3),
        ("mesh:4x4:concentration=4", 64, 48 + 2 * 64),
        ("fbfly:4x4:concentration=4", 64, 96 + 2 * 64),
        ("mesh:4x4:concentration=1", 16, 48),
        ("mesh:8x8:express=4,concentration=2", 128, 224 + 2 * 16 + 2 * 128),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        assert_eq!((fabric.ranks(), fabric.links.len()), (ranks, links), "{spec}");
    }
}

#[test]
fn link_parameters_reach_every_link() {
    let fabric = Fabric::parse("mesh:2x2@12.5/20ns").unwrap();
    assert!(fabric.links.iter().all(|link| (link.rate, link.latency) == (Some(Rate(12_500_000_000)), Some(20_000))));
    assert!(fabric.product().is_some());
    assert_eq!(Fabric::parse("dgx1v@25").unwrap().links[0].latency, None);
}

/// `@/LATENCY/ENERGY` leaves rates as they are.
#[test]
fn a_latency_and_an_energy_without_a_rate() {
    for (with, without) in [
        ("mesh:2x2@/20ns", "mesh:2x2"),
        ("tt-galaxy:raw@/20ns", "tt-galaxy:raw"),
        ("dgx-spark:ring4@/20ns", "dgx-spark:ring4"),
        ("tpu-v4:4x4x4@/20ns+/20ns+/20ns", "tpu-v4:4x4x4"),
        ("dgx-h100:2@/20ns+/20ns", "dgx-h100:2"),
        ("fat-tree:4@/20ns", "fat-tree:4"),
        ("dgx1v@/20ns", "dgx1v"),
        ("mesh:4x4:express=2@/20ns", "mesh:4x4:express=2"),
        ("wafer:4x4:reticle=2x2@/20ns+/20ns", "wafer:4x4:reticle=2x2"),
    ] {
        let timed = Fabric::parse(with).unwrap();
        let [both, only] = ["/20ns/0.3pJ", "//0.3pJ"].map(|given| with.replace("/20ns", given));
        let [both, only, without] = [&both, &only, without].map(|spec| Fabric::parse(spec).unwrap());
        assert_eq!((&both.nodes, &timed.nodes), (&without.nodes, &without.nodes));
        for (id, other) in (0..).zip(&without.links) {
            let expected = Link { latency: Some(20_000), ..other.clone() };
            assert_eq!(timed.link(id), &expected, "{with}");
            assert_eq!(both.link(id), &Link { energy: Some(2_400_000), ..expected }, "{with}");
            assert_eq!(only.link(id), &Link { energy: Some(2_400_000), ..other.clone() }, "{with}");
        }
        for along in only.product().iter().flat_map(|product| &product.dimensions) {
            assert_eq!(along.energy, Some(2_400_000), "{with}");
        }
    }
}

/// 4x4 at 2 mm, from node 0: the links around are 6 mm long, or 2 mm if folded; ports share 100 GB/s.
#[test]
fn grids_have_lengths_and_a_budget_of_their_ports() {
    let of = |spec: &str, node: u32| -> Vec<_> {
        let fabric = Fabric::parse(spec).unwrap();
        let out = fabric.out_links(node).iter().map(|&id| fabric.link(id));
        out.map(|link| (link.to, link.length_um, link.rate.map(|rate| rate.0 / 1_000_000_000))).collect()
    };
    let lengths = |spec| of(spec, 0).into_iter().map(|(to, length, _)| (to, length.unwrap())).collect::<Vec<_>>();
    assert_eq!(lengths("mesh:4x4:pitch=2mm"), [(4, 2_000), (1, 2_000)]);
    assert_eq!(lengths("torus:4x4:pitch=2mm"), [(12, 6_000), (4, 2_000), (3, 6_000), (1, 2_000)]);
    assert_eq!(lengths("torus:4x4:pitch=2mm,folded"), [(12, 2_000), (4, 4_000), (3, 2_000), (1, 4_000)]);
    assert_eq!(lengths("fc:4:pitch=1cm"), [(1, 10_000), (2, 20_000), (3, 30_000)]);
    assert_eq!(lengths("hypercube:3:pitch=1mm"), [(4, 2_000), (2, 1_000), (1, 1_000)]);
    assert_eq!(lengths("mesh:2x4x4:pitch=2mm:stack=50um"), [(16, 50), (4, 2_000), (1, 2_000)]);
    assert_eq!(lengths("mesh:5:pitch=2mm,express=4"), [(1, 2_000), (4, 8_000)]);
    assert!(of("mesh:4x4", 0).iter().all(|(_, length, rate)| length.or(rate.map(|_| 0)).is_none()));
    // Four ports of 25, also at a corner; fourteen of 100 / 14.
    assert_eq!(of("mesh:4x4:io=100GB/s", 0), [(4, None, Some(25)), (1, None, Some(25))]);
    assert!(of("fbfly:8x8:io=140GB/s@/5ns", 9).iter().all(|link| link.2 == Some(10)));
    let product = Fabric::parse("torus:4x4:io=80GB/s@/5ns").unwrap();
    let along = product.product().unwrap().dimensions[0];
    assert_eq!((along.rate, along.latency), (Some(Rate::gb_per_s(40)), Some(5_000)));
    // Ranks of a router are on its chip.
    let concentrated = Fabric::parse("torus:4x4:concentration=4,io=100GB/s,pitch=2mm@/5ns").unwrap();
    let host = concentrated.link(concentrated.link_between(5, 65).unwrap());
    assert_eq!((host.rate, host.latency, host.length_um), (Some(Rate::gb_per_s(100)), Some(0), Some(0)));
    let wire = concentrated.link(concentrated.link_between(64, 67).unwrap());
    assert_eq!((wire.rate, wire.latency, wire.length_um), (Some(Rate::gb_per_s(25)), Some(5_000), Some(6_000)));
    let rated = Fabric::parse("mesh:2x2:concentration=2@10+20").unwrap();
    assert_eq!(rated.link(rated.link_between(0, 8).unwrap()).rate, Some(Rate::gb_per_s(20)));
}

#[test]
fn a_rate_for_every_dimension() {
    let fabric = Fabric::parse("torus:4x2x3@200/90ns+25/500ns+12.5").unwrap();
    for link in &fabric.links {
        let expected = match &*link.dimension {
            "z" => (200, Some(90_000)),
            "y" => (25, Some(500_000)),
            _ => (12, None),
        };
        assert_eq!((link.rate.unwrap().0 / 1_000_000_000, link.latency), expected, "{link:?}");
    }
    let along = &fabric.product().unwrap().dimensions;
    assert_eq!(
        along.iter().map(|along| along.rate.unwrap().0).collect::<Vec<_>>(),
        [400e9, 25e9, 25e9].map(|r| r as u64)
    );
    assert_eq!(along.iter().map(|along| along.latency).collect::<Vec<_>>(), [Some(90_000), Some(500_000), None]);
    // One is for all; a message to a switch and on from it waits twice.
    let same = |one: &str, other: &str| Fabric::parse(one).unwrap().links == Fabric::parse(other).unwrap().links;
    assert!(same("mesh:3x3@5/1ns", "mesh:3x3@5/1ns+5/1ns") && same("hypercube:3@5", "hypercube:3@5+5+5"));
    let switch = Fabric::parse("switch:4@10/20ns").unwrap();
    assert!(switch.links.iter().all(|link| (link.rate, link.latency) == (Some(Rate(10_000_000_000)), Some(20_000))));
    let along = switch.product().unwrap().dimensions[0];
    assert_eq!((along.rate, along.latency), (Some(Rate(10_000_000_000)), Some(40_000)));
    // Degradations come after.
    let slow = Fabric::parse("mesh:2x2@10+20,slow=0-1:0.5,slow=0-2:0.1").unwrap();
    let link = |to| slow.link(slow.link_between(0, to).unwrap());
    assert_eq!((link(1).rate, link(1).speed_permille), (Some(Rate(20_000_000_000)), 500));
    assert_eq!((link(2).rate, link(2).speed_permille), (Some(Rate(10_000_000_000)), 100));
    assert_eq!(Fabric::parse("mesh:2x2@10+20,dead=0").unwrap().links.len(), 4);
}

/// Specifications that are refused, with code and reason.
const REFUSED: &[(&str, Code, &str)] = &[
    ("mesh:4x4:pitch=2", Code::BadSpec, "length '2' is not a length"),
    ("mesh:4x4:pitch=0mm", Code::BadSpec, "length '0mm' is not from 1 um to 1 km"),
    ("mesh:64x64:pitch=1000m,express=2", Code::BadSpec, "a link would be 2000000 mm long"),
    ("torus:4x4:folded", Code::BadSpec, "folded needs pitch=, as in torus:8x8:pitch=2mm,folded"),
    ("mesh:4x4:folded,pitch=2mm", Code::UnknownName, "mesh has no option 'folded'"),
    ("ring:8:stack=50um", Code::UnknownName, "ring has no option 'stack'"),
    ("mesh:4x4:io=100", Code::BadSpec, "rate '100' is not a rate"),
    ("mesh:4x4:io=0GB/s", Code::BadSpec, "link rate 0"),
    ("mesh:4x4:io=100GB/s@25", Code::BadSpec, "io and @ both give rates"),
    ("mesh:4x4:io=100GB/s@/20", Code::BadSize, "time '20'"),
    ("mesh:4x4@/", Code::BadSize, "time ''"),
    ("mesh:4x4:express=1", Code::BadSpec, "express=1; expected a whole number from 2"),
    ("mesh:4x4:express=4", Code::BadSpec, "express=4 joins no nodes"),
    ("mesh:64x64:concentration=2", Code::TooLarge, "has 8192 ranks; at most 4096"),
    ("mesh:2x2:concentration=2@1+2+3", Code::BadSpec, "3 rates for 2 kinds of links (y, x)"),
    ("mesh:4x4:express=2@1+2", Code::BadSpec, "2 rates for 3 kinds of links (y, x, express)"),
    ("mesh:4x4@1+2+3", Code::BadSpec, "3 rates for 2 dimension(s); write one for all or one for each, joined by +"),
    ("torus:4x4x4@1+2", Code::BadSpec, "2 rates for 3 dimension(s)"),
    ("switch:8@1+2", Code::BadSpec, "2 rates for 1 dimension(s)"),
    ("dgx1v@25+50", Code::BadSpec, "2 rates, but it has no dimensions; write one for all links"),
    ("bigraph:4@25+50", Code::BadSpec, "it has no dimensions"),
    ("mesh:4x4@1+", Code::BadSpec, "'@' is not @RATE[/LATENCY[/ENERGY]]"),
    ("mesh:4x4@100GB/s", Code::BadSpec, "'@100GB/s' is not @RATE"),
    ("mesh:4x4@1/1ns+2/2", Code::BadSize, "time '2'"),
    ("mesh:4x4@1+0", Code::BadSize, "link rate 0"),
    ("mseh:8x8", Code::UnknownName, "did you mean 'mesh'?"),
    ("", Code::UnknownName, "known: mesh, torus"),
    ("mesh", Code::BadSpec, "for example mesh:8x8"),
    ("mesh:", Code::BadSpec, "for example mesh:8x8"),
    ("mesh:8x", Code::BadSpec, "for example mesh:8x8"),
    ("mesh:8x+8", Code::BadSpec, "for example mesh:8x8"),
    ("mesh:8x٣", Code::BadSpec, "for example mesh:8x8"),
    ("ring:4x4", Code::BadSpec, "for example ring:16"),
    ("bigraph:2x2x2", Code::BadSpec, "for example bigraph:4x4"),
    ("dgx1v:8", Code::BadSpec, "for example dgx1v"),
    ("file:", Code::BadSpec, "for example file:fabric.json"),
    ("mesh:1x1", Code::BadSpec, "1 rank(s)"),
    ("ring:1", Code::BadSpec, "1 rank(s)"),
    ("switch:1", Code::BadSpec, "1 rank(s)"),
    ("hypercube:0", Code::BadSpec, "dimension"),
    ("mesh:0x4", Code::BadSpec, "at least 1"),
    ("mesh:99999999999x2", Code::TooLarge, "4096"),
    ("mesh:65536x65536", Code::TooLarge, "4096"),
    ("hypercube:4000000000", Code::TooLarge, "12"),
    ("fc:4096", Code::TooLarge, "links"),
    ("switch:99999999999", Code::TooLarge, "4096"),
    ("mesh:2x2@", Code::BadSpec, "@100/20ns"),
    ("mesh:2x2@fast", Code::BadSpec, "@100/20ns"),
    ("mesh:2x2@-1", Code::BadSpec, "@100/20ns"),
    ("mesh:2x2@0", Code::BadSize, "link rate 0"),
    ("mesh:2x2@99999999999", Code::BadSize, "link rate"),
    ("mesh:2x2@1/20", Code::BadSize, "time '20'"),
    ("dgx-a100", Code::BadSpec, "for example dgx-a100:2"),
    ("dgx-h100:2x8", Code::BadSpec, "for example dgx-h100:2"),
    ("dgx-h100:0", Code::BadSpec, "needs at least 1 box"),
    ("dgx-a100:513", Code::TooLarge, "at most 512 boxes of 8 ranks, 4096 ranks in all"),
    ("dgx-h100:99999999999", Code::TooLarge, "at most 512 boxes"),
    ("mi250:257", Code::TooLarge, "at most 256 boxes of 16 ranks"),
    ("mi300x:4000000000", Code::TooLarge, "at most 512 boxes"),
    (
        "dgx-h100:2@400",
        Code::BadSpec,
        "fabric 'dgx-h100:2@400': 1 rate for 2 kinds of links (nvlink, rail); write one for each, joined by +, \
             for example @370.8+48",
    ),
    ("dgx-a100:1@300+25", Code::BadSpec, "2 rates for 1 kind of links (nvlink); write one, for example @240"),
    ("mi250:2@1+2+3", Code::BadSpec, "3 rates for 2 kinds of links (xgmi, ib)"),
    ("dgx-h100:2:rwa", Code::UnknownName, "dgx-h100 has no option 'rwa'; did you mean 'raw'?"),
    ("dgx-h100:2:raw@450+50", Code::BadSpec, "raw and @ both give rates"),
    ("dgx-h100:2:nics=3", Code::BadSpec, "3 NICs do not divide the 8 GPUs of a box"),
    ("dgx-a100:2:nics=0", Code::BadSpec, "nics=0; expected a whole number from 1"),
    ("dgx-h100:1:nics=4", Code::BadSpec, "a box by itself has no network"),
    ("mi300x:1:rails=leaf-spine", Code::BadSpec, "a box by itself has no network"),
    ("dgx-h100:2:ratio=2", Code::BadSpec, "ratio= needs rails=leaf-spine"),
    ("dgx-h100:48:rails=leaf-spine,ratio=3", Code::BadSpec, "ratio=3 does not divide the 32 cables down of a leaf"),
    ("dgx-h100:64:rails=leaf-spine,drop=0-1,ratio=2", Code::BadSpec, "no link from 0 to 1"),
    ("gb200-nvl72:57", Code::TooLarge, "at most 56 boxes of 72 ranks"),
    ("dgx-v100:2", Code::BadSpec, "for example dgx-v100"),
    ("dgx-spark:ring2", Code::BadSpec, "for example dgx-spark:pair"),
    ("dgx-spark:star", Code::BadSpec, "for example dgx-spark:pair"),
    ("dgx-spark:ring99999", Code::TooLarge, "4096"),
    ("fat-tree:3", Code::BadSpec, "an even number of ports"),
    ("fat-tree:0", Code::BadSpec, "an even number of ports"),
    ("fat-tree:26", Code::TooLarge, "has 4394 ranks"),
    ("fat-tree:4294967294", Code::TooLarge, "ranks"),
    ("fat-tree:4:ratio=2", Code::BadSpec, "ratio= is of leaves below spines"),
    ("fat-tree:4x3:ratio=2", Code::BadSpec, "ratio=2 divides"),
    ("fat-tree:4x99999999999", Code::TooLarge, "ranks"),
    ("fat-tree:4@1+2", Code::BadSpec, "2 rates for 3 kinds of links (host, aggregation, core)"),
    ("dragonfly:2", Code::BadSpec, "for example dragonfly:1,2,1"),
    ("dragonfly:2x4x2", Code::BadSpec, "for example dragonfly:1,2,1"),
    ("dragonfly:0,4,2", Code::BadSpec, "at least a rank a router"),
    ("dragonfly:2,0,2", Code::BadSpec, "two groups"),
    ("dragonfly:2,4,2,groups=10", Code::BadSpec, "at most A H + 1 = 9 groups"),
    ("dragonfly:6,12,6", Code::TooLarge, "5256 ranks"),
    ("dragonfly:4294967295,4294967295,4294967295", Code::TooLarge, "ranks"),
    ("slimfly:9", Code::BadSpec, "an odd prime"),
    ("slimfly:2", Code::BadSpec, "an odd prime"),
    ("slimfly:4294967295", Code::BadSpec, "an odd prime"),
    ("slimfly:17", Code::TooLarge, "ranks"),
    ("jellyfish:8,5,2", Code::BadSpec, "for example jellyfish:8,5,2,1"),
    ("jellyfish:8,12,2,1", Code::BadSpec, "from 1 to SWITCHES - 1 ports"),
    ("jellyfish:8,2,2,1", Code::BadSpec, "from 1 to SWITCHES - 1 ports"),
    ("jellyfish:8,2,1,1", Code::BadSpec, "disconnected"),
    ("jellyfish:4294967295,5,2,1", Code::TooLarge, "ranks"),
    ("hammingmesh:2x2", Code::BadSpec, "for example hammingmesh:2x2x2x2"),
    ("hammingmesh:0x2x2x2", Code::BadSpec, "at least one accelerator"),
    ("hammingmesh:99999x99999x99999x99999", Code::TooLarge, "ranks"),
    ("packages:2x3", Code::BadSpec, "write how many chiplets a package has"),
    ("packages:of=2x2", Code::BadSpec, "for example packages:2x3:of=2x2"),
    ("packages:2x3:of=2", Code::BadSpec, "of= has 1 size(s) for 2 dimension(s)"),
    ("packages:2x3:of=2y2", Code::BadSpec, "of=2y2: write the chiplets of a package"),
    ("packages:2x3:of=0x2", Code::BadSpec, "each at least 1"),
    ("packages:2x3:of=2x2:trous", Code::UnknownName, "did you mean 'torus'?"),
    ("packages:4294967295x2:of=4294967295x2", Code::TooLarge, "ranks"),
    ("packages:2x3:of=2x2@1+2+3", Code::BadSpec, "3 rates for 2 kinds of links (chiplet, package)"),
    ("wafer:12", Code::BadSpec, "for example wafer:12x12"),
    ("wafer:0x4", Code::BadSpec, "at least a row"),
    ("wafer:1x1", Code::BadSpec, "1 rank(s)"),
    ("wafer:4294967295x4294967295", Code::TooLarge, "ranks"),
    ("wafer:80x80", Code::TooLarge, "ranks"),
    ("packages:2x3:of=2x2:gap=5mm", Code::BadSpec, "gap needs pitch="),
    ("packages:2x3:of=2x2:pitch=2mm,gap=0mm", Code::BadSpec, "length '0mm' is not from 1 um"),
    ("packages:2x3:of=2x2:pitch=1m,gap=1000m", Code::BadSpec, "a link would be 1001000 mm long"),
    ("wafer:4x4@1+2", Code::BadSpec, "2 rates"),
    ("wafer:4x4:reticle=2", Code::BadSpec, "reticle=2: write rows and columns of tiles, as in reticle=3x2"),
    ("wafer:4x4:reticle=0x2", Code::BadSpec, "reticle=0x2: write rows and columns"),
    ("wafer:4x4:reticle=2x2@1+2+3", Code::BadSpec, "3 rates for 2 kinds of links (tile, reticle)"),
    ("wafer:4x80:pitch=100m", Code::BadSpec, "a link would be 2000000 mm long"),
    ("mesh:4x4@1/20ns/1", Code::BadSize, "energy '1' is not that of a bit; write for example 0.3pJ"),
    ("tt-galaxy:8x4", Code::BadSpec, "for example tt-galaxy"),
    ("tt-galaxy:raw@50", Code::BadSpec, "raw and @ both give rates"),
    ("fugaku:4x4", Code::BadSpec, "for example fugaku:4x4x4"),
    ("tpu-v5p:16x16x24", Code::TooLarge, "of which 4096 are supported"),
    ("tpu-v4:4x4x4:twisted", Code::BadSpec, "n x n x 2n or n x 2n x 2n chips"),
    ("tpu-v4:4x8x16:twisted", Code::BadSpec, "n x n x 2n or n x 2n x 2n chips"),
    ("tpu-v4:2x4x4:twisted", Code::BadSpec, "n x n x 2n or n x 2n x 2n chips"),
    ("tpu-v4:4x4x4@1+2", Code::BadSpec, "2 rates for 3 dimension(s)"),
    ("tpu-v4:4x4", Code::BadSpec, "for example tpu-v4:4x4x8"),
    ("tpu-v4:4x4x6", Code::BadSpec, "sizes that are all multiples of 4"),
    ("tpu-v4:2x4x8", Code::BadSpec, "1, 2 and 4 with at most one 1"),
    ("tpu-v4:1x1x4", Code::BadSpec, "trays of 2x2x1"),
    ("tpu-v4:3x4x4", Code::BadSpec, "a slice has sizes"),
    ("tpu-v4:0x4x4", Code::BadSpec, "a slice has sizes"),
    ("tpu-v4:16x16x20", Code::TooLarge, "a pod has 4096 chips"),
    ("tpu-v4:4294967292x4294967292x4", Code::TooLarge, "a pod has 4096 chips"),
];

#[test]
fn refusals_say_what_is_wrong() {
    for &(spec, code, why) in REFUSED {
        let error = Fabric::parse(spec).unwrap_err();
        assert_eq!(error.code, code, "{spec}: {error}");
        assert!(error.message.contains(why), "{spec}: {error}");
    }
    assert!(Fabric::parse(&format!("mesh:{}", "1x".repeat(9000))).unwrap_err().message.len() < 200);
}
