//! A rival: where there is little data, what goes along one dimension of a product after the other may be sooner through.
//!
//! It has fewer steps than trees of all ranks. Which of both is sooner through decides who waits for whom, so both are simulated.

use super::{OPTIONS, is_even};
use crate::algorithm::hierarchical::Hierarchical;
use crate::algorithm::{Algorithm, Request};
use crate::error::{Code, Result};
use crate::options::Options;
use crate::schedule::{Schedule, Transfer};
use crate::simulate::{Fidelity, simulate};
use crate::units::Picos;

/// Most packets on links that are simulated: tenths of a second.
const MOST_PACKETS: u64 = 1 << 18;
/// Most ranks: messages of the rival grow with their square or cube.
const MOST_RANKS: u32 = 128;

/// The rival of a schedule of trees or paths, if it is sooner through, without a certificate.
///
/// # Errors
/// [`Code::Interrupted`].
pub fn sooner(request: &Request, own: &Schedule) -> Result<Option<Schedule>> {
    // Whoever says how trees are to be wants trees.
    let is_free = OPTIONS.iter().all(|option| request.options.given(option.parameter.key).is_none());
    if !is_free || !is_even(request) || request.ranks() > MOST_RANKS || packets(request, own) > MOST_PACKETS {
        return Ok(None);
    }
    let info = Hierarchical.info();
    if request.fabric.product().is_none() || !info.collectives.contains(&request.collective.kind) {
        return Ok(None);
    }
    let options = Options::parse(info.name, "", info.options)?;
    let Request { fabric, system, collective, bytes, spec, watch, .. } = *request;
    let rival =
        match Hierarchical.build(&Request { fabric, system, collective, bytes, matrix: None, spec, options, watch }) {
            Err(error) if matches!(error.code, Code::NotApplicable | Code::TooLarge) => return Ok(None),
            rival => rival?,
        };
    let time = |schedule: &Schedule| -> Result<Picos> {
        Ok(simulate(fabric, schedule, system, Fidelity::Packet, &mut |_| watch.step(0, 1).is_ok())?.time_ps)
    };
    let is_sooner = packets(request, &rival) <= MOST_PACKETS && time(&rival)? < time(own)?;
    Ok(is_sooner.then_some(rival))
}

/// Packets of all messages on all their links.
fn packets(request: &Request, schedule: &Schedule) -> u64 {
    let of = |transfer: &Transfer| {
        let lanes = transfer.lanes().map(|lane| &schedule.lanes[lane]);
        let (bytes, chunks) = lanes.fold((0, 1), |(bytes, _), lane| (bytes + lane.chunk_bytes, lane.chunks));
        request.system.packets(bytes).count.saturating_mul(chunks).saturating_mul(transfer.route.len() as u64)
    };
    schedule.transfers.iter().map(of).fold(0, u64::saturating_add)
}
