//! What a page plays: what each link carried and how much each rank had, window by window, and some chunks message by
//! message. Its size does not grow with the run.

use super::clock::Ticks;
use super::plan::{Job, RunPlan};
use super::recorder::{Deliveries, Traffic};
use antiphon_base::units::Picos;
use antiphon_base::watch::interruptible;
use antiphon_model::fabric::LinkId;
use antiphon_model::schedule::{LaneId, TransferId};
use rustc_hash::FxHashMap;

/// Windows of a run, at most; a long one takes at least half of them.
const MOST_WINDOWS: usize = 128;
/// Fewest windows that large fabrics are cut down to.
const FEWEST_WINDOWS: usize = 32;
/// Groups of lanes that are told apart on links, at most.
const MOST_GROUPS: usize = 24;
/// Fewest groups that large fabrics are cut down to.
const FEWEST_GROUPS: usize = 8;
/// Sums that are kept of links, groups and windows, at most, where the fewest of both allow: 32 MiB.
const MOST_SUMS: usize = 1 << 22;
/// Messages that are followed, at most; but one chunk of one lane always is.
const MOST_FOLLOWED: usize = 2048;
/// Lanes and chunks of each that are followed, at most.
const MOST_LANES: usize = 64;
const MOST_CHUNKS: usize = 16;
/// The group of what the network does not say.
pub const NO_GROUP: u8 = u8::MAX;
/// The place of a job that carries no lane that is followed.
pub const NOT_FOLLOWED: u32 = u32::MAX;

/// What is to be recorded of the jobs of a plan.
pub struct PlaybackPlan {
    /// Windows until the run outgrows them.
    pub windows: usize,
    /// They are `1 << shift` ticks long at first: no more than the busiest link needs.
    pub shift: u32,
    /// Groups of lanes.
    pub groups: usize,
    /// Lanes of a group, which follow each other.
    lanes_a_group: usize,
    /// Phases of all flights.
    pub phases: usize,
    /// Of every job.
    pub marks: Vec<Mark>,
    /// Jobs that carry a lane that is followed.
    pub followed: Vec<FollowedJob>,
    /// The chunks of each lane that are followed, in ascending order.
    chosen: Vec<Vec<u64>>,
}

/// What is recorded of a job.
#[derive(Clone, Copy)]
pub struct Mark {
    /// The group of its first lane.
    pub group: u8,
    /// Its phase.
    pub phase: u16,
    /// Its place among jobs that are followed, or [`NOT_FOLLOWED`].
    pub followed: u32,
}

/// A job that is followed.
pub struct FollowedJob {
    /// Which it is.
    pub id: TransferId,
    /// The first of its lanes that is followed.
    lane: LaneId,
    /// The first link of its route, if it has any.
    pub link: Option<LinkId>,
    /// For how long a message is on that link.
    pub message: Ticks,
}

impl PlaybackPlan {
    /// Of a plan that is complete. O(transfers).
    pub fn new(plan: &RunPlan) -> PlaybackPlan {
        let (links, lanes) = (plan.fabric.links.len().max(1), plan.lane_chunks.len().max(1));
        let (mut windows, mut groups) = (MOST_WINDOWS, lanes.min(MOST_GROUPS));
        while links * windows * groups > MOST_SUMS && groups > FEWEST_GROUPS {
            groups /= 2;
        }
        while links * windows * groups > MOST_SUMS && windows > FEWEST_WINDOWS {
            windows /= 2;
        }
        let mut busy = vec![0; links];
        for job in interruptible(&plan.jobs) {
            let packets = plan.kind(job).packets.count * plan.kind(job).chunks;
            plan.route(job).iter().for_each(|&link| busy[link as usize] += packets * plan.packet_time(job, link));
        }
        let shortest: Ticks = busy.into_iter().max().unwrap_or(0) / windows as u64;
        let shift = (10 + plan.clock.bits()).max(Ticks::BITS - shortest.leading_zeros());
        let lanes_a_group = lanes.div_ceil(groups);
        let chosen = chosen(plan);
        let first_lane = |job: &Job| plan.lane_ranges(job).first().map_or(0, |range| range.start as usize);
        let (mut marks, mut followed) = (Vec::with_capacity(plan.jobs.len()), vec![]);
        for (id, job) in (0..).zip(interruptible(&plan.jobs)) {
            let lane = plan
                .lane_ranges(job)
                .iter()
                .map(|range| range.start)
                .filter(|&lane| (lane as usize) < chosen.len())
                .min();
            let place = if lane.is_some() { followed.len() as u32 } else { NOT_FOLLOWED };
            if let Some(lane) = lane {
                let link = plan.route(job).first().copied();
                let message = link.map_or(0, |link| plan.kind(job).packets.count * plan.packet_time(job, link));
                followed.push(FollowedJob { id, lane, link, message });
            }
            let group = (first_lane(job) / lanes_a_group) as u8;
            marks.push(Mark { group, phase: job.phase.min(u16::MAX.into()) as u16, followed: place });
        }
        let phases = plan.phase_messages.len().clamp(1, 1 << 16);
        PlaybackPlan {
            windows,
            shift,
            groups: lanes.div_ceil(lanes_a_group),
            lanes_a_group,
            phases,
            marks,
            followed,
            chosen,
        }
    }

    /// The chunks of a job that are followed, in ascending order.
    pub fn chosen(&self, job: &FollowedJob) -> &[u64] {
        &self.chosen[job.lane as usize]
    }
}

/// The chunks that are followed of each of the first lanes: as many as there is room for, the first and the last among them.
fn chosen(plan: &RunPlan) -> Vec<Vec<u64>> {
    let mut messages = vec![0; plan.lane_chunks.len().min(MOST_LANES)];
    for job in interruptible(&plan.jobs) {
        for range in plan.lane_ranges(job) {
            let end = (range.end as usize).min(messages.len());
            messages.get_mut(range.start as usize..end).into_iter().flatten().for_each(|count| *count += 1);
        }
    }
    let fits = |total: &mut usize, count: usize| {
        *total += count;
        Some(*total).filter(|&total| total <= MOST_FOLLOWED)
    };
    let lanes = messages
        .iter()
        .scan(0, |total, &count| fits(total, count))
        .count()
        .clamp(1.min(messages.len()), messages.len());
    let each = MOST_FOLLOWED / messages[..lanes].iter().sum::<usize>().max(1);
    let each = each.clamp(1, MOST_CHUNKS) as u64;
    let spread = |&chunks: &u64| match each {
        _ if chunks <= each => (0..chunks).collect(),
        1 => vec![0],
        _ => (0..each).map(|i| (i as u128 * u128::from(chunks - 1) / u128::from(each - 1)) as u64).collect(),
    };
    plan.lane_chunks[..lanes].iter().map(spread).collect()
}

/// What a link carried in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CarriedRow {
    /// The link.
    pub link: LinkId,
    /// The window, from 0.
    pub window: u32,
    /// Time it was transmitting.
    pub busy_ps: Picos,
    /// The first of the group of lanes that it carried for the longest time; `None` where the network does not say.
    pub lane: Option<LaneId>,
}

/// When a phase was under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseRow {
    /// Its name.
    pub name: String,
    /// The first of its messages began to be sent; at the level of flits, was received.
    pub start_ps: Picos,
    /// The last was received and added.
    pub finish_ps: Picos,
}

/// A message that carries a chunk of a lane that is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRow {
    /// The lane that is followed.
    pub lane: LaneId,
    /// Its chunk.
    pub chunk: u64,
    /// Transfer of the schedule.
    pub transfer: TransferId,
    /// Phase of the schedule.
    pub phase: u32,
    /// Sending rank; switches are numbered behind ranks.
    pub from: u32,
    /// Receiving rank.
    pub to: u32,
    /// Whether the receiver adds.
    pub adds: bool,
    /// It began to be sent; `None` where the network does not say.
    pub start_ps: Option<Picos>,
    /// It was received and added.
    pub finish_ps: Picos,
    /// The links it crosses, in order.
    pub route: Vec<LinkId>,
}

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Playback {
    /// Length of a window.
    pub window_ps: f64,
    /// Windows of the run; the last may end after it.
    pub windows: u32,
    /// Lanes that are told apart only as one.
    pub lanes_a_group: u32,
    /// By link and window; links that were idle in a window are left out.
    pub links: Vec<CarriedRow>,
    /// By rank and window: the bytes that it had received and added by its end, over all that it receives.
    pub ranks: Vec<(u32, u32, f64)>,
    /// In the order of schedules.
    pub phases: Vec<PhaseRow>,
    /// By lane, chunk and time.
    pub messages: Vec<MessageRow>,
}

impl Playback {
    /// Of a run that took `time`; `None` if nobody asked.
    pub(super) fn of(plan: &RunPlan, deliveries: &Deliveries, traffic: &Traffic, time: Ticks) -> Option<Playback> {
        let (of, carried, received) =
            (plan.playback.as_ref()?, traffic.carried.as_ref()?, deliveries.received.as_ref()?);
        let mut shift = carried.shift().max(received.shift());
        while time > (of.windows as u64) << shift {
            shift += 1;
        }
        let windows = time.div_ceil(1 << shift) as usize;
        let mut playback = Playback {
            window_ps: (1u64 << shift) as f64 / (1u64 << plan.clock.bits()) as f64,
            windows: windows as u32,
            lanes_a_group: of.lanes_a_group as u32,
            links: vec![],
            ranks: vec![],
            phases: vec![],
            messages: vec![],
        };
        for link in 0..plan.fabric.links.len() as LinkId {
            let mut all = vec![(0, 0, NO_GROUP); windows];
            for (group, sums) in carried.of_link(plan.channels.first_of(link)) {
                for ((busy, most, main), sum) in all.iter_mut().zip(sums.wider(shift)) {
                    *busy += sum;
                    if sum > *most {
                        (*most, *main) = (sum, group);
                    }
                }
            }
            // In picoseconds of all until then, so that the sum is that of the link.
            let mut before: Ticks = 0;
            for (window, (busy, _, group)) in (0..).zip(all).filter(|(_, (busy, ..))| *busy > 0) {
                let busy_ps = plan.clock.picos(before + busy) - plan.clock.picos(before);
                before += busy;
                let lane = (group != NO_GROUP).then(|| LaneId::from(group) * of.lanes_a_group as LaneId);
                playback.links.push(CarriedRow { link, window, busy_ps, lane });
            }
        }
        for (rank, sums) in (0..).zip(&received.ranks) {
            let sums: Vec<u64> = sums.wider(shift).take(windows).collect();
            let total = sums.iter().sum::<u64>();
            let mut until = 0;
            for (window, sum) in (0..).zip(sums).filter(|_| total > 0) {
                until += sum;
                playback.ranks.push((rank, window, until as f64 / total as f64));
            }
        }
        playback.phases = phase_rows(plan, &carried.phases, &received.phases);
        playback.messages = message_rows(plan, of, &carried.began, &received.ended);
        Some(playback)
    }
}

fn phase_rows(plan: &RunPlan, began: &[Ticks], applied: &[(Ticks, Ticks)]) -> Vec<PhaseRow> {
    let numbers = plan.flights.iter().flat_map(|flight| flight.phases.clone().map(move |phase| (flight, phase)));
    let rows = numbers.zip(began.iter().zip(applied)).filter(|(_, (_, (first, _)))| *first < Ticks::MAX);
    rows.map(|((flight, phase), (&began, &(first, last)))| PhaseRow {
        name: flight.phase(phase).name.clone(),
        start_ps: plan.clock.picos(began.min(first)),
        finish_ps: plan.clock.picos(last),
    })
    .collect()
}

fn message_rows(
    plan: &RunPlan,
    of: &PlaybackPlan,
    began: &[(TransferId, u64, Ticks)],
    ended: &[(TransferId, u64, Ticks)],
) -> Vec<MessageRow> {
    let began: FxHashMap<_, _> = began.iter().map(|&(id, chunk, at)| ((id, chunk), at)).collect();
    let mut rows = vec![];
    for &(id, chunk, at) in ended {
        let job = &plan.jobs[id as usize];
        let row = MessageRow {
            lane: 0,
            chunk,
            transfer: job.origin,
            phase: job.phase,
            from: job.from,
            to: job.to,
            adds: plan.kind(job).adds,
            start_ps: began.get(&(id, chunk)).map(|&at| plan.clock.picos(at)),
            finish_ps: plan.clock.picos(at),
            route: plan.route(job).to_vec(),
        };
        let lanes = plan.lane_ranges(job).iter().flat_map(|range| range.start as usize..range.end as usize);
        let lanes = lanes.filter(|&lane| of.chosen.get(lane).is_some_and(|chosen| chosen.contains(&chunk)));
        rows.extend(lanes.map(|lane| MessageRow { lane: lane as LaneId, ..row.clone() }));
    }
    rows.sort_by_key(|row| (row.lane, row.chunk, row.start_ps, row.finish_ps, row.transfer, row.from));
    rows
}
