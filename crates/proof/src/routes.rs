//! Routes lead from the sender to the receiver.

use super::text;
use antiphon_base::error::Result;
use antiphon_base::watch::interruptible;
use antiphon_model::fabric::{Fabric, NodeId};
use antiphon_model::schedule::Schedule;

/// Checks that the links of every route join up, from the sender's node to the receiver's, without
/// passing a node twice. O(total route length).
///
/// # Errors
/// [`antiphon_base::error::Code::NotProven`], naming the transfer and the first wrong link.
pub fn check(fabric: &Fabric, schedule: &Schedule) -> Result<()> {
    // Transfer that last passed each node; MAX is no transfer, since ids are below 2^26.
    let mut passed = vec![u32::MAX; fabric.nodes.len()];
    for (id, transfer) in interruptible(&schedule.transfers).enumerate() {
        let fail = |what: String| text::not_proven(format!("{}: {what}", text::transfer(schedule, id as u32)));
        let node = |rank| schedule.node_of(fabric, rank);
        let mut pass = |node: NodeId| std::mem::replace(&mut passed[node as usize], id as u32) == id as u32;
        let (mut at, end) = (node(transfer.from), node(transfer.to));
        pass(at);
        for &link_id in &transfer.route {
            let link = fabric.link(link_id);
            if link.from != at {
                return fail(format!(
                    "its route is at node {at}, but link {link_id} goes from node {} to {}",
                    link.from, link.to
                ));
            }
            at = link.to;
            if pass(at) {
                return fail(format!("its route passes node {at} twice"));
            }
        }
        if at != end {
            return fail(format!("its route ends at node {at}, rank {} is at node {end}", transfer.to));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;

    #[test]
    fn broken_routes_are_named() {
        let (fabric, good) = ring_all_reduce(4, 64, 1);
        assert_eq!(check(&fabric, &good), Ok(()));
        let link = |from, to| fabric.link_between(from, to).unwrap();
        let (from, to) = (good.transfers[5].from, good.transfers[5].to);
        let with = |route: Vec<u32>| {
            let mut schedule = good.clone();
            schedule.transfers[5].route = route.into();
            check(&fabric, &schedule).unwrap_err().message
        };
        let back = (from + 3) % 4;
        assert_has(&with(vec![]), &["transfer 5 (rank", &format!("ends at node {from}")]);
        assert_has(&with(vec![link(to, from)]), &[&format!("at node {from}, but link")]);
        assert_has(&with(vec![link(from, back)]), &[&format!("ends at node {back}")]);
        assert_has(
            &with(vec![link(from, back), link(back, from), link(from, to)]),
            &[&format!("passes node {from} twice")],
        );
    }

    #[test]
    fn ranks_on_one_node_need_no_links() {
        let (fabric, mut schedule) = ring_all_reduce(2, 64, 1);
        schedule.placement = vec![0, 0];
        assert_has(&check(&fabric, &schedule).unwrap_err().message, &["at node 0, but link"]);
        schedule.transfers.iter_mut().for_each(|t| t.route.clear());
        assert_eq!(check(&fabric, &schedule), Ok(()));
    }
}
