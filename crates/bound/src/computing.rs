//! Switches that add or multicast: what they change about lower bounds of an AllReduce.
//!
//! Eight ranks around a switch that is read (NVLS): somebody is the first to know the sum of an element. If it read it, all eight have sent
//! and it has received; then it must write to all eight, itself among them. So an element crosses 9 links up and 9 down, where
//! messages between ranks would cross 14 of each, and D bytes take 9/8 D over the rate of a link.

use super::capacity::Capacities;
use super::task::Task;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{Fabric, Link, NodeId};

/// The links of a star: of every rank one to the switch, which is read and written to, and one from it.
pub(super) struct ReadStar {
    /// Links to the switch, and from it.
    links: [Vec<usize>; 2],
}

impl ReadStar {
    /// The star that a fabric is, if all that a task moves goes over one switch that adds on reads and multicasts.
    pub fn of(fabric: &Fabric, task: &Task) -> Option<ReadStar> {
        let mut switches = fabric.computing_switches();
        let (Some(switch), None) = (switches.next(), switches.next()) else { return None };
        let compute = fabric.nodes[switch as usize].compute?;
        let joins = |link: &Link| link.from == switch || link.to == switch;
        let alone = task.sites.iter().all(|site| site.ranks == 1) && task.helpers.is_empty();
        if !compute.is_on_read() || !compute.multicasts || !alone || !fabric.links.iter().all(joins) {
            return None;
        }
        let of = |way: usize| {
            let link = |node: NodeId| {
                let mut found = (0..fabric.links.len()).filter(|&link| {
                    let link = &fabric.links[link];
                    [link.from, link.to][way] == node
                });
                found.next().filter(|_| found.next().is_none())
            };
            task.sites.iter().map(|site| link(site.node)).collect::<Option<Vec<usize>>>()
        };
        Some(ReadStar { links: [of(0)?, of(1)?] })
    }

    /// What an element of an AllReduce costs at least at prices of links.
    ///
    /// Let `v` be the first to know the sum. All others have sent by then, and `v` has received. If `v` or another rank has read, that one
    /// has sent once more; else all others were received, each message at some rank. After that all others receive, and somebody
    /// sends: once, and receives its own, or as often as there are others.
    pub fn all_reduce_cost(&self, prices: &[u64]) -> u128 {
        let of = |way: usize| self.links[way].iter().map(move |&link| u128::from(prices[link]));
        let (up, down) = (|| of(0), || of(1));
        let least = [up().min().unwrap_or(0), down().min().unwrap_or(0)];
        let others = (self.links[0].len() as u128).saturating_sub(2);
        let all = up().sum::<u128>() + down().sum::<u128>() - up().max().unwrap_or(0);
        all + least[0].min(others * least[1]) + least[0] + least[1].min(others * least[0])
    }
}

/// Capacities with which what computing switches do is free: links at them never limit. An AllReduce that uses these switches
/// takes no less than one among ranks that know all that their neighbours at such a switch know. Such a link counts as all together, so that
/// parts that it joins prove less than the volume does.
pub(super) fn freed(fabric: &Fabric, capacities: &Capacities, task: &Task) -> Option<Capacities> {
    let computes = |node: NodeId| fabric.nodes[node as usize].compute.is_some();
    if task.kind != Kind::AllReduce || fabric.computing_switches().next().is_none() {
        return None;
    }
    let mut freed = capacities.clone();
    let most = capacities.total();
    for (link, capacity) in fabric.links.iter().zip(&mut freed.links) {
        *capacity = if computes(link.from) || computes(link.to) { most } else { *capacity };
    }
    Some(freed)
}

#[cfg(test)]
mod tests {
    use crate::lower_bound;
    use antiphon_base::error::Code;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::fabric::{Fabric, Reduces, SwitchCompute};
    use antiphon_model::schedule::Certificate;
    use antiphon_model::system::System;

    fn rates_ps(spec: &str, kind: Kind) -> u64 {
        let (fabric, system) = (Fabric::parse(spec).unwrap(), System::preset("ideal").unwrap());
        let bound = lower_bound(&fabric, &system, Collective::new(kind), 840_000_000, None).unwrap();
        bound.volume_ps.max(bound.cut_ps).max(bound.strength_ps.unwrap_or(0))
    }

    /// NVLS: D (n + 1) / n over the rate (nccl-tests, pull request 239), from four ranks on; SHARP: D over the rate.
    #[test]
    fn an_all_reduce_through_a_switch() {
        let ms = |parts: u64, of: u64| 840_000_000_000 * parts / of / 100;
        for ranks in 2..9u64 {
            let time = |mode: &str| rates_ps(&format!("switch:{ranks}@100,switches={mode}"), Kind::AllReduce);
            let plain = ms(2 * (ranks - 1), ranks);
            assert_eq!(time("plain"), plain);
            assert_eq!(time("on-read"), plain.min(ms(ranks + 1, ranks)), "{ranks}");
            assert_eq!(time("in-tree"), plain.min(ms(1, 1)));
        }
        // A slower link is a cut. Nothing is gained for what is not summed and spread.
        assert_eq!(rates_ps("switch:8@100,slow=0-8:0.5,switches=on-read", Kind::AllReduce), ms(2, 1));
        for kind in [Kind::AllGather, Kind::ReduceScatter, Kind::AllToAll] {
            assert_eq!(rates_ps("switch:8@100,switches=on-read", kind), ms(7, 8), "{kind:?}");
        }
    }

    /// Boxes whose switches add still have to exchange sums by their NICs, twice over if nothing adds between them.
    #[test]
    fn an_all_reduce_between_boxes() {
        let ms = |parts: u64, of: u64| 840_000_000_000 * parts / of / 400;
        for boxes in [2, 4] {
            let time = |switches: &str| rates_ps(&format!("dgx-h100:{boxes}:raw{switches}"), Kind::AllReduce);
            assert_eq!(time(""), ms(2 * (boxes - 1), boxes));
            assert_eq!(time(",switches=rail:in-tree"), ms(1, 1));
            assert!(time("") < time(",switches=plain"));
        }
    }

    /// All claims of a certificate are checked by prices, also where switches add.
    #[test]
    fn certificates_claim_no_more_than_they_prove() {
        let system = System::preset("ideal").unwrap();
        let mut fabric = Fabric::parse("switch:4@100,switches=on-read").unwrap();
        let schedule = |fabric: &Fabric| {
            let mut builder =
                antiphon_model::schedule::Builder::new("t", fabric, Collective::new(Kind::AllReduce), 400);
            builder.schedule.switches = vec![4];
            let lane = builder.block((0, 400), 400);
            use antiphon_model::schedule::Op::{Copy, Reduce};
            (0..4).for_each(|rank| _ = builder.send(Reduce, rank, 4, lane, 0).unwrap());
            builder.send(Copy, 4, 0, lane, 1).unwrap();
            builder.send(Copy, 0, 4, lane, 2).unwrap();
            (0..4).for_each(|rank| _ = builder.send(Copy, 4, rank, lane, 3).unwrap());
            builder.finish().unwrap()
        };
        // One rank reads and writes all: its links carry everything twice, the mean link 5/4.
        let mut read = schedule(&fabric);
        let found = crate::certificate(&fabric, &system, &read, None).unwrap();
        assert_eq!(found.share_ppm, 625_000);
        read.certificate = Some(Certificate { share_ppm: 700_000, ..found });
        assert_eq!(crate::certified(&fabric, &system, &read).unwrap_err().code, Code::NotProven);
        // As a switch that adds in a tree it has less to do, so that the same is further from the optimum.
        fabric.nodes[4].compute = Some(SwitchCompute::of(Reduces::InTree));
        assert_eq!(crate::certificate(&fabric, &system, &schedule(&fabric), None).unwrap().share_ppm, 500_000);
    }
}
