//! Trees of one root in equal parts: as many as its least cut, which is the optimum.

use crate::algorithm::Request;
use crate::algorithm::estimate::flit_times;
use crate::algorithm::packing::branchings;
use crate::algorithm::tree::Tree;
use antiphon_base::units::Picos;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{Link, LinkId, NodeId};
use num_integer::lcm;

/// Most trees that may use a link, and most times that a link is faster than another.
const MOST_USES: u128 = 64;

/// The trees of a broadcast or, turned round, of a reduction: a link of the least rate that all rates are multiples of is in one
/// at most, others in as many more as they are faster. `None` if all ranks are roots, if a link is not between ranks, or if rates
/// have no such unit or the trees would be too many.
pub fn trees(request: &Request) -> Option<Vec<Tree>> {
    let Request { fabric, collective, .. } = *request;
    if !collective.kind.rooted() {
        return None;
    }
    let up = collective.kind == Kind::Reduce;
    let rank = |node: NodeId| fabric.nodes[node as usize].rank;
    let times = flit_times(request);
    let common = common(&times)?;
    let arc = |(link, &time): (&Link, &Picos)| {
        let (from, to) = if up { (link.to, link.from) } else { (link.from, link.to) };
        Some((rank(from)?, rank(to)?, (common / u128::from(time.max(1))) as u32))
    };
    let arcs: Vec<_> = fabric.links.iter().zip(&times).map(arc).collect::<Option<_>>()?;
    let edge = |link: LinkId| {
        let (above, below, _) = arcs[link as usize];
        (below, above, if up { [vec![link], vec![]] } else { [vec![], vec![link]] })
    };
    let tree = |entered: Vec<Option<LinkId>>| Tree::new(fabric.ranks(), entered.into_iter().flatten().map(edge));
    Some(branchings(fabric.ranks(), &arcs, collective.root)?.into_iter().map(tree).collect())
}

/// At least as many trees as [`trees`] has from a root; `None` where it has none.
pub fn most_from(request: &Request, root: NodeId) -> Option<usize> {
    let times = flit_times(request);
    let common = common(&times)?;
    Some(
        request
            .fabric
            .out_links(root)
            .iter()
            .map(|&link| (common / u128::from(times[link as usize].max(1))) as usize)
            .sum(),
    )
}

/// The least time that is a multiple of all, if the shortest fits into it at most [`MOST_USES`] times.
fn common(times: &[Picos]) -> Option<u128> {
    let shortest = u128::from(times.iter().copied().min()?.max(1));
    let mut times = times.iter().map(|&time| u128::from(time.max(1)));
    let few = |time: &u128| time / shortest <= MOST_USES;
    times.try_fold(shortest, |common, time| Some(time).filter(few).map(|time| lcm(common, time)).filter(few))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_time_is_a_multiple_of_few() {
        assert_eq!(common(&[20, 30, 20]), Some(60));
        assert_eq!(common(&[7, 7 * 64]), Some(7 * 64));
        assert_eq!(common(&[7, 7 * 65]), None);
        assert_eq!(common(&[64, 65]), None);
        assert_eq!(common(&[u64::MAX, u64::MAX - 1]), None);
    }
}
