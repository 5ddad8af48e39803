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
                let most = |of: &dyn Fn(&RankEngine) -> f64| engines.iter().map(of).fold(0.0, f64::max);
                let ticks = self.plan.clock.ticks(result.time_ps).max(1) as f64;
                let served = |server: usize| most(&|engine| engine.used().0.served[server] as f64) / ticks;
                let room = |name, room: usize| PartUse {
                    name,
                    option: name,
                    busy: most(&|engine| engine.used().0.held[room] as f64 / engine.used().1[room] as f64) / ticks,
                    waiting: Some(most(&|engine| engine.used().0.stalled[room] as f64) / ticks),
                    limits: most(&|engine| engine.used().0.limits[room] as f64) / ticks,
                    spans: vec![],
                };
                let adds = result.ranks.iter().map(|row| row.reduce_ps as f64 / time).fold(0.0, f64::max);
                vec![
                    serves("read", "memory_gb_per_s", served(0)),
                    serves("bus", "bus_gb_per_s", served(1)),
                    serves("add", "alus", adds),
                    serves("write", "memory_gb_per_s", served(2)),
                    room("fsms", 1),
                    room("sram", 0),
                ]
            }
        };
        Some(EndpointUse { parts, links: vec![("links".into(), links)], under_way: vec![] })
    }
}
