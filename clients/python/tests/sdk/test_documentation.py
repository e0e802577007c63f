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


AS_INSTALLED = """[mypy]
strict = true
[mypy-paceline.*]
ignore_errors = true
"""
WRONG = """
limiter.slot("openai", models="gpt-4o")
paceline.requests().gett("x")
"""


def test_all_of_its_code_has_types(tmp_path: Path) -> None:
    """As `mypy --strict` reads it, with the types of the real SDKs; a field that does not exist is told."""
    code = "\n".join(blocks())
    (tmp_path / "mypy.ini").write_text(AS_INSTALLED)
    (tmp_path / "page.py").write_text(code)
    (tmp_path / "wrong.py").write_text(code + WRONG)
    words = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "page.py", "wrong.py"]
    environment = {**os.environ, "MYPYPATH": str(SOURCES)}
    ended = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400)
    told = ended.stdout.splitlines()
    assert not [line for line in told if not line.startswith("wrong.py:") and "error:" in line], ended.stdout
    assert 'Unexpected keyword argument "models"' in ended.stdout
    assert '"Session" has no attribute "gett"' in ended.stdout
    assert "Found 2 errors in 1 file" in told[-1]


def test_the_readme_begins_alike() -> None:
    """The README of the repository shows the same lines, which are run above."""
    shown = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert shown == blocks()[:1]
