"""Asks Prometheus for everything on the dashboards and has Chromium draw them: one PNG each."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from openmetrics import BEGIN, MINUTES
from PIL import Image

from boards.promql import plain

FOLDER = Path(__file__).resolve().parents[1] / "dashboards"
STEP = 120
WIDTH = 1500
CELL, HEADER = 38, 64
# The choices that each picture shows; everything else is All.
CHOSEN: dict[str, dict[str, str]] = {
    "scope": {"provider": "openai", "account": "prod"},
    "shadow": {"provider": "groq"},
    "tenant": {"tenant": "web"},
}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prometheus", required=True)
    parser.add_argument("--bundle", type=Path, required=True, help="the folder with page.js")
    parser.add_argument("--out", type=Path, required=True, help="where pictures are written")
    parser.add_argument("--chromium", default="chromium")
    parser.add_argument("--only", help="one dashboard by its file's name")
    given = parser.parse_args()
    for path in sorted(FOLDER.glob("*.json")):
        if given.only in (None, path.stem):
            draw(path, given)


def draw(path: Path, given: argparse.Namespace) -> None:
    """One dashboard."""
    board = json.loads(path.read_text())
    chosen = CHOSEN.get(path.stem, {})
    end = BEGIN + 60 * MINUTES
    begin = end - 24 * 3600
    ask = Asker(given.prometheus, begin, end, chosen)
    panels = [{"json": panel, "answers": ask.answers(panel)} for panel in board["panels"]]
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
    height = HEADER + bottom * CELL + 16
    shown = {
        "title": board["title"],
        "panels": panels,
        "events": ask.events(board["annotations"]["list"]),
        "variables": _variables(board, chosen),
        "from": begin,
        "to": end,
        "shown": "Last 24 hours, UTC",
        "width": WIDTH,
        "height": height,
    }
    page = given.bundle / f"{path.stem}.html"
    data = json.dumps(shown).replace("</", "<\\/")
    page.write_text(
        "<!doctype html><meta charset=utf-8><style>body{margin:0;background:#111217;color:#ccccdc;font:14px sans-serif}</style>"
        f"<div id=root></div><script>window.board={data}</script><script src=page.js></script>"
    )
    picture = given.out / f"{path.stem}.png"
    command = [given.chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += [
        "--hide-scrollbars",
        "--allow-file-access-from-files",
        "--virtual-time-budget=20000",
        "--force-color-profile=srgb",
    ]
    command += [f"--window-size={WIDTH + 16},{height}", f"--screenshot={picture}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=180)
    _fail_where_it_says_so([given.chromium, *command[1:5], "--virtual-time-budget=20000", "--dump-dom", page.as_uri()])
    # 255 colours are enough for flat surfaces, and a third of the size.
    Image.open(picture).convert("RGB").quantize(255, dither=Image.Dither.NONE).save(picture, optimize=True)
    print(f"{picture} {picture.stat().st_size // 1024} KiB")


def _fail_where_it_says_so(command: list[str]) -> None:
    text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=180).stdout
    found = re.search(r'class="cannot-draw">(.*?)</pre>', text, re.DOTALL)
    if found or "panel" not in text:
        raise SystemExit(f"cannot be drawn: {found.group(1) if found else text[-500:]}")


def _variables(board: dict[str, Any], chosen: dict[str, str]) -> list[list[str]]:
    listed = [one for one in board["templating"]["list"] if one["type"] in {"query", "custom"}]
    names = [(one["name"], one["label"], one["current"]["text"]) for one in listed]
    return [[label, chosen.get(name, text)] for name, label, text in names]


class Asker:
    """Questions to Prometheus about one stretch of time."""

    def __init__(self, url: str, begin: int, end: int, chosen: dict[str, str]) -> None:
        self._url, self._begin, self._end, self._chosen = url, begin, end, chosen

    def answers(self, panel: dict[str, Any]) -> list[dict[str, Any]]:
        """What the queries of a panel gave."""
        answers = []
        for target in panel.get("targets", []):
            is_instant = bool(target.get("instant"))
            series = self._ask(target["expr"], is_instant)
            for one in series:
                one["legend"] = _legend(target.get("legendFormat", ""), one["metric"])
            if panel["type"] == "timeseries":
                series = [_with_gaps(one) for one in series]
            answers.append({"ref": target["refId"], "isTable": target["format"] == "table", "series": series})
        return answers

    def events(self, annotations: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """When annotations began."""
        found = []
        for one in annotations:
            for series in self._ask(one["expr"], is_instant=False):
                times = [at for at, _ in series["values"]]
                begins = [at for before, at in zip([0, *times], times, strict=False) if at - before > 2 * STEP]
                found += [{"at": at, "colour": one["iconColor"]} for at in begins if at > self._begin + STEP]
        return found

    def _ask(self, expr: str, is_instant: bool) -> list[dict[str, Any]]:
        expr = expr.replace("$__range", "24h").replace("$__rate_interval", "8m").replace("$before", "1d")
        text = plain(re.sub(r"\boffset 1m\b", "offset 4m", re.sub(r"\[2m\]", "[4m]", expr)), self._chosen)
        asked = (
            {"query": text, "time": self._end}
            if is_instant
            else {"query": text, "start": self._begin, "end": self._end, "step": STEP}
        )
        url = f"{self._url}/api/v1/{'query' if is_instant else 'query_range'}?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        for one in found:
            one["values"] = one.pop("values", None) or [one.pop("value")]
        return found


def _legend(form: str, metric: dict[str, str]) -> str:
    if form in {"", "__auto"}:
        return ", ".join(f'{key}="{value}"' for key, value in metric.items() if key != "__name__") or "Value"
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: metric.get(match.group(1), ""), form)


def _with_gaps(one: dict[str, Any]) -> dict[str, Any]:
    """With a hole where values are missing, as Grafana draws it."""
    filled: list[list[Any]] = []
    for at, value in one["values"]:
        if filled and at - filled[-1][0] > 1.5 * STEP:
            filled.append([filled[-1][0] + STEP, "NaN"])
        filled.append([at, value])
    return {**one, "values": filled}


if __name__ == "__main__":
    main()
