//! GOAL files, run by a small interpreter: everything matches and ends, and what a schedule waits for has happened.

use super::machine::Random;
use super::msccl::SCHEDULES;
use crate::prelude::*;
use antiphon_base::watch::Watch;
use antiphon_formats::{FileFormat, goal::Goal, of_text};
use antiphon_model::schedule::Event;
use std::collections::{HashMap, HashSet};

#[derive(Debug, Clone)]
struct Operation {
    sends: bool,
    bytes: u64,
    peer: usize,
    tag: u64,
    requires: Vec<String>,
}

/// The operations of every rank, by label.
fn parse(text: &str) -> Vec<BTreeMap<String, Operation>> {
    let mut ranks: Vec<BTreeMap<String, Operation>> = vec![];
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let count: usize = lines.next().unwrap().strip_prefix("num_ranks ").unwrap().parse().unwrap();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["rank", rank, "{"] => {
                assert_eq!(rank.parse::<usize>().unwrap(), ranks.len());
                ranks.push(BTreeMap::new());
            }
            ["}"] => {}
            [label, "requires", other] => {
                let operation = ranks.last_mut().unwrap().get_mut(label).unwrap();
                operation.requires.push(other.into());
            }
            [label, what, bytes, way, peer, "tag", tag] => {
                let sends = what == "send";
                assert_eq!((what, way), if sends { ("send", "to") } else { ("recv", "from") });
                let number = |text: &str| text.parse::<u64>().unwrap();
                let (peer, bytes) = (number(peer) as usize, number(bytes.strip_suffix('b').unwrap()));
                let operation = Operation { sends, bytes, peer, tag: number(tag), requires: vec![] };
                let label = label.strip_suffix(':').unwrap().to_string();
                assert!(ranks.last_mut().unwrap().insert(label, operation).is_none());
            }
            _ => panic!("{line}"),
        }
    }
    assert_eq!(ranks.len(), count);
    ranks
}

/// Runs a file in a random order; what was done, as (rank, whether it sends, peer, tag), or what went wrong.
fn run(text: &str, seed: u64) -> Result<Vec<(usize, bool, usize, u64)>, String> {
    let ranks = parse(text);
    let mut random = Random(seed);
    let mut done: HashSet<(usize, &str)> = HashSet::new();
    let mut messages: HashMap<(usize, usize, u64), u64> = HashMap::new();
    let mut order = vec![];
    loop {
        let mut ready = vec![];
        for (rank, operations) in ranks.iter().enumerate() {
            for (label, operation) in operations {
                let free = !done.contains(&(rank, label.as_str()))
                    && operation.requires.iter().all(|other| done.contains(&(rank, other.as_str())));
                if free && (operation.sends || messages.contains_key(&(operation.peer, rank, operation.tag))) {
                    ready.push((rank, label));
                }
            }
        }
        if ready.is_empty() {
            break;
        }
        // Several at once, so that long files end soon.
        for _ in 0..1 + ready.len() / 2 {
            let (rank, label) = ready.swap_remove(random.below(ready.len()));
            let operation = &ranks[rank][label];
            done.insert((rank, label));
            order.push((rank, operation.sends, operation.peer, operation.tag));
            if operation.sends {
                if messages.insert((rank, operation.peer, operation.tag), operation.bytes).is_some() {
                    return Err("a tag is used twice".into());
                }
            } else if messages.remove(&(operation.peer, rank, operation.tag)) != Some(operation.bytes) {
                return Err("sizes differ".into());
            }
            if ready.is_empty() {
                break;
            }
        }
    }
    match done.len() == ranks.iter().map(BTreeMap::len).sum::<usize>() && messages.is_empty() {
        true => Ok(order),
        false => Err("deadlock, or a message that nobody takes".into()),
    }
}

/// Checks that in an order of a run everything waited for has happened.
fn follows(schedule: &Schedule, order: &[(usize, bool, usize, u64)]) {
    // Messages of a pair are numbered in order of service.
    let mut numbers: HashMap<(u32, u32), u64> = HashMap::new();
    let mut messages: Vec<(u32, u64)> = vec![];
    for (id, transfer) in (0u32..).zip(&schedule.transfers) {
        messages.extend((0..schedule.chunks(transfer)).map(|chunk| (id, chunk)));
    }
    messages.sort_by_key(|&(id, chunk)| {
        let transfer = &schedule.transfers[id as usize];
        (transfer.phase, schedule.slot(transfer, chunk), id, chunk)
    });
    let mut names: HashMap<(u32, u32, u64), (u32, u64)> = HashMap::new();
    for (id, chunk) in messages {
        let transfer = &schedule.transfers[id as usize];
        let number = numbers.entry((transfer.from, transfer.to)).or_default();
        names.insert((transfer.from, transfer.to, *number), (id, chunk));
        *number += 1;
    }
    let mut happened: HashSet<(u32, u64, Event)> = HashSet::new();
    for &(rank, sends, peer, tag) in order {
        let (from, to) = if sends { (rank, peer) } else { (peer, rank) };
        let (id, chunk) = names[&(from as u32, to as u32, tag)];
        let transfer = &schedule.transfers[id as usize];
        let waits: Vec<_> = if sends { transfer.start_after.to_vec() } else { transfer.apply_after.to_vec() };
        for wait in waits {
            let Some(earlier) = chunk.checked_sub(wait.lag() as u64) else { continue };
            assert!(happened.contains(&(wait.transfer(), earlier, wait.event())), "{id} {chunk} {wait:?}");
        }
        happened.insert((id, chunk, if sends { Event::Sent } else { Event::Applied }));
    }
}

#[test]
fn files_match_end_and_keep_the_order() {
    let every = sweep(4, 1);
    let mut written = 0;
    for (at, (fabric, schedule)) in SCHEDULES.iter().enumerate().step_by(every) {
        if schedule.messages() > 3000 {
            continue;
        }
        let text = Goal.write(schedule, "loggopsim", Watch::default()).unwrap();
        let order =
            run(&text, at as u64).unwrap_or_else(|error| panic!("{} on {}: {error}", schedule.algorithm, fabric.name));
        assert_eq!(order.len() as u64, 2 * schedule.messages());
        follows(schedule, &order);
        written += 1;
    }
    println!("{written} written");
    assert!(written * every > 200, "{written}");
}

#[test]
fn a_small_file() {
    let fabric = Fabric::parse("mesh:3").unwrap();
    let system = System::preset("generic").unwrap();
    let schedule = algorithm::build(&fabric, &system, Collective::new(Kind::Broadcast), 12, "multitree").unwrap();
    let text = Goal.write(&schedule, "loggopsim", Watch::default()).unwrap();
    let wanted = "num_ranks 3\n\nrank 0 {\nl1: send 12b to 1 tag 0\n}\n\nrank 1 {\nl1: recv 12b from 0 tag 0\nl2: send 12b to 2 tag 0\n\
                  l2 requires l1\n}\n\nrank 2 {\nl1: recv 12b from 1 tag 0\n}\n";
    assert_eq!(text, wanted);
    assert!(run(&text.replace("tag 0", "tag 1"), 1).is_ok());
    assert!(run(&text.replacen("tag 0", "tag 1", 1), 1).is_err());
    assert!(run(&text.replacen("12b", "8b", 1), 1).is_err());
    assert!(
        run(&text.replace("l2 requires l1", "l1 requires l2"), 1).is_ok_and(|order| order[0].0 == 1 || order[1].0 == 1)
    );
    let format = of_text(&text).unwrap().unwrap();
    assert_eq!((format.name(), format.read(&text, Watch::default()).unwrap_err().code), ("goal", Code::NotApplicable));
    assert_eq!(Goal.write(&schedule, "rccl", Watch::default()).unwrap_err().code, Code::UnknownName);
}
