"""Which schedule the ranks of a group run: quick plans at once, better ones when all ranks have them."""

from antiphon.torch.plans.group import GroupPlans
from antiphon.torch.plans.planner import Planner
from antiphon.torch.plans.system import bound_s, carrier_system, predicted_s

__all__ = ["GroupPlans", "Planner", "bound_s", "carrier_system", "predicted_s"]
