//! What a bound is about besides links: which data start and end where.

use super::paths::{CheapestPaths, UNREACHABLE};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Bytes;
use antiphon_model::collective::{Collective, Data, Kind, Matrix};
use antiphon_model::fabric::{Fabric, NodeId};
use antiphon_model::schedule::Schedule;

/// A node with ranks that take part; between ranks on one node data cross no link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Site {
    /// The node.
    pub node: NodeId,
    /// Ranks on it that take part.
    pub ranks: u128,
    /// Bytes of their shards.
    pub shards: u128,
}

/// A collective on a fabric's nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    /// What is computed.
    pub kind: Kind,
    /// Full buffer size.
    pub bytes: Bytes,
    /// Nodes with ranks that take part, at least one, in the order of their first ranks.
    pub sites: Vec<Site>,
    /// Index of the root's site.
    pub root: usize,
    /// With a matrix: bytes from every site, by row, to every other one.
    traffic: Option<Vec<u128>>,
    /// Nodes that have only ranks that are left out: these may forward and add. All other nodes only forward.
    pub helpers: Vec<NodeId>,
    /// Ranks that may add and send: those that take part and those that are left out.
    pub workers: u128,
}

impl Task {
    /// All ranks on the fabric's own nodes.
    pub fn new(fabric: &Fabric, collective: Collective, data: impl Into<Data>) -> Task {
        let nodes: Vec<NodeId> = (0..fabric.ranks() as u32).map(|rank| fabric.node_of_rank(rank)).collect();
        Task::of_nodes(fabric, collective.kind, data.into(), &nodes, nodes[collective.root as usize], &[])
    }

    /// What a schedule does: the ranks that it does not exclude, on the nodes where it places them.
    ///
    /// # Errors
    /// As [`Schedule::check`]; [`Code::BadFile`] if no rank takes part, the root does not, or a rank is placed where no
    /// other can reach it.
    pub fn of_schedule(fabric: &Fabric, schedule: &Schedule) -> Result<Task> {
        schedule.check(fabric)?;
        let bad = |what: String| Err(Error::new(Code::BadFile, format!("schedule: {what}")));
        let Collective { kind, root } = schedule.collective;
        let mut excluded = vec![false; schedule.ranks as usize];
        schedule.excluded.iter().for_each(|&rank| excluded[rank as usize] = true);
        if excluded.iter().all(|&out| out) {
            return bad("every rank is excluded".into());
        }
        if kind.rooted() && excluded[root as usize] {
            return bad(format!("rank {root} is the root, but excluded"));
        }
        let nodes = |out: bool| -> Vec<NodeId> {
            let ranks = (0..schedule.ranks).filter(|&rank| excluded[rank as usize] == out);
            ranks.map(|rank| schedule.node_of(fabric, rank)).collect()
        };
        let root = schedule.node_of(fabric, root);
        let task = Task::of_nodes(fabric, kind, schedule.data(), &nodes(false), root, &nodes(true));
        for reversed in [false, true].into_iter().filter(|_| !schedule.placement.is_empty()) {
            let hops = CheapestPaths::new(fabric, reversed, |_| 1).from(task.sites[0].node);
            if let Some(lost) = task.sites.iter().find(|site| hops[site.node as usize] == UNREACHABLE) {
                return bad(format!(
                    "no path joins nodes {} and {}, where it places ranks",
                    task.sites[0].node, lost.node
                ));
            }
        }
        Ok(task)
    }

    /// From the nodes of the ranks that take part, of the root, and of the ranks that are left out.
    fn of_nodes(fabric: &Fabric, kind: Kind, data: Data, nodes: &[NodeId], root: NodeId, out: &[NodeId]) -> Task {
        const NONE: usize = usize::MAX;
        let Data { bytes, matrix, align } = data;
        let mut site_of = vec![NONE; fabric.nodes.len()];
        let mut sites: Vec<Site> = Vec::new();
        for (index, &node) in nodes.iter().enumerate() {
            let at = &mut site_of[node as usize];
            if *at == NONE {
                *at = sites.len();
                sites.push(Site { node, ranks: 0, shards: 0 });
            }
            sites[*at].ranks += 1;
            sites[*at].shards += align.shard(bytes, nodes.len(), index).1 as u128;
        }
        // The root of a collective without one may be left out: any site serves.
        let root = Some(site_of[root as usize]).filter(|&site| site != NONE).unwrap_or(0);
        let mut helpers: Vec<NodeId> = out.iter().copied().filter(|&node| site_of[node as usize] == NONE).collect();
        helpers.sort_unstable();
        helpers.dedup();
        let traffic = matrix.map(|matrix: Matrix| {
            let mut traffic = vec![0; sites.len() * sites.len()];
            let site = |rank: usize| site_of[nodes[rank] as usize];
            let pairs = (0..nodes.len()).flat_map(|from| (0..nodes.len()).map(move |to| (from, to)));
            for (from, to) in pairs.filter(|&(from, to)| site(from) != site(to)) {
                traffic[site(from) * sites.len() + site(to)] += u128::from(matrix.bytes(from, to));
            }
            traffic
        });
        let workers = (nodes.len() + out.len()) as u128;
        Task { kind, bytes, sites, root, traffic, helpers, workers }
    }

    /// Bytes of an AllToAll from one site to another one.
    pub fn between(&self, from: usize, to: usize) -> u128 {
        match &self.traffic {
            Some(traffic) => traffic[from * self.sites.len() + to],
            None => self.sites[from].ranks * self.sites[to].shards,
        }
    }

    /// Whether sites have what a matrix says for each other.
    pub fn has_matrix(&self) -> bool {
        self.traffic.is_some()
    }

    /// Ranks that take part.
    pub fn ranks(&self) -> u128 {
        self.sites.iter().map(|site| site.ranks).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_node_are_one_site() {
        let fabric = Fabric::parse("mesh:2x3").unwrap();
        let task = Task::of_nodes(&fabric, Kind::AllGather, 40.into(), &[4, 1, 4, 0], 4, &[1, 5, 3, 5]);
        let site = |node, ranks, shards| Site { node, ranks, shards };
        // Shards of 8, 12, 8 and 12 bytes: whole elements.
        assert_eq!(task.sites, [site(4, 2, 16), site(1, 1, 12), site(0, 1, 12)]);
        assert_eq!((task.root, task.helpers, task.sites.len(), task.workers), (0, vec![3, 5], 3, 8));
        // Rank 0 has 1, 2 and 4 bytes for the others, and so on.
        let rows = [[0, 1, 2, 4], [8, 0, 16, 32], [64, 128, 0, 256], [512, 1024, 2048, 0]];
        let matrix = Matrix::new(&rows.map(|row| row.to_vec())).unwrap();
        let task = Task::of_nodes(&fabric, Kind::AllToAll, matrix.into(), &[4, 1, 4, 0], 4, &[]);
        let between = |from| [0, 1, 2].map(|to| task.between(from, to));
        assert_eq!([0, 1, 2].map(between), [[0, 129, 260], [24, 0, 32], [2560, 1024, 0]]);
    }
}
