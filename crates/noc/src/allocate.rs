//! Separable allocation: requests of inputs for outputs become a matching.
//!
//! Each side picks one of its requests by itself, so a cycle's matching need not be maximal; that is
//! the price of one cycle, and further iterations raise it.

use antiphon_model::system::Allocator;
use std::borrow::Borrow;

/// One request. Numbers of inputs and outputs may be those of many routers.
#[derive(Debug, Clone, Copy)]
pub struct AllocationRequest {
    /// The input that asks.
    pub input: u32,
    /// The output it asks for.
    pub output: u32,
    /// Of several requests of one input for one output the least passes on. Below 2^16.
    pub tie: u32,
    /// Of the packet: the lowest passes before all others.
    pub class: u16,
    /// Creation of the packet: smaller is older.
    pub age: u64,
    /// Given back to the caller with a grant.
    pub tag: u32,
}

/// Scratch space of allocations, for one or many routers.
pub struct Matching {
    /// Key and place in `picks` of the best request of each output (input) so far.
    best_of_output: Vec<(u64, u32)>,
    best_of_input: Vec<(u64, u32)>,
    matched_output: Vec<bool>,
    matched_input: Vec<bool>,
    /// Picks of the side that picks first, each with its place among the requests.
    picks: Vec<(u32, AllocationRequest)>,
    /// Granted in one iteration.
    won: Vec<(u32, AllocationRequest)>,
    /// Whether grants of an iteration come in the order of the requests.
    in_order: bool,
}

const NONE: (u64, u32) = (u64::MAX, u32::MAX);

/// Distance of one of `count` numbers from a round-robin pointer.
pub fn behind(number: u32, pointer: u32, count: u32) -> u32 {
    if number >= pointer { number - pointer } else { number + count - pointer }
}

impl Matching {
    /// Room for so many inputs and outputs; `in_order` is whether grants of an iteration come in the order of the requests.
    pub fn new(inputs: usize, outputs: usize, in_order: bool) -> Self {
        Matching {
            best_of_output: vec![NONE; outputs],
            best_of_input: vec![NONE; inputs],
            matched_output: vec![false; outputs],
            matched_input: vec![false; inputs],
            picks: vec![],
            won: vec![],
            in_order,
        }
    }

    /// Calls `grant` with every granted request. `next_input[o]` is the round-robin pointer of output
    /// `o` over inputs, `next_output[i]` that of input `i` over outputs: the number after the last one granted.
    /// O(iterations x requests).
    pub fn allocate(
        &mut self,
        allocator: Allocator,
        iterations: u32,
        requests: impl IntoIterator<Item: Borrow<AllocationRequest>> + Clone,
        next_input: &mut [u32],
        next_output: &mut [u32],
        mut grant: impl FnMut(&AllocationRequest),
    ) {
        let Matching { best_of_output, best_of_input, matched_output, matched_input, picks, won, in_order } = self;
        let (input, output) = (|r: &AllocationRequest| r.input as usize, |r: &AllocationRequest| r.output as usize);
        for iteration in 0..iterations {
            let open =
                |r: &AllocationRequest| iteration == 0 || !(matched_input[input(r)] || matched_output[output(r)]);
            let class = |r: &AllocationRequest| u64::from(r.class) << 48;
            // Round from the pointer on: numbers before it wrap to distances beyond all others.
            let turn = |r: &AllocationRequest, distance: u32| class(r) | u64::from(distance) << 16 | u64::from(r.tie);
            let at_output = |r: &AllocationRequest| turn(r, r.input.wrapping_sub(next_input[output(r)]));
            let at_input = |r: &AllocationRequest| turn(r, r.output.wrapping_sub(next_output[input(r)]));
            let age = |r: &AllocationRequest| class(r) | r.age;
            let (ins, outs) = (&mut best_of_input[..], &mut best_of_output[..]);
            let requests = requests.clone();
            match allocator {
                Allocator::Islip => {
                    pick(requests, open, (outs, output, at_output), picks);
                    accept(picks, (ins, input, at_input), won);
                }
                Allocator::RoundRobin => {
                    pick(requests, open, (ins, input, at_input), picks);
                    accept(picks, (outs, output, at_output), won);
                }
                Allocator::Age => {
                    pick(requests, open, (ins, input, age), picks);
                    accept(picks, (outs, output, age), won);
                }
            }
            if won.is_empty() {
                break;
            }
            if *in_order {
                won.sort_unstable_by_key(|&(index, _)| index);
            }
            for (_, r) in &*won {
                if iteration == 0 || allocator != Allocator::Islip {
                    next_input[output(r)] = r.input + 1;
                    next_output[input(r)] = r.output + 1;
                }
                if iterations > 1 {
                    (matched_input[input(r)], matched_output[output(r)]) = (true, true);
                }
                grant(r);
            }
        }
        if iterations > 1 {
            for r in requests {
                (matched_input[input(r.borrow())], matched_output[output(r.borrow())]) = (false, false);
            }
        }
    }
}

/// One side of an allocation: best request of each so far, whose a request is, and its key there.
type AllocationSide<'a, Number, Key> = (&'a mut [(u64, u32)], Number, Key);

/// Each of a side picks the open request with the least key, of equal ones the earliest.
fn pick(
    requests: impl IntoIterator<Item: Borrow<AllocationRequest>>,
    open: impl Fn(&AllocationRequest) -> bool,
    (best, number, key): AllocationSide<impl Fn(&AllocationRequest) -> usize, impl Fn(&AllocationRequest) -> u64>,
    picks: &mut Vec<(u32, AllocationRequest)>,
) {
    picks.clear();
    let mut index = 0;
    // Not a loop, since a nested iterator is faster from inside.
    requests.into_iter().for_each(|request| {
        let request = request.borrow();
        let (best, key) = (&mut best[number(request)], key(request));
        if key < best.0 && open(request) {
            if *best == NONE {
                best.1 = picks.len() as u32;
                picks.push((index, *request));
            } else {
                picks[best.1 as usize] = (index, *request);
            }
            best.0 = key;
        }
        index += 1;
    });
    // For the next allocation.
    picks.iter().for_each(|(_, request)| best[number(request)] = NONE);
}

/// Each of the other side takes the best one of the requests picked.
fn accept(
    picks: &[(u32, AllocationRequest)],
    (best, number, key): AllocationSide<impl Fn(&AllocationRequest) -> usize, impl Fn(&AllocationRequest) -> u64>,
    won: &mut Vec<(u32, AllocationRequest)>,
) {
    for (place, (index, request)) in (0..).zip(picks) {
        let (best, key) = (&mut best[number(request)], key(request));
        if key < best.0 || (key == best.0 && *index < picks[best.1 as usize].0) {
            *best = (key, place);
        }
    }
    won.clear();
    for (place, pick) in (0..).zip(picks) {
        let best = &mut best[number(&pick.1)];
        if best.1 == place {
            *best = NONE;
            won.push(*pick);
        }
    }
}

/// The number after `number`, round.
pub fn after(number: u32, count: usize) -> u32 {
    if number as usize + 1 == count { 0 } else { number + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(input: u32, output: u32, age: u64) -> AllocationRequest {
        AllocationRequest { input, output, tie: 0, class: 0, age, tag: 0 }
    }

    fn granted(
        allocator: Allocator,
        iterations: u32,
        requests: &[AllocationRequest],
        next: &mut [Vec<u32>; 2],
    ) -> Vec<(u32, u32)> {
        let [a, b] = next;
        let mut list = vec![];
        Matching::new(4, 4, false).allocate(allocator, iterations, requests, a, b, |r| list.push((r.input, r.output)));
        list.sort_unstable();
        list
    }

    #[test]
    fn islip_desynchronises() {
        // Three inputs want all of three outputs: one match in the first cycle, three from the third on.
        let all: Vec<AllocationRequest> = (0..3).flat_map(|i| (0..3).map(move |o| request(i, o, 0))).collect();
        let mut next = [vec![0; 4], vec![0; 4]];
        let sizes: Vec<usize> = (0..5).map(|_| granted(Allocator::Islip, 1, &all, &mut next).len()).collect();
        assert_eq!(sizes, [1, 2, 3, 3, 3]);
        let mut next = [vec![0; 4], vec![0; 4]];
        assert_eq!(granted(Allocator::Islip, 3, &all, &mut next).len(), 3);
    }

    #[test]
    fn the_lowest_class_passes_first() {
        let two =
            [AllocationRequest { class: 3, ..request(0, 1, 1) }, AllocationRequest { class: 2, ..request(2, 1, 9) }];
        for allocator in [Allocator::Islip, Allocator::RoundRobin, Allocator::Age] {
            let mut next = [vec![0; 4], vec![0; 4]];
            assert_eq!(granted(allocator, 1, &two, &mut next), [(2, 1)]);
            assert_eq!(granted(allocator, 1, &two, &mut next), [(2, 1)]);
        }
    }

    #[test]
    fn the_oldest_wins_and_round_robin_takes_turns() {
        let two = [request(0, 1, 9), request(2, 1, 4)];
        let mut next = [vec![0; 4], vec![0; 4]];
        assert_eq!(granted(Allocator::Age, 1, &two, &mut next), [(2, 1)]);
        let mut next = [vec![0; 4], vec![0; 4]];
        let turns: Vec<_> = (0..3).flat_map(|_| granted(Allocator::RoundRobin, 1, &two, &mut next)).collect();
        assert_eq!(turns, [(0, 1), (2, 1), (0, 1)]);
    }
}
