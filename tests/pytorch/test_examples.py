"""Examples in docstrings of ``antiphon.torch``: pytest takes no modules that need PyTorch where there is none."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

pytest.importorskip("torch", reason="torch is too large for the development environment")


def test_examples_of_docstrings_are_true() -> None:
    import antiphon.torch

    modules = [each.name for each in pkgutil.walk_packages(antiphon.torch.__path__, "antiphon.torch.")]
    assert "antiphon.torch.bench" in modules
    tried = {name: doctest.testmod(importlib.import_module(name)) for name in modules}
    assert not {name: found for name, found in tried.items() if found.failed}
    assert sum(found.attempted for found in tried.values()) > 0
