//! Networks that other simulators and graph tools describe.

use super::{links, read};
use antiphon_base::error::Code;
use antiphon_model::fabric::Fabric;

#[test]
fn astra_sim() {
    let fabric = read(
        "topology: [ Ring, FullyConnected, Switch, Ring ] # c\nnpus_count: [4, 3, 2, 1]\nbandwidth: [50.0, 25, 12.5, 1]\nlatency: [500.0, 7e2, 1, 1]\n",
    );
    assert_eq!((fabric.ranks(), fabric.nodes.len(), fabric.links.len()), (24, 24 + 12, 24 * (2 + 2 + 2)));
    assert_eq!(fabric.name, "t");
    let along = &fabric.product().unwrap().dimensions;
    let of = |at: usize| (along[at].size, along[at].link_rate().unwrap().as_gb_per_s(), along[at].latency.unwrap());
    assert_eq!([of(0), of(1), of(2)], [(4, 50.0, 500_000), (3, 25.0, 700_000), (2, 12.5, 2000)]);
    // The first dimension is the fastest.
    assert_eq!(fabric.neighbours(0)[..2], [1, 3]);
    for (from, to, rate, latency) in [(0, 1, 50.0, 500_000), (0, 4, 25.0, 700_000), (0, 24, 12.5, 1000)] {
        let link = fabric.link(fabric.link_between(from, to).unwrap());
        assert_eq!((link.rate.unwrap().as_gb_per_s(), link.latency), (rate, Some(latency)));
    }
    assert!(fabric.notes.0[0].contains("ASTRA-sim counts 2^30 bytes"), "{:?}", fabric.notes);
    // A rate that is given changes nothing where the file has one.
    let path = std::env::temp_dir().join(format!("antiphon-astra-{}.yml", std::process::id()));
    std::fs::write(&path, "topology: [Ring]\nnpus_count: [8]\nbandwidth: [50]\nlatency: [500]\n").unwrap();
    let [plain, given] = ["", "@7/3ns"].map(|end| Fabric::parse(&format!("{}{end}", path.display())).unwrap());
    std::fs::remove_file(path).unwrap();
    assert_eq!((&plain.links, &plain.shape), (&given.links, &given.shape));
    for (text, code, why) in [
        (
            "topology: [Ring]\nnpus_count: [8, 2]\nbandwidth: [1]\nlatency: [1]",
            Code::BadFile,
            "topology 1, npus_count 2, bandwidth 1, latency 1",
        ),
        (
            "topology: [Mesh]\nnpus_count: [8]\nbandwidth: [1]\nlatency: [1]",
            Code::BadFile,
            "topology 'Mesh'; known: Ring, FullyConnected, Switch",
        ),
        ("topology: [Ring]\nnpus_count: [8]\nlatency: [1]", Code::BadFile, "bandwidth is missing"),
        ("topology: [Ring]\nnpus_count: [1]\nbandwidth: [1]\nlatency: [1]", Code::BadFile, "at least 2 ranks"),
        (
            "topology: [Ring]\nnpus_count: [-8]\nbandwidth: [1]\nlatency: [1]",
            Code::BadFile,
            "npus_count '-8' is no number",
        ),
        ("topology: [Ring]\nnpus_count: [8]\nbandwidth: [0]\nlatency: [1]", Code::BadFile, "link rate 0"),
        (
            "topology: [Ring]\nnpus_count: [8]\nbandwidth: [1]\nlatency: [.nan]",
            Code::BadFile,
            "latency '.nan' is no number",
        ),
        (
            "topology: [FullyConnected]\nnpus_count: [99999999999]\nbandwidth: [1]\nlatency: [1]",
            Code::TooLarge,
            "too many",
        ),
        (
            "topology: [[Ring]]\nnpus_count: [8]\nbandwidth: [1]\nlatency: [1]",
            Code::BadFile,
            "topology has what is no text",
        ),
    ] {
        let error = Fabric::from_text("t", text).unwrap_err();
        assert_eq!(error.code, code, "{text}: {error}");
        assert!(error.message.starts_with("fabric 't': ") && error.message.contains(why), "{text}: {error}");
    }
}

pub const SIMAI: &str = "6 2 1 1 7 H100\n2 5\n0 2 3600Gbps 0.000025ms 0\n1 2 3600Gbps 2.5e-05ms 0\n0 5 400Gbps 0.0005ms 0\n\n1 5 400Gbps 0.0005ms 0
3 5 400Gbps 0.0005ms 0\n4 5 400Gbps 0.0005ms 0.01\n3 4 50GB/s 1us 0\n";

#[test]
fn simai_and_ns3() {
    let fabric = read(SIMAI);
    assert_eq!((fabric.ranks(), fabric.nodes.len()), (4, 6));
    let expected = [
        "gpu0=nvswitch2 nvlink 450",
        "gpu0=switch5 net 50",
        "gpu1=nvswitch2 nvlink 450",
        "gpu1=switch5 net 50",
        "gpu3=gpu4 net 50",
        "gpu3=switch5 net 50",
        "gpu4=switch5 net 50",
    ];
    assert_eq!(links(&fabric), expected);
    let of = |from, to| fabric.link(fabric.link_between(from, to).unwrap()).latency;
    assert_eq!((of(1, 2), of(2, 0), of(5, 4), of(3, 4)), (Some(25_000), Some(25_000), Some(500_000), Some(1_000_000)));
    assert_eq!(fabric.notes.0, ["1 links lose packets in the file, which is not modelled"]);
    let fabric = read("4 1 3\n3\n0 3 100Gbps 0.001ms 0\n1 3 100Gbps 0.001ms 0\n2 3 100Gbps 0.001ms 0.0\n");
    assert_eq!(links(&fabric), ["host0=switch3 net 12.5", "host1=switch3 net 12.5", "host2=switch3 net 12.5"]);
    for (text, code, why) in [
        ("3 2 1 0 2 H100\n2\n0 2 3600Gbps 25ns 0\n", Code::BadFile, "line 3: the text ends where node is expected"),
        (
            "3 2 1 0 1 H100\n2\n0 2 3600Gbps 25ns 0\n1 2 3600Gbps 25ns 0\n",
            Code::BadFile,
            "line 4: '1' after the last of 1 links",
        ),
        ("3 2 1 0 2 H100\n7\n", Code::BadFile, "line 2: number of a switch 7 is not below 3"),
        ("3 2 2 0 2 H100\n2 2\n", Code::BadFile, "switch 2 is there twice"),
        ("3 2 1 0 2 H100 8\n2\n", Code::BadFile, "line 1: more words than"),
        ("3 2 1 0 1 H100\n2\n0 0 1Gbps 1ns 0", Code::BadFile, "line 3: a link joins node 0 to itself"),
        ("3 2 1 0 1 H100\n2\n0 2 3600 1ns 0", Code::BadFile, "rate '3600'; write for example 400Gbps"),
        ("3 2 1 0 1 H100\n2\n0 2 1Gbps 1 0", Code::BadFile, "latency '1'; write"),
        ("3 2 1 0 1 H100\n2\n0 2 1Gbps 1ns x", Code::BadFile, "share of lost packets 'x'"),
        ("3 2 1 0 1 H100\n2\n0 2 0Gbps 1ns 0", Code::BadFile, "link rate 0"),
        ("4000000000 8 1 0 2 H100\n2\n", Code::BadFile, "number of nodes 4000000000 is not below 16385"),
        ("9 8 1 0 4000000000 H100\n8\n", Code::BadFile, "number of links 4000000000"),
        ("9000 0 0\n", Code::TooLarge, "4096 ranks"),
        ("3 1 1\n2\n0 2 1Gbps 1ns 0", Code::BadSpec, "disconnected"),
    ] {
        let error = Fabric::from_text("t", text).unwrap_err();
        assert_eq!(error.code, code, "{text}: {error}");
        assert!(error.message.starts_with("fabric 't': ") || error.message.contains("disconnected"), "{error}");
        assert!(error.message.contains(why), "{text}: {error}");
    }
}

#[test]
fn anynet_of_booksim() {
    let fabric = read("router 0 node 0 router 1\n\nrouter 1 node 1\nnode 2 router 1\n");
    assert_eq!(
        links(&fabric),
        [
            "node0=router0 node system",
            "node1=router1 node system",
            "node2=router1 node system",
            "router0=router1 router system"
        ]
    );
    assert_eq!((fabric.ranks(), fabric.notes.0.len()), (3, 2), "{:?}", fabric.notes);
    assert!(fabric.links.iter().all(|link| link.latency.is_none()));
    // Cycles of a node hold both ways, those between routers one; the last line counts.
    let text = "router 0 node 0 5 router 1 15 router 2\nrouter 1 node 1 router 2 3\nrouter 2 node 2 router 1 4\n";
    let fabric = read(text);
    let id = |name: &str| fabric.nodes.iter().position(|node| node.name == name).unwrap() as u32;
    let of = |from, to| fabric.link(fabric.link_between(id(from), id(to)).unwrap()).latency.unwrap() / 1000;
    assert_eq!((of("node0", "router0"), of("router0", "node0"), of("node1", "router1")), (5, 5, 1));
    assert_eq!((of("router0", "router1"), of("router1", "router0"), of("router2", "router0")), (15, 1, 1));
    assert_eq!((of("router1", "router2"), of("router2", "router1")), (3, 4));
    assert!(fabric.notes.0.iter().any(|note| note.contains("one of which is taken as 1 ns")), "{:?}", fabric.notes);
    let path = std::env::temp_dir().join(format!("antiphon-anynet-{}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let given = Fabric::parse(&format!("file:{}@16/2ns", path.display())).unwrap();
    std::fs::remove_file(path).unwrap();
    assert_eq!((given.links[0].latency, given.notes.0.len()), (Some(10_000), 0));
    for (text, why) in [
        ("router 0 node 0 node 2\n", "there is no node 1; nodes are numbered from 0 without gaps"),
        ("router 1 node 0 node 1\n", "there is no router 0"),
        ("router 0 node 0\nrouter 1 node 0 node 1", "line 2: node 0 is on router 0 too"),
        ("router 0 router 0", "line 1: it joins router 0 to itself"),
        ("node 0 node 1", "it joins a node to a node"),
        ("router 0 switch 1", "'switch', expected router or node"),
        ("router 0 node", "it ends where a number is expected"),
        ("router 0 node 0 router 1 -3", "'-3' is not 0 to 1000000"),
        ("router 0 node 4000000000", "'4000000000' is not 0 to 16383"),
        ("router 0 node 0 99999999", "'99999999' is not 0 to 1000000"),
    ] {
        let error = Fabric::from_text("t", text).unwrap_err();
        assert_eq!(error.code, Code::BadFile);
        assert!(error.message.starts_with("fabric 't': ") && error.message.contains(why), "{text}: {error}");
    }
}

#[test]
fn dot() {
    let fabric = read("digraph g { a -> b; b -> a; }");
    assert_eq!(links(&fabric), ["a=b x system"]);
    assert_eq!(fabric.notes.0.len(), 2, "{:?}", fabric.notes);
    let text = r#"// A rack.
/* Two servers */ graph "rack 1" {
# 1 "rack.gv"
  rankdir=LR; node [type=gpu, shape=box]; edge [rate="400Gbps" latency=500ns weight=2]
  subgraph cluster_0 { label="server"; a:p1 -- { b c [color=red] } [dimension=up] }
  a -- "to" + "p" -- b [bandwidth="1GB/s", rate="25 GB/s"];
  "top" [type=switch pos="1,2!"]
}"#;
    // A time with its unit is no number of DOT.
    let error = Fabric::from_text("t", text).unwrap_err();
    assert!(error.message.contains("line 4: '500...' is neither a name nor a number; put it in quotes"), "{error}");
    let text = text.replace("500ns", "\"500ns\"");
    let fabric = read(&text);
    assert_eq!(links(&fabric), ["a=b up 50", "a=c up 50", "a=top x 25", "b=top x 25"]);
    assert_eq!(
        (fabric.ranks(), fabric.nodes[3].name.as_str(), &fabric.nodes[3].coords[..]),
        (3, "top", &[-2.0, 1.0][..])
    );
    assert!(fabric.links.iter().all(|link| link.latency == Some(500_000)));
    assert_eq!(fabric.notes.0, ["attributes that are not read: weight"]);
    // Ranks by their numbers, as in files that are written here; directions.
    let fabric = read(
        r#"strict digraph { x [comment="rank 1"] y [comment="rank 0"] s [shape=box] x -> s [dir=both] s -> y -> s }"#,
    );
    assert_eq!((fabric.node_of_rank(0), fabric.node_of_rank(1), fabric.links.len()), (1, 0, 4));
    let deep = format!("graph {{{}", "{".repeat(100_000));
    let all: String = (0..1500).map(|n| format!("n{n};")).collect();
    let groups = format!("graph {{ {{{all}}} -- {{{}}} }}", all.replace('n', "m"));
    let many: String = (0..20_000).map(|n| format!("n{n};")).collect();
    for (text, code, why) in [
        ("digraph { a -> b".to_string(), Code::BadFile, "a node, an edge or } is expected"),
        ("digraph { a -- b }".into(), Code::BadFile, "edges of a digraph are written ->"),
        ("graph { a -- a }".into(), Code::BadFile, "an edge joins 'a' to itself"),
        ("strict graph { a -- b -- a }".into(), Code::BadFile, "a second edge from 'b' to 'a' in a strict graph"),
        (
            "graph { a -- b [rate=50] }".into(),
            Code::BadFile,
            "rate is '50'; write for example 400Gbps or 50GB/s, with the unit",
        ),
        ("graph { a -- b [latency_ns=x] }".into(), Code::BadFile, "latency_ns is 'x', expected a number"),
        ("graph { a -- b [speed=2] }".into(), Code::BadSize, "speed"),
        ("graph { a [type=robot] a -- b }".into(), Code::BadFile, "node 'a': type is 'robot'; known: rank, gpu"),
        ("graph { a [type=gpu] a -- b }".into(), Code::BadFile, "node 'b': nothing says whether it is a rank"),
        ("graph { a [rank=1] b [rank=1] a -- b }".into(), Code::BadFile, "ranks are not numbered 0 to 1, each once"),
        ("digraph { a -> b [dir=none] }".into(), Code::BadFile, "dir is 'none'"),
        ("digraph { a -> b }".into(), Code::BadSpec, "no path from rank 1 to rank 0"),
        ("graph { \"a -- b }".into(), Code::BadFile, "line 1: a quote is not closed"),
        ("graph { a [label=<<b>x] }".into(), Code::BadFile, "a < is not closed"),
        ("graph { a -- b } graph {}".into(), Code::BadFile, "one graph is read"),
        ("graph { 5x -- b }".into(), Code::BadFile, "neither a name nor a number"),
        ("graph { a & b }".into(), Code::BadFile, "'&' is not expected"),
        (
            format!("graph {{ node [type=\"{}\"] a -- b }}", "x".repeat(300)),
            Code::BadFile,
            "type has more than 256 bytes",
        ),
        (
            format!("graph {{ a {} }}", "-- b -- a".repeat(10_000)),
            Code::TooLarge,
            "more than 16384 ends of edges in one",
        ),
        (deep, Code::TooLarge, "more than 32 subgraphs within each other"),
        (groups, Code::TooLarge, "more than 2097152 directed links"),
        (format!("graph {{ {many} }}"), Code::TooLarge, "more than 16384 nodes"),
    ] {
        let error = Fabric::from_text("t", &text).unwrap_err();
        assert_eq!(error.code, code, "{}: {error}", &text[..text.len().min(60)]);
        assert!(error.message.starts_with("fabric 't': ") && error.message.contains(why), "{error}");
    }
}
