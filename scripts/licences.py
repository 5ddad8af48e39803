"""Writes LICENSE-THIRD-PARTY, which wheels carry: licences of the Rust packages that are linked into the extension."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "LICENSE-THIRD-PARTY"
PLATFORM = "x86_64-unknown-linux-gnu"
"""What packages are needed for; other systems need fewer."""
NAMES = ("LICENSE*", "LICENCE*", "COPYING*", "COPYRIGHT*", "NOTICE*", "UNLICENSE*")


def text() -> str:
    """All licences, a text that several packages share once."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", PLATFORM]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    metadata = json.loads(done.stdout)
    of_text: dict[str, list[str]] = {}
    for package in _linked(metadata):
        folder = Path(package["manifest_path"]).parent
        files = {path for name in NAMES for path in folder.rglob(name) if path.is_file() and _is_prose(path)}
        if not files:
            raise SystemExit(f"{package['name']}: no licence in {folder}")
        name = f"{package['name']} {package['version']} ({package['license'] or 'see below'})"
        for path in sorted(files):
            content = path.read_text("utf-8", errors="replace").replace("\r\n", "\n").strip()
            of_text.setdefault(content, []).append(f"{name}: {path.relative_to(folder)}")
    head = "The extension of Antiphon is linked from these packages and Rust's standard library (MIT OR Apache-2.0).\n"
    rule = "=" * 80
    parts = (f"{rule}\n" + "\n".join(dict.fromkeys(names)) + f"\n{rule}\n\n{text}\n" for text, names in of_text.items())
    return head + "\n" + "\n".join(parts)


def _is_prose(path: Path) -> bool:
    return path.suffix in ("", ".md", ".txt", ".rst") or path.name.upper().startswith(("LICENSE-", "LICENSE."))


def _linked(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Packages that the extension needs when it runs, but for those of this workspace."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    members = set(metadata["workspace_members"])
    waiting = [each for each in members if packages[each]["name"] == "antiphon-py"]
    found = set(waiting)
    while waiting:
        for needed in nodes[waiting.pop()]["deps"]:
            kinds = {kind["kind"] for kind in needed["dep_kinds"]}
            if None in kinds and needed["pkg"] not in found and not _is_macro(packages[needed["pkg"]]):
                found.add(needed["pkg"])
                waiting.append(needed["pkg"])
    return sorted((packages[each] for each in found - members), key=lambda each: (each["name"], each["version"]))


def _is_macro(package: dict[str, Any]) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
