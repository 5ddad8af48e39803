"""Finds how the hosts of a job are wired, joins their ranks over those cables, and measures them."""

from antiphon.torch.discovery.connecting import Connected, connect
from antiphon.torch.discovery.examining import Examined, examine
from antiphon.torch.discovery.findings import Finding
from antiphon.torch.discovery.settings import Settings

__all__ = ["Connected", "Examined", "Finding", "Settings", "connect", "examine"]
