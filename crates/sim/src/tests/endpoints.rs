//! What ranks on the way store.

use super::*;

fn system(endpoint: &str) -> System {
    let mut system = System::preset("ideal").unwrap();
    system.set("packet_payload_bytes", "8KiB").unwrap();
    system.set("endpoint", endpoint).unwrap();
    system
}

/// On a line of three what goes from end to end is stored in the middle, which reads it once more.
#[test]
fn ranks_on_the_way_store_messages() {
    let fabric = Fabric::parse("mesh:3@10/100ns").unwrap();
    let collective = Collective::new(Kind::AllToAll);
    let schedule = algorithm::build(&fabric, &system("system"), collective, 9 * 8_192, "direct").unwrap();
    let legs = |endpoint: &str| {
        let (flights, system) = ([Flight::unproven(&schedule)], system(endpoint));
        let plan = RunPlan::new(&fabric, &flights, &system).unwrap();
        plan.jobs.iter().map(|job| plan.route(job).len()).collect::<Vec<_>>()
    };
    let whole = legs("system");
    assert_eq!((whole.len(), whole.iter().sum::<usize>()), (6, 8));
    assert_eq!(legs("npu"), vec![1; 8]);
    assert_eq!(legs("ace"), whole);
    let time = |endpoint: &str| simulate(&fabric, &schedule, &system(endpoint), Fidelity::Packet, &mut |_| true);
    assert!(time("npu").unwrap().time_ps > time("ideal").unwrap().time_ps + 8_192 * 1000 / 450);
}
