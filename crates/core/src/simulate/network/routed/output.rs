//! Outputs of routers, and what waits for them.

use super::Routed;
use crate::simulate::clock::Ticks;
use smallvec::SmallVec;

/// A link or a local port.
#[derive(Default)]
pub struct Output {
    /// Channels whose first packets ask for it, with the numbers of their requests, in order.
    pub waiting: Vec<(u64, u32)>,
    /// Crossings to it under way.
    pub crossing: SmallVec<[Crossing; 1]>,
    /// The input of which a packet crossed last.
    pub last: u32,
    /// When the link has sent all that has crossed.
    pub free_at: Ticks,
}

/// The first packet of a channel, which crosses.
#[derive(Clone, Copy)]
pub struct Crossing {
    pub channel: u32,
    /// The channel at the other end of the link.
    pub claimed: Option<u32>,
    /// When all of it has left over the link.
    pub end: Ticks,
}

impl Routed<'_> {
    /// The output that the first packet of a channel asks for.
    pub fn output_of(&self, channel: u32) -> u32 {
        let packet = self.channels[channel as usize].waiting.front().expect("a channel that asks has a packet");
        let terminal = || self.links() + self.terminals.of(packet.flow.transfer);
        self.hops.at(packet.flow).unwrap_or_else(terminal)
    }

    /// The first packet of a channel asks for its output.
    pub fn request(&mut self, channel: u32) {
        let output = self.output_of(channel);
        self.outputs[output as usize].waiting.push((self.next_request, channel));
        self.next_request += 1;
        self.serve(output);
    }

    /// Lets packets cross to an output, as far as it, inputs and channels at the other end are free.
    pub fn serve(&mut self, output: u32) {
        let speedup = self.plan.system.router.output_speedup as usize;
        while self.outputs[output as usize].crossing.len() < speedup {
            let Some(place) = self.next_request(output) else { return };
            let (_, channel) = self.outputs[output as usize].waiting.remove(place);
            self.cross(output, channel);
        }
    }

    /// The request that is served next: of the flight that goes first, of the input whose turn it is, or the first one.
    fn next_request(&self, output: u32) -> Option<usize> {
        let Output { waiting, last, .. } = &self.outputs[output as usize];
        let is_link = output < self.links();
        let shared = is_link && self.ranking.is_shared(output);
        let speedup = self.plan.system.router.input_speedup;
        let key = |&(number, channel): &(u64, u32)| {
            let (input, packet) = (channel / self.count, self.channels[channel as usize].waiting.front()?);
            let is_free = self.inputs[input as usize].crossing < speedup;
            let may = is_free && (!is_link || self.is_open(output, packet.flow));
            let flight = self.plan.jobs[packet.flow.transfer as usize].flight;
            let rank = if shared { self.ranking.of(flight) } else { 0 };
            let turn = if self.takes_turns() { input.wrapping_sub(last + 1) } else { 0 };
            may.then_some((rank, turn, number))
        };
        (0..).zip(waiting).filter_map(|(place, request)| Some((key(request)?, place))).min().map(|(_, place)| place)
    }
}
