//! What specifications say of links: rates, latencies and energies; lengths; borders of packages and reticles.

use antiphon_base::units::Rate;
use antiphon_model::fabric::link::LinkParameters;
use antiphon_model::fabric::{Fabric, Node};
use antiphon_model::system::System;

#[test]
fn rates_latencies_and_energies_may_each_be_left_out() {
    let (rate, latency, energy) = (Some(Rate::gb_per_s(100)), Some(20_000), Some(2_400_000));
    for (text, rate, latency, energy) in [
        ("100", rate, None, None),
        ("100/20ns", rate, latency, None),
        ("100/20ns/0.3pJ", rate, latency, energy),
        ("100//0.3pJ", rate, None, energy),
        ("/20ns", None, latency, None),
        ("/20ns/0.3pJ", None, latency, energy),
        ("//0.3pJ", None, None, energy),
        ("//0pJ", None, None, Some(0)),
    ] {
        assert_eq!(LinkParameters::parse(text), Ok(LinkParameters { rate, latency, energy }), "{text}");
    }
    for (text, why) in [
        ("", "'@' is not @RATE"),
        ("/", "time ''"),
        ("100/", "time ''"),
        ("//", "energy ''"),
        ("100/20ns/", "energy ''"),
        ("100/0.3pJ", "time '0.3pJ'"),
        ("100/20ns/0.3", "energy '0.3' is not that of a bit; write for example 0.3pJ"),
        ("100/20ns/-1pJ", "energy '-1pJ'"),
        ("100/20ns/0.3pJ/bit", "energy '0.3pJ/bit'"),
        ("100/20ns/9999999pJ", "link energy 9999999 pJ/bit"),
        ("100/20ns/0.00000001pJ", "link energy 0.00000001 pJ/bit"),
    ] {
        let error = LinkParameters::parse(text).unwrap_err();
        assert!(error.message.contains(why), "{text}: {error}");
    }
}

/// Chiplets 2 mm apart and packages 3 mm more: where links along each dimension lead from rank 0, or from the last,
/// and how many micrometres that is.
#[test]
fn lengths_by_hand() {
    for (spec, rank, lengths) in [
        ("packages:2x3:of=2x2:pitch=2mm,gap=3mm", 0, &[(2, 2_000), (1, 2_000)][..]),
        // Of the last chiplet of the first package: up, down, left and right.
        ("packages:2x3:of=2x2:pitch=2mm,gap=3mm", 3, &[(1, 2_000), (13, 5_000), (2, 2_000), (6, 5_000)]),
        ("packages:2x3:of=2x2:pitch=2mm", 3, &[(1, 2_000), (13, 2_000), (2, 2_000), (6, 2_000)]),
        // Around: three links inside and two between, or one.
        ("packages:1x2:of=1x3:torus,pitch=2mm,gap=3mm", 0, &[(5, 4 * 2_000 + 5_000), (1, 2_000)]),
        // The first dimension lies along x again: inside in blocks of two chiplets, then in blocks of three packages of
        // 4 x 2 mm and 3 mm. Facing chiplets are one block of 2 x 2 mm nearer.
        ("packages:2x1x3:of=2x1x2:pitch=2mm,gap=3mm", 2, &[(0, 4_000), (12, 3 * 11_000 - 4_000), (3, 2_000)]),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        let links = fabric.out_links(rank).iter().map(|&id| fabric.link(id));
        assert_eq!(links.map(|link| (link.to, link.length_um.unwrap())).collect::<Vec<_>>(), lengths, "{spec}");
    }
    // One package is a grid.
    for (spec, grid) in [("packages:1x1x1:of=2x3x4", "mesh:2x3x4"), ("packages:1x1:of=4x3:torus", "torus:4x3")] {
        let [package, grid] = [spec, grid].map(|spec| Fabric::parse(&format!("{spec}:pitch=2mm")).unwrap());
        assert!(package.links.iter().map(|link| link.length_um).eq(grid.links.iter().map(|link| link.length_um)));
    }
}

/// A byte is 8 bits of 0.5 pJ inside, or of 2 pJ from package to package, and 0.25 pJ a bit for each of 2 or 5 mm.
#[test]
fn crossing_a_package_costs_energy() {
    let spec = "packages:1x2:of=1x2:pitch=2mm,gap=3mm@100/20ns/0.5pJ+25/90ns/2pJ";
    let fabric = Fabric::parse(spec).unwrap();
    let mut system = System::default();
    system.set("energy_wire_pj_per_bit_mm", "0.25").unwrap();
    let energy = |from, to| system.link_energy(fabric.link(fabric.link_between(from, to).unwrap()));
    assert_eq!((energy(0, 1), energy(1, 2)), (8_000_000, 8 * 3_250_000));
    let along = &fabric.product().unwrap().dimensions;
    assert_eq!(along.iter().map(|along| along.energy).collect::<Vec<_>>(), [None, Some(16_000_000)]);
}

/// 4x4 without its corners. Of its rows 2 and 2 are in a reticle, of its columns 3 and 1.
#[test]
fn reticles_by_hand() {
    let fabric = Fabric::parse("wafer:4x4:reticle=2x3@100/1ns/0.5pJ+25/5ns/2pJ").unwrap();
    let packages: Vec<_> = fabric.nodes.iter().map(|node| node.package.unwrap()).collect();
    assert_eq!(packages, [0, 0, 0, 0, 0, 1, 2, 2, 2, 3, 2, 2]);
    for (rank, out) in [
        (0, &[(3, "tile"), (1, "tile")][..]),
        (4, &[(1, "tile"), (8, "reticle"), (3, "tile"), (5, "reticle")]),
        (5, &[(9, "reticle"), (4, "reticle")]),
    ] {
        let links = fabric.out_links(rank).iter().map(|&id| fabric.link(id));
        assert_eq!(links.map(|link| (link.to, &*link.dimension)).collect::<Vec<_>>(), out);
    }
    for link in &fabric.links {
        let expected = if link.dimension == "tile" { (100, 1_000, 4_000_000) } else { (25, 5_000, 16_000_000) };
        assert_eq!((link.rate.unwrap().0 / 1_000_000_000, link.latency.unwrap(), link.energy.unwrap()), expected);
    }
}

/// Reticles change labels and packages, nothing else. Rows are twice as far apart where half as many make the circle.
#[test]
fn reticles_and_pitch_keep_the_mesh() {
    for (size, [high, wide], lengths) in [
        ("7x7", [2, 3], [500; 2]),
        ("12x12", [5, 1], [500; 2]),
        ("6x12", [3, 3], [1_000, 500]),
        ("4x4", [9, 9], [500; 2]),
    ] {
        let plain = Fabric::parse(&format!("wafer:{size}")).unwrap();
        let fabric = Fabric::parse(&format!("wafer:{size}:pitch=500um:reticle={high}x{wide}")).unwrap();
        let place = |rank: u32| fabric.nodes[rank as usize].coords.clone();
        let reticle = |rank: u32| [(place(rank)[0] / high as f64).floor(), (place(rank)[1] / wide as f64).floor()];
        let bare = |node: &Node| Node { package: None, ..node.clone() };
        assert_eq!(fabric.nodes.iter().map(bare).collect::<Vec<_>>(), plain.nodes);
        assert_eq!(fabric.links.len(), plain.links.len());
        for (link, other) in fabric.links.iter().zip(&plain.links) {
            let along = usize::from(place(link.from)[0] == place(link.to)[0]);
            assert_eq!((link.from, link.to, ["y", "x"][along]), (other.from, other.to, &*other.dimension));
            assert_eq!(link.length_um, Some(lengths[along]));
            let kind = ["tile", "reticle"][usize::from(reticle(link.from) != reticle(link.to))];
            assert_eq!(link.dimension, kind, "{size} {link:?}");
            let package = |rank: u32| fabric.nodes[rank as usize].package;
            assert_eq!(package(link.from) != package(link.to), kind == "reticle");
        }
    }
}
