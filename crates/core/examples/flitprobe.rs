use antiphon_core::{algorithm, collective::*, fabric::Fabric, simulate::*, system::System};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let fabric = Fabric::parse(&a[1]).unwrap();
    let system = System::preset(&a[4]).unwrap();
    let bytes = antiphon_core::units::parse_bytes(&a[3]).unwrap();
    let s = algorithm::build(&fabric, &system, Collective::new(Kind::AllReduce), bytes, &a[2]).unwrap();
    for f in Fidelity::ALL {
        let start = std::time::Instant::now();
        match simulate(&fabric, &s, &system, f, &mut |_| true) {
            Ok(r) => {
                let t = start.elapsed().as_secs_f64();
                println!(
                    "{} {} ns  {:.3} s  {:.2} Mfh/s events {}",
                    f.name(),
                    r.time_ps as f64 / 1000.,
                    t,
                    r.flit_hops as f64 / t / 1e6,
                    r.events
                )
            }
            Err(e) => println!("{}: {}", f.name(), e),
        }
    }
}
