//! A schedule uses only links of its configurations, and wires and ports allow these.

use super::text;
use antiphon_base::error::Result;
use antiphon_base::watch::interruptible;
use antiphon_model::fabric::aries::{BypassPorts, Configured, is_bypass};
use antiphon_model::fabric::{Fabric, Link};
use antiphon_model::schedule::Schedule;

/// Checks that every configuration that a schedule uses gives each router port one link and lays no more segments along a
/// row or column than it has wires, that every link of a transfer is in the configuration of its phase, and that the
/// configuration changes at barriers only. Counts the fabric's links and knows nothing of how it was configured.
/// O(links * length * configurations + total route length).
///
/// # Errors
/// [`antiphon_base::error::Code::NotProven`], naming port, segment and conflict, or transfer and link.
pub fn check(fabric: &Fabric, schedule: &Schedule) -> Result<()> {
    let Some(configured) = &fabric.configured else { return Ok(()) };
    for number in 0..configured.configurations.len() as u32 {
        if schedule.phases.iter().any(|phase| phase.configuration == number) {
            let of_it = (0..).zip(&fabric.links).filter(|(id, _)| fabric.has(*id, number)).map(|(_, link)| link);
            check_links(configured, of_it.collect())?;
        }
    }
    for pair in schedule.phases.windows(2) {
        if fabric.changes(pair[0].configuration, pair[1].configuration) && !pair[1].barrier {
            return text::not_proven(format!(
                "the fabric changes between phases {} and {}, but there is no barrier",
                pair[0].name, pair[1].name
            ));
        }
    }
    let channels = schedule.channels(fabric);
    for (id, transfer) in (0..).zip(interruptible(&schedule.transfers)) {
        let number = schedule.phases[transfer.phase as usize].configuration;
        let used = transfer.route.iter().flat_map(|&link| channels.links(channels.first_of(link)));
        if let Some(&link) = used.into_iter().find(|&&link| !fabric.has(link, number)) {
            let Link { from, to, dimension, .. } = fabric.link(link);
            return text::not_proven(format!(
                "{}: link {link} ({dimension}, node {from} to {to}) is not in configuration {number}",
                text::transfer(schedule, id)
            ));
        }
    }
    Ok(())
}

/// Checks the links of one configuration.
fn check_links(configured: &Configured, links: Vec<&Link>) -> Result<()> {
    let aries = &configured.aries;
    let [rows, columns] = aries.sizes;
    let place = |node: u32| [node / columns, node % columns];
    // The dimension along which a link leads, and whether to a greater position.
    let way = |link: &Link| {
        let (from, to) = (place(link.from), place(link.to));
        let dimension = usize::from(from[0] == to[0]);
        (dimension, from[dimension] < to[dimension])
    };
    let mut routers = vec![[[0u32; 4]; 2]; (rows * columns) as usize];
    let mut gaps = vec![[0u32; 4]; (rows * columns) as usize];
    for link in links {
        let (dimension, ascends) = way(link);
        // A link leaves on the side that it leads to and arrives on the other.
        for (direction, (node, plus)) in [(link.from, ascends), (link.to, !ascends)].into_iter().enumerate() {
            routers[node as usize][direction][2 * dimension + usize::from(plus)] += 1;
        }
        let short = |[y_minus, y_plus, x_minus, x_plus]: [u32; 4]| match aries.ports {
            BypassPorts::Any => (y_minus + y_plus + x_minus + x_plus > 4).then_some("4 ports"),
            BypassPorts::Facing => (y_minus + x_minus > 2 || y_plus + x_plus > 2).then_some("2 ports on a side"),
            BypassPorts::Own => {
                [y_minus, y_plus, x_minus, x_plus].iter().any(|&links| links > 1).then_some("1 port a way")
            }
        };
        let name = format!("{} {}>{}", link.dimension, link.from, link.to);
        for (direction, node) in [link.from, link.to].into_iter().enumerate() {
            if let Some(most) = short(routers[node as usize][direction]) {
                let kind = ["out of", "into"][direction];
                return text::not_proven(format!("router {node} has {most} {kind} it, one too few for {name}"));
            }
        }
        let (from, to) = (link.from.min(link.to), link.from.max(link.to));
        let step = [columns, 1][dimension];
        for node in (from..to).step_by(step as usize).filter(|_| is_bypass(link)) {
            let passing = &mut gaps[node as usize][2 * dimension + usize::from(ascends)];
            *passing += 1;
            if *passing > aries.wires {
                let (wires, end) = (aries.wires, node + step);
                return text::not_proven(format!(
                    "between routers {node} and {end} there are {wires} wire(s) that way, one too few for {name}"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::assert_has;
    use super::super::verify;
    use super::*;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::fabric::Router;
    use antiphon_model::fabric::aries::{Aries, Configuration, Segment};
    use antiphon_model::schedule::{Builder, Op};
    use antiphon_model::system::System;
    use antiphon_plan::algorithm::build;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn parse(spec: &str) -> Fabric {
        Fabric::parse(spec).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Rank 0's data to all, each by the shortest way, in two phases.
    fn broadcast(fabric: &Fabric, barrier: bool) -> Schedule {
        let collective = Collective { kind: Kind::Broadcast, root: 0 };
        let mut builder = Builder::new("test", fabric, collective, 64);
        builder.block((0, 64), 64);
        for phase in ["first", "second"] {
            builder.phase(phase, barrier);
            let all = 1..fabric.ranks() as u32;
            let (near, far): (Vec<u32>, Vec<u32>) = all.partition(|rank| *rank < fabric.ranks() as u32 / 2);
            for to in if phase == "first" { near } else { far } {
                builder.send(Op::Copy, 0, to, 0, 0).unwrap();
            }
        }
        builder.finish().unwrap()
    }

    #[test]
    fn what_wires_and_ports_do_not_allow_is_named() {
        let legal = parse("aries:4x4,y0=0-3");
        let schedule = broadcast(&legal, false);
        assert_eq!(check(&legal, &schedule), Ok(()));
        let with = |change: &dyn Fn(&mut Fabric)| {
            let mut fabric = legal.clone();
            change(&mut fabric);
            check(&fabric, &schedule).unwrap_err().message
        };
        let bypass = legal.links.iter().position(is_bypass).unwrap();
        // The same segment again, though there is one wire.
        let twice = with(&|fabric| {
            let link = fabric.links[bypass].clone();
            fabric.links.push(link);
            Arc::make_mut(fabric.configured.as_mut().unwrap()).members.push(1);
        });
        assert_has(&twice, &["1 wire(s) that way, one too few for y-bypass"]);
        // A third link into a corner's side, and a fifth out of a router.
        let corner = with(&|fabric| Arc::make_mut(fabric.configured.as_mut().unwrap()).aries.ports = BypassPorts::Own);
        assert_has(&corner, &["1 port a way", "one too few for"]);
        let fifth = with(&|fabric| {
            fabric.links.push(Link::new(5, 7, "x-bypass"));
            Arc::make_mut(fabric.configured.as_mut().unwrap()).members.push(1);
        });
        assert_has(&fifth, &["router 5 has 4 ports out of it, one too few for x-bypass 5>7"]);
    }

    #[test]
    fn phases_keep_to_their_configuration() {
        let fabric = parse("aries:4x4,x0=0-3,then,y0=0-3,switch=50ns");
        let good = broadcast(&fabric, false);
        assert!(verify(&fabric, &good).unwrap().complete);
        assert_eq!(
            good.phases.iter().map(|p| (p.configuration, p.barrier)).collect::<Vec<_>>(),
            [(0, false), (1, true)]
        );
        let mut early = good.clone();
        early.phases[1].barrier = false;
        assert_has(&check(&fabric, &early).unwrap_err().message, &["changes between phases first and second"]);
        let mut other = good.clone();
        other.phases[1].configuration = 0;
        assert_has(
            &check(&fabric, &other).unwrap_err().message,
            &["(y-bypass, node 0 to 12) is not in configuration 0"],
        );
        other.phases[1].configuration = 2;
        assert_has(&verify(&fabric, &other).unwrap_err().message, &["needs configuration 2, the fabric has 0 to 1"]);
    }

    #[test]
    fn a_schedule_on_a_segment_that_is_not_there_is_refused() {
        let (with, without) = (parse("aries:4x4,x0=0-3"), parse("aries:4x4,x1=0-3"));
        let mut schedule = broadcast(&with, false);
        assert_has(
            &verify(&without, &schedule).unwrap_err().message,
            &["it is for aries:4x4,x0=0-3, not for aries:4x4,x1"],
        );
        schedule.fabric.clone_from(&without.name);
        assert_has(&verify(&without, &schedule).unwrap_err().message, &["its route is at node 0, but link"]);
    }

    proptest! {
        /// Random segments: the verifier counts the links that are configured, and algorithms run on them.
        #[test]
        fn configurations_and_counts_agree(
            sizes in [2u32..6, 2u32..6],
            wires in 1u32..3,
            ports in prop_oneof![Just(BypassPorts::Any), Just(BypassPorts::Facing), Just(BypassPorts::Own)],
            ends in prop::collection::vec((0u32..36, 0u32..36), 0..8),
            off in prop::collection::vec((0u32..36, 0u32..36), 0..8),
        ) {
            let aries = Aries { sizes, wires, ports, pitch_um: None };
            let count = sizes[0] * sizes[1];
            let segments = ends.iter().filter_map(|&(a, b)| aries.segment(a % count, b % count)).collect();
            let detached = off.into_iter().filter(|&(a, b)| aries.are_neighbours(a, b)).collect();
            let configuration = Configuration::new(segments, detached);
            match aries.fabric("test", vec![configuration.clone()], 0) {
                Ok(fabric) => {
                    let spec = format!("{aries},{configuration}");
                    let spec = spec.trim_end_matches(',');
                    prop_assert_eq!(&parse(spec).links, &fabric.links);
                    prop_assert_eq!(&parse(spec).configured, &fabric.configured);
                    for algorithm in ["direct", "dbtree"] {
                        let collective = Collective { kind: Kind::AllReduce, root: 0 };
                        let schedule = build(&fabric, &System::default(), collective, 4096, algorithm).unwrap();
                        prop_assert!(verify(&fabric, &schedule).unwrap().complete);
                    }
                }
                Err(error) if error.message.contains("disconnected") => {}
                Err(error) => {
                    // The same links without the check.
                    let nodes = aries.fabric("test", vec![Configuration::default()], 0).unwrap();
                    let mut fabric = nodes.clone();
                    fabric.links.retain(|link| !configuration.is_detached((link.from, link.to)));
                    let bypass = |&s: &Segment| {
                        let (from, to) = aries.ends(s);
                        Link::new(from, to, if s.dimension == 0 { "y-bypass" } else { "x-bypass" })
                    };
                    fabric.links.extend(configuration.segments.iter().map(bypass));
                    let links = fabric.links.len();
                    Arc::make_mut(fabric.configured.as_mut().unwrap()).members = vec![1; links];
                    let schedule = broadcast(&nodes, false);
                    let found = check(&fabric, &Schedule { transfers: vec![], ..schedule });
                    prop_assert!(found.is_err(), "{error}: the verifier sees nothing");
                }
            }
        }
    }

    #[test]
    fn routes_take_bypasses() {
        let fabric = parse("aries:4x4,x0=0-3");
        let links: Vec<_> =
            Router::new(&fabric).route(0, 7).iter().map(|&id| fabric.link(id).dimension.clone()).collect();
        assert_eq!(links, ["x-bypass", "y"]);
    }
}
