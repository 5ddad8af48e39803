use super::*;
use crate::algorithm::build;
use antiphon_bound::of_schedule;
use antiphon_model::collective::Collective;
use antiphon_model::system::System;
use antiphon_proof::verify;
use antiphon_run::check_by_execution;
use antiphon_sim::{Fidelity, trial};

fn exchange(fabric: &Fabric, system: &System, bytes: Bytes, spec: &str) -> Result<Schedule> {
    build(fabric, system, Collective::new(Kind::AllToAll), bytes, spec)
}

/// Payload on every link.
fn loads(fabric: &Fabric, schedule: &Schedule) -> Vec<u64> {
    let mut loads = vec![0; fabric.links.len()];
    for transfer in &schedule.transfers {
        let bytes: u64 = transfer.lanes().map(|lane| schedule.lanes[lane].bytes).sum();
        transfer.route.iter().for_each(|&link| loads[link as usize] += bytes);
    }
    loads
}

/// What pairs whose shortest ways lead over a link send: along a line those on its two sides, on a ring what all links
/// share equally. In the other dimensions sources, or destinations, are anywhere.
#[test]
fn every_link_carries_no_more_than_it_must() {
    let system = System::preset("ideal").unwrap();
    for spec in [
        "mesh:8x8",
        "mesh:5x7",
        "mesh:3x4x2",
        "mesh:6",
        "torus:8x8",
        "torus:4x4x4",
        "torus:5x3",
        "torus:6x4",
        "torus:2x6",
        "torus:2x1x5",
        "ring:7",
        "ring:10",
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        let product = fabric.product().unwrap();
        let (n, coordinates) = (fabric.ranks() as u64, &product.coordinates);
        let positions = product.positions(fabric.nodes.len());
        let pair = 4 * 2 * 3 * 8;
        for forward in ["ranks", "network"] {
            let schedule = exchange(&fabric, &system, n * pair, &format!("exchange:forward={forward}")).unwrap();
            for (link, load) in fabric.links.iter().zip(loads(&fabric, &schedule)) {
                let [from, to] = [link.from, link.to].map(|node| positions[node as usize].unwrap());
                let dimension = coordinates.differ(from, to).unwrap();
                let (shape, size) = (product.dimensions[dimension].shape, product.dimensions[dimension].size);
                let [from, to] = [from, to].map(|position| u64::from(coordinates.of(position, dimension)));
                let pairs_times_8 = match shape {
                    DimensionShape::Ring if size > 2 => size * size - size % 2,
                    _ => 8 * (from.min(to) + 1) * (size - 1 - from.min(to)),
                };
                assert_eq!(load, n / size * pairs_times_8 * pair / 8, "{spec}, {forward}: {link:?}");
            }
        }
    }
}

#[test]
fn proven_and_right_on_real_numbers() {
    let system = System::preset("generic").unwrap();
    for spec in
        ["mesh:5", "mesh:1x4", "mesh:3x4", "mesh:2x3x2", "ring:2", "ring:5", "ring:6", "torus:4x3", "torus:2x4x3"]
    {
        let fabric = Fabric::parse(spec).unwrap();
        for bytes in [4, 100, 5000, 100_000] {
            for options in ["", ":forward=ranks", ":forward=network", ":chunk=64", ":chunk=1KiB,forward=network"] {
                let schedule = exchange(&fabric, &system, bytes, &format!("exchange{options}")).unwrap();
                let name = format!("{spec}, {bytes} B, exchange{options}");
                let proof = verify(&fabric, &schedule).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(proof.complete, "{name}");
                check_by_execution(&schedule, Some(bytes)).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
    }
}

/// A bound that no schedule beats is reached but for the way of the last messages and what packets round up.
#[test]
fn at_the_lower_bound() {
    let system = System::preset("ideal").unwrap();
    for (spec, fidelity) in [
        ("mesh:8x8", Fidelity::Packet),
        ("mesh:5x7", Fidelity::Packet),
        ("mesh:3x3", Fidelity::Packet),
        ("mesh:4x3x5", Fidelity::Packet),
        ("torus:8x8", Fidelity::Packet),
        ("torus:4x4x4", Fidelity::Packet),
        ("torus:5x5", Fidelity::Packet),
        ("torus:6x4", Fidelity::Packet),
        ("torus:2x9", Fidelity::Packet),
        ("ring:16", Fidelity::Packet),
        ("mesh:4x4", Fidelity::Flit),
        ("torus:4x4", Fidelity::Flit),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        let bytes = if fidelity == Fidelity::Flit { 1 << 20 } else { 256 << 20 };
        for options in ["", ":chunk=1MiB"] {
            let schedule = exchange(&fabric, &system, bytes, &format!("exchange{options}")).unwrap();
            let bound = of_schedule(&fabric, &system, &schedule, None).unwrap().time_ps;
            let time = trial::time(&fabric, &schedule, &system, fidelity, &mut |_| true).unwrap();
            let share = bound as f64 / time as f64;
            assert!((0.99..=1.0).contains(&share), "{spec}{options}: {share}");
        }
    }
}

#[test]
fn dimensions_of_unlike_rates_are_at_the_bound_too() {
    let system = System::preset("ideal").unwrap();
    for (sizes, rates) in [([4, 4], [10, 40]), ([4, 8], [25, 90]), ([5, 3], [40, 7])] {
        for shape in [DimensionShape::Line, DimensionShape::Ring] {
            let spec = if shape == DimensionShape::Line { "mesh" } else { "torus" };
            let mut fabric = Fabric::parse(&format!("{spec}:{}x{}", sizes[0], sizes[1])).unwrap();
            for link in &mut fabric.links {
                link.rate = Some(antiphon_base::units::Rate(rates[usize::from(link.dimension == "x")] * 1_000_000_000));
            }
            let schedule = exchange(&fabric, &system, 64 << 20, "exchange").unwrap();
            let bound = of_schedule(&fabric, &system, &schedule, None).unwrap().time_ps;
            let time = trial::time(&fabric, &schedule, &system, Fidelity::Packet, &mut |_| true).unwrap();
            let share = bound as f64 / time as f64;
            assert!((0.99..=1.0).contains(&share), "{spec} {sizes:?}, {rates:?}: {share}");
        }
    }
}

/// Where a hand-off takes long, few are worth more than an order that is kept.
#[test]
fn long_hand_offs_leave_forwarding_to_the_network() {
    let (fabric, system) = (Fabric::parse("mesh:4x4").unwrap(), System::preset("dgx1").unwrap());
    let longest = |bytes: Bytes| {
        let schedule = exchange(&fabric, &system, bytes, "exchange").unwrap();
        schedule.transfers.iter().map(|transfer| transfer.route.len()).max()
    };
    assert_eq!((longest(64 << 10), longest(64 << 20)), (Some(3), Some(1)));
}

/// Two chunks hide what is handed over between dimensions, where a chunk takes longer than that.
#[test]
fn long_messages_hide_hand_offs() {
    let (fabric, system) = (Fabric::parse("torus:4x4x4").unwrap(), System::preset("dgx1").unwrap());
    let time = |bytes, spec| {
        let schedule = exchange(&fabric, &system, bytes, spec).unwrap();
        let time = trial::time(&fabric, &schedule, &system, Fidelity::Packet, &mut |_| true).unwrap();
        (schedule.lanes[1].chunks, time)
    };
    let (whole, cut) = (time(64 << 20, "exchange:chunk=1GiB"), time(64 << 20, "exchange"));
    assert_eq!((whole.0, cut.0, time(1 << 20, "exchange").0, time(16 << 30, "exchange").0), (1, 2, 1, 1));
    assert!(whole.1 > cut.1 + system.hand_off_ps, "{whole:?} {cut:?}");
}

#[test]
fn others_than_lines_and_rings_are_refused() {
    let system = System::preset("ideal").unwrap();
    for spec in ["fc:8", "fbfly:3x3", "dgx1v"] {
        let fabric = Fabric::parse(spec).unwrap();
        match exchange(&fabric, &system, 1 << 20, "exchange") {
            Err(error) => {
                assert!(error.code == Code::NotApplicable && error.message.contains("lines and rings"), "{error}")
            }
            Ok(_) => panic!("{spec}"),
        }
    }
    let large = Fabric::parse("mesh:33x33").unwrap();
    assert_eq!(exchange(&large, &system, 1 << 20, "exchange").unwrap_err().code, Code::TooLarge);
}
