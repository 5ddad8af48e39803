"""This host: who it is, and its network interfaces."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from antiphon.errors import AntiphonError
from antiphon.torch.discovery.records import Interface, Record
from antiphon.torch.discovery.settings import Settings

BOOT = Path("/proc/sys/kernel/random/boot_id")
NETWORK = Path("/proc/self/ns/net")
ROUTES = Path("/proc/self/net/route")
DEVICES = Path("/sys/class/net")


def record(rank: int, settings: Settings) -> Record:
    """What this rank tells the others.

    Raises:
        AntiphonError: ``missing-extra`` without psutil.
    """
    try:
        import psutil
    except ModuleNotFoundError:
        raise AntiphonError("discovery needs psutil; pip install 'antiphon[torch]'", "missing-extra") from None
    addresses = psutil.net_if_addrs()
    found, unplugged = interfaces(addresses, psutil.net_if_stats(), settings.exclude)
    name = socket.gethostname()
    excluded = tuple(sorted(settings.exclude & set(addresses)))
    toward_master = toward(settings.master)
    more = (excluded, unplugged, default_route())
    return Record(rank, identity(name), name, found, toward_master, settings.common(), *more)


def identity(name: str) -> str:
    """Equal for processes that share this host and its network: its name, its boot and the network namespace."""
    try:
        boot = BOOT.read_text().strip()
    except OSError:
        boot = ""
    try:
        network = str(os.stat(NETWORK).st_ino)
    except OSError:
        network = ""
    return f"{name} {boot} {network}"


def interfaces(
    addresses: Mapping[str, Any], states: Mapping[str, Any], exclude: frozenset[str]
) -> tuple[tuple[Interface, ...], tuple[Interface, ...]]:
    """Those that may be used: not of loopback, not excluded, with an address and a carrier; and those without one.

    Args:
        addresses: by interface, as psutil gives them.
        states: by interface, as psutil gives them.
        exclude: names that are left alone.
    """
    found: dict[bool, list[Interface]] = {True: [], False: []}
    for name, listed in addresses.items():
        state = states.get(name)
        usable = tuple(text for text in (_with_mask(each) for each in listed) if text)
        if name not in exclude and state is not None and usable:
            speed_mbit = int(state.speed) if _is_device(name) else 0
            found[bool(state.isup)].append(Interface(name, usable, speed_mbit, int(state.mtu)))
    return tuple(found[True]), tuple(found[False])


def _is_device(name: str) -> bool:
    """Whether an interface is of hardware, as far as the system tells: others claim any speed."""
    return not DEVICES.is_dir() or (DEVICES / name / "device").exists()


def default_route(table: Path = ROUTES) -> str:
    """The interface of the IPv4 route to all addresses with the least metric, as Linux tells it; "" for none."""
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return ""
    found = [(int(row[6]), row[0]) for row in rows if row[1] == row[7] == "00000000"]
    return min(found, default=(0, ""))[1]


def toward(master: str) -> str:
    """The address of this host by which it reaches the rendezvous; "" if that is unknown, or loopback.

    Nothing is sent: a datagram socket is only told its other end.
    """
    if not master:
        return ""
    try:
        family, kind, _, _, where = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(where)
            own = ipaddress.ip_address(str(probe.getsockname()[0]).partition("%")[0])
    except (OSError, ValueError):
        return ""
    return "" if own.is_loopback or own.is_unspecified else str(own)


def _with_mask(listed: Any) -> str:
    """An address with its mask, ``10.0.0.1/24``; "" for what none can be joined at."""
    try:
        address = ipaddress.ip_address(str(listed.address).partition("%")[0])
        mask = listed.netmask
        if mask is None:
            return ""
        prefix = bin(int(ipaddress.ip_address(str(mask).partition("/")[0]))).count("1")
    except ValueError:
        return ""  # of the hardware
    if address.is_loopback or address.is_multicast or address.is_unspecified:
        return ""
    return f"{address}/{prefix}"
