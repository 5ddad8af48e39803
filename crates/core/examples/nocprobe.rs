use antiphon_core::fabric::Fabric;
use antiphon_core::noc::synthetic::Experiment;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let fabric = Fabric::parse(&a[1]).unwrap();
    let mut e = Experiment::new(a[2].parse().unwrap());
    e.packet_flits = a[3].parse().unwrap();
    e.cycles = Some(a[4].parse().unwrap());
    let start = std::time::Instant::now();
    let m = e.run(&fabric, &mut |_| true).unwrap();
    let t = start.elapsed().as_secs_f64();
    println!(
        "{:.3} Mfh/s, {:.2} s, lat {:.4} events/fh {:.2}",
        m.flit_hops as f64 / t / 1e6,
        t,
        m.packet_latency_cycles.mean,
        m.events as f64 / m.flit_hops as f64
    );
}
