"""What a dashboard says, apart from how Grafana writes it: panels, queries, colours."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

GREEN, YELLOW, ORANGE, RED, BLUE, PURPLE, GREY = "green", "yellow", "orange", "red", "blue", "purple", "#8e8e8e"

# Why a call waited, in the order in which the stack is drawn, always in the same colour. Blue: the provider said so. Purple:
# the limit. Green: somebody else's turn. Orange: our guess. Red: our own trouble. Grey: small change.
SOURCES = {
    "retry_after_seconds": "#1f60c4",
    "retry_after_date": "#3274d9",
    "retry_after_ms": "#5794f2",
    "reset_header": "#8ab8ff",
    "error_body": "#c0d8ff",
    "bucket": "#8f3bb8",
    "pacing": "#ca95e5",
    "concurrency": "#b877d9",
    "fair_share": "#37872d",
    "backoff": "#fa6400",
    "ramp": "#ffb357",
    "store": "#c4162a",
    "paused": "#ffee52",
    "jitter": "#8e8e8e",
    "none": "#ff7383",
}
CLASSES = {"interactive": "#f2495c", "normal": "#5794f2", "batch": "#8e8e8e"}
KINDS = {"first": "#5794f2", "retry": "#ff9830", "overrun": "#b877d9"}
MODES = {"enforce": "#73bf69", "shadow": "#5794f2", "off": "#e02f44"}

Threshold = tuple[float | None, str]


@dataclass(frozen=True)
class Query:
    """A PromQL expression; selectors of the dashboard's variables are filled in by `catalogue.filled`."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One panel. `asks` is the question it answers, `act` what to do when it is red, `empty` what it says without data."""

    title: str
    asks: str
    queries: list[Query]
    width: int
    height: int = 8
    act: str = ""
    empty: str = "Nothing yet."
    unit: str = "short"
    decimals: int | None = None
    thresholds: list[Threshold] = field(default_factory=list)
    colours: dict[str, str] = field(default_factory=dict)
    links: list[tuple[str, str]] = field(default_factory=list)

    @property
    def description(self) -> str:
        """What the little `i` of the panel shows."""
        return f"{self.asks}\n\n{self.act}" if self.act else self.asks


@dataclass(frozen=True)
class Lines(Panel):
    """Values over time."""

    is_stacked: bool = False
    least: float | None = 0
    most: float | None = None
    legend: Literal["bottom", "right", "hidden"] = "bottom"
    legend_calcs: list[str] = field(default_factory=list)
    is_stepped: bool = False
    is_bars: bool = False
    is_log: bool = False
    axis: str = ""
    # Series whose name begins so are dashed.
    dashed: str = ""


@dataclass(frozen=True)
class Number(Panel):
    """The newest value, large."""

    height: int = 4
    words: dict[float, str] = field(default_factory=dict)
    by_series: dict[str, list[Threshold]] = field(default_factory=dict)
    shows: Literal["value", "name", "both"] = "value"
    # In pixels; as large as fits where it is not said.
    size: int | None = None


@dataclass(frozen=True)
class Bars(Panel):
    """The newest values beside each other, the largest first."""

    most: float | None = None


@dataclass(frozen=True)
class Column:
    """How a column of a table looks; `gauge` draws a bar for values from 0 to 1."""

    name: str
    unit: str = "short"
    decimals: int | None = None
    thresholds: list[Threshold] = field(default_factory=list)
    is_gauge: bool = False
    width: int | None = None


@dataclass(frozen=True)
class Table(Panel):
    """The newest values of several queries, joined by their labels: one row for each set of labels.

    The legend of a query is the name of its column; `keys` are the labels that are shown, in order.
    """

    keys: list[str] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    sort_by: str = ""
    is_descending: bool = True


@dataclass(frozen=True)
class Note(Panel):
    """A text."""

    text: str = ""

    @staticmethod
    def of(title: str, text: str, width: int, height: int) -> Note:
        """A text without a question."""
        return Note(title=title, asks=title, queries=[], width=width, height=height, text=text)


@dataclass(frozen=True)
class Row:
    """A heading with its panels; they flow from left to right, 24 columns wide."""

    title: str
    panels: list[Panel]


@dataclass(frozen=True)
class Variable:
    """A choice at the top: the values of a label."""

    name: str
    metric: str
    label: str = ""
    is_multi: bool = True

    @property
    def title(self) -> str:
        """What stands beside it."""
        return self.label or self.name.capitalize()


@dataclass(frozen=True)
class Event:
    """Something that happened, drawn through every panel."""

    name: str
    expr: str
    title: str
    colour: str


@dataclass(frozen=True)
class Board:
    """A dashboard."""

    uid: str
    title: str
    about: str
    rows: list[Row]
    variables: list[Variable]
    events: list[Event] = field(default_factory=list)
    since: str = "now-6h"
    refresh: str = "30s"
    choices: dict[str, list[str]] = field(default_factory=dict)
    # A series and a label without which there is nothing to show.
    needs: tuple[str, str] | None = None
