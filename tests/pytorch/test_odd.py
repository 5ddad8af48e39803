"""What is odd about a wiring, of findings as they may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from antiphon.torch.discovery.cables import Cable, End
from antiphon.torch.discovery.datagrams import Arrived
from antiphon.torch.discovery.examining import Examined, unplugged
from antiphon.torch.discovery.findings import Finding
from antiphon.torch.discovery.odd import odd
from antiphon.torch.discovery.probing import Measured
from antiphon.torch.discovery.records import Host, Interface

RATE = 25e6


def cable(number: int, low: str, high: str, local: bool = False) -> Finding:
    """A sound one between hosts."""
    first, second = (
        End(
            rank,
            (low, high)[rank],
            Interface(f"p{number}{'ab'[rank]}", (), mtu_bytes=9000),
            f"169.254.{number}.{rank + 1}" if local else f"10.0.{number}.{rank + 1}",
        )
        for rank in (0, 1)
    )
    return Finding(Cable(number, first, second), (0, 1), False, Measured(1e-4, [RATE, RATE]), "")


def ported(each: Finding, **pairs: Sequence[object]) -> Finding:
    """With other interfaces: a value for each end."""
    ends = [
        replace(end, interface=replace(end.interface, **{key: pair[at] for key, pair in pairs.items()}))  # type: ignore[type-var]
        for at, end in enumerate(each.cable.ends)
    ]
    return replace(each, cable=replace(each.cable, low=ends[0], high=ends[1]))


def carrying(each: Finding, *rates: float) -> Finding:
    """With other rates, there and back."""
    return replace(each, measured=Measured(1e-4, list(rates)))


TRIANGLE = [cable(0, "a", "b"), cable(1, "a", "c"), cable(2, "b", "c")]


def said(findings: list[Finding], hosts: list[Host] | None = None, parts: list[list[str]] | None = None) -> list[str]:
    """What is odd, with the port at which a cable begins."""
    there = hosts or []
    found = odd(Examined(there, findings, unplugged(there), parts or [["a", "b", "c"]]))
    return [f"{each.link.split(' 10.')[0].split(' 169.')[0]}: {each.what}" for each in found]


def test_sound_cables_are_not_odd() -> None:
    assert said(TRIANGLE) == []
    near = [replace(carrying(each, RATE, 0.8 * RATE), arrived=Arrived([0.995, 1], [1, 1])) for each in TRIANGLE]
    assert said(near) == []


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (lambda it: carrying(it, RATE / 2, RATE / 2), "slow both ways: 100 Mbit/s, the other cables 200 Mbit/s (50%)"),
        (
            lambda it: carrying(it, RATE, RATE / 4),
            "one direction slow: 50.0 Mbit/s from b p0b to a p0a, 200 Mbit/s back",
        ),
        (lambda it: ported(it, mtu_bytes=(1500, 1500)), "MTU 1500: larger packets cost less, if both ports can"),
        (lambda it: ported(it, mtu_bytes=(9000, 1500)), "MTU 9000 at a p0a, 1500 at b p0b: set them alike"),
        (lambda it: replace(it, arrived=Arrived([0.95, 1], [1, 1])), "loses 5.0% of the packets from a p0a to b p0b"),
        (
            lambda it: replace(carrying(it, RATE, 1e6), arrived=Arrived([1, 0.979], [1, 1])),
            "loses 2.1% of the packets from b p0b to a p0a",
        ),
        (lambda it: replace(it, arrived=Arrived([1, 1], [1, 0])), "no packet of 9000 bytes comes from b p0b"),
        (lambda it: replace(it, is_stray=True), "in another port than its addresses say: a p0a is cabled to b p0b"),
        (
            lambda it: replace(ported(it, mtu_bytes=(1500, 1500)), is_management=True),
            "management network: data go over it",
        ),
        (
            lambda it: ported(it, speed_mbit=(1000, 1000)),
            "slow both ways: 200 Mbit/s of 1.00 Gbit/s that its interfaces claim",
        ),
        (
            lambda it: ported(it, speed_mbit=(100, 200)),
            "its interfaces claim different rates: 100 Mbit/s and 200 Mbit/s",
        ),
        (lambda it: replace(it, trouble="timed out"), "no answer (timed out), though both ports have a carrier"),
    ],
)
def test_each_fault_is_named(changed: Callable[[Finding], Finding], what: str) -> None:
    (found,) = said([changed(TRIANGLE[0]), *TRIANGLE[1:]])
    assert found.startswith(f"a p0a: {what}")


def test_datagrams_that_a_firewall_stops_say_nothing() -> None:
    assert said([replace(each, arrived=Arrived()) for each in TRIANGLE]) == []


def test_what_all_cables_have_is_said_once() -> None:
    (found,) = said([ported(each, mtu_bytes=(1500, 1500)) for each in TRIANGLE])
    assert found.startswith("all cables: MTU 1500")


def test_twins_are_crossed_only_where_no_address_says_so() -> None:
    for local in (True, False):
        first = ported(cable(0, "a", "b", local), name=("p0", "p1"))
        second = ported(cable(1, "a", "b", local), name=("p1", "p0"))
        assert len(said([first, second])) == local


def test_ports_without_a_carrier_are_missing_cables() -> None:
    lan, dark = Interface("lan", ("192.168.0.1/24",)), Interface("p0a", ("10.0.0.1/30",))
    far, bridge = Interface("p0b", ("10.0.0.2/30",)), Interface("docker0", ("172.17.0.1/16",))
    one, other = Host(0, "a", (0,), (lan,), "192.168.0.1", (dark, bridge)), Host(1, "b", (1,), (far,), "", (bridge,))
    (found,) = said([], [one, other])
    assert found == "a p0a: no carrier at a p0a: the cable is missing or broken, or a port is down (ip link)"
    (found,) = said([], [one, replace(other, interfaces=(), unplugged=(far,))])
    assert "no carrier at both ends" in found
    local = [replace(each, addresses=(f"169.254.0.{end}/16",)) for end, each in enumerate((dark, far), 1)]
    (found,) = said([], [replace(one, unplugged=(local[0],)), replace(other, interfaces=(local[1],))])
    assert found.startswith("a p0a: no carrier at a p0a")


def test_a_wiring_that_falls_apart_has_no_route() -> None:
    (found,) = said(TRIANGLE[:1], parts=[["a", "b"], ["c"]])
    assert found == "c: no route: no cable leads to a, b; no job runs on all of them"
