//! Where endpoints have an order of their own: chunks of their size, the oldest first.

use super::RunPlan;
use crate::footprint::largest_units;
use crate::units::Units;
use antiphon_base::units::Bytes;
use antiphon_model::schedule::Dependency;

impl RunPlan<'_> {
    /// Cuts units into chunks, and lets slots begin with the age of the unit: the oldest goes first, and what is in it in
    /// its own order.
    pub(super) fn order_by_age(&mut self) {
        let mut units = Units::new(self);
        for (flight, largest) in largest_units(self, &units).into_iter().enumerate() {
            let parts = self.parts(flight, largest);
            self.cut(flight, parts);
            for family in units.families.iter_mut().filter(|family| family.flight as usize == flight && parts > 1) {
                family.chunks *= parts;
                family.stride = family.stride.max(1);
            }
        }
        // In a unit phases follow each other.
        let mut slots = vec![0; self.phase_messages.len()];
        for job in &self.jobs {
            slots[job.phase as usize] = u64::from(job.step + 1).max(slots[job.phase as usize]);
        }
        let (mut factor, mut starts) = (1, vec![]);
        for of in &self.flights {
            let mut start = 0;
            for phase in of.phases.clone() {
                starts.push(start);
                start += slots[phase as usize];
            }
            factor = start.max(factor);
        }
        let latest = units.families.iter().map(|family| u64::from(family.slot)).max().unwrap_or(0);
        // Where slots are too many they stay as they are.
        if (latest + 1).saturating_mul(factor) <= u32::MAX.into() {
            for (job, &family) in self.jobs.iter_mut().zip(&units.family_of) {
                let slot = u64::from(units.families[family as usize].slot);
                job.step += (slot * factor + starts[job.phase as usize]) as u32;
            }
            self.kinds.iter_mut().for_each(|kind| kind.stride *= factor);
            for family in &mut units.families {
                (family.slot, family.stride) = (family.slot * factor as u32, family.stride * factor);
            }
            units.by_age = true;
        }
        self.units = Some(units);
    }

    /// Into how many the chunks of a flight are cut, of which a rank has `largest` bytes at most: until a rank has a chunk of
    /// its endpoint, unless messages are short then. They are whole flits where all are alike.
    fn parts(&self, flight: usize, largest: Bytes) -> u64 {
        let (of, format) = (&self.flights[flight], &self.system.packet);
        let chunk = self.system.endpoint.chunk().unwrap_or(largest);
        let (mut bytes, mut messages) = (0u128, 0u128);
        for kind in self.jobs[of.range()].iter().map(|job| self.kind(job)) {
            bytes += u128::from(kind.bytes) * u128::from(kind.chunks);
            messages += u128::from(kind.chunks);
        }
        // Sizes of lanes are rounded up, so that a chunk may be a little larger.
        if largest <= chunk + chunk / 16 || messages == 0 {
            return 1;
        }
        let mean = (bytes / messages) as Bytes;
        let cut = (u128::from(mean) * u128::from(chunk) / u128::from(largest)) as Bytes;
        let flits = (cut.max(format.least_message()) / format.flit_bytes).max(1);
        let lag = self.after[of.after.clone()].iter().map(|after| after.lag()).max().unwrap_or(0);
        let most = Dependency::MAX_LAG.checked_div(lag).unwrap_or(u32::MAX);
        mean.div_ceil(flits * format.flit_bytes).clamp(1, most.into())
    }

    /// Cuts every chunk of a flight into `parts`, which follow each other like chunks.
    fn cut(&mut self, flight: usize, parts: u64) {
        let (costs, of) = (self.costs(), &mut self.flights[flight]);
        of.parts = parts;
        if parts == 1 {
            return;
        }
        for after in &mut self.after[of.after.clone()] {
            *after = Dependency::new(after.transfer(), after.event()).lagging(after.lag() * parts as u32);
        }
        self.kinds[of.kinds.clone()].iter_mut().for_each(|kind| *kind = kind.cut(parts, costs));
        self.lane_chunks[of.lanes.start as usize..of.lanes.end as usize].iter_mut().for_each(|count| *count *= parts);
        self.phase_messages[of.phases.start as usize..of.phases.end as usize]
            .iter_mut()
            .for_each(|count| *count *= parts);
    }
}
