//! Switches do no more than they can: they add and multicast as [`SwitchCompute`] says, and keep nothing.

use super::text;
use antiphon_base::error::Result;
use antiphon_base::watch::interruptible;
use antiphon_model::fabric::{Fabric, SwitchCompute};
use antiphon_model::schedule::{Op, Schedule, TransferId};

/// What a switch has of the lane being followed.
#[derive(Clone, Default)]
struct Passing {
    /// Who sent what it has: one, or all that were added.
    from: Vec<u32>,
    is_sum: bool,
    to: Vec<u32>,
    last: TransferId,
}

/// Checks all switches that take part, lane by lane in schedule order. O(lane transfers * members of a group).
///
/// # Errors
/// [`antiphon_base::error::Code::NotProven`], naming the transfer that asks for more.
pub fn check(fabric: &Fabric, schedule: &Schedule) -> Result<()> {
    if schedule.switches.is_empty() {
        return Ok(());
    }
    // `Schedule::check` has seen that all compute.
    let computes: Vec<SwitchCompute> =
        schedule.switches.iter().filter_map(|&node| fabric.nodes[node as usize].compute).collect();
    let place = |participant: u32| participant.checked_sub(schedule.ranks).map(|place| place as usize);
    let fail = |id: TransferId, switch: usize, what: &str| {
        let name = &fabric.nodes[schedule.switches[switch] as usize].name;
        text::not_proven(format!("{}: switch {name} {what}", text::transfer(schedule, id)))
    };
    let written_to_all = |switch: usize, passing: &Passing| {
        let is_of_group = passing.is_sum || passing.to.len() < 2 || passing.to.contains(&passing.from[0]);
        match computes[switch].is_on_read() && !is_of_group {
            true => fail(passing.last, switch, "writes to a group of which the writer is none"),
            false => Ok(()),
        }
    };
    for list in interruptible(schedule.transfers_by_lane()) {
        let mut all = vec![Passing::default(); computes.len()];
        for id in list {
            let transfer = &schedule.transfers[id as usize];
            if let Some(switch) = place(transfer.from) {
                let (compute, passing) = (computes[switch], &mut all[switch]);
                passing.to.push(transfer.to);
                passing.last = id;
                if passing.from.is_empty() {
                    return fail(id, switch, "has received nothing that it could send");
                }
                if passing.to.len() > 1 && !compute.multicasts {
                    return fail(id, switch, "sends to one node only");
                }
                if compute.is_on_read() && passing.is_sum && passing.to.len() > 1 {
                    return fail(
                        id,
                        switch,
                        "sends a sum to the one rank that reads it; that rank writes it to others",
                    );
                }
                if compute.is_on_read() && passing.is_sum && !passing.from.contains(&transfer.to) {
                    return fail(id, switch, "is read by a rank that is none of those whose data it adds");
                }
            }
            if let Some(switch) = place(transfer.to) {
                let passing = &mut all[switch];
                if computes[switch].is_on_read() && transfer.from >= schedule.ranks {
                    return fail(id, switch, "takes data of ranks only");
                }
                if transfer.op == Op::Copy {
                    if !passing.from.is_empty() {
                        written_to_all(switch, passing)?;
                    }
                    *passing = Passing { from: vec![transfer.from], ..Passing::default() };
                    continue;
                }
                if computes[switch].reduces.is_none() {
                    return fail(id, switch, "does not add");
                }
                if !passing.to.is_empty() {
                    return fail(id, switch, "has passed on what this is to be added to");
                }
                passing.from.push(transfer.from);
                passing.is_sum = true;
            }
        }
        for (switch, passing) in all.iter().enumerate().filter(|(_, passing)| !passing.from.is_empty()) {
            written_to_all(switch, passing)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::assert_has;
    use super::super::verify;
    use super::*;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::schedule::{Builder, Lane};
    use antiphon_run::check_by_execution;

    /// All-reduce of three ranks around a switch that is participant 3, in messages `(op, from, to, step)`.
    fn star(mode: &str, messages: &[(Op, u32, u32, u32)]) -> (Fabric, Schedule) {
        let fabric = Fabric::parse(&format!("switch:3,switches={mode}")).unwrap();
        let mut builder = Builder::new("test", &fabric, Collective::new(Kind::AllReduce), 24);
        builder.schedule.switches = vec![3];
        builder.lane(Lane { offset: 0, bytes: 24, chunks: 2, chunk_bytes: 12, stride: 4, source: 0, owner: 0 });
        for &(op, from, to, step) in messages {
            builder.send(op, from, to, 0, step).unwrap();
        }
        let schedule = builder.finish().unwrap();
        (fabric, schedule)
    }

    const UP: [(Op, u32, u32, u32); 3] = [(Op::Reduce, 0, 3, 0), (Op::Reduce, 1, 3, 0), (Op::Reduce, 2, 3, 0)];
    const READ: [(Op, u32, u32, u32); 2] = [(Op::Copy, 3, 1, 1), (Op::Copy, 1, 3, 2)];
    const DOWN: [(Op, u32, u32, u32); 3] = [(Op::Copy, 3, 0, 3), (Op::Copy, 3, 1, 3), (Op::Copy, 3, 2, 3)];

    #[test]
    fn switches_add_and_multicast() {
        let on_read = star("on-read", &[&UP[..], &READ, &DOWN].concat());
        let in_tree = star("in-tree", &[&UP[..], &DOWN].concat());
        for (fabric, schedule) in [on_read, in_tree] {
            assert_eq!(verify(&fabric, &schedule).unwrap().transfers, schedule.transfers.len() as u64);
            for seed in [None, Some(1), Some(2)] {
                check_by_execution(&schedule, seed).unwrap();
            }
        }
    }

    #[test]
    fn they_do_no_more_than_they_can() {
        let refused = |mode: &str, messages: &[&[(Op, u32, u32, u32)]], why: &str| {
            let (fabric, schedule) = star(mode, &messages.concat());
            assert_has(&verify(&fabric, &schedule).unwrap_err().message, &[why]);
        };
        refused("on-read", &[&UP, &DOWN], "switch switch sends a sum to the one rank that reads it");
        refused("on-read", &[&UP[..2], &[(Op::Reduce, 3, 2, 1)]], "is read by a rank that is none");
        refused("on-read", &[&UP, &READ, &[DOWN[0], DOWN[2]]], "writes to a group of which the writer is none");
        refused(
            "in-tree",
            &[&UP[..2], &DOWN[..1], &[(Op::Reduce, 2, 3, 4)]],
            "has passed on what this is to be added to",
        );
        refused("in-tree", &[&[(Op::Copy, 3, 0, 0)]], "has received nothing");
        // Nor do plain ones take part, nor switches that multicast alone add.
        let (fabric, schedule) = star("in-tree", &[&UP[..], &DOWN].concat());
        let plain = Fabric::parse("switch:3").unwrap();
        assert_has(&verify(&plain, &schedule).unwrap_err().message, &["its switch 3 is none that adds or multicasts"]);
        let mut multicasts = fabric;
        multicasts.nodes[3].compute = Some(SwitchCompute { reduces: None, multicasts: true, rate: None });
        assert_has(&verify(&multicasts, &schedule).unwrap_err().message, &["does not add"]);
    }
}
