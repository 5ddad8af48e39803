"""A GPU cluster as libraries see it: equal boxes, rates of a GPU and of a NIC, no graph."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from antiphon._core import Fabric
from antiphon.errors import AntiphonError

MOST_RANKS = 131_072


@dataclass(frozen=True)
class Machine:
    """A kind of box; its rates are those of the fabric preset (docs/reference/fabric.md)."""

    gpu: str
    gpus: int
    nics: int
    links: int
    """Of a GPU inside the box."""
    group_links: Mapping[int, int] | None = None
    """Links of a GPU to others of a group of so many; where it has no entry, libraries' rings are not known."""
    reduces: bool = False
    intel: bool = True
    most_boxes: int = MOST_RANKS


MACHINES = {
    "dgx-v100": Machine("v100", 8, 8, 6, {2: 2, 4: 4, 8: 6}, most_boxes=1),
    "dgx-a100": Machine("a100", 8, 8, 12, intel=False),
    "dgx-h100": Machine("h100", 8, 8, 18, reduces=True),
    "dgx-h200": Machine("h200", 8, 8, 18, reduces=True),
    "h800": Machine("h800", 8, 8, 8, reduces=True),
    "dgx-b200": Machine("b200", 8, 8, 18, reduces=True),
    "gb200-nvl72": Machine("gb200", 72, 72, 18, reduces=True),
    "mi250": Machine("mi250", 16, 16, 7, intel=False),
    "mi300x": Machine("mi300x", 8, 8, 7, {n: n - 1 or 7 for n in range(1, 9)}, intel=False),
}
"""By the name of the fabric preset."""


@cache
def _rates(kind: str, raw: bool) -> tuple[float, float]:
    """GB/s of all links of a GPU inside its box, and of its link to a NIC; of several the least."""
    machine = MACHINES[kind]
    links = Fabric(kind + (":2" if machine.most_boxes > 1 else "") + (":raw" if raw else "")).links
    outside = np.isin(links["dimension"], ("ib", "rail"))
    rates = links["rate_gb_per_s"]
    inside, nic = (np.bincount(links["from"], rates * of)[: machine.gpus].min() for of in (~outside, outside))
    return float(inside), float(nic)


UNIT_BOXES = 32
"""Boxes whose NICs of one rail are on one leaf (NVIDIA, "DGX SuperPOD: Reference Architecture")."""


@dataclass(frozen=True)
class Cluster:
    """Equal boxes of GPUs of which ``ranks`` take part, as many in each. Rates are GB/s in one direction."""

    name: str
    gpu: str
    """Generation: a key of the libraries' tables."""
    gpus_per_box: int
    boxes: int
    nics_per_box: int
    links_per_gpu: int
    gpu_gb_per_s: float
    """Usable, of all links of a GPU inside the box."""
    gpu_raw_gb_per_s: float
    nic_gb_per_s: float
    nic_raw_gb_per_s: float
    nvls: bool
    """Whether switches in the box reduce and multicast."""
    sharp: bool
    """Whether switches between boxes reduce, and the library uses them (NCCL: NCCL_COLLNET_ENABLE=1)."""
    ranks: int
    intel: bool = True
    oversubscription: float = 1
    """Cables down for each cable up, of leaves."""

    @staticmethod
    def parse(spec: str) -> Cluster:
        """The cluster of a fabric preset's name.

        >>> Cluster.parse("dgx-h100:64:rails=leaf-spine,ratio=2").ranks
        512

        Args:
            spec: ``KIND[:BOXES][:OPTION][,OPTION...]`` with the options ``raw``, ``usable`` (both rates are known in
                any case), ``nics=K``, ``rails=...``, ``ratio=R``, ``switches=plain`` where none reduces, and
                ``switches=rail:in-tree`` where those between boxes do, and the library uses that (SHARP).

        Raises:
            AntiphonError: ``bad-spec``, ``unknown-name`` or ``too-large``.
        """
        kind, _, rest = spec.strip().partition(":")
        kind, *options = kind.split(",")
        if kind == "fugaku":
            return _fugaku(spec.strip(), rest)
        machine = MACHINES.get(kind)
        if machine is None:
            known = ", ".join([*MACHINES, "fugaku"])
            message = f"'{spec[:60]}' is no cluster that libraries are modelled on; known: {known}"
            raise AntiphonError(message, "unknown-name")
        # A colon joins an option, too, but for the one in `switches=PREFIX:MODE`.
        words = [word for word in re.split(r",|:(?!plain|on-read|in-tree)", rest) if word]
        boxes = 1
        if words and words[0].isdecimal() and len(words[0]) < 9:
            boxes = int(words.pop(0))
        most = min(machine.most_boxes, MOST_RANKS // machine.gpus)
        if not 1 <= boxes <= most:
            raise AntiphonError(f"{spec[:60]}: 1 to {most:,} boxes of {kind} are modelled", "too-large")
        nics, over, nvls, sharp = machine.nics, 1.0, machine.reduces, False
        if any(word.startswith("ratio=") for word in (*options, *words)) and "rails=leaf-spine" not in (
            *options,
            *words,
        ):
            raise AntiphonError(f"{spec[:60]}: ratio= needs rails=leaf-spine", "bad-spec")
        for word in words:
            key, _, value = word.partition("=")
            if key == "nics" and re.fullmatch("[1-9][0-9]?", value) and machine.gpus % int(value) == 0:
                nics = int(value)
            elif key == "ratio" and re.fullmatch(r"\d{1,3}(\.\d{1,3})?", value) and float(value) >= 1:
                over = float(value)
            elif found := re.fullmatch(r"switches=(?:(\w+):)?(plain|on-read|in-tree)", word):
                inside = (found[1] or "nvs").startswith("nvs")
                nvls = found[2] != "plain" and machine.reduces if inside else nvls
                sharp = found[2] == "in-tree" if not found[1] or not inside else sharp
            elif word not in {"raw", "usable"} and key != "rails":
                raise AntiphonError(
                    f"{spec[:60]}: '{word[:30]}' is nothing that a library's model knows; it knows "
                    "nics=K that divides the GPUs, ratio=NUMBER, switches=plain, switches=rail:in-tree, rails=..., raw",
                    "bad-spec",
                )
        (usable, nic), (raw, nic_raw) = _rates(kind, raw=False), _rates(kind, raw=True)
        return Cluster(
            name=spec.strip(),
            gpu=machine.gpu,
            gpus_per_box=machine.gpus,
            boxes=boxes,
            nics_per_box=nics,
            links_per_gpu=machine.links,
            gpu_gb_per_s=usable,
            gpu_raw_gb_per_s=raw,
            nic_gb_per_s=nic,
            nic_raw_gb_per_s=nic_raw,
            nvls=nvls,
            sharp=sharp,
            ranks=boxes * machine.gpus,
            intel=machine.intel,
            # A leaf a rail is all that a unit of boxes needs.
            oversubscription=over if boxes > UNIT_BOXES else 1,
        )

    @staticmethod
    def of(fabric: Fabric) -> Cluster:
        """The cluster that a fabric, or the group of ranks that it is, belongs to.

        Raises:
            AntiphonError: as ``parse``, and ``not-applicable`` for groups that are not as large in each box.
        """
        cluster = Cluster.parse(fabric.name.partition("[")[0])
        if fabric.members is None:
            return cluster
        sizes = Counter(rank // cluster.gpus_per_box for rank in fabric.members).values()
        if len(set(sizes)) != 1:
            raise AntiphonError(
                f"{fabric.name[:60]}: libraries are modelled on equal shares of boxes", "not-applicable"
            )
        return cluster.group(len(fabric.members) // len(sizes), len(sizes))

    @property
    def ranks_per_box(self) -> int:
        return self.ranks // self.boxes

    def group(self, gpus: int, boxes: int = 1) -> Cluster:
        """``gpus`` GPUs of each of ``boxes`` boxes.

        Raises:
            AntiphonError: ``bad-spec`` if there are fewer.
        """
        if not (1 <= gpus <= self.gpus_per_box and 1 <= boxes <= self.boxes):
            has = f"{self.boxes} boxes of {self.gpus_per_box} GPUs"
            raise AntiphonError(f"{self.name} has {has}, not {boxes} of {gpus}", "bad-spec")
        machine = next((each for each in MACHINES.values() if each.gpu == self.gpu), None)
        links = self.links_per_gpu if machine is None or machine.group_links is None else machine.group_links.get(gpus)
        if links is None:
            raise AntiphonError(f"{self.name}: rings of {gpus} of its GPUs are not modelled", "not-applicable")
        usable, raw = (rate * links / self.links_per_gpu for rate in (self.gpu_gb_per_s, self.gpu_raw_gb_per_s))
        return replace(
            self, boxes=boxes, ranks=gpus * boxes, links_per_gpu=links, gpu_gb_per_s=usable, gpu_raw_gb_per_s=raw
        )


def _fugaku(name: str, shape: str) -> Cluster:
    """Nodes of a torus: a link along a dimension of two nodes, two along a longer one."""
    if not re.fullmatch(r"\d{1,5}(x\d{1,5}){2}", shape):
        raise AntiphonError(f"{name[:60]}: write fugaku:XxYxZ, the nodes along each dimension", "bad-spec")
    sizes = [int(size) for size in shape.split("x")]
    nodes = sizes[0] * sizes[1] * sizes[2]
    if not 1 <= nodes <= MOST_RANKS:
        raise AntiphonError(f"{name[:60]}: 1 to {MOST_RANKS:,} nodes are modelled", "too-large")
    links = sum(min(size - 1, 2) for size in sizes)
    rate = links * float(Fabric("fugaku:2x2x2").links["rate_gb_per_s"][0])
    return Cluster(name, "fugaku", 1, nodes, 1, links, rate, rate, rate, rate, False, False, nodes)
