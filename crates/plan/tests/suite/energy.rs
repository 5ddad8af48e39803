//! Energy of runs: by hand, the same whatever times them, and never below the bound.

use crate::common::prelude::*;
use crate::common::random_fabric::random_fabric;
use antiphon_bound as bound;
use antiphon_model::energy::Energy;
use antiphon_plan::algorithm::{ALL, build};

/// A preset with everything known, and settings of one's own.
fn system(preset: &str, settings: &[&str]) -> System {
    let mut system = System::preset(preset).unwrap();
    let all = [
        "energy_buffer_pj_per_bit=0.5",
        "energy_crossbar_pj_per_bit=0.25",
        "energy_allocation_pj=3",
        "energy_interface_pj_per_bit=0.125",
        "static_link_mw=1",
        "static_router_mw=20",
        "static_interface_mw=3",
        "static_endpoint_mw=40",
    ];
    for setting in all.iter().chain(settings) {
        let (key, value) = setting.split_once('=').unwrap();
        system.set(key, value).unwrap();
    }
    system
}

fn run(fabric: &Fabric, schedule: &Schedule, system: &System, fidelity: Fidelity) -> SimulationResult {
    let proven = prove(fabric, schedule.clone()).unwrap();
    let flights = [Flight::new(&proven)];
    simulate_flights(
        fabric,
        &flights,
        Order::Fifo,
        system,
        fidelity,
        RunOptions { energy: true, ..RunOptions::default() },
        &mut |_| true,
    )
    .unwrap()
}

fn energy(fabric: &Fabric, schedule: &Schedule, system: &System, fidelity: Fidelity) -> Energy {
    run(fabric, schedule, system, fidelity).energy.unwrap()
}

/// From one end of three in a line to the others: two packets of 16 flits of 512 B and a head flit, over one link and over
/// the next. Each passes two routers and two interfaces.
#[test]
fn a_broadcast_by_hand() {
    let line = Fabric::parse("mesh:3").unwrap();
    let system = system("tto", &["energy_link_pj_per_bit=2"]);
    let schedule = build(&line, &system, Collective::new(Kind::Broadcast), 16 << 10, "multitree").unwrap();
    let run = run(&line, &schedule, &system, Fidelity::Packet);
    let energy = run.energy.unwrap();
    let (pico, flits) = (1_000_000, 2 * 17);
    let bits = flits * 512 * 8;
    assert_eq!(energy.links, 2 * bits * 2 * pico);
    assert_eq!(energy.routers, 2 * 2 * (bits * 3 / 4 + flits * 3) * pico);
    assert_eq!(energy.interfaces, 2 * 2 * bits * pico / 8);
    assert_eq!((energy.reductions, energy.memory), (0, 0));
    // Four links, three routers and ranks.
    assert_eq!(energy.idle, (4 * 1_000 + 3 * 63_000) * u128::from(run.time_ps));
    assert_eq!(energy.per_link.iter().filter(|&&link| link > 0).count(), 2);
}

/// Two ranks exchange halves and add, then exchange sums: of 8 KiB an NPU reads a half to send it, and twice a half where
/// what has come is added to what is there; it writes what comes. An engine reads all 8 KiB and writes them back.
#[test]
fn memory_by_hand() {
    let pair = Fabric::parse("ring:2").unwrap();
    let pico = 1_000_000;
    let memory = |endpoint: &str| {
        let settings = [&format!("endpoint={endpoint}"), "energy_memory_pj_per_bit=4", "energy_sram_pj_per_bit=1"];
        let system = system("generic", &settings);
        let schedule = build(&pair, &system, Collective::new(Kind::AllReduce), 8 << 10, "ring").unwrap();
        let energy = energy(&pair, &schedule, &system, Fidelity::Packet);
        assert_eq!(energy.reductions, 2 * 4096 * 225_000);
        energy.memory
    };
    assert_eq!(memory("system"), 0);
    assert_eq!(memory("ideal"), 0);
    let half = 4096 * 8;
    assert_eq!(memory("npu"), 2 * (3 + 2) * half * 4 * pico);
    // In SRAM: a sum is two reads and a write, a copy one of each; what is loaded is written, what is written back is read.
    assert_eq!(memory("ace"), 2 * (4 * half * 4 + (3 + 2 + 4) * half) * pico);
}

/// All that goes into `of` a run: parts sum up, nothing depends on what times it, and nothing is below the bound.
fn check(fabric: &Fabric, schedule: &Schedule, system: &System, fidelities: &[Fidelity], what: &str) {
    let mut dynamic = None;
    for &fidelity in fidelities {
        let result = run(fabric, schedule, system, fidelity);
        let plain = simulate(fabric, schedule, system, fidelity).unwrap();
        let energy = result.energy.clone().unwrap();
        assert_eq!(SimulationResult { energy: None, ..result }, plain, "{what}");
        assert_eq!(energy.per_link.iter().sum::<u128>(), energy.links, "{what}");
        assert_eq!(energy.parts().iter().map(|part| part.1).sum::<u128>() + energy.idle, energy.total(), "{what}");
        assert_eq!(*dynamic.get_or_insert(energy.dynamic()), energy.dynamic(), "{what} {fidelity:?}");
        let time_ps = bound::of_schedule(fabric, system, schedule, None).unwrap().time_ps;
        let least = bound::least_energy(fabric, system, schedule, time_ps).unwrap();
        assert!(least <= energy.total(), "{what} {fidelity:?}: {} aJ, bound {least}", energy.total());
        // What was recorded over time is all of it, but for rounding: of flits to whole cycles, of their shares among parallel
        // links, and of messages without packets.
        let recorded: f64 = windows(&energy).map(|(length, power)| length * power as f64).sum();
        let share = recorded / energy.total() as f64;
        let slack = if fidelity == Fidelity::AlphaBeta { 0.1 } else { 0.01 };
        assert!((share - 1.0).abs() <= slack, "{what} {fidelity:?}: {share}");
        assert!(energy.peak_power_w() >= energy.average_power_w());
    }
}

/// Length in picoseconds and power of every window.
fn windows(energy: &Energy) -> impl Iterator<Item = (f64, u128)> + '_ {
    let (window, end) = (energy.power.window_ps, energy.time_ps);
    (0..).zip(&energy.power.microwatts).map(move |(i, &power)| ((end - i * window).min(window) as f64, power))
}

#[test]
fn every_algorithm_keeps_the_bound() {
    let fabrics = [
        ("mesh:2x3", 90_000),
        ("switch:6", 40_000),
        ("mesh:3x3", 90_000),
        ("torus:2x4", 60_000),
        ("ace:2x3x2", 60_000),
    ];
    for &(fabric, bytes) in &fabrics[..sweep(2, 5)] {
        let fabric = Fabric::parse(fabric).unwrap();
        for endpoint in ["endpoint=system", "endpoint=npu", "endpoint=ace"] {
            let system = system("generic", &[endpoint]);
            for algorithm in ALL {
                let info = algorithm.info();
                for &kind in info.collectives {
                    let what = format!("{} {} {} {endpoint}", fabric.name, info.name, kind.name());
                    match build(&fabric, &system, Collective::new(kind), bytes, info.name) {
                        Err(error) if error.code == Code::NotApplicable => {}
                        schedule => {
                            let fidelities: Vec<_> = Fidelity::ALL.iter().map(|of| of.1).collect();
                            check(&fabric, &schedule.unwrap(), &system, &fidelities, &what);
                        }
                    }
                }
            }
        }
    }
}

/// With nothing idle, slower links cost the same.
#[test]
fn without_static_power_energy_does_not_depend_on_time() {
    let fabric = Fabric::parse("mesh:4x4").unwrap();
    let of = |rate: &str, power: &str| {
        let none: Vec<_> =
            ["link", "router", "interface", "endpoint"].map(|of| format!("static_{of}_mw={power}")).into();
        let settings: Vec<&str> = none.iter().map(String::as_str).chain([rate]).collect();
        let system = system("generic", &settings);
        let schedule = build(&fabric, &system, Collective::new(Kind::AllReduce), 1 << 20, "ring-bi").unwrap();
        energy(&fabric, &schedule, &system, Fidelity::Packet)
    };
    let (fast, slow) = (of("link_rate_gb_per_s=100", "0"), of("link_rate_gb_per_s=10", "0"));
    assert!(slow.time_ps > 5 * fast.time_ps);
    assert_eq!(slow.total(), fast.total());
    assert!(of("link_rate_gb_per_s=10", "1").total() > of("link_rate_gb_per_s=100", "1").total());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    /// Links of any energy and length, also with nodes that only forward.
    #[test]
    fn random_fabrics_keep_the_bound(
        mut fabric in random_fabric(),
        energies in prop::collection::vec((0u64..80_000_000, 0u32..100_000), 200),
        bytes in 1u64..50_000,
        endpoint in prop::sample::select(&["system", "ideal", "npu", "ace"][..]),
    ) {
        for (link, &(energy, length)) in fabric.links.iter_mut().zip(energies.iter().cycle()) {
            (link.energy, link.length_um) = (Some(energy), Some(length));
        }
        let system = system("generic", &[&format!("endpoint={endpoint}")]);
        for algorithm in ALL {
            for &kind in algorithm.info().collectives {
                match build(&fabric, &system, Collective::new(kind), bytes, algorithm.info().name) {
                    Err(_) => {}
                    Ok(schedule) => {
                        let what = format!("{} {}", algorithm.info().name, kind.name());
                        check(&fabric, &schedule, &system, &[Fidelity::Packet], &what);
                    }
                }
            }
        }
    }
}
