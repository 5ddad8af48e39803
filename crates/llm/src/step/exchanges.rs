//! Which collectives a step has, what they put on links, and times of them that a library or a schedule takes in place of
//! rings.

use super::StepParts;
use super::graph::StepJob;
use crate::network::{FlowForm, GroupFlow, Wiring};
use crate::parallel::GroupKind;
use antiphon_base::error::Result;
use antiphon_jobs::graph::ExchangeKind;
use antiphon_model::collective::Kind;
use std::collections::BTreeMap;

/// How long a collective takes, for all groups of a kind that are as large.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectiveTimes {
    /// The kind of group.
    pub kind: GroupKind,
    /// What it does; an AllToAll is never taken.
    pub collective: Kind,
    /// Ranks of the group.
    pub ranks: u32,
    /// Boxes that they are in.
    pub boxes: u32,
    /// Bytes of the full buffer and seconds, bytes ascending.
    pub points: Vec<(f64, f64)>,
    /// Whether these are times of one group by itself, rather than of all groups of the kind at once.
    pub is_alone: bool,
}

/// What the times of an exchange are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimedBy {
    /// Rings on links.
    Rings,
    /// Routes of messages between ranks.
    Routes,
    /// Measured AllReduces of the constants.
    Constants,
    /// Given [`CollectiveTimes`].
    Given,
}

impl TimedBy {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            TimedBy::Rings => "rings",
            TimedBy::Routes => "routes",
            TimedBy::Constants => "constants",
            TimedBy::Given => "given",
        }
    }
}

/// Exchanges of a step that are alike.
#[derive(Debug, Clone, PartialEq)]
pub struct StepExchange {
    /// The kind of group.
    pub kind: GroupKind,
    /// What they do; none for messages.
    pub collective: Option<Kind>,
    /// The first such group.
    pub group: Vec<u32>,
    /// Boxes that a group is in.
    pub boxes: u32,
    /// Whether it has as many ranks in each.
    pub is_even: bool,
    /// Bytes of the smallest full buffer.
    pub least_bytes: f64,
    /// Bytes of the largest full buffer.
    pub most_bytes: f64,
    /// What their times are from.
    pub timed_by: TimedBy,
}

/// How many members of a group each of its boxes has.
fn shares(wiring: &dyn Wiring, group: &[u32]) -> Vec<u32> {
    let mut counts = BTreeMap::new();
    group.iter().for_each(|&rank| *counts.entry(wiring.machine(rank)).or_insert(0) += 1);
    counts.into_values().collect()
}

/// The times given for the groups of a kind, the first of which is `group`.
fn given<'a>(of: StepParts<'a>, kind: GroupKind, collective: Kind, group: &[u32]) -> Option<&'a CollectiveTimes> {
    if of.tables.is_empty() || group.len() < 2 || collective == Kind::AllToAll {
        return None;
    }
    let boxes = shares(of.wiring, group).len();
    of.tables.iter().find(|table| {
        let size = (table.ranks as usize, table.boxes as usize);
        (table.kind, table.collective) == (kind, collective) && size == (group.len(), boxes)
    })
}

/// The flow with the times given for it, or none. Groups that share links take longer than one by itself: by as much as
/// their rings would, but for the time of the smallest buffer.
fn with_given(
    of: StepParts,
    (kind, collective): (GroupKind, Kind),
    groups: &[Vec<u32>],
    flow: &GroupFlow,
) -> Result<Option<GroupFlow>> {
    let Some(table) = groups.first().and_then(|group| given(of, kind, collective, group)) else { return Ok(None) };
    let shared = if table.is_alone {
        let alone = GroupFlow::new(of.wiring, FlowForm::Collective(collective), &groups[..1]);
        (flow.seconds_per_byte() / alone.seconds_per_byte()).max(1.0)
    } else {
        1.0
    };
    let first = table.points.first().map_or(0.0, |point| point.1);
    let points = table.points.iter().map(|&(bytes, time)| (bytes, first + (time - first) * shared));
    flow.clone().with_points(points.collect()).map(Some)
}

/// What a collective of the groups of a kind on a stage puts on links.
pub(crate) fn group_flow(of: StepParts, (kind, stage): (GroupKind, u32), collective: Kind) -> Result<GroupFlow> {
    let StepParts { model, plan, constants, wiring, .. } = of;
    let groups = plan.groups(kind, stage);
    let form = match (kind, model.experts) {
        (GroupKind::Expert, Some(of)) => {
            // A token goes once to each box that has one of its experts, at most.
            let mut boxes: Vec<u32> = groups[0].iter().map(|&rank| wiring.machine(rank)).collect();
            boxes.sort_unstable();
            boxes.dedup();
            let most = if of.groups_per_token > 0 { of.groups_per_token } else { of.per_token };
            let copies = (boxes.len() as u64).min(most).min(of.per_token);
            FlowForm::Experts { leaving: copies as f64 / of.per_token as f64 }
        }
        _ => FlowForm::Collective(collective),
    };
    let flow = GroupFlow::new(wiring, form, &groups);
    if let Some(flow) = with_given(of, (kind, collective), &groups, &flow)? {
        return Ok(flow);
    }
    let in_one_box = |group: &Vec<u32>| group.iter().all(|&rank| wiring.machine(rank) == wiring.machine(group[0]));
    let inside = kind == GroupKind::Tensor && collective != Kind::AllToAll && groups.iter().all(in_one_box);
    let points = if inside { constants.points(plan.tensor, collective) } else { vec![] };
    if points.is_empty() { Ok(flow) } else { flow.with_points(points) }
}

/// All exchanges of a step.
pub(super) fn step_exchanges(of: StepParts, built: &StepJob) -> Vec<StepExchange> {
    // For every flow one of its exchanges, and sizes.
    let mut flows = vec![None; built.flows.len()];
    for (exchange, carried) in built.graph.exchanges.iter().zip(&built.carried).filter(|each| each.1.bytes > 0.0) {
        let of_flow = flows[carried.flow as usize].get_or_insert((&exchange.kind, carried.bytes, carried.bytes));
        (of_flow.1, of_flow.2) = (of_flow.1.min(carried.bytes), of_flow.2.max(carried.bytes));
    }
    let mut found = BTreeMap::<(GroupKind, Option<u8>, usize, usize), StepExchange>::new();
    for ((flow, &(kind, stage)), exchange) in built.flows.iter().zip(&built.flow_keys).zip(flows) {
        let Some((exchange, least_bytes, most_bytes)) = exchange else { continue };
        let (collective, group) = match *exchange {
            ExchangeKind::Message { from, to, .. } => (None, of.plan.neighbours(from, to)[0].to_vec()),
            ExchangeKind::Collective(collective) => (Some(collective.kind), of.plan.groups(kind, stage).swap_remove(0)),
            _ => continue,
        };
        let shares = shares(of.wiring, &group);
        let timed_by = match collective {
            None | Some(Kind::AllToAll) => TimedBy::Routes,
            Some(collective) if given(of, kind, collective, &group).is_some() => TimedBy::Given,
            Some(_) if flow.has_points() => TimedBy::Constants,
            Some(_) => TimedBy::Rings,
        };
        let key = (kind, collective.map(|collective| collective as u8), group.len(), shares.len());
        let (boxes, is_even) = (shares.len() as u32, shares.iter().all(|&share| share == shares[0]));
        let new = StepExchange { kind, collective, group, boxes, is_even, least_bytes, most_bytes, timed_by };
        let alike = found.entry(key).or_insert(new);
        (alike.least_bytes, alike.most_bytes) = (alike.least_bytes.min(least_bytes), alike.most_bytes.max(most_bytes));
        alike.is_even &= is_even;
    }
    found.into_values().filter(|exchange| exchange.group.len() > 1).collect()
}
