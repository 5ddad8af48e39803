//! Changes of schedules, for tests here and of all algorithms.

use antiphon_model::fabric::Fabric;
use antiphon_model::schedule::{Builder, Dependency, Event, Op, Schedule, Transfer};
use proptest::prelude::*;
use proptest::sample::Index;

/// One change of a schedule.
#[derive(Debug, Clone)]
pub enum Mutation {
    Delete(Index),
    Duplicate(Index, u32),
    FlipOp(Index),
    MoveFrom(Index, u32),
    MoveTo(Index, u32),
    MoveLane(Index, u32),
    DropDependency(Index, Index),
    ReverseDependencies,
    DropHold(Index, Index),
    /// A dependency waits for another event, or another chunk.
    Event(Index, Index),
    Lag(Index, Index, u32),
    /// A wait at the sender becomes one at the receiver.
    Hold(Index, Index),
    SwapSteps(Index, Index),
    SwapPhases(Index, Index),
    SwapLaneRanks(Index, Index),
    Exclude(u32),
    FlipBarrier(Index),
    ForbidUnorderedReductions,
    /// Dependencies, routes and order are derived again, as if it had been built so.
    Rebuild,
}

/// What changes order and waits.
pub fn of_order() -> impl Strategy<Value = Mutation> {
    let index = any::<Index>;
    prop_oneof![
        index().prop_map(Mutation::Delete),
        (index(), 0u32..4).prop_map(|(i, step)| Mutation::Duplicate(i, step)),
        (index(), index()).prop_map(|(i, j)| Mutation::DropDependency(i, j)),
        Just(Mutation::ReverseDependencies),
        (index(), index()).prop_map(|(i, j)| Mutation::DropHold(i, j)),
        (index(), index()).prop_map(|(i, j)| Mutation::Event(i, j)),
        (index(), index(), 0u32..4).prop_map(|(i, j, lag)| Mutation::Lag(i, j, lag)),
        (index(), index()).prop_map(|(i, j)| Mutation::Hold(i, j)),
        (index(), index()).prop_map(|(i, j)| Mutation::SwapSteps(i, j)),
        index().prop_map(Mutation::FlipBarrier),
        Just(Mutation::ForbidUnorderedReductions),
        Just(Mutation::Rebuild),
    ]
}

/// Any, also of what is sent and who has it, of schedules of four ranks or more.
pub fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<Index>;
    prop_oneof![
        12 => of_order(),
        1 => index().prop_map(Mutation::FlipOp),
        1 => (index(), 0u32..4).prop_map(|(i, rank)| Mutation::MoveFrom(i, rank)),
        1 => (index(), 0u32..4).prop_map(|(i, rank)| Mutation::MoveTo(i, rank)),
        1 => (index(), 0u32..4).prop_map(|(i, lane)| Mutation::MoveLane(i, lane)),
        1 => (index(), index()).prop_map(|(i, j)| Mutation::SwapPhases(i, j)),
        1 => (index(), index()).prop_map(|(i, j)| Mutation::SwapLaneRanks(i, j)),
        1 => (0u32..4).prop_map(Mutation::Exclude),
    ]
}

/// Makes a change, if there is anything to be changed.
pub fn apply(fabric: &Fabric, schedule: &mut Schedule, mutation: &Mutation) {
    if schedule.transfers.is_empty() {
        return;
    }
    match mutation {
        Mutation::SwapLaneRanks(one, other) => {
            let lanes = &mut schedule.lanes;
            let (one, other) = (one.index(lanes.len()), other.index(lanes.len()));
            (lanes[one].source, lanes[other].source) = (lanes[other].source, lanes[one].source);
            (lanes[one].owner, lanes[other].owner) = (lanes[other].owner, lanes[one].owner);
        }
        Mutation::Exclude(rank) => schedule.excluded.push(*rank),
        Mutation::FlipBarrier(index) => {
            let at = index.index(schedule.phases.len());
            schedule.phases[at].barrier ^= true;
        }
        Mutation::ForbidUnorderedReductions => schedule.endpoint.serial_reductions = false,
        Mutation::Rebuild => {
            let mut builder = Builder::new("test", fabric, schedule.collective, schedule.bytes);
            builder.schedule = schedule.clone();
            builder.schedule.transfers.iter_mut().for_each(|t| t.start_after.clear());
            if let Ok(rebuilt) = builder.finish() {
                *schedule = rebuilt;
            }
        }
        _ => apply_to_transfers(&mut schedule.transfers, mutation),
    }
}

/// A change of transfers, of which there is one at least.
fn apply_to_transfers(transfers: &mut Vec<Transfer>, mutation: &Mutation) {
    let count = transfers.len();
    match mutation {
        Mutation::Delete(index) => delete(transfers, index.index(count)),
        Mutation::Duplicate(index, step) => {
            let mut copy = transfers[index.index(count)].clone();
            copy.step += step;
            transfers.push(copy);
        }
        Mutation::FlipOp(index) => {
            let op = &mut transfers[index.index(count)].op;
            *op = if *op == Op::Copy { Op::Reduce } else { Op::Copy };
        }
        Mutation::MoveFrom(index, rank) => transfers[index.index(count)].from = *rank,
        Mutation::MoveTo(index, rank) => transfers[index.index(count)].to = *rank,
        Mutation::MoveLane(index, lane) => transfers[index.index(count)].payload = (*lane).into(),
        Mutation::ReverseDependencies => transfers.iter_mut().for_each(|transfer| transfer.start_after.reverse()),
        Mutation::SwapSteps(one, other) => {
            let (one, other) = (one.index(count), other.index(count));
            (transfers[one].step, transfers[other].step) = (transfers[other].step, transfers[one].step);
        }
        Mutation::SwapPhases(one, other) => {
            let (one, other) = (one.index(count), other.index(count));
            (transfers[one].phase, transfers[other].phase) = (transfers[other].phase, transfers[one].phase);
        }
        _ => apply_to_dependencies(transfers, mutation),
    }
}

fn delete(transfers: &mut Vec<Transfer>, gone: usize) {
    transfers.remove(gone);
    let gone = gone as u32;
    for transfer in transfers {
        transfer.start_after.retain(|other| other.transfer() != gone);
        transfer.apply_after.retain(|other| other.transfer() != gone);
        let all = transfer.start_after.iter_mut().chain(&mut transfer.apply_after);
        let later = all.filter(|other| other.transfer() > gone);
        later.for_each(|other| *other = other.of(other.transfer() - 1));
    }
}

/// A change of a dependency, if the transfer that it names has any.
fn apply_to_dependencies(transfers: &mut [Transfer], mutation: &Mutation) {
    let count = transfers.len();
    match mutation {
        Mutation::DropDependency(index, which) => {
            let after = &mut transfers[index.index(count)].start_after;
            if !after.is_empty() {
                after.remove(which.index(after.len()));
            }
        }
        Mutation::DropHold(index, which) => {
            // The index counts only transfers that are held.
            let mut held: Vec<_> = transfers.iter_mut().filter(|transfer| !transfer.apply_after.is_empty()).collect();
            if !held.is_empty() {
                let at = index.index(held.len());
                let after = &mut held[at].apply_after;
                after.remove(which.index(after.len()));
            }
        }
        Mutation::Event(index, which) | Mutation::Lag(index, which, _) => {
            let transfer = &mut transfers[index.index(count)];
            let mut all: Vec<_> = transfer.start_after.iter_mut().chain(&mut transfer.apply_after).collect();
            if !all.is_empty() {
                let at = which.index(all.len());
                let dependency = &mut *all[at];
                *dependency = match mutation {
                    Mutation::Lag(.., lag) => dependency.lagging(*lag),
                    _ => {
                        let event = if dependency.event() == Event::Sent { Event::Applied } else { Event::Sent };
                        Dependency::new(dependency.transfer(), event).lagging(dependency.lag())
                    }
                };
            }
        }
        Mutation::Hold(index, which) => {
            let transfer = &mut transfers[index.index(count)];
            if !transfer.start_after.is_empty() {
                let at = which.index(transfer.start_after.len());
                let dependency = transfer.start_after.remove(at);
                transfer.apply_after.push(dependency);
            }
        }
        _ => unreachable!("it changes no dependency"),
    }
}
