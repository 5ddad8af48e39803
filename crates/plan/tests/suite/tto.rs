//! The TTO paper (HPCA 2024) as regression tables: figures of its artifact against ours, system
//! `tto`, packet and flit fidelity. `cargo test --release --test suite tto:: -- --nocapture` prints every
//! point, with `ANTIPHON_SWEEPS=1` also the larger ones at flit fidelity, which take minutes.

use crate::common::prelude::*;
use crate::common::published::{Row, table};

/// Rows of a figure of the paper.
fn published(name: &str) -> Vec<Row> {
    table(&format!("python/antiphon/papers/tto/{name}.csv"))
}

fn tto() -> System {
    System::preset("tto").unwrap()
}

fn build(fabric: &Fabric, bytes: u64, spec: &str) -> Schedule {
    algorithm::build(fabric, &tto(), Collective::new(Kind::AllReduce), bytes, spec).unwrap()
}

fn run(fabric: &Fabric, schedule: &Schedule) -> SimulationResult {
    simulate(fabric, schedule, &tto(), Fidelity::Packet).unwrap()
}

fn square(side: u64) -> Fabric {
    Fabric::parse(&format!("mesh:{side}x{side}")).unwrap()
}

/// A whole number of a row.
fn number(row: &Row, column: &str) -> u64 {
    crate::common::published::number(row, column)
}

/// One published point and ours.
struct Point {
    algorithm: String,
    side: u64,
    bytes: u64,
    error_percent: f64,
}

/// Points of Figures 8 and 9 with flit hops in a range; asserts equal flit hops on the way.
fn points(fidelity: Fidelity, flit_hops: std::ops::Range<u64>) -> Vec<Point> {
    let rows = [published("fig8_bandwidth"), published("fig9_scalability")].concat();
    assert_eq!(rows.len(), 198 + 30);
    rows.iter()
        .filter(|row| flit_hops.contains(&number(row, "flit_hops")))
        .filter_map(|row| {
            let spec = match row["algorithm"].as_str() {
                "Ring" => "ring:gather=back",
                "Ring-2D" if fidelity == Fidelity::Packet => "ring-2d",
                "MultiTree" => "multitree",
                "RingBiEven" => "ring-bi",
                "TTO" => "tto",
                // As the artifact has them: tests/papers/test_tto_artifact.py.
                "Ring-2D" | "DBTree" | "RingBiOdd" => return None,
                other => panic!("{other}"),
            };
            let (side, bytes, cycles) =
                (number(row, "nodes").isqrt(), number(row, "data_bytes"), number(row, "cycles"));
            let fabric = square(side);
            let schedule = build(&fabric, bytes, spec);
            let result = simulate(&fabric, &schedule, &tto(), fidelity).unwrap();
            assert_eq!(result.flit_hops, number(row, "flit_hops"), "flit hops of {spec} on {side}x{side}, {bytes} B");
            let error_percent = 100.0 * (result.time_ps as f64 / 1000.0 / cycles as f64 - 1.0);
            println!("{side}x{side} {spec:30} {bytes:>10} B  artifact {cycles:>9} ns  {error_percent:>+7.2} %");
            Some(Point { algorithm: row["algorithm"].clone(), side, bytes, error_percent })
        })
        .collect()
}

/// The run in which the artifact stalled for reasons outside any schedule: left out of the means below, and named there.
fn stalled(point: &Point) -> bool {
    (point.algorithm.as_str(), point.side, point.bytes) == ("RingBiEven", 8, 128 << 20)
}

/// Cells after the name in a row of the table under a heading of docs/evidence/validation.md.
fn documented(heading: &str, name: &str) -> Vec<String> {
    let path = format!("{}/../../docs/evidence/validation.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with('#'));
    let mut rows = lines.map(|line| line.split('|').map(|cell| cell.trim().to_string()).collect::<Vec<_>>());
    let row = rows.find(|row| row.get(1).is_some_and(|first| first == name));
    row.unwrap_or_else(|| panic!("no row '{name}' under '{heading}'"))[2..].to_vec()
}

/// Where errors are not those of a row of docs/evidence/validation.md (points, mean, largest), to every digit it has.
fn undocumented(heading: &str, name: &str, errors: &[f64]) -> Option<String> {
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let largest = errors.iter().copied().fold(0.0, f64::max);
    println!("{name}: {} points, mean {mean:.3} %, largest {largest:.2} %", errors.len());
    let cells = documented(heading, name);
    let equal = |(cell, error): (&String, f64)| {
        let figure = cell.split(' ').next().unwrap_or_default();
        let digits = figure.split_once('.').map_or(0, |(_, digits)| digits.len());
        format!("{error:.digits$}") == figure
    };
    let equal = cells[0] == errors.len().to_string() && cells[1..3].iter().zip([mean, largest]).all(equal);
    (!equal)
        .then(|| format!("{name}: {} points, {mean:.3} %, {largest:.2} %, documented {:?}", errors.len(), &cells[..3]))
}

/// Prints the errors of all points and checks them against a table: (algorithm, its name there).
fn check_errors(fidelity: Fidelity, flit_hops: std::ops::Range<u64>, heading: &str, names: &[(&str, &str)]) {
    let points = points(fidelity, flit_hops);
    let wrong = names.iter().map(|&(algorithm, name)| {
        let of: Vec<&Point> = points.iter().filter(|p| p.algorithm == algorithm).collect();
        let errors: Vec<f64> = of.iter().filter(|p| !stalled(p)).map(|p| p.error_percent.abs()).collect();
        for point in of.iter().filter(|p| stalled(p)) {
            println!("  left out: {0}x{0}, {1} B: {2:+.2} %", point.side, point.bytes, point.error_percent);
        }
        undocumented(heading, name, &errors)
    });
    let wrong: Vec<String> = wrong.flatten().collect();
    assert!(wrong.is_empty(), "{heading}: {wrong:#?}");
}

const IN_PACKETS: &str = "## TTO (HPCA 2024), system `tto`, packet fidelity";

#[test]
fn figures_8_and_9() {
    check_errors(
        Fidelity::Packet,
        0..u64::MAX,
        IN_PACKETS,
        &[
            ("TTO", "tto"),
            ("Ring", "ring"),
            ("RingBiEven", "ring-bi"),
            ("MultiTree", "multitree"),
            ("Ring-2D", "ring-2d"),
        ],
    );
}

/// Flit hops of the points of every test run, and of longer sweeps.
const FEW: u64 = 1_000_000;
const MANY: u64 = 70_000_000;

const IN_FLITS: [(&str, &str); 4] =
    [("TTO", "tto"), ("Ring", "ring"), ("RingBiEven", "ring-bi"), ("MultiTree", "multitree")];

#[test]
fn figures_8_and_9_in_flits() {
    let (most, heading) = sweep((FEW, "### Of every test run"), (MANY, "## The same in flits"));
    check_errors(Fidelity::Flit, 0..most, heading, &IN_FLITS);
}

#[test]
fn dbtree_with_one_rank_per_router() {
    // The artifact's simulator run again with one terminal per router.
    let errors =
        [(4, 1 << 20, 151_904.0), (4, 4 << 20, 606_352.0), (8, 1 << 20, 151_834.0)].map(|(side, bytes, cycles)| {
            let fabric = square(side);
            let error = 100.0 * (run(&fabric, &build(&fabric, bytes, "dbtree")).time_ps as f64 / 1000.0 / cycles - 1.0);
            println!("dbtree linear {side}x{side} {bytes} B: {error:+.2} %");
            error.abs()
        });
    assert_eq!(undocumented(IN_PACKETS, "dbtree, linear", &errors), None);
    // Sub-flow hops on even meshes, exact.
    for (side, hops) in [(4, 704), (8, 14_336)] {
        let schedule = build(&square(side), 1 << 20, "dbtree");
        let ours: u64 = schedule.transfers.iter().map(|t| schedule.chunks(t) * t.route.len() as u64).sum();
        assert_eq!(ours, hops);
    }
}

#[test]
fn figure_14_chunk_sizes() {
    for row in published("fig14_chunk") {
        let fabric = square(8);
        let spec = format!("tto:chunk={}", number(&row, "chunk_bytes"));
        let schedule = build(&fabric, number(&row, "data_bytes"), &spec);
        assert_eq!(schedule.lanes[0].chunks, number(&row, "n_chunks"));
        let result = run(&fabric, &schedule);
        assert_eq!(result.flit_hops, number(&row, "flit_hops"), "{spec}");
        let error = 100.0 * (result.time_ps as f64 / 1000.0 / number(&row, "cycles") as f64 - 1.0);
        println!("{spec}: {error:+.3} %");
        assert!(error.abs() < 0.015, "{spec}: {error:+.3} %, documented are at most 0.01");
    }
}

#[test]
fn figure_12_mean_link_utilization() {
    for row in published("fig12_link_utilisation_mean") {
        let (spec, documented) = match row["algorithm"].as_str() {
            "Ring" => ("ring", 0.284),
            "MultiTree" => ("multitree", 0.508),
            "TTO" => ("tto", 0.818),
            // The artifact's dimensions overlap by dependencies it does not wait for.
            "Ring-2D" => ("ring-2d", 0.533),
            // This run of the artifact stalled for 25 % of its time.
            "RingBiOdd" => continue,
            other => panic!("{other}"),
        };
        let fabric = square(9);
        let result = run(&fabric, &build(&fabric, number(&row, "data_bytes"), spec));
        assert_eq!(result.flit_hops, number(&row, "flit_hops"), "{spec}");
        let published: f64 = row["mean_util_incl_head_flit"].parse().unwrap();
        let ours = result.link_utilization_mean();
        println!("{spec}: published {published:.3}, ours {ours:.3}");
        assert!((ours - documented).abs() < 0.0005, "{spec}: {documented} documented, {ours:.4}");
    }
}

#[test]
fn table_i_used_links() {
    let used = |side: u64, spec: &str| {
        let fabric = square(side);
        build(&fabric, 64 << 20, spec).stats(&fabric).used_links_percent
    };
    for (spec, side, percent) in
        [("ring", 8, 29.0), ("ring", 9, 28.0), ("ring-bi", 8, 57.0), ("multitree", 8, 53.0), ("multitree", 9, 51.0)]
    {
        assert_eq!(used(side, spec).round(), percent, "{spec} on {side}x{side}");
    }
    let one_place = |x: f64| (x * 10.0).round() / 10.0;
    assert_eq!(one_place(used(8, "tto")), 83.9);
    assert_eq!(one_place(used(9, "tto")), 83.0);
    // 4(N-1)^2 messages in 2N-2 steps on 288 links; the paper says "about 57".
    assert_eq!(one_place(used(9, "ring-bi-odd")), 55.6);
    // Hops of a line in lockstep, (d-1)/(2d-3); the paper says 55 and 53.
    assert_eq!(one_place(used(8, "ring-2d")), 53.8);
    assert_eq!(one_place(used(9, "ring-2d")), 53.3);
}

#[test]
fn multitree_timesteps() {
    let steps: Vec<u64> = (3..=16)
        .map(|side| {
            let fabric = square(side);
            let stats = build(&fabric, 1 << 20, "multitree").stats(&fabric);
            assert_eq!(stats.phases[0].steps, stats.phases[1].steps);
            stats.phases[0].steps
        })
        .collect();
    assert_eq!(steps, [6, 10, 14, 20, 27, 34, 44, 53, 66, 75, 89, 102, 118, 132]);
}

#[test]
fn ring_bi_odd_corner_is_complete_in_2n_minus_2_steps() {
    for (rows, columns) in [(3, 3), (3, 5), (5, 5), (7, 5), (9, 9)] {
        let fabric = Fabric::parse(&format!("mesh:{rows}x{columns}")).unwrap();
        let n = rows * columns;
        let schedule = build(&fabric, 1 << 20, "ring-bi-odd");
        assert_eq!(schedule.stats(&fabric).steps, 2 * n - 2);
        assert!(verify(&fabric, &schedule).unwrap().complete);
        // Both directions: (N-2) ring hops and one to or from the corner, for N-1 parts, twice.
        let packets = tto().packets((1u64 << 20).div_ceil(2 * (n - 1))).count;
        assert_eq!(run(&fabric, &schedule).flit_hops, 4 * (n - 1) * (n - 1) * packets * 17);
    }
}

#[test]
fn tto_on_any_mesh_has_the_reference_size_and_height() {
    for (rows, columns) in [(2, 2), (2, 5), (5, 2), (3, 4), (4, 7), (8, 8), (9, 9)] {
        let fabric = Fabric::parse(&format!("mesh:{rows}x{columns}")).unwrap();
        let n = rows * columns;
        for excluded in [0, columns - 1, n - columns, n - 1] {
            let schedule = build(&fabric, 1 << 20, &format!("tto:excluded={excluded}"));
            assert_eq!(schedule.transfers.len() as u64, 2 * (3 * n - 4));
            let stats = schedule.stats(&fabric);
            let height = rows + columns - 2;
            assert_eq!(stats.phases[0].steps, height + schedule.lanes[0].chunks - 1);
            let proof = verify(&fabric, &schedule).unwrap();
            assert!(proof.complete && proof.conflict_free);
        }
    }
}

/// Trees of other shapes, and on fabrics that are more than a mesh, take as long; where the corner only forwards, no longer.
#[test]
fn tto_elsewhere() {
    let time = |fabric: &str, spec| {
        let fabric = Fabric::parse(fabric).unwrap();
        let schedule = build(&fabric, 10_000_000, spec);
        assert!(verify(&fabric, &schedule).unwrap().complete, "{spec} on {}", fabric.name);
        run(&fabric, &schedule).time_ps
    };
    for (mesh, torus, lacking) in
        [("mesh:4x4", "torus:4x4", "mesh:4x4,exclude=12"), ("mesh:3x5", "torus:3x5", "mesh:3x5,exclude=4")]
    {
        let whole = time(mesh, "tto");
        assert_eq!(time(mesh, "tto:third=breadth-first"), whole, "{mesh}");
        assert_eq!(time(torus, "tto"), whole, "{torus}");
        for spec in ["tto", "tto:third=breadth-first"] {
            let lacking = time(lacking, spec);
            assert!(lacking <= whole && lacking as f64 > 0.95 * whole as f64, "{mesh}: {lacking} {whole}");
        }
    }
}

/// Algorithm 1 takes 2N - 2 steps; its halves alone N each, in which every link carries at most one block of D / 2N.
#[test]
fn halves_of_ring_bi_odd() {
    for side in [3, 5, 9] {
        let (fabric, ranks) = (square(side), side * side);
        for (kind, steps, parts) in [
            (Kind::AllReduce, 2 * ranks - 2, ranks - 1),
            (Kind::ReduceScatter, ranks, ranks),
            (Kind::AllGather, ranks, ranks),
        ] {
            let bytes = 16_384 * ranks * (ranks - 1);
            let schedule = algorithm::build(&fabric, &tto(), Collective::new(kind), bytes, "ring-bi-odd").unwrap();
            assert!(schedule.conflict_free && verify(&fabric, &schedule).unwrap().complete);
            assert_eq!(schedule.stats(&fabric).steps, steps, "{} {side}", kind.name());
            assert!(schedule.lanes.iter().all(|lane| lane.chunk_bytes == bytes / (2 * parts)));
        }
    }
}
