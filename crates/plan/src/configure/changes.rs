//! Changes of configuration between phases.
//!
//! The phases of a schedule are parted in two where that makes it faster, and the parts again. The estimate of what a part
//! sends finds configurations for it; simulation decides, with the barrier and the time that a change takes.

use super::demand::Demands;
use super::estimate::Estimate;
use super::search::{BATCH, End, Search, neighbours};
use antiphon_model::fabric::aries::{Configuration, MAX_CONFIGURATIONS};
use std::ops::Range;

/// Phases that have one configuration.
type Part = Range<usize>;

impl Search<'_, '_> {
    /// Parts the phases of the best as long as that makes it faster.
    pub fn change(&mut self) -> Result<(), End> {
        let Some((turns, choice, _)) = self.best() else { return Ok(()) };
        let Some((_, schedule)) = self.schedule(&turns, choice) else { return Ok(()) };
        // What has more goes on in the last.
        let phases = schedule.phases.len().min(MAX_CONFIGURATIONS);
        let mut parts = vec![];
        let whole: Part = 0..phases;
        let mut open = vec![whole];
        while let Some(part) = open.pop() {
            match self.parted(&part, phases, choice)? {
                Some(boundary) => open.extend([part.start..boundary, boundary..part.end]),
                None => parts.push(part),
            }
        }
        while parts.len() > 1 {
            let mut better = false;
            for part in &parts {
                better |= self.improve_part(part, phases, choice)?;
            }
            if !better {
                break;
            }
        }
        Ok(())
    }

    /// Tries every boundary in a part; the one at which a change makes the best faster, if there is one.
    fn parted(&mut self, part: &Part, phases: usize, choice: usize) -> Result<Option<usize>, End> {
        let (turns, before) = self.turns(phases);
        let mut points = vec![];
        for boundary in part.start + 1..part.end {
            let [first, second] = [part.start..boundary, boundary..part.end];
            let firsts = self.fitted(&turns, &first, part.len(), choice);
            let seconds = self.fitted(&turns, &second, part.len(), choice);
            for one in &firsts {
                points.extend(seconds.iter().map(|other| {
                    let mut turns = turns.clone();
                    turns[first.clone()].fill(one.clone());
                    turns[second.clone()].fill(other.clone());
                    (turns, choice)
                }));
            }
        }
        self.simulate(points)?;
        let (turns, now) = self.turns(phases);
        Ok((part.start + 1..part.end).find(|&phase| now < before && turns[phase] != turns[phase - 1]))
    }

    /// Configurations for what a part sends: the one it has, and what the estimate makes of it. There are `share` such
    /// searches or more.
    fn fitted(&mut self, turns: &[Configuration], part: &Part, share: usize, choice: usize) -> Vec<Configuration> {
        let present = turns[part.start].clone();
        let mut found = vec![present.clone()];
        let Some(demands) = self.demands_of(turns, part, choice) else { return found };
        found.extend(self.annealed(&present, &demands, 0, share).into_iter().take(2));
        found
    }

    /// Simulates configurations near that of a part; whether one is better.
    fn improve_part(&mut self, part: &Part, phases: usize, choice: usize) -> Result<bool, End> {
        let (turns, time) = self.turns(phases);
        let Some(demands) = self.demands_of(&turns, part, choice) else { return Ok(false) };
        let aries = &self.fabric.aries;
        let mut near = neighbours(aries, &Estimate::new(aries, turns[part.start].clone(), &demands), &demands);
        near.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        for batch in near.chunks(BATCH) {
            let with = |near: &Estimate| {
                let mut turns = turns.clone();
                turns[part.clone()].fill(near.configuration.clone());
                (turns, choice)
            };
            self.simulate(batch.iter().map(with).collect())?;
            if self.turns(phases).1 < time {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The configuration of every phase of the best, and its time.
    fn turns(&self, phases: usize) -> (Vec<Configuration>, u64) {
        let (mut turns, _, time) = self.best().expect("there was one before");
        let last = turns[turns.len() - 1].clone();
        turns.resize(phases, last);
        (turns, time)
    }

    /// What the phases of a part send.
    fn demands_of(&self, turns: &[Configuration], part: &Part, choice: usize) -> Option<Demands> {
        let (fabric, schedule) = self.schedule(turns, choice)?;
        let last = part.end == turns.len();
        let is_in = |phase: u32| phase as usize >= part.start && (last || (phase as usize) < part.end);
        Some(Demands::within(&fabric, &schedule, is_in)).filter(|demands| demands.total > 0.0)
    }
}
