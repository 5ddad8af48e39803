"""The licences of what the extension is linked from, which wheels carry."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_licences_are_those_of_the_packages_that_are_locked() -> None:
    """After a change of packages, ``make tables`` writes them again."""
    text = (ROOT / "LICENSE-THIRD-PARTY").read_text()
    named = set(re.findall(r"^([\w-]+) (\d[\w.+-]*) \(", text, re.MULTILINE))
    locked = re.findall(r'name = "([\w-]+)"\nversion = "([\w.+-]+)"', (ROOT / "Cargo.lock").read_text())
    assert named <= set(locked)
    needed = "\n".join(path.read_text() for path in sorted(ROOT.glob("crates/*/Cargo.toml")))
    others = r"\[(dev-dependencies|features|lints|lib|package|\[bench).*?(?=\n\[|$)"
    needed = re.sub(others, "", needed, flags=re.DOTALL)
    direct = set(re.findall(r"^([a-z][\w-]*)(?:\.workspace)? = ", needed, re.MULTILINE))
    direct = {name for name in direct if not name.startswith("antiphon-")}
    assert direct
    assert {name for name, _ in named} >= direct - {"criterion"}
    assert 'LICENSE-THIRD-PARTY"' in (ROOT / "pyproject.toml").read_text()
