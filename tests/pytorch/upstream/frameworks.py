"""What trains on a process group: FSDP2, DTensor, DDP, checkpoints; on bases of PyTorch's wheel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as checkpoint
import torch.testing._internal.distributed.ddp_under_dist_autograd_test as rpc
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.common_distributed import MultiProcessTestCase
from torch.testing._internal.distributed._tensor.common_dtensor import DTensorTestBase, with_comms
from torch.testing._internal.distributed.checkpoint_utils import with_temp_dir
from torch.testing._internal.distributed.rpc.tensorpipe_rpc_agent_test_fixture import TensorPipeRpcAgentTestFixture

same = torch.testing.assert_close
Test = Callable[[Any], None]
LAYOUTS = (Shard(0), Shard(1), Replicate())


def joined(test: Test) -> Test:
    """A test in a process group."""
    wrapped: Test = with_comms(test)
    return wrapped


def in_folder(test: Test) -> Test:
    """A test with a folder that all ranks share."""
    wrapped: Test = with_temp_dir(test)
    return wrapped


class Training:
    """Tests on a mesh of all ranks; the class that they are mixed into gives ``rank``, ``world_size`` and asserts."""

    rank: Any
    world_size: Any
    build_device_mesh: Any
    temp_dir: Any
    _test_op: Any

    @joined
    def test_layouts(self) -> None:
        mesh, whole = self.build_device_mesh(), torch.arange(96.0).reshape(8, 12)
        for before in LAYOUTS:
            for after in LAYOUTS:
                moved = distribute_tensor(whole, mesh, [before]).redistribute(mesh, [after])
                same(moved.full_tensor(), whole)

    @joined
    def test_partial_sums(self) -> None:
        mesh, ranks = self.build_device_mesh(), self.world_size
        wanted = {"sum": ranks * (ranks - 1) / 2, "avg": (ranks - 1) / 2, "max": ranks - 1.0, "min": 0.0}
        for operation, value in wanted.items():
            part = DTensor.from_local(torch.full((8, 4), float(self.rank)), mesh, [Partial(operation)])
            same(part.redistribute(mesh, [Shard(0)]).full_tensor(), torch.full((8, 4), value))
            same(part.full_tensor(), torch.full((8, 4), value))

    @joined
    def test_operations_of_all_layouts(self) -> None:
        mesh = self.build_device_mesh()
        torch.manual_seed(0)
        self._test_op(mesh, torch.mul, torch.randn(8, 12), torch.randn(8, 12))
        self._test_op(mesh, lambda value: value.mean(0), torch.randn(8, 12))

    @joined
    def test_uneven_shards_of_two_dimensions(self) -> None:
        mesh = init_device_mesh("cpu", (2, self.world_size // 2), mesh_dim_names=("data", "model"))
        whole = torch.arange(35.0).reshape(5, 7)
        same(distribute_tensor(whole, mesh, [Shard(0), Shard(1)]).full_tensor(), whole)
        assert dist.get_world_size(mesh["model"].get_group()) == self.world_size // 2

    @joined
    def test_gradients_through_collectives(self) -> None:
        world = dist.group.WORLD
        value = torch.ones(self.world_size, requires_grad=True)
        result = functional.all_to_all_single_autograd(value, None, None, world)
        result = functional.all_gather_tensor_autograd(result, 0, world)
        functional.reduce_scatter_tensor_autograd(result, "sum", 0, world).sum().backward()
        same(value.grad, torch.full_like(value, float(self.world_size)))

    @joined
    def test_fully_sharded_as_alone(self) -> None:
        for replicas in (1, 2):
            mesh = self.build_device_mesh()
            if replicas > 1:
                mesh = init_device_mesh("cpu", (2, self.world_size // 2), mesh_dim_names=("replica", "shard"))
            torch.manual_seed(7)
            alone, sharded = (
                torch.nn.Sequential(torch.nn.Linear(9, 16), torch.nn.Tanh(), torch.nn.Linear(16, 5)) for _ in range(2)
            )
            sharded.load_state_dict(alone.state_dict())
            for module in (sharded[0], sharded[2], sharded):
                fully_shard(module, mesh=mesh)
            optimisers = [torch.optim.SGD(model.parameters(), 0.1) for model in (alone, sharded)]
            data = torch.randn(self.world_size, 4, 9, generator=torch.Generator().manual_seed(5))
            for _ in range(3):
                alone(data.flatten(0, 1)).square().mean().backward()
                sharded(data[self.rank]).square().mean().backward()
                for optimiser in optimisers:
                    optimiser.step()
                    optimiser.zero_grad()
            for one, other in zip(alone.parameters(), sharded.parameters(), strict=True):
                same(other.full_tensor(), one, atol=1e-5, rtol=1e-5)

    @joined
    @in_folder
    def test_checkpoint_in_another_layout(self) -> None:
        mesh, whole = self.build_device_mesh(), torch.arange(40.0).reshape(10, 4)
        for saves in (checkpoint.save, lambda *a, **k: checkpoint.async_save(*a, **k).result()):
            saves({"weight": distribute_tensor(whole, mesh, [Shard(0)])}, checkpoint_id=self.temp_dir)
            found = {"weight": distribute_tensor(torch.zeros(10, 4), mesh, [Shard(1)])}
            checkpoint.load(found, checkpoint_id=self.temp_dir)
            same(found["weight"].full_tensor(), whole)

    @joined
    def test_unlike_numbers_of_batches(self) -> None:
        model = DistributedDataParallel(torch.nn.Linear(4, 4))
        optimiser = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
        with Join([model, optimiser]):
            for _ in range(self.rank + 1):
                optimiser.zero_grad()
                model(torch.ones(2, 4)).sum().backward()
                optimiser.step()
        weights = [torch.empty(4, 4) for _ in range(self.world_size)]
        dist.all_gather(weights, model.module.weight.detach())
        for weight in weights:
            same(weight, weights[0])

    @joined
    def test_compiled(self) -> None:
        twice = torch.compile(
            lambda value: functional.all_reduce(value, "sum", dist.group.WORLD) * 2, backend="aot_eager"
        )
        same(twice(torch.ones(4)), torch.full((4,), 2.0 * self.world_size))

    @joined
    def test_groups_come_and_go(self) -> None:
        for _ in range(5):
            group = dist.new_group([0, 1])
            if self.rank < 2:
                value = torch.ones(3)
                dist.all_reduce(value, group=group)
                same(value, torch.full((3,), 2.0))
                dist.destroy_process_group(group)
        dist.barrier()


def classes(forking: type[Any], ranks: int) -> list[Any]:
    """The test cases, in front of which `forking` starts the processes."""
    own = {"__module__": __name__, "world_size": property(lambda _: ranks)}
    bases = (forking, TensorPipeRpcAgentTestFixture)
    return [
        type("Training", (forking, Training, DTensorTestBase), own),
        type("Parameters", (*bases, rpc.DdpUnderDistAutogradTest, MultiProcessTestCase), {"__module__": __name__}),
        type("Comparison", (*bases, rpc.DdpComparisonTest, MultiProcessTestCase), {"__module__": __name__}),
    ]
