use antiphon_core::{algorithm, collective::*, fabric::Fabric, simulate::*, system::System};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let limit: u64 = a[1].parse().unwrap();
    let only = a[2].clone();
    let mut sys = System::preset("tto").unwrap();
    for kv in &a[3..] {
        let (k, v) = kv.split_once('=').unwrap();
        let v: u64 = v.parse().unwrap();
        match k {
            "ni" => sys.interface.depth_packets = v,
            "depth" => sys.router.depth_flits = v as u32,
            "vcs" => sys.router.virtual_channels = v as u32,
            "oq" => sys.router.output_queue_flits = Some(v as u32),
            "ho" => sys.router.hand_off_ps = v,
            "credit" => sys.router.credit_cycles = v as u32,
            "is" => sys.router.input_speedup = v as u32,
            _ => panic!(),
        }
    }
    let mut sums = std::collections::BTreeMap::<String, (f64, f64, f64, f64, u32)>::new();
    for file in ["fig8_bandwidth", "fig9_scalability"] {
        let text = std::fs::read_to_string(format!("data/tto/{file}.csv")).unwrap();
        let mut lines = text.lines();
        let head: Vec<&str> = lines.next().unwrap().split(',').collect();
        let col = |n: &str| head.iter().position(|h| *h == n).unwrap();
        for line in lines {
            let f: Vec<&str> = line.split(',').collect();
            let spec = match f[col("algorithm")] {
                "Ring" => "ring",
                "Ring-2D" => "ring-2d",
                "DBTree" => "dbtree:mapping=four-per-router",
                "MultiTree" => "multitree",
                "RingBiEven" => "ring-bi",
                "RingBiOdd" => "ring-bi-odd:excluded=centre",
                "TTO" => "tto",
                _ => panic!(),
            };
            if only != "all" && !spec.starts_with(&only) {
                continue;
            }
            if only == "ring" && spec != "ring" {
                continue;
            }
            let n: u64 = f[col("nodes")].parse().unwrap();
            let d = n.isqrt();
            let bytes: u64 = f[col("data_bytes")].parse().unwrap();
            let cycles: f64 = f[col("cycles")].parse().unwrap();
            let hops: u64 = f[col("flit_hops")].parse().unwrap();
            if hops > limit {
                continue;
            }
            let fabric = Fabric::parse(&format!("mesh:{d}x{d}")).unwrap();
            let s = algorithm::build(&fabric, &sys, Collective::new(Kind::AllReduce), bytes, spec).unwrap();
            let mut s = s;
            match std::env::var("ISSUE").as_deref() {
                Ok("strict") => s.issue = antiphon_core::schedule::Issue::StrictSteps,
                Ok("steps") => s.issue = antiphon_core::schedule::Issue::Steps,
                _ => {}
            }
            if let Ok(v) = std::env::var("VAR") {
                let phases: Vec<u32> = s.transfers.iter().map(|t| t.phase).collect();
                let steps: Vec<u32> = s.transfers.iter().map(|t| t.step).collect();
                let only: Vec<u32> = v[1..].chars().filter_map(|c| c.to_digit(10)).collect();
                for t in &mut s.transfers {
                    let ph = t.phase;
                    if !only.contains(&ph) {
                        continue;
                    }
                    let mut old: Vec<u32> = t.after.iter().copied().filter(|&a| phases[a as usize] < ph).collect();
                    old.sort_by_key(|&a| (phases[a as usize], steps[a as usize]));
                    t.after.retain(|&a| phases[a as usize] == ph);
                    match &v[..1] {
                        "f" => t.after.extend(old.first()),
                        "n" => {}
                        _ => panic!(),
                    }
                }
            }
            let r = simulate(&fabric, &s, &sys, Fidelity::Flit, &mut |_| true).unwrap();
            let p = simulate(&fabric, &s, &sys, Fidelity::Packet, &mut |_| true).unwrap();
            let e = 100.0 * (r.time_ps as f64 / 1000. / cycles - 1.);
            let ep = 100.0 * (p.time_ps as f64 / 1000. / cycles - 1.);
            println!("{d}x{d} {spec} {bytes}: artifact {cycles} flit {e:+.2} % packet {ep:+.2} %");
            let s = sums.entry(spec.into()).or_default();
            s.0 += e.abs();
            s.1 = s.1.max(e.abs());
            s.2 += ep.abs();
            s.3 = s.3.max(ep.abs());
            s.4 += 1;
        }
    }
    for (k, v) in sums {
        println!(
            "{k}: flit mean {:.3} max {:.2}; packet mean {:.3} max {:.2}; {} points",
            v.0 / v.4 as f64,
            v.1,
            v.2 / v.4 as f64,
            v.3,
            v.4
        )
    }
}
