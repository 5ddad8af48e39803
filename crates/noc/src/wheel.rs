//! Events by cycle: a wheel with a slot for every cycle of the near future, and later events by turns of the wheel.
//!
//! Arrivals from unlimited output queues of slow links are scheduled long before. In a heap they took a third of the
//! time of a run (`cargo bench --bench flit -- flit-hops/multitree`); moving a turn to its slots costs little.

use std::collections::BTreeMap;

/// Fewest slots, and most.
const SLOTS: usize = 1 << 7;
const MOST_SLOTS: usize = 1 << 14;

/// What happens, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlitEvent {
    /// A flit of a packet arrives in a buffer.
    Arrival(u32, u32),
    /// The last flit of a packet arrives at its terminal, on a virtual channel of the ejection port.
    Delivery(u32, u32),
    /// A credit for a virtual channel of a channel comes back.
    Credit(u32),
    /// A terminal may have something to inject.
    Terminal(u32),
    /// A router may have something to allocate.
    Router(u32),
}

/// Events of one cycle, by kind: handling one kind after the other is faster than any mixture.
#[derive(Default, Clone)]
pub struct FlitEvents {
    pub arrivals: Vec<(u32, u32)>,
    pub deliveries: Vec<(u32, u32)>,
    pub credits: Vec<u32>,
    pub terminals: Vec<u32>,
    pub routers: Vec<u32>,
}

impl FlitEvents {
    // Inlined, the kind is known.
    #[inline(always)]
    fn push(&mut self, event: FlitEvent) {
        match event {
            FlitEvent::Arrival(buffer, packet) => self.arrivals.push((buffer, packet)),
            FlitEvent::Delivery(vc, packet) => self.deliveries.push((vc, packet)),
            FlitEvent::Credit(vc) => self.credits.push(vc),
            FlitEvent::Terminal(terminal) => self.terminals.push(terminal),
            FlitEvent::Router(router) => self.routers.push(router),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        let packets = self.arrivals.len() + self.deliveries.len();
        packets + self.credits.len() + self.terminals.len() + self.routers.len()
    }

    fn clear(&mut self) {
        for list in [&mut self.arrivals, &mut self.deliveries] {
            list.clear();
        }
        for list in [&mut self.credits, &mut self.terminals, &mut self.routers] {
            list.clear();
        }
    }

    fn iter(&self) -> impl Iterator<Item = FlitEvent> {
        fn of(list: &[u32], event: fn(u32) -> FlitEvent) -> impl Iterator<Item = FlitEvent> {
            list.iter().map(move |&id| event(id))
        }
        let arrivals = self.arrivals.iter().map(|&(buffer, packet)| FlitEvent::Arrival(buffer, packet));
        let deliveries = self.deliveries.iter().map(|&(vc, packet)| FlitEvent::Delivery(vc, packet));
        (arrivals.chain(deliveries).chain(of(&self.credits, FlitEvent::Credit)))
            .chain(of(&self.terminals, FlitEvent::Terminal))
            .chain(of(&self.routers, FlitEvent::Router))
    }
}

/// Events to come, in cycle order; of one cycle, in no particular order.
pub struct Wheel {
    slots: Box<[FlitEvents]>,
    /// A bit for every slot that is not empty.
    occupied: Box<[u64]>,
    /// Events without a slot yet, by turns of the wheel; none of the turn of `now`.
    far: BTreeMap<u64, WheelTurn>,
    now: u64,
}

/// Events of one turn of the wheel: of as many cycles as there are slots.
struct WheelTurn {
    /// The first of their cycles.
    first: u64,
    events: Vec<(u64, FlitEvent)>,
}

impl Wheel {
    /// No events, at cycle 0; most will be at most `cycles` ahead.
    pub fn with_room(cycles: u64) -> Self {
        let slots = (cycles as usize).clamp(SLOTS, MOST_SLOTS).next_power_of_two();
        let (slots, occupied) = (vec![FlitEvents::default(); slots].into(), vec![0; slots.div_ceil(64)].into());
        Wheel { slots, occupied, far: BTreeMap::new(), now: 0 }
    }

    /// Slot of a cycle.
    fn slot(&self, cycle: u64) -> usize {
        cycle as usize & (self.slots.len() - 1)
    }

    /// Turn of a cycle.
    fn turn(&self, cycle: u64) -> u64 {
        cycle / self.slots.len() as u64
    }

    #[cfg(test)]
    fn new() -> Self {
        Wheel::with_room(0)
    }

    /// Adds an event at a cycle that has not been taken yet.
    #[inline(always)]
    pub fn push(&mut self, cycle: u64, event: FlitEvent) {
        debug_assert!(cycle >= self.now);
        if cycle - self.now >= self.slots.len() as u64 {
            return self.push_far(cycle, event);
        }
        self.push_near(cycle, event);
    }

    #[inline(always)]
    fn push_near(&mut self, cycle: u64, event: FlitEvent) {
        let slot = self.slot(cycle);
        self.slots[slot].push(event);
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    #[cold]
    fn push_far(&mut self, cycle: u64, event: FlitEvent) {
        let turn = self.far.entry(self.turn(cycle)).or_insert(WheelTurn { first: cycle, events: vec![] });
        turn.first = turn.first.min(cycle);
        turn.events.push((cycle, event));
    }

    /// Cycle of the next event.
    pub fn next_cycle(&self) -> Option<u64> {
        let start = self.slot(self.now);
        let width = self.slots.len().min(64);
        let first = self.occupied[start / 64] >> (start % 64);
        let near = if first != 0 {
            Some(first.trailing_zeros() as u64)
        } else {
            // All words after the first, and the low part of the first again.
            (1..=self.occupied.len()).find_map(|i| {
                let word = self.occupied[(start / 64 + i) % self.occupied.len()];
                (word != 0).then(|| (width * i - start % 64) as u64 + word.trailing_zeros() as u64)
            })
        };
        let far = self.far.first_key_value().map(|(_, turn)| turn.first);
        match (near.map(|distance| self.now + distance), far) {
            (Some(near), Some(far)) => Some(near.min(far)),
            (near, far) => near.or(far),
        }
    }

    /// Moves all events of `cycle`, the next one with any, into `events`.
    pub fn take(&mut self, cycle: u64, events: &mut FlitEvents) {
        self.now = cycle;
        // From here on a whole turn has slots.
        if let Some(turn) = self.far.remove(&self.turn(cycle)) {
            turn.events.into_iter().for_each(|(at, event)| self.push_near(at, event));
        }
        let slot = self.slot(cycle);
        events.clear();
        std::mem::swap(&mut self.slots[slot], events);
        self.occupied[slot / 64] &= !(1 << (slot % 64));
    }

    /// All events to come, in no particular order.
    pub fn pending(&self) -> impl Iterator<Item = (u64, FlitEvent)> {
        let start = self.slot(self.now);
        let near = (0..self.slots.len()).flat_map(move |distance| {
            let slot = &self.slots[(start + distance) % self.slots.len()];
            slot.iter().map(move |event| (self.now + distance as u64, event))
        });
        near.chain(self.far.values().flat_map(|turn| turn.events.iter().copied()))
    }

    /// Makes everything happen `by` cycles later.
    pub fn delay(&mut self, by: u64) {
        self.now += by;
        self.slots.rotate_right((by % self.slots.len() as u64) as usize);
        self.occupied.fill(0);
        for (slot, _) in self.slots.iter().enumerate().filter(|(_, events)| events.len() > 0) {
            self.occupied[slot / 64] |= 1 << (slot % 64);
        }
        let far = std::mem::take(&mut self.far).into_values().flat_map(|turn| turn.events);
        far.for_each(|(cycle, event)| self.push(cycle + by, event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_delay_moves_everything() {
        let cycles = [3, 70, 127, 128, 1_000];
        for by in [0, 1, 57, 128, 12_345] {
            let mut wheel = Wheel::new();
            cycles.iter().for_each(|&cycle| wheel.push(cycle, FlitEvent::Router(cycle as u32)));
            wheel.delay(by);
            let mut pending: Vec<_> = wheel.pending().collect();
            pending.sort_unstable();
            assert_eq!(pending, cycles.map(|cycle| (cycle + by, FlitEvent::Router(cycle as u32))));
            for cycle in cycles {
                assert_eq!(wheel.next_cycle(), Some(cycle + by));
                wheel.take(cycle + by, &mut FlitEvents::default());
            }
        }
    }

    proptest! {
        /// Whatever is pushed when, near or turns ahead, each event comes at its cycle, also after a delay.
        #[test]
        fn comes_at_its_cycle(steps in prop::collection::vec(prop::option::weighted(0.6, 0u64..1_000), 0..200), by in 0u64..1_000) {
            let (mut wheel, mut cycles, mut now) = (Wheel::new(), vec![], 0);
            let take = |wheel: &mut Wheel, cycles: &mut Vec<u64>, by: u64| {
                cycles.sort_unstable();
                let next = cycles.first().copied();
                prop_assert_eq!(wheel.next_cycle(), next.map(|cycle| cycle + by));
                let Some(next) = next else { return Ok(None) };
                let mut events = FlitEvents::default();
                wheel.take(next + by, &mut events);
                prop_assert!(events.iter().all(|event| event == FlitEvent::Router(next as u32)));
                prop_assert_eq!(events.len(), cycles.iter().take_while(|&&cycle| cycle == next).count());
                cycles.retain(|&cycle| cycle > next);
                Ok(Some(next))
            };
            for step in steps {
                match step {
                    Some(ahead) => {
                        wheel.push(now + ahead, FlitEvent::Router((now + ahead) as u32));
                        cycles.push(now + ahead);
                    }
                    None => now = take(&mut wheel, &mut cycles, 0)?.unwrap_or(now),
                }
            }
            wheel.delay(by);
            while take(&mut wheel, &mut cycles, by)?.is_some() {}
        }
    }

    #[test]
    fn cycles_come_in_order_near_and_far() {
        let mut wheel = Wheel::new();
        let cycles = [5, 5_000, 4_095, 64, 63, 0, 12_345, 4_096, 8_191, 5];
        for (i, &cycle) in cycles.iter().enumerate() {
            wheel.push(cycle, FlitEvent::Router(i as u32));
        }
        let (mut seen, mut events) = (vec![], FlitEvents::default());
        while let Some(cycle) = wheel.next_cycle() {
            wheel.take(cycle, &mut events);
            let right = |e: FlitEvent| !matches!(e, FlitEvent::Router(i) if cycles[i as usize] != cycle);
            assert!(events.iter().all(right));
            seen.extend(events.iter().map(|_| cycle));
            if cycle == 63 {
                wheel.push(63 + 4_095, FlitEvent::Terminal(0));

                assert_eq!(wheel.next_cycle(), Some(64));
            }
        }
        assert_eq!(seen, [0, 5, 5, 63, 64, 4_095, 4_096, 4_158, 5_000, 8_191, 12_345]);
    }
}
