"""The transports keep the rules of a good worker: `paceline conformance` leads them through all of its situations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from programs import binary

HERE = Path(__file__).parent


@pytest.mark.parametrize("library", ["httpx", "requests", "asyncio"])
def test_the_kit_finds_nothing_wrong(library: str) -> None:
    words = [str(binary()), "conformance", "--json", "--worker", sys.executable, str(HERE / "adapter.py"), library]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=180)
    found = json.loads(ended.stdout)
    assert [one for one in found["situations"] if one["verdict"] != "ok" and not one["optional"]] == []
    assert found["pass"]
    assert len(found["situations"]) >= 17
    left = [one["verdict"] for one in found["situations"] if one["id"].startswith("leave-")]
    assert left == ["ok", "ok"] or library != "asyncio", "only a task can be cancelled"
