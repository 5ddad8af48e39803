//! What one exchange, done by all groups of a kind at once, puts on links, and how long it takes by itself.

use super::wiring::Wiring;
use antiphon_base::error::{Code, Error, Result};
use antiphon_model::collective::Kind;
use std::collections::BTreeMap;

/// How the members of a group exchange. Bytes are those of the full buffer: what one rank puts into a collective, its own
/// part included, and gets out of an AllGather. In an AllToAll of n ranks each sends 1/n of it to every other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FlowForm {
    /// A collective. AllToAll sends each part on its route. Others go round on rings in all orders of the members of a
    /// box, so that every member is as often the one that the ring leaves the box from; where there are no boxes, on one
    /// ring in the group's order.
    Collective(Kind),
    /// An AllToAll of tokens to experts, of whose bytes to other boxes only a share leaves: as many copies of a token as
    /// boxes that it goes to, at most, over as many as experts that it goes to. Others are made in the box where it
    /// arrives (DeepSeek-V3, arXiv 2412.19437, section 3.2.2).
    Experts {
        /// That share, in (0, 1].
        leaving: f64,
    },
    /// A message from the first to the second member.
    Message,
}

/// What a flow puts on a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowLoad {
    /// The link.
    pub link: u32,
    /// Bytes on it for each byte of the buffer.
    pub bytes: f64,
    /// The share of its rate that the flow takes when it is by itself.
    pub share: f64,
}

/// An exchange of all groups of a kind at once.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupFlow {
    loads: Vec<FlowLoad>,
    seconds_per_byte: f64,
    latency_s: f64,
    /// Buffers and times that a library takes, ascending.
    points: Vec<(f64, f64)>,
}

impl GroupFlow {
    /// The flow of groups of ranks of `wiring`, each in the order of its ring. Groups of one rank exchange nothing. O(ranks
    /// of all groups) for rings; for AllToAll as [`Wiring::add_all_to_all`].
    ///
    /// # Panics
    /// If a rank is not one of the wiring.
    pub fn new(wiring: &dyn Wiring, form: FlowForm, groups: &[Vec<u32>]) -> Self {
        let (mut bytes, mut touched) = (vec![0.0; wiring.links() as usize], vec![]);
        let mut add = |link: u32, more: f64| {
            // A single box has no links to others, and puts nothing on them.
            if more == 0.0 {
                return;
            }
            let sum: &mut f64 = &mut bytes[link as usize];
            if *sum == 0.0 {
                touched.push(link);
            }
            *sum += more;
        };
        let mut latency_s = 0f64;
        for group in groups.iter().filter(|group| group.len() > 1) {
            latency_s = latency_s.max(match form {
                FlowForm::Message => {
                    wiring.add_route(group[0], group[1], 1.0, &mut vec![], &mut add);
                    wiring.route_latency_s(group[0], group[1])
                }
                FlowForm::Collective(Kind::AllToAll) => all_to_all(wiring, group, 1.0, &mut add),
                FlowForm::Experts { leaving } => all_to_all(wiring, group, leaving, &mut add),
                FlowForm::Collective(kind) => ring(wiring, kind, group, &mut add),
            });
        }
        touched.sort_unstable();
        let load = |&link: &u32| FlowLoad { link, bytes: bytes[link as usize], share: 0.0 };
        let mut loads: Vec<FlowLoad> = touched.iter().map(load).collect();
        let seconds = |load: &FlowLoad| load.bytes / wiring.rate(load.link);
        let seconds_per_byte = loads.iter().map(seconds).fold(0.0, f64::max);
        for load in &mut loads {
            load.share = seconds(load) / seconds_per_byte;
        }
        GroupFlow { loads, seconds_per_byte, latency_s, points: vec![] }
    }

    /// The same with times that a library takes for some buffers, which replace those of links: linear between points, in
    /// proportion to bytes beyond the last, and that of the first below it.
    ///
    /// # Errors
    /// [`Code::BadSize`] unless bytes ascend and all are finite and above 0.
    pub fn with_points(self, points: Vec<(f64, f64)>) -> Result<Self> {
        let is_good =
            |&(bytes, seconds): &(f64, f64)| bytes > 0.0 && seconds > 0.0 && bytes.is_finite() && seconds.is_finite();
        if !points.iter().all(is_good) || !points.is_sorted_by(|one, next| one.0 < next.0) {
            let what = "measured exchanges: bytes and seconds must be above 0, and bytes ascend; sort the points";
            return Err(Error::new(Code::BadSize, what));
        }
        Ok(GroupFlow { points, ..self })
    }

    /// Whether a library's times replace those of links.
    pub(crate) fn has_points(&self) -> bool {
        !self.points.is_empty()
    }

    /// The same on links whose rates are all `factor` times as high; measured times stay what they are.
    pub fn on_faster_links(&self, factor: f64) -> Self {
        GroupFlow { seconds_per_byte: self.seconds_per_byte / factor, ..self.clone() }
    }

    /// The same without what it puts on which links: its times by itself.
    pub(crate) fn without_loads(self) -> Self {
        GroupFlow { loads: vec![], ..self }
    }

    /// What it puts on links, in their order.
    pub fn loads(&self) -> &[FlowLoad] {
        &self.loads
    }

    /// Bytes that a buffer puts on links.
    pub fn link_bytes(&self, bytes: f64) -> impl Iterator<Item = (u32, f64)> {
        self.loads.iter().map(move |load| (load.link, load.bytes * bytes))
    }

    /// Seconds that the busiest link takes for a byte of the buffer.
    pub fn seconds_per_byte(&self) -> f64 {
        self.seconds_per_byte
    }

    /// Seconds until the first bytes have made all their hops: of a ring its steps one behind the other, of an AllToAll or
    /// a message the longest route. An AllReduce has that of trees if it is less.
    pub fn latency_s(&self) -> f64 {
        self.points.first().map_or(self.latency_s, |point| point.1)
    }

    /// Seconds that an exchange of a buffer takes by itself: its latency, then its bytes on the busiest link.
    pub fn time_alone_s(&self, bytes: f64) -> f64 {
        let (Some(&first), Some(&last)) = (self.points.first(), self.points.last()) else {
            return self.latency_s + bytes * self.seconds_per_byte;
        };
        if bytes <= first.0 {
            return first.1;
        }
        if bytes >= last.0 {
            return last.1 * bytes / last.0;
        }
        let next = self.points.partition_point(|point| point.0 <= bytes);
        let [(from, start), (to, end)] = [self.points[next - 1], self.points[next]];
        start + (end - start) * (bytes - from) / (to - from)
    }

    /// Seconds of an exchange by itself before and while it moves its bytes, and by what its share of links differs from
    /// that of its loads: less if a library is slower than the links. An exchange with points moves nothing before the
    /// time of the first is over.
    pub(super) fn phases(&self, bytes: f64) -> (f64, f64, f64) {
        let all = self.time_alone_s(bytes);
        let before = self.latency_s().min(all);
        let (moving, on_link) = (all - before, bytes * self.seconds_per_byte);
        let factor = if self.points.is_empty() { 1.0 } else { (on_link / moving).min(1.0) };
        (before, moving, factor)
    }
}

/// Members of a group, box by box in the order of their first members.
fn by_box(wiring: &dyn Wiring, group: &[u32]) -> Vec<Vec<u32>> {
    let (mut numbers, mut machines) = (BTreeMap::new(), Vec::<Vec<u32>>::new());
    for &rank in group {
        let next = machines.len();
        let number = *numbers.entry(wiring.machine(rank)).or_insert(next);
        if number == next {
            machines.push(vec![]);
        }
        machines[number].push(rank);
    }
    machines
}

/// Adds an AllToAll of a group; its latency.
fn all_to_all(wiring: &dyn Wiring, group: &[u32], leaving: f64, add: &mut dyn FnMut(u32, f64)) -> f64 {
    let machines = by_box(wiring, group);
    wiring.add_all_to_all(&machines, 1.0 / group.len() as f64, leaving, add);
    // One inside, and between the first two boxes one to each member of the second.
    let first = group[0];
    let to = machines[0].iter().take(2).chain(machines.get(1).into_iter().flatten());
    let far = machines.iter().skip(2).map(|of| &of[0]);
    to.chain(far).map(|&to| wiring.route_latency_s(first, to)).fold(0.0, f64::max)
}

/// Adds the rings of a collective of a group; its latency.
fn ring(wiring: &dyn Wiring, kind: Kind, group: &[u32], add: &mut dyn FnMut(u32, f64)) -> f64 {
    let machines = by_box(wiring, group);
    let bytes = kind.bus_factor(group.len());
    let mut links = vec![];
    // Latencies of all hops inside boxes, the longest way through a box, and between boxes.
    let (mut inside_s, mut through_s, mut between_s) = (0.0, 0f64, vec![]);
    for (at, of) in machines.iter().enumerate() {
        let count = of.len() as f64;
        if of.len() > 1 {
            // Of a ring's hops in a box one leads out instead, unless it is the only box.
            let share = if machines.len() > 1 { (count - 1.0) / count } else { 1.0 };
            wiring.add_inside(of, bytes * share, add);
            let hops_s = (count - 1.0) * wiring.route_latency_s(of[0], of[1]);
            inside_s += hops_s;
            through_s = through_s.max(hops_s);
        }
        if machines.len() > 1 {
            let next = &machines[(at + 1) % machines.len()];
            for (from, to, share) in pairs(of, next) {
                wiring.add_route(from, to, bytes * share, &mut links, add);
            }
            between_s.push(wiring.route_latency_s(of[0], next[0]));
        }
    }
    // A ring has one hop less than members.
    let longest_s = between_s.iter().copied().fold(0.0, f64::max);
    let ring_s = inside_s + between_s.iter().sum::<f64>() - longest_s;
    match kind {
        Kind::AllReduce => {
            let levels = f64::from((machines.len() as u32).next_power_of_two().ilog2());
            2.0 * ring_s.min(through_s + levels * longest_s)
        }
        _ => ring_s,
    }
}

/// Who of a box sends to whom of the next, and the share of the rings that do: all members equally.
fn pairs(from: &[u32], to: &[u32]) -> Vec<(u32, u32, f64)> {
    // Bounds of shares in units of 1 / (members * members).
    let (widths, whole) = ([to.len(), from.len()], from.len() * to.len());
    let (mut done, mut pairs) = (0, vec![]);
    while done < whole {
        let [sender, receiver] = widths.map(|width| done / width);
        let end = widths.map(|width| (done / width + 1) * width).into_iter().min().unwrap_or(whole);
        pairs.push((from[sender], to[receiver], (end - done) as f64 / whole as f64));
        done = end;
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::wiring;
    use proptest::prelude::*;

    const RING: FlowForm = FlowForm::Collective(Kind::AllReduce);

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} is not {expected}");
    }

    #[test]
    fn eight_rings_over_one_nic_take_eight_times_one() {
        let wiring = wiring("dgx-h100:4:nics=1").unwrap();
        let rings: Vec<Vec<u32>> = (0..8).map(|rank| (0..4).map(|at| rank + 8 * at).collect()).collect();
        let (one, all) = (GroupFlow::new(&*wiring, RING, &rings[..1]), GroupFlow::new(&*wiring, RING, &rings));
        close(one.seconds_per_byte(), 1.5 / 48e9);
        close(all.seconds_per_byte(), 8.0 * one.seconds_per_byte());
        // A NIC for each: as fast as one.
        let wiring = crate::network::wiring("dgx-h100:4").unwrap();
        close(GroupFlow::new(&*wiring, RING, &rings).seconds_per_byte(), one.seconds_per_byte());
    }

    #[test]
    fn times_alone_of_small_groups() {
        let wiring = wiring("dgx-h100:2@400/1us+50/2us").unwrap();
        // In a box: 7/4 of the buffer on each link; trees have as many hops.
        let one = GroupFlow::new(&*wiring, RING, &[(0..8).collect()]);
        close(one.time_alone_s(4e9), 2.0 * 7.0 * 2e-6 + 4e9 * 1.75 / 400e9);
        // Two boxes: each NIC has 15/8 of an eighth.
        let two = GroupFlow::new(&*wiring, RING, &[(0..16).collect()]);
        close(two.seconds_per_byte(), (1.875 / 8.0 / 50e9f64).max(1.875 * 7.0 / 8.0 / 400e9));
        close(two.latency_s(), 2.0 * (7.0 * 2e-6 + 4e-6));
        let gather = GroupFlow::new(&*wiring, FlowForm::Collective(Kind::AllGather), &[vec![0, 8]]);
        close(gather.time_alone_s(2e9), 4e-6 + 1e9 / 50e9);
        let message = GroupFlow::new(&*wiring, FlowForm::Message, &[vec![0, 9], vec![1, 10]]);
        close(message.time_alone_s(1e9), 8e-6 - 2e-6 + 1e9 / 50e9);
        assert_eq!(GroupFlow::new(&*wiring, RING, &[vec![3]]).time_alone_s(1e9), 0.0);
    }

    /// On a ring of four machines without a switch each link has 2 (n-1)/n.
    #[test]
    fn a_ring_without_boxes() {
        let wiring = wiring("ring:4@25/1us").unwrap();
        let flow = GroupFlow::new(&*wiring, RING, &[(0..4).collect()]);
        assert_eq!(flow.loads().len(), 4);
        flow.link_bytes(1.0).for_each(|(_, bytes)| close(bytes, 1.5));
        close(flow.latency_s(), 2.0 * 2e-6);
    }

    /// Every pair of a box has a link: rings in all orders use all of them.
    #[test]
    fn a_box_without_a_switch() {
        let wiring = wiring("mi300x:1@64/1us").unwrap();
        let flow = GroupFlow::new(&*wiring, RING, &[(0..8).collect()]);
        assert_eq!(flow.loads().len(), 56);
        close(flow.seconds_per_byte(), 1.75 / 7.0 / 64e9);
    }

    #[test]
    fn points_replace_times() {
        let wiring = wiring("dgx-a100:1").unwrap();
        let flow = GroupFlow::new(&*wiring, RING, &[(0..8).collect()]);
        let flow = flow.with_points(vec![(1e3, 1e-5), (1e6, 3e-5), (1e9, 1e-2)]).unwrap();
        for (bytes, time) in [(1.0, 1e-5), (1e3, 1e-5), (500_500.0, 2e-5), (1e6, 3e-5), (1e9, 1e-2), (4e9, 4e-2)] {
            close(flow.time_alone_s(bytes), time);
        }
        for wrong in [vec![(2.0, 1.0), (1.0, 1.0)], vec![(0.0, 1.0)], vec![(1.0, f64::NAN)]] {
            assert_eq!(flow.clone().with_points(wrong).unwrap_err().code, Code::BadSize);
        }
    }

    #[test]
    fn experts_of_a_large_system_are_quick() {
        let wiring = wiring("dgx-h100:2048").unwrap();
        let groups: Vec<Vec<u32>> = (0..256).map(|group| (64 * group..64 * (group + 1)).collect()).collect();
        let start = std::time::Instant::now();
        let flow = GroupFlow::new(&*wiring, FlowForm::Experts { leaving: 0.5 }, &groups);
        assert!(start.elapsed().as_secs_f64() < 3.0);
        // 56 of 64 parts leave, half of them as copies.
        close(flow.seconds_per_byte(), 0.5 * 56.0 / 64.0 / 48e9);
    }

    proptest! {
        /// Groups of every rank's `size` neighbours at a distance on boxes: each rank sends and receives what the
        /// collective needs, and what leaves a box is what its rings and parts need.
        #[test]
        fn bytes_on_links_are_those_of_closed_forms(
            power in (0u32..7, 0u32..7),
            machine in prop::sample::select(vec!["dgx-h100:8", "dgx-a100:8", "dgx-b200:40:rails=leaf-spine,ratio=4"]),
            kind in prop::sample::select(vec![Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll]),
        ) {
            let wiring = wiring(machine).unwrap();
            let (stride, size) = (1 << power.0, 1u32 << power.1.min(6 - power.0.min(6)));
            let first = (0..64u32).filter(|rank| (rank / stride).is_multiple_of(size));
            let groups: Vec<Vec<u32>> = first.map(|rank| (0..size).map(|at| rank + stride * at).collect()).collect();
            let flow = GroupFlow::new(&*wiring, FlowForm::Collective(kind), &groups);
            let n = f64::from(size);
            let factor = if kind == Kind::AllReduce { 2.0 } else { 1.0 } * (n - 1.0) / n;
            let (mut up, mut out, mut down) = (vec![0.0; 64], vec![0.0; 8], vec![0.0; 64]);
            for (link, bytes) in flow.link_bytes(1.0) {
                let name = wiring.name(link);
                let (from, to) = name.split_once('>').unwrap();
                let rank = |node: &str| {
                    let (at, gpu) = node.strip_prefix("gpu").unwrap().split_once('.').unwrap();
                    8 * at.parse::<usize>().unwrap() + gpu.parse::<usize>().unwrap()
                };
                if to.starts_with("nvswitch") {
                    up[rank(from)] += bytes;
                } else if from.starts_with("nvswitch") {
                    down[rank(to)] += bytes;
                } else if let Some((at, _)) = from.split_once('.').filter(|_| !from.starts_with("ib")) {
                    let at: usize = at.trim_start_matches("gpu").trim_start_matches("mlx5").parse().unwrap();
                    out[at] += bytes;
                }
            }
            // Members of a group in one box.
            let inside = f64::from((8 / stride).clamp(1, size).min(size));
            let leaves = if inside == n { 0.0 } else {
                match kind {
                    Kind::AllToAll => 8.0 * (n - inside) / n,
                    _ => 8.0 / inside * factor,
                }
            };
            for sum in &out {
                prop_assert!((sum - leaves).abs() < 1e-9, "{sum} leave, not {leaves}");
            }
            // Of an AllToAll, parts to other rails cross the switch of the sender's box as well.
            let stays = match kind {
                Kind::AllToAll if machine.contains("a100") => return Ok(()),
                Kind::AllToAll => (inside - 1.0) / n + (n - inside) / n * (inside - 1.0) / inside,
                _ if inside == n => factor,
                _ => factor * (inside - 1.0) / inside,
            };
            for sum in up.iter().chain(&down) {
                prop_assert!((sum - stays).abs() < 1e-9, "{sum}, not {stays}");
            }
        }

        /// Every member of a box takes part in as many rings, and all rings go on.
        #[test]
        fn pairs_divide_equally(from in 1u32..20, to in 1u32..20) {
            let (from, to): (Vec<u32>, Vec<u32>) = ((0..from).collect(), (100..100 + to).collect());
            let pairs = pairs(&from, &to);
            for (members, of) in [(&from, 0), (&to, 1)] {
                for &member in members {
                    let own = pairs.iter().filter(|pair| [pair.0, pair.1][of] == member);
                    let sum: f64 = own.map(|pair| pair.2).sum();
                    prop_assert!((sum - 1.0 / members.len() as f64).abs() < 1e-12);
                }
            }
        }
    }
}
