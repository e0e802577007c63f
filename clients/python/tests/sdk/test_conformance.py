"""The transports keep the rules of a good worker: `paceline conformance` leads them through all of its situations."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from programs import ROOT, binary

HERE = Path(__file__).parent


def situations_of_the_manual() -> set[str]:
    """The names of all situations, as docs/conformance.md has them in its tables of three columns."""
    manual = (ROOT / "docs" / "conformance.md").read_text()
    names = set(re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| [^|]+ \|$", manual, re.M))
    assert {"plain", "after"} <= names, "its tables are written otherwise"
    return names


def by_the_kit(library: str) -> Any:
    """What the kit says of one of our transports. Fails where the program under test is older than the manual."""
    words = [str(binary()), "conformance", "--json", "--worker", sys.executable, str(HERE / "adapter.py"), library]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=180)
    try:
        found = json.loads(ended.stdout)
    except ValueError:
        pytest.fail(f"{binary()} conformance ended with {ended.returncode} and told nothing:\n{ended.stderr}")
    unknown = situations_of_the_manual() - {one["id"] for one in found["situations"]}
    if unknown:
        names = ", ".join(sorted(unknown))
        pytest.fail(f"{binary()} does not know {names}, which docs/conformance.md has: it is old, build it again")
    return found


@pytest.mark.parametrize("library", ["httpx", "requests", "asyncio"])
def test_the_kit_finds_nothing_wrong(library: str) -> None:
    found = by_the_kit(library)
    assert [one for one in found["situations"] if one["verdict"] != "ok" and not one["optional"]] == []
    assert found["pass"]
    left = [one["verdict"] for one in found["situations"] if one["id"].startswith("leave-")]
    assert left == ["ok", "ok"] or library != "asyncio", "only a task can be cancelled"
