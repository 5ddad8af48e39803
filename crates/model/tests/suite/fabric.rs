//! Fabrics from text: never a panic, one-line errors, exact round trips.

use antiphon_base::error::{Code, Result};
use antiphon_base::units::Rate;
use antiphon_model::fabric::{Fabric, Link, Node, PRESETS, Reduces, Shape, SwitchCompute, file::MAX_FILE_BYTES};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::path::PathBuf;

const SPECS: [&str; 16] = [
    "mesh:4x4@100/20ns,drop=3>2,slow=2-3:0.5",
    "torus:2x3x2,exclude=5,dead=1",
    "ring:16,slow=0>1:0.125",
    "fc:8@12.5",
    "hypercube:4,drop=0-1",
    "switch:16,exclude=2,switches=in-tree",
    "bigraph:3x2,dead=0",
    "dgx1v@25,drop=2-3",
    "dgx-a100:2@240+20,dead=17",
    "mi300x:3@48/1us+50,drop=0-1",
    "tpu-v4:4x4x8:twisted@46.9,exclude=5",
    "dgx-h100:33:nics=4,rails=leaf-spine,ratio=2,dead=1",
    "dragonfly:2,4,2,groups=5@50+50+25,drop=0-40",
    "jellyfish:8,5,2,1",
    "packages:2x2:of=2x2:torus,pitch=2mm,gap=3mm@100/20ns/0.3pJ+/90ns/1.2pJ,drop=0-1",
    "wafer:5x4:reticle=2x2,pitch=20mm@//0.2pJ+50//1pJ,dead=3",
];
const DOCUMENT: &str = include_str!("../../../../docs/reference/fabric.md");

/// The example in the documentation.
fn example() -> &'static str {
    DOCUMENT.split("```json\n").nth(1).unwrap().split("```").next().unwrap()
}

/// A fabric must survive its own JSON; an error must be one line without control characters.
fn check(result: Result<Fabric>) {
    match result {
        Ok(fabric) => {
            assert_eq!(Fabric::from_json(&fabric.name, &fabric.to_json()), Ok(plain(fabric)));
        }
        Err(error) => assert!(!error.message.chars().any(char::is_control), "{error:?}"),
    }
}

/// The same graph, without its structure.
fn plain(mut fabric: Fabric) -> Fabric {
    fabric.shape = Shape::Graph;
    fabric
}

/// `text` with some characters inserted, removed or replaced.
fn mutated(text: &str, edits: &[(Index, u8, char)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (at, kind, c) in edits.iter().filter(|_| !text.is_empty()) {
        let at = at.index(chars.len().max(1));
        match kind % 3 {
            0 => chars.insert(at, *c),
            1 if at < chars.len() => drop(chars.remove(at)),
            _ if at < chars.len() => chars[at] = *c,
            _ => {}
        }
    }
    chars.into_iter().collect()
}

fn edits(alphabet: &'static str) -> impl Strategy<Value = Vec<(Index, u8, char)>> {
    let c = prop_oneof![9 => select(alphabet.chars().collect::<Vec<_>>()), 1 => any::<char>()];
    vec((any::<Index>(), any::<u8>(), c), 0..4)
}

/// Any strongly connected graph: a random tree with links both ways, and any links beside it.
fn graph() -> impl Strategy<Value = Fabric> {
    let link = (
        (any::<Index>(), any::<Index>()),
        proptest::option::of(1..=1_000_000_000_000_000u64),
        proptest::option::of(0..=1_000_000_000_000_000u64),
        1..=1000u32,
        select(vec!["x", "y", "\"up\" ☃"]),
    );
    let node = (any::<bool>(), vec(-100_000_000..100_000_000i64, 0..4));
    let rate = Some(Rate::gb_per_s(308));
    let computes = [
        None,
        Some(SwitchCompute { rate, ..SwitchCompute::of(Reduces::OnRead) }),
        Some(SwitchCompute { reduces: None, multicasts: true, rate: None }),
    ];
    (vec(node, 0..12), vec(link, 30)).prop_map(move |(others, random)| {
        let mut nodes = vec![Node::rank(0, []), Node::rank(1, [])];
        for (is_rank, coords) in others {
            let ranks = nodes.iter().filter(|node| node.rank.is_some()).count() as u32;
            nodes.push(Node {
                name: format!("node {}", nodes.len()),
                rank: is_rank.then_some(ranks),
                coords: coords.into_iter().map(|x| x as f64 / 1e4).collect(),
                compute: computes[nodes.len() % 3].filter(|_| !is_rank),
                package: (nodes.len() % 4 > 0).then_some(nodes.len() as u32 / 4),
            });
        }
        let mut links = Vec::new();
        for (i, ((a, b), rate, latency, speed_permille, dimension)) in random.into_iter().enumerate() {
            let tree = i + 1 < nodes.len();
            let (from, to) = if tree { (i + 1, a.index(i + 1)) } else { (a.index(nodes.len()), b.index(nodes.len())) };
            if from != to {
                let link = Link {
                    rate: rate.map(Rate),
                    latency,
                    speed_permille,
                    ..Link::new(from as u32, to as u32, dimension)
                };
                links.extend(tree.then(|| link.reversed()));
                links.push(link);
            }
        }
        Fabric::new("t", Shape::Graph, nodes, links).unwrap()
    })
}

proptest! {
    #[test]
    fn any_text_as_specification(text in ".{0,60}") {
        check(Fabric::parse(&text));
    }

    #[test]
    fn any_text_as_json(text in ".{0,200}") {
        check(Fabric::from_json("t", &text));
    }

    #[test]
    fn mutated_specifications(spec in select(&SPECS[..]), edits in edits("0123456789x:,@/=->.dropslw")) {
        check(Fabric::parse(&mutated(spec, &edits)));
    }

    #[test]
    fn mutated_json(edits in edits("0123456789-.e{}[]\",: \\truefalsnN")) {
        check(Fabric::from_json("t", &mutated(example(), &edits)));
    }

    #[test]
    fn random_graphs_round_trip(fabric in graph()) {
        prop_assert_eq!(Fabric::from_json("t", &fabric.to_json()), Ok(fabric));
    }
}

#[test]
fn the_documented_example_is_a_fabric() {
    let fabric = Fabric::from_json("example", example()).unwrap();
    assert_eq!(fabric.describe(), "4 ranks, 2 switches, 16 directed links, 2 dimensions (x 8, trunk 8)");
    for line in DOCUMENT.lines().filter(|line| line.starts_with("| `")) {
        let quoted = line.split('`').skip(1).step_by(2);
        let is_known = |text: &&str| PRESETS.iter().any(|known| text.split(':').next() == Some(known.kind));
        for spec in quoted.filter(|text| text.contains(':') && !text.starts_with("file:")).filter(is_known) {
            assert!(Fabric::parse(spec).is_ok(), "{spec}");
        }
    }
}

/// The table of rates, usable and raw, is what links have, and names all kinds of links of all machines that have both
/// rates.
#[test]
fn rates_are_those_of_the_documentation() {
    let table = DOCUMENT.split("### Rates\n").nth(1).unwrap().split("\n#").next().unwrap();
    let cells = |line: &'static str| line.split('|').map(|cell| cell.trim().trim_matches('`')).collect::<Vec<_>>();
    let rows: Vec<_> = table.lines().filter(|line| line.starts_with("| `")).map(cells).collect();
    let has_raw = |kind: &str| {
        let preset = PRESETS.iter().find(|preset| preset.kind == kind).unwrap();
        (preset.options.iter().any(|option| option.parameter.key == "raw"), preset.example.replace(":1", ":2"))
    };
    for row in &rows {
        let [_, kind, label, usable, raw, source, _] = row[..] else { panic!("{row:?}") };
        let (both, example) = has_raw(kind);
        assert!(source.len() > 3 && (both || usable == raw), "{row:?}");
        for (option, rate) in [("", usable), (":raw", raw)].into_iter().take(1 + usize::from(both)) {
            let fabric = Fabric::parse(&format!("{example}{option}")).unwrap();
            let links = fabric.links.iter().filter(|link| [&link.dimension, "link"].contains(&label));
            let least = links.filter_map(|link| link.rate).min().map(|rate| rate.as_gb_per_s());
            assert_eq!(least, rate.parse().ok(), "{row:?}");
            let listed =
                |link: &Link| rows.iter().any(|row| row[1] == kind && [&link.dimension, "link"].contains(&row[2]));
            assert!(fabric.links.iter().all(listed), "{row:?}");
        }
    }
    for preset in PRESETS.iter().filter(|preset| has_raw(preset.kind).0) {
        assert!(rows.iter().any(|row| row[1] == preset.kind), "{}", preset.kind);
    }
    let options = PRESETS.iter().flat_map(|preset| preset.options);
    options.for_each(|option| assert!(DOCUMENT.contains(option.parameter.key), "{}", option.parameter.key));
}

fn scratch(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn files() {
    let path = scratch("user@host.json", example().as_bytes());
    let spec = format!("file:{}", path.display());
    assert_eq!(Fabric::from_file(&path).unwrap(), Fabric::parse(&spec).unwrap());

    let degraded = Fabric::parse(&format!("{spec}@100/1us,drop=4-5,exclude=0")).unwrap_err();
    assert!(degraded.message.contains("disconnected"), "{degraded}");
    let fabric = Fabric::parse(&format!("{spec}@100/1us,exclude=0")).unwrap();
    assert_eq!(fabric.ranks(), 3);
    assert_eq!(fabric.links[0].rate, Some(Rate::gb_per_s(50))); // its own
    let trunk = &fabric.links[8];
    assert_eq!((trunk.rate, trunk.latency), (Some(Rate::gb_per_s(100)), Some(1_000_000)));
}

#[test]
fn hostile_files_name_the_path() {
    let sparse = scratch("large.json", b"");
    let file = std::fs::File::options().write(true).open(&sparse).unwrap();
    file.set_len(MAX_FILE_BYTES + 1).unwrap();
    for (path, code, why) in [
        (PathBuf::from("no/such.json"), Code::BadFile, "cannot read the file"),
        (PathBuf::from(env!("CARGO_TARGET_TMPDIR")), Code::BadFile, "is not a regular file"),
        (scratch("latin1.json", b"{\"\xe9\"}"), Code::BadFile, "is not UTF-8 text (byte 2)"),
        (scratch("empty.json", b""), Code::BadFile, "of no known format"),
        (scratch("deep.json", "[".repeat(1 << 20).as_bytes()), Code::BadFile, "of no known format"),
        (sparse.clone(), Code::TooLarge, "larger than 64 MiB"),
    ] {
        let error = Fabric::from_file(&path).unwrap_err();
        assert_eq!(error.code, code, "{error}");
        let place = format!("fabric 'file:{}'", path.display());
        assert!(error.message.starts_with(&place) && error.message.contains(why), "{error}");
    }
    std::fs::remove_file(sparse).unwrap();
}

/// Ends of a link by name, rate, latency, speed.
type NamedLink<'a> = (&'a str, &'a str, Option<Rate>, Option<u64>, u32);

/// What a fabric is made of, whatever the order and labels of its links: names and ranks of its nodes in order, and its
/// links by name.
fn made_of(fabric: &Fabric) -> (Vec<(&str, Option<u32>)>, Vec<NamedLink<'_>>) {
    let nodes: Vec<_> = fabric.nodes.iter().map(|node| (&*node.name, node.rank)).collect();
    let name = |node: u32| nodes[node as usize].0;
    let parts = |link: &Link| (name(link.from), name(link.to), link.rate, link.latency, link.speed_permille);
    let mut links: Vec<_> = fabric.links.iter().map(parts).collect();
    links.sort_unstable();
    (nodes, links)
}

#[test]
fn machines_are_those_of_the_files() {
    for (spec, text) in [
        ("dgx-a100:1:raw", include_str!("../../../../data/fabrics/a100x1.json")),
        ("dgx-a100:2:raw", include_str!("../../../../data/fabrics/a100x2.json")),
        ("dgx-h100:2:raw", include_str!("../../../../data/fabrics/h100x2.json")),
        ("dgx-h100:4:raw", include_str!("../../../../data/fabrics/h100x4.json")),
        ("mi250:1:raw", include_str!("../../../../data/fabrics/mi250x1.json")),
    ] {
        let (preset, file) = (Fabric::parse(spec).unwrap(), Fabric::from_json("file", text).unwrap());
        assert_eq!(made_of(&preset), made_of(&file), "{spec}");
    }
}
