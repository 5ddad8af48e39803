//! What the parts of an endpoint did, message by message: those of the rank where each was busiest.

use super::Endpoints;
use crate::ace::engine::RankEngine;
use crate::clock::Ticks;
use crate::rails::{EndpointUse, PartUse};
use crate::result::SimulationResult;
use antiphon_model::system::Endpoint;

impl Endpoints<'_> {
    /// Of a run with this result, where its endpoint has parts.
    pub fn uses(&self, result: &SimulationResult) -> Option<EndpointUse> {
        let time = result.time_ps.max(1) as f64;
        let share = |ticks: Ticks| self.plan.clock.picos(ticks) as f64 / time;
        let serves =
            |name, option, busy: f64| PartUse { name, option, busy, waiting: None, limits: busy, spans: vec![] };
        let links = result.links.iter().map(|row| row.busy_ps as f64 / time).fold(0.0, f64::max);
        let parts = match self.plan.system.endpoint {
            Endpoint::System => return None,
            Endpoint::Ideal(_) => vec![],
            Endpoint::Npu(npu) => {
                let mut each = vec![[0; 2]; self.plan.participants()];
                for job in &self.plan.jobs {
                    let kind = self.plan.kind(job);
                    let [read, bus] = &mut each[job.from as usize];
                    *read += kind.fetch.read * kind.chunks;
                    *bus += kind.fetch.bus * kind.chunks;
                }
                let most = |of: fn(&[Ticks; 2]) -> Ticks| share(each.iter().map(of).max().unwrap_or(0));
                vec![
                    serves("read", npu.read_option(), most(|of| of[0])),
                    serves("bus", "bus_gb_per_s", most(|of| of[1])),
                ]
            }
            Endpoint::Ace(_) => {
                let engines = self.engines.as_ref()?.engines();
                let most = |of: fn(&RankEngine) -> f64| engines.iter().map(of).fold(0.0, f64::max);
                let ticks = self.plan.clock.ticks(result.time_ps).max(1) as f64;
                let served = [
                    most(|engine| engine.used().0.served[0] as f64),
                    most(|engine| engine.used().0.served[1] as f64),
                    most(|engine| engine.used().0.served[2] as f64),
                ];
                let room = |name, [held, stalled, limits]: [f64; 3]| PartUse {
                    name,
                    option: name,
                    busy: held / ticks,
                    waiting: Some(stalled / ticks),
                    limits: limits / ticks,
                    spans: vec![],
                };
                let sram = [
                    most(|engine| engine.used().0.held[0] as f64 / engine.used().1[0] as f64),
                    most(|engine| engine.used().0.stalled[0] as f64),
                    most(|engine| engine.used().0.limits[0] as f64),
                ];
                let machines = [
                    most(|engine| engine.used().0.held[1] as f64 / engine.used().1[1] as f64),
                    most(|engine| engine.used().0.stalled[1] as f64),
                    most(|engine| engine.used().0.limits[1] as f64),
                ];
                let adds = result.ranks.iter().map(|row| row.reduce_ps as f64 / time).fold(0.0, f64::max);
                vec![
                    serves("read", "memory_gb_per_s", served[0] / ticks),
                    serves("bus", "bus_gb_per_s", served[1] / ticks),
                    serves("add", "alus", adds),
                    serves("write", "memory_gb_per_s", served[2] / ticks),
                    room("fsms", machines),
                    room("sram", sram),
                ]
            }
        };
        Some(EndpointUse { parts, links: vec![("links".into(), links)], under_way: vec![] })
    }
}
