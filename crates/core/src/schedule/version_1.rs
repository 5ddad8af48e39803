//! Version 1 of the JSON form, which is still read.

use super::{Issue, Lane, LaneId, Op, Pacing, Phase, Recommendation, Route, Schedule, Transfer, TransferId};
use crate::collective::Collective;
use crate::fabric::{LinkId, NodeId};
use crate::units::Bytes;
use serde::Deserialize;

/// What its `schema` says.
pub const SCHEMA: &str = "antiphon-schedule/1";

/// What belongs to the endpoint lies among the rest.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "the object of a schedule")]
pub struct Schedule1 {
    #[serde(rename = "schema")]
    _schema: String,
    algorithm: String,
    fabric: String,
    collective: Collective,
    bytes: Bytes,
    ranks: u32,
    #[serde(default)]
    excluded: Vec<u32>,
    #[serde(default)]
    placement: Vec<NodeId>,
    #[serde(default)]
    bundled_links: Vec<LinkId>,
    lanes: Vec<Lane>,
    phases: Vec<Phase>,
    transfers: Vec<Transfer1>,
    issue: Issue,
    pacing: Pacing,
    #[serde(default)]
    interfaces: Option<u32>,
    serial_reductions: bool,
    #[serde(default)]
    conflict_free: bool,
    #[serde(default)]
    known_gaps: Vec<(u32, LaneId)>,
    #[serde(default)]
    known_race: bool,
}

/// One run of lanes, and dependencies on what the sender received.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "the object of a transfer")]
struct Transfer1 {
    from: u32,
    to: u32,
    op: Op,
    lane: LaneId,
    #[serde(default = "one")]
    lanes: u32,
    #[serde(default)]
    phase: u32,
    step: u32,
    route: Route,
    #[serde(default)]
    after: Vec<TransferId>,
}

fn one() -> u32 {
    1
}

impl TryFrom<Schedule1> for Schedule {
    type Error = String;

    /// The same schedule; not checked but for numbers that version 2 cannot hold.
    fn try_from(old: Schedule1) -> Result<Schedule, String> {
        let count = old.transfers.len();
        let transfer = |(id, old): (usize, Transfer1)| {
            let Transfer1 { from, to, op, lane, lanes, phase, step, route, after } = old;
            if let Some(other) = after.iter().find(|&&other| other as usize >= count.min(super::MAX_TRANSFERS)) {
                return Err(format!("transfer {id} waits for transfer {other}, which does not exist"));
            }
            let Some(end) = lane.checked_add(lanes) else {
                return Err(format!("transfer {id} carries {lanes} lanes from lane {lane}"));
            };
            let start_after = after.into_iter().map(Into::into).collect();
            let (payload, apply_after) = ((lane..end).into(), Default::default());
            Ok(Transfer { from, to, op, payload, phase, step, route, start_after, apply_after })
        };
        Ok(Schedule {
            schema: Schedule::SCHEMA.into(),
            algorithm: old.algorithm,
            fabric: old.fabric,
            collective: old.collective,
            bytes: old.bytes,
            matrix: None,
            ranks: old.ranks,
            group: vec![],
            excluded: old.excluded,
            placement: old.placement,
            bundled_links: old.bundled_links,
            lanes: old.lanes,
            phases: old.phases,
            transfers: old.transfers.into_iter().enumerate().map(transfer).collect::<Result<_, _>>()?,
            endpoint: Recommendation {
                issue: old.issue,
                pacing: old.pacing,
                interfaces: old.interfaces,
                serial_reductions: old.serial_reductions,
            },
            conflict_free: old.conflict_free,
            known_gaps: old.known_gaps,
            known_race: old.known_race,
            certificate: None,
        })
    }
}
