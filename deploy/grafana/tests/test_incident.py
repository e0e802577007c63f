"""An incident, rehearsed: an alert fires, its runbook is followed, what it did is undone."""

from __future__ import annotations

import re
import shlex
import threading
from pathlib import Path

from scene import RULES, Scene, calls, good, is_seen, replica, said, watch

from boards.catalogue import ROOT

# Batch is owed nearly everything: chats are told no until somebody acts.
CONFIG = """\
classes: {batch: {guarantee: 90%}, normal: {guarantee: 0%}, interactive: {max_wait: 2s}}
providers:
  openai:
    accounts:
      prod: {models: {"gpt-4o": {limits: {requests: 240/min}}}}
"""
FIRES = 'ALERTS{alertname="PacelineInteractiveDenied", alertstate="firing"}'


def hasty_rules(folder: Path) -> Path:
    """The alert rules, in seconds where they have minutes."""
    text = re.sub(r"for: \d+m", "for: 3s", RULES.read_text()).replace("[5m]", "[8s]")
    (folder / "rules.yaml").write_text(text)
    return folder / "rules.yaml"


def steps(page: str) -> dict[str, str]:
    """The commands of a runbook, each with what undoes it."""
    text = (ROOT / "docs/operating/runbooks" / page).read_text()
    return dict(re.findall(r"^\| `(paceline .+?)` \| .+? \| `(paceline .+?)` \|$", text, re.MULTILINE))


def run(scene: Scene, command: str) -> str:
    """What a command says, at the service of the scene."""
    return said(scene, *shlex.split(command)[1:])


def test_from_the_alert_to_the_runbook_and_back(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.config.write_text(CONFIG)
    try:
        replica(scene, "memory")
        watch(scene, hasty_rules(tmp_path))
        jobs = [("batch", 20), ("interactive", 4)]
        workers = [
            threading.Thread(
                target=calls,
                args=(scene, count, good),
                kwargs={"account": "prod", "model": "gpt-4o", "priority": priority},
                daemon=True,
            )
            for priority, count in jobs
        ]
        for worker in workers:
            worker.start()
        is_seen(scene, FIRES)

        pause, undo = next((do, undo) for do, undo in steps("interactive-denied.md").items() if " pause " in do)
        run(scene, pause)
        is_seen(scene, f"absent({FIRES})")
        is_seen(scene, 'max(paceline_override_active{provider="openai", account="prod", kind="pause"}) > 0')
        is_seen(scene, 'max(paceline_override_ends_in_seconds{kind="pause"}) > 600')
        is_seen(scene, 'sum(rate(paceline_wait_seconds_count{priority="batch", outcome="granted"}[5s])) == 0')

        run(scene, undo)
        is_seen(scene, 'sum(rate(paceline_wait_seconds_count{priority="batch", outcome="granted"}[5s])) > 0')
        is_seen(scene, 'sum(paceline_delay_seconds_total{source="paused"}) > 0')
        assert "chats first" not in run(scene, "paceline controls")
    finally:
        scene.is_over.set()
        scene.end()
