"""docs/python.md does what it says: its code is run as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from programs import ROOT

PAGE = ROOT / "docs" / "python.md"
SOURCES = Path(__file__).parents[2] / "src"


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)


def run(code: str, mock: Any, service: Any) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(SOURCES),
        "OPENAI_API_KEY": "sk-test-1234567",
        "OPENAI_BASE_URL": f"http://{mock.http}/v1",
        "PACELINE_ADDR": service.grpc,
        "PACELINE_HOSTS": f"{mock.http}=openai",
    }
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)


def test_the_first_lines_are_enough(start: Callable[..., Any]) -> None:
    """A refused call waits and is sent again, by nothing but these lines."""
    mock, service = start("mock-provider", "--first", "1", "--status", "429", "--retry-after", "1"), start("serve")
    first = blocks()[0]
    assert len([line for line in first.splitlines() if line.strip()]) <= 5
    ended = run(first + "\nprint(answer.choices[0].message.content)", mock, service)
    assert ended.returncode == 0, ended.stderr
    assert "mock answer" in ended.stdout
    assert mock.stats()["sends"] == 2
    assert service.metric("paceline_acquires_total", provider="openai", outcome="granted") >= 1
    assert service.metric("paceline_reports_total", provider="openai", status="429") == 1


def test_all_of_its_code_runs(start: Callable[..., Any]) -> None:
    mock, service = start("mock-provider"), start("serve")
    ended = run("\n".join(blocks()), mock, service)
    assert ended.returncode == 0, ended.stderr
    assert mock.stats()["sends"] >= 4


def test_the_readme_begins_alike() -> None:
    """The README of the repository shows the same lines, which are run above."""
    shown = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert shown == blocks()[:1]
