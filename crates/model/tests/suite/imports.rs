//! Topologies of other tools as fabrics: small machines whose links are written down here.

mod networks;

use crate::topologies::{INFRAGRAPH, LSTOPO, NCCL};
use antiphon_base::error::Code;
use antiphon_model::fabric::Fabric;
use networks::SIMAI;

fn read(text: &str) -> Fabric {
    Fabric::from_text("t", text).unwrap()
}

/// Links both ways of the same rate as `a=b label rate`, others as `a>b label rate`; each once, sorted.
fn links(fabric: &Fabric) -> Vec<String> {
    let name = |node: u32| fabric.nodes[node as usize].name.as_str();
    let ends = |from, to| (name(from), name(to));
    let has_back = |link: &antiphon_model::fabric::Link| {
        fabric.links.iter().any(|back| {
            (back.from, back.to, back.rate, &back.dimension) == (link.to, link.from, link.rate, &link.dimension)
        })
    };
    let mut lines: Vec<String> = fabric
        .links
        .iter()
        .filter(|link| !has_back(link) || ends(link.from, link.to) < ends(link.to, link.from))
        .map(|link| {
            let sign = if has_back(link) { "=" } else { ">" };
            let rate = link.rate.map_or("system".into(), |rate| rate.as_gb_per_s().to_string());
            format!("{}{sign}{} {} {rate}", name(link.from), name(link.to), link.dimension)
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn nccl() {
    let fabric = read(NCCL);
    assert_eq!(fabric.ranks(), 3);
    let expected = [
        "cpu0=cpu1 cpu 22",
        "cpu0=pci-0000:10:00.0 pci 48",
        "cpu1=gpu2 pci 12",
        "gpu0=gpu2 nvlink 41.2",
        "gpu0=nvswitch nvlink 185.4",
        "gpu0=pci-0000:10:00.0 pci 12",
        "gpu1=nvswitch nvlink 185.4",
        "gpu1=pci-0000:10:00.0 pci 48",
        "gpu2=nvswitch nvlink 185.4",
        "mlx5_0=nic-0000:13:00.0 net 50",
        "mlx5_1=nic-0000:13:00.0 net 1.25",
        "nic-0000:13:00.0=pci-0000:10:00.0 pci 48",
    ];
    assert_eq!(links(&fabric), expected);
    let latencies: Vec<_> =
        fabric.links.iter().filter(|link| link.dimension == "net").map(|link| link.latency).collect();
    assert_eq!(latencies, [Some(1_500_000), Some(1_500_000), None, None]);
    let noted: Vec<&str> = fabric.notes.0.iter().map(|note| note.split(':').next().unwrap()).collect();
    assert_eq!(noted, ["2 links without a rate in the file"; 3]);
    assert!(fabric.notes.0[0].contains("22 GB/s (cpu: "), "{:?}", fabric.notes);
}

#[test]
fn rates_that_are_given_come_before_what_is_taken() {
    let path = std::env::temp_dir().join(format!("antiphon-topology-{}.xml", std::process::id()));
    std::fs::write(&path, NCCL).unwrap();
    for spec in [format!("file:{}@7/3ns", path.display()), format!("{}@7/3ns", path.display())] {
        let fabric = Fabric::parse(&spec).unwrap();
        assert!(fabric.notes.0.is_empty());
        assert!(links(&fabric).contains(&"cpu0=cpu1 cpu 7".to_string()));
        assert!(links(&fabric).contains(&"cpu0=pci-0000:10:00.0 pci 48".to_string()));
        // A part of it says what was taken too.
        let part = Fabric::parse(&format!("file:{}[0,1]", path.display())).unwrap();
        assert_eq!((part.ranks(), part.notes.0.len()), (2, 3));
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn several_hosts_share_switches_alone() {
    let host = |hash: &str, first: u32| {
        let gpu = |rank: u32| {
            format!(
                r#"<pci busid="0000:0{}:00.0" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="100" rank="{rank}">
                <nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/><c2c bw="44712" count="5"/></gpu></pci>"#,
                rank % 2
            )
        };
        format!(r#"<cpu host_hash="{hash}" numaid="0" arch="arm64">{}{}</cpu>"#, gpu(first), gpu(first + 1))
    };
    let fabric = read(&format!("<system version=\"1\">{}{}</system>", host("0x1", 0), host("0x2", 2)));
    let found = links(&fabric);
    assert_eq!((fabric.ranks(), fabric.nodes.len(), found.len()), (4, 7, 12));
    assert!(found.contains(&"gpu3=nvswitch nvlink 721.8".to_string()), "{found:?}");
    assert!(found.contains(&"gpu0=host0.cpu0 c2c 223.56".to_string()), "{found:?}");
    assert!(fabric.notes.0.is_empty(), "{:?}", fabric.notes);
}

#[test]
fn xgmi_of_amd() {
    let gpu = |rank: u32| {
        format!(
            r#"<pci busid="0000:0{rank}:00.0" class="0x120000" link_speed="32.0 GT/s PCIe" link_width="16">
            <gpu dev="{rank}" gcn="gfx942" rank="{rank}"><xgmi target="0000:0{}:00.0" count="1" tclass="0x120000"/></gpu></pci>"#,
            1 - rank
        )
    };
    let fabric = read(&format!("<system version=\"2\"><cpu numaid=\"0\">{}{}</cpu></system>", gpu(0), gpu(1)));
    assert_eq!(links(&fabric), ["cpu0=gpu0 pci 48", "cpu0=gpu1 pci 48", "gpu0=gpu1 xgmi 48"]);
}

/// Topologies that virtual machines are given name GPUs only by class; NCCL finds the rest when it runs.
#[test]
fn gpus_without_elements() {
    let device = |bus: u32| {
        format!(r#"<pci busid="000{bus}:00:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>"#)
    };
    let fabric = read(&format!("<system version=\"1\"><cpu numaid=\"0\">{}{}</cpu></system>", device(1), device(2)));
    assert_eq!(links(&fabric), ["cpu0=gpu0 pci 48", "cpu0=gpu1 pci 48"]);
    assert!(fabric.notes.0[0].starts_with("2 GPUs are only PCI devices in the file"), "{:?}", fabric.notes);
}

#[test]
fn lstopo() {
    let fabric = read(LSTOPO);
    assert_eq!(fabric.ranks(), 3);
    let expected = [
        "gpu0=gpu1 nvlink 50",
        "gpu0=nvlink-switch nvlink 100",
        // A port of the switch that has one device is part of the link, at the slower rate.
        "gpu0=pci-0000:01:00.0 pci 15.753846",
        "gpu1=nvlink-switch nvlink 100",
        "gpu1=pci-0000:01:00.0 pci 31.507692",
        "gpu2=nvlink-switch nvlink 100",
        "gpu2=package1 pci 12",
        "mlx5_0=pci-0000:01:00.0 pci 31.507692",
        "package0=package1 cpu 16",
        "package0=pci-0000:01:00.0 pci 31.507692",
    ];
    assert_eq!(links(&fabric), expected);
    assert_eq!(fabric.notes.0.len(), 2, "{:?}", fabric.notes);
    // Without the matrix only PCI is left, and that is said.
    let without = LSTOPO.replace("NVLinkBandwidth", "Other");
    let fabric = read(&without);
    assert_eq!(links(&fabric).len(), 6);
    assert!(fabric.notes.0.iter().any(|note| note.contains("no bandwidths between GPUs in the file")));
}

#[test]
fn infragraph() {
    let fabric = read(INFRAGRAPH);
    let ranks: Vec<&str> = (0..4).map(|rank| fabric.nodes[fabric.node_of_rank(rank) as usize].name.as_str()).collect();
    assert_eq!(ranks, ["host.0.gpu.0", "host.0.gpu.1", "host.1.gpu.0", "host.1.gpu.1"]);
    let found = links(&fabric);
    let expected = [
        "host.0.card.0.asic.0=host.0.card.0.port.0 inside system",
        "host.0.card.0.asic.0=host.0.card.0.port.1 inside system",
        "host.0.card.0.asic.0=host.0.cpu.0 pcie system",
        "host.0.card.0.port.0=leaf.0.port.0 cable 50",
        "host.0.card.0.port.1=leaf.0.port.1 cable 50",
        "host.0.cpu.0=host.0.gpu.0 pcie system",
        "host.0.cpu.0=host.0.gpu.1 pcie system",
        "host.0.gpu.0=host.0.gpu.1 fast 64",
    ];
    assert_eq!(
        found.iter().filter(|line| line.starts_with("host.0")).collect::<Vec<_>>(),
        expected.iter().collect::<Vec<_>>()
    );
    assert!(found.contains(&"host.1.card.0.port.0=leaf.0.port.3 cable 50".to_string()), "{found:?}");
    assert!(found.contains(&"host.1.card.0.port.1=leaf.0.port.2 cable 50".to_string()));
    assert_eq!((fabric.nodes.len(), found.len()), (17, 20));
    let fast = fabric.links.iter().find(|link| link.dimension == "fast").unwrap();
    assert_eq!(fast.latency, Some(500_000));
    assert_eq!(fabric.notes.0.len(), 2, "{:?}", fabric.notes);
    // The same in JSON, which is YAML.
    let text = r#"{"devices": [{"name": "d", "components": [{"choice": "xpu", "name": "x", "count": 3}], "links": [{"name": "l"}],
        "edges": [{"ep1": {"component": "x"}, "ep2": {"component": "x"}, "scheme": "many2many", "link": "l"}]}],
        "instances": [{"name": "i", "device": "d", "count": 1}]}"#;
    assert_eq!(links(&read(text)).len(), 3);
}

#[test]
fn processors_of_power_have_nvlinks() {
    let gpu = |name: &str, first: u32| {
        format!(
            r#"<object type="Bridge" gp_index="{first}" bridge_type="0-1"><object type="PCIDev" gp_index="{}" pci_busid="{name}" pci_type="0302 [10de:15f9]"
            pci_link_speed="15.75"><object type="OSDev" gp_index="{}" name="nvml0" osdev_type="12"/></object></object>"#,
            first + 1,
            first + 2
        )
    };
    // A GPU below either package; nothing is below the third, to which one has NVLinks too.
    let topology = |parts: [&str; 2]| {
        format!(
            r#"<topology version="3.0"><object type="Machine" gp_index="1">
            <object type="Package" os_index="0" gp_index="3">{}{}{}</object>
            <object type="Package" os_index="1" gp_index="5">{}</object><object type="Package" os_index="2" gp_index="7"/></object>
            <distances2hetero nbobjs="5" name="NVLinkBandwidth"><indexes length="0">OSDev:12 OSDev:22 Package:3 Package:5 Package:7</indexes>
            <u64values length="0">1000000 0 40000 0 0 0 1000000 0 40000 20000 40000 0 1000000 0 0 0 40000 0 1000000 0 0 20000 0 0 1000000</u64values>
            </distances2hetero><info name="Architecture" value="ppc64le"/></topology>"#,
            parts[0],
            gpu("a", 10),
            parts[1],
            gpu("b", 20)
        )
    };
    let found = links(&read(&topology(["", ""])));
    let expected = [
        "gpu0=package0 nvlink 40",
        "gpu0=package0 pci 15.75",
        "gpu1=package1 nvlink 40",
        "gpu1=package1 pci 15.75",
        "gpu1=package2 nvlink 20",
        "package0=package1 cpu 32",
        "package0=package2 cpu 32",
        "package1=package2 cpu 32",
    ];
    assert_eq!(found, expected);
    // Of a package that is more than one domain, it is the one that the GPU is below.
    let numa = ["<object type=\"Group\"><object type=\"NUMANode\" os_index=\"4\" gp_index=\"31\"/>", "</object>"];
    let found = links(&read(&topology(numa)));
    assert!(found.contains(&"gpu0=numa4 nvlink 40".to_string()), "{found:?}");
    assert!(!found.iter().any(|line| line.contains("package0") || line.contains("switch")), "{found:?}");
}

#[test]
fn what_only_draws_is_no_rank() {
    // A chip of a server, and the graphics of a processor, beside a card that both draws and computes.
    for (chip, ranks) in [("1002:515e", 3), ("1002:164e", 3), ("1002:744c", 4), ("10de:2204", 4)] {
        let text = LSTOPO.replace("0300 [1a03:2000]", &format!("0300 [{chip}]"));
        assert_eq!(read(&text).ranks(), ranks, "{chip}");
        let numbers = chip.split_once(':').unwrap();
        let drawn = format!(
            r#"<cpu numaid="3"><pci busid="9" class="0x030000" vendor="0x{}" device="0x{}"/></cpu></system>"#,
            numbers.0, numbers.1
        );
        assert_eq!(read(&NCCL.replace("</system>", &drawn)).ranks(), ranks, "{chip}");
    }
}

#[test]
fn links_of_a_gpu_to_itself_are_left_out() {
    let gpu = |bus: u32| {
        format!(
            r#"<cpu numaid="{bus}" arch="x86_64" vendor="AuthenticAMD"><pci busid="{bus}" class="0x030200" link_speed="" link_width="0">
            <gpu sm="80" rank="{bus}"><nvlink target="{bus}" count="12" tclass="0x030200"/></gpu></pci></cpu>"#
        )
    };
    let fabric = read(&format!("<system>{}{}</system>", gpu(0), gpu(1)));
    assert_eq!(links(&fabric), ["cpu0=cpu1 cpu 16", "cpu0=gpu0 pci 12", "cpu1=gpu1 pci 12"]);
    assert!(fabric.notes.0.contains(&"2 NVLinks or xGMI links lead from a GPU to itself and are left out".to_string()));
}

/// What is no fabric says what is read, and what it is where that can be seen.
#[test]
fn unknown_files() {
    for (text, why) in [
        ("", "of no known format"),
        ("hello\n", "of no known format"),
        ("a: 1\n", "of no known format"),
        ("{}", "of no known format"),
        (r#"{"nodes": [], "links": []}"#, "of no known format"),
        ("1,2,3\n", "of no known format"),
        ("PK\u{3}\u{4}", "of no known format"),
        (r#"{"schema": "antiphon-schedule/2"}"#, "a schedule of Antiphon, which --schedule takes"),
        (r#"{"topology-name": "Hierarchical", "topologies-per-dim": ["Ring"]}"#, "a network of ASTRA-sim 1.0"),
        (r#"{"logical-dims": ["8"]}"#, "the logical dimensions of ASTRA-sim's ns-3"),
        ("// BookSim\ntopology = mesh;\nk = 8;\n", "a configuration of BookSim"),
        ("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\n", "what nvidia-smi topo prints"),
    ] {
        let error = Fabric::from_text("t", text).unwrap_err();
        assert_eq!(error.code, Code::BadFile);
        let list = "; read are JSON (antiphon-fabric/1), topologies of NCCL, RCCL and lstopo (XML), InfraGraph, networks of ASTRA-sim";
        assert!(error.message.contains(why) && error.message.contains(list), "{text}: {error}");
    }
    // What has our schema is read as such.
    let error = Fabric::from_text("t", r#"{"schema": "antiphon-fabric/2", "nodes": [], "links": []}"#).unwrap_err();
    assert!(error.message.contains("schema 'antiphon-fabric/2' is not 'antiphon-fabric/1'"), "{error}");
}

#[test]
fn boxes_on_rails() {
    let path = std::env::temp_dir().join(format!("antiphon-box-{}.xml", std::process::id()));
    let parse = |text: &str, end: &str| {
        std::fs::write(&path, text).unwrap();
        Fabric::parse(&format!("{}{end}", path.display()))
    };
    let fabric = parse(NCCL, "*3@rails").unwrap();
    assert_eq!((fabric.ranks(), fabric.name.ends_with("*3@rails")), (9, true));
    let names: Vec<&str> = (0..9).map(|rank| fabric.nodes[fabric.node_of_rank(rank) as usize].name.as_str()).collect();
    assert_eq!((names[0], names[4], names[8]), ("box0.gpu0", "box1.gpu1", "box2.gpu2"));
    let one = links(&parse(NCCL, "").unwrap());
    let found = links(&fabric);
    // Each box as it is alone, but for its ports, which are the switches that all share.
    assert_eq!(found.len(), 3 * one.len());
    for line in [
        "box1.cpu0=box1.cpu1 cpu 22",
        "box2.gpu0=box2.gpu2 nvlink 41.2",
        "box0.nic-0000:13:00.0=rail0 rail 50",
        "box2.nic-0000:13:00.0=rail0 rail 50",
        "box2.nic-0000:13:00.0=rail1 rail 1.25",
    ] {
        assert!(found.contains(&line.to_string()), "{line}: {found:?}");
    }
    let rail = fabric.links.iter().find(|link| link.dimension == "rail").unwrap();
    assert_eq!(rail.latency, Some(1_500_000));
    let said = fabric.notes.0.last().unwrap();
    assert!(
        said.starts_with("3 boxes are joined by 2 switches, rail0 and so on")
            && said.contains("(mlx5_0, mlx5_1), by links of 1.25 to 50 GB/s"),
        "{said}"
    );
    assert!(fabric.notes.0[0].starts_with("of each box: 2 links without a rate"), "{:?}", fabric.notes);
    // What is given comes before what the file says, and is not noted as missing.
    let fabric = parse(NCCL, "@7*2@rails:25/2us/5pJ").unwrap();
    let rails: Vec<_> = fabric.links.iter().filter(|link| link.dimension == "rail").collect();
    assert_eq!((rails.len(), fabric.notes.0.len()), (8, 1));
    assert!(rails.iter().all(|link| (link.rate.unwrap().as_gb_per_s(), link.latency) == (25.0, Some(2_000_000))));
    assert!(fabric.links.iter().all(|link| link.pj_per_bit() == (link.dimension == "rail").then_some(5.0)));
    // Names of a file with degradations are those of the whole.
    assert_eq!(parse(NCCL, "*2@rails,dead=5").unwrap().ranks(), 5);
    // A file that does not say how fast its cards are.
    assert!(
        parse(LSTOPO, "*2@rails")
            .unwrap_err()
            .message
            .contains("does not say how fast its network cards are; write for example *4@rails:50/1us")
    );
    let fabric = parse(LSTOPO, "*2@rails:50/1us").unwrap();
    assert!(links(&fabric).contains(&"box1.mlx5_0=rail0 rail 50".to_string()));
    // Cards for clusters join boxes, and no others.
    let cards: Vec<(&str, usize)> = vec![("2", 2), ("3", 1), ("32", 1), ("16", 2)];
    for (kind, rails) in cards {
        let card = |bus: &str, kind: &str| {
            format!(
                r#"<object type="PCIDev" gp_index="9{bus}" pci_busid="{bus}" pci_type="0200 [15b3:1017]"><object type="OSDev" gp_index="8{bus}" name="c{bus}" osdev_type="{kind}"/></object>"#
            )
        };
        let gpu = |bus: &str| {
            format!(r#"<object type="PCIDev" gp_index="7{bus}" pci_busid="{bus}" pci_type="1200 [1002:74a1]"/>"#)
        };
        let text = format!(
            r#"<topology><object type="Machine" gp_index="1"><object type="Bridge" gp_index="2">{}{}{}{}</object></object></topology>"#,
            gpu("1"),
            gpu("2"),
            card("3", "2"),
            card("4", kind)
        );
        let fabric = parse(&text, "*2@rails:50").unwrap();
        let found = fabric.nodes.iter().filter(|node| node.name.starts_with("rail")).count();
        assert_eq!(found, rails, "{kind}");
    }
    for (text, end, code, why) in [
        (NCCL, "*1@rails", Code::BadSpec, "1 box(es); rails join at least 2"),
        (NCCL, "*2@rails:fast", Code::BadSpec, "'@fast' is not @RATE"),
        (NCCL, "*4000000000@rails", Code::TooLarge, "4000000000 boxes of 3 ranks, "),
        (NCCL, "*99999999999999999999999@rails", Code::TooLarge, "boxes of 3 ranks, "),
        (NCCL, "*1366@rails", Code::TooLarge, "at most 4096 ranks"),
        (INFRAGRAPH, "*2@rails", Code::BadSpec, "that a topology of NCCL or lstopo names, and this file names none"),
        (
            r#"{"schema": "antiphon-fabric/1", "nodes": [{}, {}], "links": [{"from": 0, "to": 1}]}"#,
            "*2@rails",
            Code::BadSpec,
            "names none",
        ),
    ] {
        let error = parse(text, end).unwrap_err();
        assert_eq!(error.code, code, "{end}: {error}");
        assert!(error.message.contains(why), "{end}: {error}");
    }
    std::fs::remove_file(&path).unwrap();
    let error = Fabric::parse("dgx1v*4@rails").unwrap_err();
    assert!(
        error.message.contains("no fabric 'dgx1v*4") || error.message.contains("those of a machine are a number"),
        "{error}"
    );
}

#[test]
fn what_is_read_goes_to_json_and_back() {
    for text in [NCCL, LSTOPO, INFRAGRAPH, SIMAI] {
        let fabric = read(text);
        assert_eq!(Fabric::from_json("t", &fabric.to_json()).unwrap(), fabric);
    }
}

#[test]
fn hostile_files_get_one_line() {
    let component = |what: &str| {
        format!(
            "devices: [{{name: d, components: [{what}], edges: []}}]\ninstances: [{{name: i, device: d, count: 1}}]\n"
        )
    };
    let edge = |what: &str| {
        format!(
            "devices: [{{name: d, components: [{{name: x, choice: xpu, count: 3}}], edges: [{{{what}}}]}}]\ninstances: [{{name: i, device: d, count: 1}}]\n"
        )
    };
    let x = "ep1: {component: x}, ep2: {component: x}, link: l";
    let pci = |what: &str| format!("<system><cpu numaid=\"0\"><pci busid=\"1\" {what}></pci></cpu></system>");
    let gpu = |what: &str| {
        format!(
            "<system><cpu numaid=\"0\"><pci busid=\"1\" class=\"0x03\"><gpu sm=\"90\">{what}</gpu></pci></cpu></system>"
        )
    };
    let matrix = |what: &str| LSTOPO.replace("nbobjs=\"4\"", what);
    for (text, code, why) in [
        (pci("class=\"0x06\" link_width=\"99\""), Code::BadFile, "line 1: <pci>: link_width is 99"),
        (pci("class=\"0x06\" link_width=\"x\""), Code::BadFile, "link_width is 'x', expected a whole number"),
        ("<system><cpu><pci/></cpu></system>".into(), Code::BadFile, "<cpu>: numaid is missing"),
        ("<system><cpu numaid=\"0\"/><cpu numaid=\"0\"/></system>".into(), Code::BadFile, "two nodes 'cpu0'"),
        ("<system><cpu numaid=\"0\"><gpu/></cpu></system>".into(), Code::BadFile, "a GPU is within its <pci>"),
        (gpu("<nvlink target=\"2\" count=\"4294967296\"/>"), Code::BadFile, "count is 4294967296, expected 1 to 1024"),
        (gpu("<nvlink count=\"1\"/>"), Code::BadFile, "target is missing"),
        (gpu("<c2c bw=\"-5\" count=\"1\"/>"), Code::BadFile, "bw is '-5'"),
        (gpu(""), Code::BadSpec, "1 rank(s)"),
        ("<system/>".into(), Code::BadSpec, "0 rank(s)"),
        ("<topology/>".into(), Code::BadFile, "no GPU"),
        ("<graphs/>".into(), Code::BadFile, "NCCL_TOPO_DUMP_FILE"),
        ("<algo/>".into(), Code::BadFile, "--schedule"),
        ("<graphml/>".into(), Code::BadFile, "Fabric.from_graphml"),
        (
            "<html/>".into(),
            Code::BadFile,
            "XML of no known format: <html>; read are JSON (antiphon-fabric/1), topologies of NCCL",
        ),
        (matrix("nbobjs=\"4000000000\""), Code::BadFile, "nbobjs is not 1 to 4096"),
        (matrix("nbobjs=\"5\""), Code::BadFile, "4 indexes and 16 numbers, expected 5 and 25"),
        (component("{name: x, choice: xpu, count: 1000000000000}"), Code::TooLarge, "count is 1000000000000"),
        (component("{name: x, choice: xpu, count: -1}"), Code::BadFile, "count is '-1'"),
        (component("{name: x, choice: xpu}"), Code::BadFile, "line 1: count is missing"),
        (component("{name: d, choice: device, count: 2}"), Code::BadFile, "is 'd' part of itself?"),
        (component("{name: e, choice: device, count: 1}"), Code::BadFile, "there is no device 'e'; did you mean 'd'?"),
        (edge(&format!("{x}, scheme: ring")), Code::BadFile, "scheme is 'ring'"),
        (edge(x), Code::BadFile, "scheme is missing"),
        (edge("ep1: {component: y}, ep2: {component: x}, link: l, scheme: one2one"), Code::BadFile, "no component 'y'"),
        (edge("ep1: {component: 'x[7]'}, ep2: {component: x}, link: l, scheme: one2one"), Code::BadFile, "there are 3"),
        (
            edge("ep1: {component: 'x[::0]'}, ep2: {component: x}, link: l, scheme: one2one"),
            Code::BadFile,
            "a step of 0",
        ),
        (edge("ep1: {component: 'x[0'}, ep2: {component: x}, link: l, scheme: one2one"), Code::BadFile, "no ]"),
        ("instances: 3\ndevices: x\n".into(), Code::BadFile, "is no list"),
        (
            component("{name: x, type: xpu, count: 2}"),
            Code::BadFile,
            "'type' instead of 'choice': InfraGraph before 3.1",
        ),
        (
            "devices:\n- name: d\n  connections: [x.0.l.y.0]\n".into(),
            Code::BadFile,
            "line 2: 'connections' instead of 'edges': InfraGraph before",
        ),
        ("devices: [{name: d, components: []}]".into(), Code::BadFile, "devices alone are no fabric"),
    ] {
        let error = Fabric::from_text("t", &text).unwrap_err();
        assert_eq!(error.code, code, "{text}: {error}");
        assert!(error.message.starts_with("fabric 't': ") && error.message.contains(why), "{text}: {error}");
    }
}

/// Small files that would make much, each refused before there is memory for it.
#[test]
fn files_that_grow_are_refused() {
    // Devices within devices, without one component that is a node: ten in each of ten.
    let level = |n: u32| {
        format!("- {{name: d{n}, components: [{{name: d{}, choice: device, count: 10}}], edges: []}}\n", n + 1)
    };
    let nested: String = (0..10).map(level).collect();
    let nested = format!(
        "devices:\n{nested}- {{name: d10, components: [], edges: []}}\ninstances: [{{name: i, device: d0, count: 1}}]\n"
    );
    let all = "{ep1: {component: x}, ep2: {component: x}, link: l, scheme: many2many}";
    let pairs = format!(
        "devices: [{{name: d, components: [{{name: x, choice: cpu, count: 8000}}], edges: [{all}]}}]\ninstances: [{{name: i, device: d, count: 1}}]\n"
    );
    let processors: String = (0..3000).map(|n| format!("<cpu numaid=\"{n}\"/>")).collect();
    for (text, why) in [
        (nested, "more than 32768 components"),
        (pairs, "more than 2097152 pairs"),
        (format!("<system>{processors}</system>"), "more than 2097152 directed links"),
    ] {
        let error = Fabric::from_text("t", &text).unwrap_err();
        assert_eq!((error.code, error.message.contains(why)), (Code::TooLarge, true), "{error}");
    }
}
