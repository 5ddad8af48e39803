//! Which ranks are in which group.

use super::{GroupKind, Parallelism};

/// A dimension of a grid of ranks.
struct GridDimension {
    kind: GroupKind,
    size: u32,
    /// Ranks from one to the next along it.
    stride: u32,
}

/// Ranks, each along its dimensions.
struct RankGrid(Vec<GridDimension>);

impl RankGrid {
    fn new(sizes: impl Iterator<Item = (GroupKind, u32)>) -> RankGrid {
        let mut ranks = 1;
        let dimensions = sizes.map(|(kind, size)| {
            let stride = ranks;
            ranks *= size;
            GridDimension { kind, size, stride }
        });
        RankGrid(dimensions.collect())
    }

    /// Ranks from one stage to the next.
    fn stage_stride(&self) -> u32 {
        let pipeline = self.0.iter().find(|dimension| dimension.kind == GroupKind::Pipeline);
        pipeline.expect("every grid has stages").stride
    }

    /// The ranks along those dimensions that `along` holds for, from rank 0; the first dimension varies fastest.
    fn offsets(&self, along: impl Fn(GroupKind) -> bool) -> Vec<u32> {
        self.0.iter().filter(|dimension| along(dimension.kind)).fold(vec![0], |offsets, dimension| {
            let steps = (0..dimension.size).map(|step| step * dimension.stride);
            steps.flat_map(|step| offsets.iter().map(move |offset| step + offset)).collect()
        })
    }

    /// All groups along those dimensions that `along` holds for, that start at `first`.
    fn groups(&self, first: u32, along: impl Fn(GroupKind) -> bool) -> Vec<Vec<u32>> {
        let members = self.offsets(&along);
        let starts = self.offsets(|kind| kind != GroupKind::Pipeline && !along(kind));
        starts.iter().map(|start| members.iter().map(|member| first + start + member).collect()).collect()
    }
}

impl Parallelism {
    /// The grid of dense layers: tp, cp, dp and pp (Megatron-LM; Narayanan et al., arXiv 2104.04473).
    fn dense_grid(&self) -> RankGrid {
        RankGrid::new(self.rank_order.iter().filter_map(|&kind| match kind {
            GroupKind::Tensor => Some((kind, self.tensor)),
            GroupKind::Context => Some((kind, self.context)),
            GroupKind::Data => Some((kind, self.data)),
            GroupKind::Pipeline => Some((kind, self.pipeline)),
            _ => None,
        }))
    }

    /// The grid of experts over the same ranks: etp in the place of tp, ep, edp in the place of dp, and pp (parallel
    /// folding, arXiv 2504.14960, section 3).
    fn expert_grid(&self) -> RankGrid {
        RankGrid::new(self.rank_order.iter().filter_map(|&kind| match kind {
            GroupKind::Tensor => Some((GroupKind::ExpertTensor, self.expert_tensor)),
            GroupKind::Expert => Some((kind, self.expert)),
            GroupKind::Data => Some((GroupKind::ExpertData, self.expert_data_ranks())),
            GroupKind::Pipeline => Some((kind, self.pipeline)),
            _ => None,
        }))
    }

    /// Ranks from one stage to the next in the dense grid and in that of experts: the same in a legal plan of a model
    /// with experts.
    pub(super) fn stage_strides(&self) -> [u32; 2] {
        [self.dense_grid(), self.expert_grid()].map(|grid| grid.stage_stride())
    }

    /// All groups of `kind` with ranks on `stage`, each in ascending order. Groups of one rank are listed, too, except
    /// that there are pairs of [`GroupKind::Embedding`] on the first and the last stage only, and none if those are
    /// one. Groups of [`GroupKind::Pipeline`] have one rank on every stage. Groups of experts mean something for models
    /// with experts only.
    pub fn groups(&self, kind: GroupKind, stage: u32) -> Vec<Vec<u32>> {
        debug_assert!(stage < self.pipeline);
        let dense = self.dense_grid();
        let first = stage * dense.stage_stride();
        match kind {
            GroupKind::Tensor | GroupKind::Context => dense.groups(first, |other| other == kind),
            GroupKind::Data => dense.groups(first, |other| matches!(other, GroupKind::Data | GroupKind::Context)),
            GroupKind::Pipeline => dense.groups(0, |other| other == kind),
            GroupKind::Embedding => {
                let last = self.pipeline - 1;
                let at_end = last > 0 && (stage == 0 || stage == last);
                if at_end { self.neighbours(0, last).into_iter().map(Vec::from).collect() } else { vec![] }
            }
            GroupKind::ExpertTensor | GroupKind::Expert | GroupKind::ExpertData => {
                let experts = self.expert_grid();
                experts.groups(stage * experts.stage_stride(), |other| other == kind)
            }
        }
    }

    /// The ranks of the same place on two stages: of each pair the first is on `stage`, the second on `other_stage`.
    pub fn neighbours(&self, stage: u32, other_stage: u32) -> Vec<[u32; 2]> {
        debug_assert!(stage.max(other_stage) < self.pipeline);
        let dense = self.dense_grid();
        let places = dense.offsets(|kind| kind != GroupKind::Pipeline);
        let stride = dense.stage_stride();
        places.iter().map(|place| [stage, other_stage].map(|stage| stage * stride + place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::{gpt, mixtral, plan};
    use proptest::prelude::*;

    #[test]
    fn groups_of_the_default_order() {
        // Megatron-LM's own example: 16 ranks, tp = 2, pp = 4.
        let plan = plan("tp=2,pp=4", 16, 16, &gpt("gpt", 64, 8, 24, 64, 1000));
        assert_eq!(plan.groups(GroupKind::Tensor, 0), [[0, 1], [2, 3]]);
        assert_eq!(plan.groups(GroupKind::Data, 0), [[0, 2], [1, 3]]);
        assert_eq!(plan.groups(GroupKind::Data, 3), [[12, 14], [13, 15]]);
        assert_eq!(plan.groups(GroupKind::Pipeline, 2), [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]]);
        assert_eq!(plan.groups(GroupKind::Embedding, 0), [[0, 12], [1, 13], [2, 14], [3, 15]]);
        assert_eq!(plan.groups(GroupKind::Embedding, 3), plan.groups(GroupKind::Embedding, 0));
        assert!(plan.groups(GroupKind::Embedding, 1).is_empty());
        assert_eq!(plan.neighbours(2, 1), [[8, 4], [9, 5], [10, 6], [11, 7]]);
    }

    #[test]
    fn llama_3_has_data_outside_of_stages() {
        // [TP, CP, PP, DP], arXiv 2407.21783, section 3.3.2.
        let shape = gpt("gpt", 64, 8, 24, 64, 1000);
        let plan = plan("tp=2,cp=2,pp=2,order=tp-cp-pp-dp", 16, 16, &shape);
        assert_eq!(plan.groups(GroupKind::Tensor, 1), [[4, 5], [6, 7], [12, 13], [14, 15]]);
        assert_eq!(plan.groups(GroupKind::Context, 0), [[0, 2], [1, 3], [8, 10], [9, 11]]);
        assert_eq!(plan.groups(GroupKind::Data, 0), [[0, 2, 8, 10], [1, 3, 9, 11]]);
        assert_eq!(plan.neighbours(0, 1)[..5], [[0, 4], [1, 5], [2, 6], [3, 7], [8, 12]]);
    }

    #[test]
    fn experts_have_a_grid_of_their_own() {
        // tp = 4, dp = 4 beside etp = 1, ep = 8, edp = 2 (arXiv 2504.14960).
        let plan = plan("tp=4,pp=2,ep=8,etp=1", 32, 16, &mixtral());
        assert_eq!(plan.groups(GroupKind::Tensor, 1)[0], [16, 17, 18, 19]);
        assert_eq!(plan.groups(GroupKind::Expert, 1), [(16..24).collect::<Vec<u32>>(), (24..32).collect()]);
        assert_eq!(plan.groups(GroupKind::ExpertData, 0)[..2], [[0, 8], [1, 9]]);
        assert_eq!(plan.groups(GroupKind::ExpertTensor, 0)[3], [3]);
    }

    /// Plans whose stages are the same in both grids.
    fn plans() -> impl Strategy<Value = Parallelism> {
        let sizes = (0u32..3, 0u32..3, 0u32..3, 0u32..3, 0u32..4, 0u32..3);
        let orders = Just(vec!["tp", "cp", "ep", "dp", "pp"]).prop_shuffle();
        (sizes, orders).prop_filter_map("legal", |((tp, cp, pp, dp, ep, etp), order)| {
            let (ranks, order) = (1 << (tp + cp + pp + dp), order.join("-"));
            let [tp, cp, pp, ep, etp] = [tp, cp, pp, ep, etp].map(|exponent| 1 << exponent);
            let text = format!("tp={tp},cp={cp},pp={pp},ep={ep},etp={etp},order={order}");
            Parallelism::parse(&text, ranks, 16, &mixtral()).ok()
        })
    }

    proptest! {
        #[test]
        fn groups_divide_the_ranks_of_a_stage(plan in plans(), stage in 0u32..4) {
            let stage = stage % plan.pipeline;
            let mut on_stage: Vec<u32> = plan.neighbours(stage, stage).iter().map(|pair| pair[0]).collect();
            on_stage.sort_unstable();
            for (kind, size) in [
                (GroupKind::Tensor, plan.tensor),
                (GroupKind::ExpertTensor, plan.expert_tensor),
                (GroupKind::Context, plan.context),
                (GroupKind::Expert, plan.expert),
                (GroupKind::Data, plan.data_ranks()),
                (GroupKind::ExpertData, plan.expert_data_ranks()),
            ] {
                let groups = plan.groups(kind, stage);
                prop_assert!(groups.iter().all(|group| group.len() == size as usize && group.is_sorted()));
                let mut ranks = groups.concat();
                ranks.sort_unstable();
                prop_assert_eq!(&ranks, &on_stage, "{:?}", kind);
            }
            let pipelines = plan.groups(GroupKind::Pipeline, stage);
            prop_assert!(pipelines.iter().all(|group| group.len() == plan.pipeline as usize));
            let mut members: Vec<u32> = pipelines.iter().map(|group| group[stage as usize]).collect();
            members.sort_unstable();
            prop_assert_eq!(members, on_stage);
            prop_assert_eq!(pipelines.concat().len() as u32, plan.ranks());
        }

        #[test]
        fn ranks_are_as_in_megatron((tp, cp, pp, dp) in (0u32..3, 0u32..3, 0u32..3, 0u32..3), at in any::<[u32; 4]>()) {
            let ranks = 1 << (tp + cp + pp + dp);
            let [t, c, p, d] = [tp, cp, pp, dp].map(|exponent| 1u32 << exponent);
            let plan = plan(&format!("tp={t},cp={c},pp={p}"), ranks, 16, &gpt("gpt", 64, 8, 24, 64, 1000));
            let [tensor, context, data, stage] = [at[0] % t, at[1] % c, at[2] % d, at[3] % p];
            let rank = tensor + t * (context + c * (data + d * stage));
            let holds = |kind, place: u32| {
                let groups = plan.groups(kind, stage);
                groups.iter().filter(|group| group[place as usize] == rank).count() == 1
            };
            prop_assert!(holds(GroupKind::Tensor, tensor));
            prop_assert!(holds(GroupKind::Context, context));
            prop_assert!(holds(GroupKind::Data, context + c * data));
            prop_assert!(holds(GroupKind::Pipeline, stage));
        }
    }
}
