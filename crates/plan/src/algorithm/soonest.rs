//! The soonest of several schedules, by simulation: where messages wait for each other, estimates are wrong by a tenth and more.

use super::Request;
use antiphon_base::error::{Code, Result};
use antiphon_base::units::Picos;
use antiphon_bound::busiest_ps;
use antiphon_model::schedule::Schedule;
use antiphon_sim::trial::time_within;

/// Most events of one simulation, which says how long the rest takes, of many or of few; of all together they are twice as many.
pub(super) const EVENTS_OF_MANY: u64 = 1 << 22;
pub(super) const EVENTS_OF_FEW: u64 = 1 << 24;
/// A schedule is better that saves this part of the time.
const WORTH: Picos = 1000;

/// The schedule that is through soonest of those offered so far.
pub(super) struct Soonest<'a> {
    request: &'a Request<'a>,
    schedule: Schedule,
    time_ps: Picos,
    most_events: u64,
    left: u64,
}

impl<'a> Soonest<'a> {
    /// Of a first one, each simulated for `most_events` at most.
    ///
    /// # Errors
    /// [`Code::Interrupted`].
    pub fn new(request: &'a Request<'a>, schedule: Schedule, most_events: u64) -> Result<Self> {
        let mut left = 2 * most_events;
        let time_ps = time(request, &schedule, Picos::MAX, most_events, &mut left)?;
        Ok(Soonest { request, schedule, time_ps, most_events, left })
    }

    /// Takes a schedule that is through sooner than those before.
    ///
    /// # Errors
    /// [`Code::Interrupted`].
    pub fn offer(&mut self, schedule: Schedule) -> Result<()> {
        let most = self.time_ps - self.time_ps / WORTH;
        if busiest_ps(self.request.fabric, self.request.system, &schedule) < most {
            let time_ps = time(self.request, &schedule, most, self.most_events, &mut self.left)?;
            if time_ps < most {
                (self.time_ps, self.schedule) = (time_ps, schedule);
            }
        }
        Ok(())
    }

    /// How long it takes.
    pub fn time_ps(&self) -> Picos {
        self.time_ps
    }

    /// The schedule.
    pub fn into_schedule(self) -> Schedule {
        self.schedule
    }
}

/// The soonest of some schedules, the first if it is the only one.
///
/// # Errors
/// [`Code::Interrupted`], and those of the schedules.
///
/// # Panics
/// Without schedules.
pub(super) fn soonest(request: &Request, mut schedules: impl Iterator<Item = Result<Schedule>>) -> Result<Schedule> {
    let first = schedules.next().expect("a schedule")?;
    let Some(second) = schedules.next() else { return Ok(first) };
    let mut soonest = Soonest::new(request, first, EVENTS_OF_MANY)?;
    soonest.offer(second?)?;
    for schedule in schedules {
        soonest.offer(schedule?)?;
    }
    Ok(soonest.into_schedule())
}

/// How long a schedule takes, if that is no more than `most_ps`; the longest time there is if it cannot be simulated, or too many events
/// have been.
fn time(request: &Request, schedule: &Schedule, most_ps: Picos, most_events: u64, left: &mut u64) -> Result<Picos> {
    let Request { fabric, system, watch, .. } = *request;
    let few = most_events.min(*left);
    if few == 0 {
        return Ok(Picos::MAX);
    }
    match time_within(fabric, schedule, system, most_ps, few, &mut |_| watch.step(0, 1).is_ok()) {
        Err(error) if error.code != Code::Interrupted => Ok(Picos::MAX),
        timed => {
            let (time_ps, events) = timed?;
            *left = left.saturating_sub(events);
            Ok(time_ps)
        }
    }
}
