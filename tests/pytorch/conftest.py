"""What tests of ``antiphon.torch`` share."""

from __future__ import annotations

import pytest

from antiphon.errors import NotApplicable
from antiphon.execution.testbed.emulation import own_network


@pytest.fixture(scope="session")
def cables() -> None:
    """Hosts in network namespaces, joined cable by cable."""
    try:
        own_network()
    except NotApplicable as error:
        pytest.skip(str(error))
