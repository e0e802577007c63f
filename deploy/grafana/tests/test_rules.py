"""Alert rules: each names a runbook that is there and complete, uses what is exported, and is tested both ways."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from boards.catalogue import ROOT
from boards.promql import findings
from boards.wanted import LABELS, METRICS

RULES = ROOT / "deploy/prometheus/paceline.rules.yaml"
RUNBOOKS = ROOT / "docs/operating/runbooks"
HEADINGS = ["What users see", "Is it us?", "Three commands", "When it is over"]
FIRST = "first-five-minutes"
# Pages that no alert leads to.
NO_ALERT = {"clients-local"}


def rules() -> list[dict[str, Any]]:
    """Every alert."""
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def ids(rule: dict[str, Any]) -> str:
    """An alert's name."""
    return str(rule["alert"])


def pages() -> list[Path]:
    """Every runbook page."""
    return sorted(RUNBOOKS.glob("*.md"))


@pytest.mark.parametrize("rule", rules(), ids=ids)
def test_an_alert_says_who_acts_and_leads_to_a_page(rule: dict[str, Any]) -> None:
    assert rule["alert"].startswith("Paceline")
    assert rule["labels"]["severity"] in {"page", "inform"}
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "who", "runbook_url"}
    page = (ROOT / notes["runbook_url"]).read_text()
    assert f"`{rule['alert']}`" in page.split("\n## ")[0], "its page names it at the top"
    by = re.findall(r"by \(([^)]*)\)", rule["expr"])
    for label in re.findall(r"\$labels\.(\w+)", notes["summary"]):
        assert any(label in group.split(", ") for group in by), f"the summary names {label}, which the alert does not have"


@pytest.mark.parametrize("rule", rules(), ids=ids)
def test_an_alert_uses_what_is_exported(rule: dict[str, Any]) -> None:
    known = re.compile("|".join([*METRICS, *(f"has no label {label}" for label in LABELS)]) or "$^")
    assert [found for found in findings(rule["expr"]) if not known.search(found)] == []


def test_every_alert_is_tested_to_fire_and_to_keep_quiet() -> None:
    folder = ROOT / "deploy/prometheus/tests"
    fires = (folder / "fires.yaml").read_text() + (folder / "weeks.yaml").read_text()
    quiet = (folder / "quiet.yaml").read_text()
    for rule in rules():
        assert f'alertname="{rule["alert"]}", alertstate="firing", severity="{rule["labels"]["severity"]}"' in fires
        metrics = set(re.findall(r"paceline_[a-z_]+", rule["expr"]))
        assert metrics <= set(re.findall(r"paceline_[a-z_]+", quiet)), f"{rule['alert']} on a healthy day"


def test_every_page_has_its_parts_and_is_reached() -> None:
    named = {Path(rule["annotations"]["runbook_url"]).stem for rule in rules()}
    assert {page.stem for page in pages()} == named | {FIRST} | NO_ALERT
    first = (RUNBOOKS / f"{FIRST}.md").read_text()
    for rule in rules():
        assert f"[{rule['alert']}](" in first
    for page in pages():
        if page.stem == FIRST:
            continue
        text = page.read_text()
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS, page.name
        rows = re.findall(r"^\| `(.+)` \| (.+) \| (.+) \|$", text, re.MULTILINE)
        assert len(rows) == 3, f"{page.name} has {len(rows)} commands"


def commands() -> list[str]:
    """Every `paceline` command that stands in a runbook."""
    found = {line for page in pages() for line in re.findall(r"`(?:[^`]*\| )?(paceline [^`]*)`", page.read_text())}
    return sorted(found)


@pytest.mark.parametrize("line", commands())
def test_a_command_of_a_runbook_is_one(line: str) -> None:
    words = shlex.split(line)[1:]
    asked = subprocess.run([os.environ["PACELINE_BIN"], *words, "--help"], capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr
