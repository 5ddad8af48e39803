//! How near to the optimum a schedule is in rates, as its certificate says.

use super::capacity::{Capacities, Load};
use super::task::Task;
use super::{bound, prices};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Picos;
use antiphon_base::watch::interruptible;
use antiphon_model::collective::{Collective, Data, Kind};
use antiphon_model::fabric::{Fabric, LinkId};
use antiphon_model::schedule::{Certificate, Schedule};
use antiphon_model::system::System;

/// What a certificate proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Certified {
    /// No schedule takes less time.
    pub least_ps: Picos,
    /// That over the time for which the busiest link of this schedule is busy, in millionths.
    pub share_ppm: u32,
}

/// What the prices of a schedule's certificate prove, if it has one.
///
/// # Errors
/// As [`super::of_schedule`]; [`Code::NotProven`] if the certificate claims more than it proves.
pub fn certified(fabric: &Fabric, system: &System, schedule: &Schedule) -> Result<Option<Certified>> {
    let Some(certificate) = &schedule.certificate else { return Ok(None) };
    let (task, capacities) = (Task::of_schedule(fabric, schedule)?, Capacities::new(fabric, system));
    let least = prices::load(fabric, &capacities, &task, certificate)?;
    let share = share_ppm(least, busiest(fabric, &capacities, schedule));
    // Of another system the last digit may differ.
    if share + 1 < certificate.share_ppm {
        let percent = |ppm: u32| f64::from(ppm / 100) / 100.0;
        let (claim, share) = (percent(certificate.share_ppm), percent(share));
        let what = format!(
            "certificate: it claims {claim} % of the optimum; its prices prove {share} % by the rates of {} and system {}; \
             for other rates leave the certificate out of the file",
            fabric.name, system.name
        );
        return Err(Error::new(Code::NotProven, what));
    }
    Ok(Some(Certified { least_ps: capacities.time(least), share_ppm: share }))
}

/// The time that a certificate's prices prove no schedule of a collective among all ranks to be below; what it claims is not read.
///
/// # Errors
/// As [`super::lower_bound`].
pub fn proven_ps(
    fabric: &Fabric,
    system: &System,
    collective: Collective,
    data: impl Into<Data>,
    certificate: &Certificate,
) -> Result<Picos> {
    let (task, capacities) = (super::checked(fabric, collective, data.into())?, Capacities::new(fabric, system));
    Ok(capacities.time(prices::load(fabric, &capacities, &task, certificate)?))
}

/// The certificate of a schedule that leaves no rank out: `found` with what it proves, or that of the bound's
/// [`super::Limit`] if nothing was found.
///
/// # Errors
/// As [`certified`].
pub fn certificate(
    fabric: &Fabric,
    system: &System,
    schedule: &Schedule,
    found: Option<Certificate>,
) -> Result<Certificate> {
    let (task, capacities) = (Task::of_schedule(fabric, schedule)?, Capacities::new(fabric, system));
    // Prices of trees of ranks say little where switches add.
    let adds = task.kind == Kind::AllReduce && fabric.computing_switches().next().is_some();
    let certificate =
        found.filter(|_| !adds).unwrap_or_else(|| bound(fabric, system, &task, Some(0)).limit.certificate());
    let least = prices::load(fabric, &capacities, &task, &certificate)?;
    Ok(Certificate { share_ppm: share_ppm(least, busiest(fabric, &capacities, schedule)), ..certificate })
}

/// Picoseconds for which the busiest link of a schedule is busy: it takes no less. O(hops).
pub fn busiest_ps(fabric: &Fabric, system: &System, schedule: &Schedule) -> Picos {
    let capacities = Capacities::new(fabric, system);
    capacities.time(busiest(fabric, &capacities, schedule))
}

/// What the busiest link, or bundle of links, carries.
fn busiest(fabric: &Fabric, capacities: &Capacities, schedule: &Schedule) -> Load {
    let channels = schedule.channels(fabric);
    let mut carried = vec![0u128; fabric.links.len()];
    for transfer in interruptible(&schedule.transfers) {
        let bytes = transfer.lanes().map(|lane| u128::from(schedule.lanes[lane].bytes)).sum::<u128>();
        transfer.route.iter().for_each(|&link| carried[channels.first_of(link) as usize] += bytes);
    }
    let capacity = |first: usize| capacities.of_channel(channels.links(first as LinkId));
    let load = |(first, &bytes): (usize, &u128)| Load { bytes, capacity: capacity(first) };
    carried.iter().enumerate().filter(|(_, bytes)| **bytes > 0).map(load).fold(Load::NONE, Load::max)
}

/// One load's time over another's, in millionths, rounded down.
fn share_ppm(least: Load, busiest: Load) -> u32 {
    let time = |load: Load| load.bytes as f64 / load.capacity as f64;
    if busiest.bytes == 0 { 0 } else { (time(least) / time(busiest) * 1e6 + 1e-3) as u32 }
}
