//! Outputs of routers, and what waits for them.

use super::Routed;
use crate::simulate::clock::Ticks;
use crate::simulate::network::flow::Flow;
use smallvec::SmallVec;

/// A link or a local port.
#[derive(Default)]
pub struct Output {
    /// Channels whose first packets want a channel at its other end, with the numbers of their requests, in order.
    pub waiting: Vec<(u64, u32)>,
    /// Those that have one and want to cross, in the order of their claims.
    pub holding: SmallVec<[Holder; 4]>,
    /// Crossings to it under way.
    pub crossing: SmallVec<[Crossing; 1]>,
    /// The channel that got one last.
    pub last_channel: u32,
    /// The input of which a packet crossed last.
    pub last_input: u32,
    /// When the link has sent all that has crossed.
    pub free_at: Ticks,
}

/// A channel whose first packet may cross.
#[derive(Clone, Copy)]
pub struct Holder {
    pub channel: u32,
    /// The channel at the other end of the link.
    pub claimed: Option<u32>,
}

/// One that does.
#[derive(Clone, Copy)]
pub struct Crossing {
    pub holder: Holder,
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

    /// Gives packets that want to an output channels at its other end, and lets those with one cross, as far as it and their
    /// inputs are free.
    pub fn serve(&mut self, output: u32) {
        while let Some(place) = self.next_claim(output) {
            let (_, channel) = self.outputs[output as usize].waiting.remove(place);
            let flow = self.channels[channel as usize].waiting[0].flow;
            let claimed = if output < self.links() { self.claim(output, flow) } else { None };
            let state = &mut self.outputs[output as usize];
            state.last_channel = channel;
            state.holding.push(Holder { channel, claimed });
        }
        let speedup = self.plan.system.router.output_speedup as usize;
        while self.outputs[output as usize].crossing.len() < speedup {
            let Some(place) = self.next_crossing(output) else { return };
            let holder = self.outputs[output as usize].holding.remove(place);
            self.cross(output, holder);
        }
    }

    /// The request that gets a channel next: of the flight that goes first, of the channel whose turn it is, or the first one.
    fn next_claim(&self, output: u32) -> Option<usize> {
        let Output { waiting, holding, crossing, last_channel, .. } = &self.outputs[output as usize];
        let is_link = output < self.links();
        if !is_link && holding.len() + crossing.len() >= self.count as usize {
            return None;
        }
        let key = |&(number, channel): &(u64, u32)| {
            let flow = self.channels[channel as usize].waiting.front()?.flow;
            let may = !is_link || self.is_open(output, flow);
            let turn = if self.takes_turns() { channel.wrapping_sub(last_channel + 1) } else { 0 };
            may.then_some((self.rank(output, flow), turn, number))
        };
        (0..).zip(waiting).filter_map(|(place, request)| Some((key(request)?, place))).min().map(|(_, place)| place)
    }

    /// Who crosses next: of the flight that goes first, of the input whose turn it is, or whoever came first.
    fn next_crossing(&self, output: u32) -> Option<usize> {
        let Output { holding, last_input, .. } = &self.outputs[output as usize];
        let speedup = self.plan.system.router.input_speedup;
        let key = |holder: &Holder| {
            let (input, packet) =
                (holder.channel / self.count, self.channels[holder.channel as usize].waiting.front()?);
            let may = self.inputs[input as usize].crossing < speedup;
            let turn = if self.takes_turns() { input.wrapping_sub(last_input + 1) } else { 0 };
            may.then_some((self.rank(output, packet.flow), turn))
        };
        (0..).zip(holding).filter_map(|(place, holder)| Some((key(holder)?, place))).min().map(|(_, place)| place)
    }

    /// Of the flight of a packet among those that share an output.
    fn rank(&self, output: u32, flow: Flow) -> u64 {
        let is_shared = output < self.links() && self.ranking.is_shared(output);
        if is_shared { self.ranking.of(self.plan.jobs[flow.transfer as usize].flight) } else { 0 }
    }
}
