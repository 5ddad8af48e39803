//! The forms of MSCCL++'s own plans and of the examples of its language.

use super::*;

fn others(rank: u32, ranks: u32) -> Vec<u32> {
    (0..ranks).filter(|&other| other != rank).collect()
}

/// Where a rank is among the others of another.
fn slot(rank: u32, of: u32) -> u32 {
    if rank < of { rank } else { rank - 1 }
}

/// What MSCCL++'s own `allreduce_pkt` is: packets of each part to its owner, the sums by packets to all, with no `nop` anywhere.
fn all_reduce_of_packets(n: u32) -> String {
    let gpu = |rank: u32| -> Own {
        let peers = others(rank, n);
        let blocks = (0..n).map(|tb| {
            let mut ops = vec![];
            if let Some(&peer) = peers.get(tb as usize) {
                ops.push(format!("ppkt i{}:{n} > b{tb}.{}:{n}", peer * n, slot(rank, peer) * n));
            }
            let own = rank * n + tb;
            let terms: Vec<String> = peers.iter().map(|&peer| format!("s{}", slot(peer, rank) * n + tb)).collect();
            let sends = peers
                .iter()
                .enumerate()
                .map(|(at, &peer)| format!("b{at}.{}", n * (n - 1) + slot(rank, peer) * n + tb));
            let sends: Vec<String> = sends.collect();
            ops.push(format!("respkt i{own} {} > i{own} {}", terms.join(" "), sends.join(" ")));
            if tb != rank {
                ops.push(format!("upkt s{}:{n} > i{}:{n}", n * (n - 1) + slot(tb, rank) * n, tb * n));
            }
            ((0..n - 1).collect(), (0..n - 1).collect(), ops.join(", "))
        });
        (2 * n * (n - 1), peers.clone(), peers.iter().map(|peer| format!("{peer}s")).collect(), blocks.collect())
    };
    plan_of("allreduce", (n * n, n * n), true, &(0..n).map(gpu).collect::<Vec<_>>())
}

/// What `alltoall_ring` is, in place with semaphores, and `alltoall_ring_oop`: one thread block puts and signals, another waits at the
/// same channels and copies.
fn all_to_all(n: u32, in_place: bool) -> String {
    let gpu = |rank: u32| -> Own {
        let peers = others(rank, n);
        let ids: Vec<String> = (0..n - 1).map(|at| (2 * at + 1).to_string()).collect();
        let mut puts = vec![format!("rlxsignal {}", ids.join(" ")), format!("rlxwait {}", ids.join(" ")), "nop".into()];
        let mut copies = vec![];
        for step in 1..n {
            let (to, from) = ((rank + step) % n, (rank + n - step) % n);
            let (out, back) = (slot(to, rank), slot(from, rank));
            puts.push(format!("put i{to} > b{out}.{}, nop, signal {}", slot(rank, to), 2 * out));
            if in_place {
                puts.push(format!("sem_release {out}"));
                copies.push(format!("sem_acquire {back}"));
            }
            copies.push(format!("wait {}, nop, copy s{back} > {}{from}", 2 * back, if in_place { "i" } else { "o" }));
        }
        if !in_place {
            puts.push(format!("copy i{rank} > o{rank}"));
        }
        let channels: Vec<u32> = (0..2 * (n - 1)).collect();
        let blocks =
            vec![(channels.clone(), (0..n - 1).collect(), puts.join(", ")), (channels, vec![], copies.join(", "))];
        let connected = peers.iter().flat_map(|&peer| [peer, peer]).collect();
        (n - 1, connected, peers.iter().map(|peer| format!("{peer}s")).collect(), blocks)
    };
    plan_of("alltoall", (n, n), in_place, &(0..n).map(gpu).collect::<Vec<_>>())
}

/// The forms of MSCCL++'s own plans and of the examples of its language.
fn shipped() -> Vec<(&'static str, String)> {
    let gather = |rank: u32| -> Own {
        let ops = format!("rlxsignal 0, rlxwait 0, nop, put o{rank} > b0.{rank}, nop, signal 0, wait 0, nop");
        (0, vec![1 - rank], vec![format!("{}o", 1 - rank)], vec![(vec![0], vec![0], ops)])
    };
    // A copy, then a wait: it only delays.
    let waits = |rank: u32| -> Own {
        let other = 1 - rank;
        let puts = format!("copy i{rank} > o{rank}, put i{other} > b0.0, nop, signal 0");
        let takes = format!("wait 0, nop, copy s0 > o{other}, wait 1, nop");
        let blocks = vec![(vec![0, 1], vec![0], puts + ", signal 1"), (vec![0, 1], vec![], takes)];
        (1, vec![other, other], vec![format!("{other}s")], blocks)
    };
    vec![
        ("packets of 2", all_reduce_of_packets(2)),
        ("packets of 3", all_reduce_of_packets(3)),
        ("all-to-all", all_to_all(3, true)),
        ("out of place", all_to_all(3, false)),
        ("gather", plan_of("allgather", (1, 2), true, &[gather(0), gather(1)])),
        ("waits", plan_of("alltoall", (2, 2), false, &[waits(0), waits(1)])),
    ]
}

#[test]
fn forms_of_shipped_plans_are_proven() {
    for (name, text) in shipped() {
        println!("{name}");
        proven(&text);
    }
}

/// Of their changed forms none is proven that runs wrong.
#[test]
fn no_mutant_of_a_shipped_form_is_proven_that_runs_wrong() {
    let mut random = Random(11);
    let (mut mutants, mut accepted) = (0, 0);
    for (name, text) in shipped() {
        let whole = read(&text, Watch::default()).unwrap();
        let kind = whole.collective().kind;
        for _ in 0..40 {
            let Some(changed) = mutant(&whole, &mut random) else { continue };
            mutants += 1;
            let text = serde_json::to_string(&changed).unwrap();
            let Ok(plan) = read(&text, Watch::default()).and_then(|plan| plan.prove(Watch::default()).map(|_| plan))
            else {
                continue;
            };
            accepted += 1;
            for turn in turns(&plan, 20) {
                run(&plan, kind, 0, turn).unwrap_or_else(|error| panic!("{name} {turn:?}: {error}: {text}"));
            }
        }
    }
    println!("{mutants} mutants, {accepted} proven");
    assert!(mutants > 120 && accepted < mutants / 2, "{mutants} {accepted}");
}
