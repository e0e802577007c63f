"""Dashboards as Grafana reads them, made with Grafana's own typed builders."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable
from typing import Any

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, table, text, timeseries
from grafana_foundation_sdk.builders.dashboard import QueryVariable
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from grafana_foundation_sdk.models.text import TextMode

from boards.catalogue import filled, is_there
from boards.layout import COLUMNS, placed
from boards.model import Bars, Board, Event, Lines, Note, Number, Panel, Query, Row, Table, Threshold, Variable

DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
# Asked of every dashboard: which of several installations of Paceline.
PLACES = [Variable("namespace", "paceline_build_info"), Variable("job", "paceline_build_info")]
SHOWS = {
    "value": kinds.BigValueTextMode.VALUE,
    "name": kinds.BigValueTextMode.NAME,
    "both": kinds.BigValueTextMode.VALUE_AND_NAME,
}
# Grafana's own default turns red at 80, whatever is shown.
PLAIN: list[Threshold] = [(None, "text")]
AnyPanel = timeseries.Panel | stat.Panel | bargauge.Panel | table.Panel | text.Panel


def written(board: Board) -> str:
    """The file of a dashboard."""
    return json.dumps(_dashboard(board).build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def shown(board: Board) -> list[Row]:
    """The rows of a dashboard without what nobody exports yet."""
    rows = []
    for row in board.rows:
        panels = [panel for panel in row.panels if isinstance(panel, Note) or queries(panel)]
        if panels:
            rows.append(Row(row.title, panels))
    return rows


def queries(panel: Panel) -> list[Query]:
    """The queries of a panel whose metrics exist."""
    return [query for query in panel.queries if is_there(query.expr)]


def names(board: Board) -> list[str]:
    """The variables that selectors are filled with."""
    return [variable.name for variable in PLACES + board.variables]


def _dashboard(board: Board) -> dashboard.Dashboard:
    made = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.about)
        .tags(["paceline"])
        .editable()
        .refresh(board.refresh)
        .time(board.since, "now")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("Paceline")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags(["paceline"])
            .keep_time(True)
            .include_vars(True)
        )
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    for variable in PLACES + board.variables:
        made.with_variable(_variable(variable, board))
    for name, values in board.choices.items():
        made.with_variable(_choice(name, values))
    for event in board.events:
        if is_there(event.expr):
            made.annotation(_event(event, names(board)))
    top = number = 0
    for row in shown(board):
        made.with_row(dashboard.Row(row.title).grid_pos(models.GridPos(h=1, w=COLUMNS, x=0, y=top)))
        panels, top = placed(row.panels, top + 1)
        for panel, place in panels:
            number += 1
            at = models.GridPos(h=place.h, w=place.w, x=place.x, y=place.y)
            made.with_panel(_panel(panel, names(board)).id(100 + number).grid_pos(at))
    return made


def _variable(variable: Variable, board: Board) -> QueryVariable:
    before = [one.name for one in PLACES + board.variables]
    before = before[: before.index(variable.name)]
    metric = filled(variable.metric, before)
    made = (
        QueryVariable(variable.name)
        .label(variable.title)
        .datasource(DATASOURCE)
        .query({"query": f"label_values({metric}, {variable.name})", "refId": variable.name})
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )
    # ".*" and not a list of all: it also fits series without the label.
    made.include_all(True).all_value(".*").multi(variable.is_multi)
    return made.current(models.VariableOption(text="All", value="$__all"))


def _choice(name: str, values: list[str]) -> dashboard.CustomVariable:
    options = [models.VariableOption(text=value, value=value) for value in values]
    return dashboard.CustomVariable(name).label(name.capitalize()).values(",".join(values)).options(options).current(options[0])


def _event(event: Event, variables: Iterable[str]) -> Builder[models.AnnotationQuery]:
    built = (
        dashboard.AnnotationQuery()
        .name(event.name)
        .datasource(DATASOURCE)
        .enable(True)
        .icon_color(event.colour)
        .expr(filled(event.expr, variables))
    )
    return _Made(_Titled(built.build(), event.title))


class _Titled(models.AnnotationQuery):
    """An annotation with the fields that the Prometheus data source reads and the typed model lacks."""

    def __init__(self, annotation: models.AnnotationQuery, title: str) -> None:
        super().__init__()
        self._annotation, self._title = annotation, title

    def to_json(self) -> dict[str, object]:
        """What Grafana reads."""
        return {**self._annotation.to_json(), "titleFormat": self._title, "step": "60s", "useValueForTime": False}


class _Made(Builder[models.AnnotationQuery]):
    """What is built already."""

    def __init__(self, annotation: models.AnnotationQuery) -> None:
        self._annotation = annotation

    def build(self) -> models.AnnotationQuery:
        """The annotation."""
        return self._annotation


def _panel(panel: Panel, variables: list[str]) -> AnyPanel:
    match panel:
        case Lines():
            made: AnyPanel = _lines(panel)
        case Number():
            made = _number(panel)
        case Bars():
            made = _bars(panel)
        case Table():
            made = _table(panel)
        case Note():
            return text.Panel().title(panel.title).mode(TextMode.MARKDOWN).content(panel.text)
        case _:
            raise TypeError(panel)
    made.title(panel.title).description(panel.description).datasource(DATASOURCE)
    made.unit(panel.unit).no_value(panel.empty)
    if panel.decimals is not None:
        made.decimals(panel.decimals)
    made.thresholds(_thresholds(panel.thresholds or PLAIN))
    for name, colour in panel.colours.items():
        made.override_by_name(name, [models.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": colour})])
    for title, url in panel.links:
        made.links([dashboard.DashboardLink(title).url(url).type(models.DashboardLinkType.LINK)])
    for ref, query in zip(string.ascii_uppercase, queries(panel), strict=False):
        made.with_target(_query(query, ref, panel, variables))
    return made


def _query(query: Query, ref: str, panel: Panel, variables: list[str]) -> prometheus.Dataquery:
    made = prometheus.Dataquery().expr(filled(query.expr, variables)).ref_id(ref).datasource(DATASOURCE)
    if isinstance(panel, Table):
        return made.instant().format(PromQueryFormat.TABLE)
    made = made.format(PromQueryFormat.TIME_SERIES).legend_format(query.legend or "__auto")
    is_instant = isinstance(panel, Bars | Number)
    return made.instant() if is_instant else made.range()


def _thresholds(steps: list[Threshold]) -> dashboard.ThresholdsConfig:
    made = [models.Threshold(value=value, color=colour) for value, colour in steps]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(made)


def _lines(panel: Lines) -> timeseries.Panel:
    placement = {"bottom": kinds.LegendPlacement.BOTTOM, "right": kinds.LegendPlacement.RIGHT}
    legend = common.VizLegendOptions().show_legend(panel.legend != "hidden").calcs(panel.legend_calcs)
    legend.placement(placement.get(panel.legend, kinds.LegendPlacement.BOTTOM))
    legend.display_mode(kinds.LegendDisplayMode.TABLE if panel.legend_calcs else kinds.LegendDisplayMode.LIST)
    sort = kinds.SortOrder.DESCENDING
    made = (
        timeseries.Panel()
        .legend(legend)
        .tooltip(common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI).sort(sort))
        .line_width(0 if panel.is_stacked or panel.is_bars else 2)
        .fill_opacity(75 if panel.is_stacked or panel.is_bars else 8)
        .show_points(kinds.VisibilityMode.NEVER)
        .span_nulls(False)
    )
    made.color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId.PALETTE_CLASSIC))
    if panel.is_stacked:
        made.stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A"))
    if panel.is_stepped:
        made.line_interpolation(kinds.LineInterpolation.STEP_AFTER)
    if panel.is_bars:
        made.draw_style(kinds.GraphDrawStyle.BARS).bar_alignment(kinds.BarAlignment.CENTER)
    if panel.is_log:
        made.scale_distribution(common.ScaleDistributionConfig().type(kinds.ScaleDistribution.LOG).log(10))
    if panel.axis:
        made.axis_label(panel.axis)
    if panel.dashed:
        dash = models.DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [6, 6]})
        made.override_by_regexp(f"^{panel.dashed}.*", [dash])
    if panel.thresholds:
        made.thresholds_style(common.GraphThresholdsStyleConfig().mode(kinds.GraphThresholdsStyleMode.DASHED))
    if panel.least is not None:
        made.min(panel.least)
    if panel.most is not None:
        made.max(panel.most)
    return made


def _reduced(calc: str = "lastNotNull") -> common.ReduceDataOptions:
    return common.ReduceDataOptions().calcs([calc]).values(False)


def _number(panel: Number) -> stat.Panel:
    made = (
        stat.Panel()
        .reduce_options(_reduced())
        .graph_mode(kinds.BigValueGraphMode.NONE)
        .color_mode(kinds.BigValueColorMode.BACKGROUND_SOLID if panel.thresholds else kinds.BigValueColorMode.VALUE)
        .text_mode(SHOWS[panel.shows])
        .justify_mode(kinds.BigValueJustifyMode.AUTO)
        .orientation(kinds.VizOrientation.AUTO)
    )
    if panel.size is not None:
        made.text(common.VizTextDisplayOptions().value_size(panel.size).title_size(max(12, panel.size // 2)))
    if panel.words:
        options = {_key(value): models.ValueMappingResult(text=word) for value, word in panel.words.items()}
        made.mappings([models.ValueMap(options=options)])
    for name, steps in panel.by_series.items():
        made.override_by_name(name, [models.DynamicConfigValue("thresholds", _thresholds(steps).build().to_json())])
    return made


def _key(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _bars(panel: Bars) -> bargauge.Panel:
    made = (
        bargauge.Panel()
        .reduce_options(_reduced())
        .orientation(kinds.VizOrientation.HORIZONTAL)
        .display_mode(kinds.BarGaugeDisplayMode.BASIC)
        .value_mode(kinds.BarGaugeValueMode.TEXT)
        .show_unfilled(False)
        .min(0)
    )
    if panel.most is not None:
        made.max(panel.most)
    return made


def _table(panel: Table) -> table.Panel:
    present = queries(panel)
    made = table.Panel().show_header(True).cell_height(kinds.TableCellHeight.SM).min_width(60)
    made.with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
    renames = {f"Value #{ref}": query.legend for ref, query in zip(string.ascii_uppercase, present, strict=False)}
    if len(present) == 1:
        renames["Value"] = present[0].legend
    order = {name: index for index, name in enumerate([*panel.keys, *renames])}
    hidden = {name: True for name in ("Time", "__name__", "instance", "job", "namespace") if name not in panel.keys}
    options = {"excludeByName": hidden, "indexByName": order, "renameByName": renames}
    made.with_transformation(models.DataTransformerConfig(id_val="organize", options=options))
    shown_columns = {query.legend for query in present} | set(panel.keys)
    if panel.sort_by in shown_columns:
        made.sort_by([common.TableSortByFieldState().display_name(panel.sort_by).desc(panel.is_descending)])
    # Without it a cell without a value says what is meant for a table without rows.
    for query in present:
        made.override_by_name(query.legend, [models.DynamicConfigValue("noValue", "-")])
    for column in panel.columns:
        if column.name not in shown_columns:
            continue
        look: list[models.DynamicConfigValue] = [models.DynamicConfigValue("unit", column.unit)]
        if column.decimals is not None:
            look.append(models.DynamicConfigValue("decimals", column.decimals))
        if column.width is not None:
            look.append(models.DynamicConfigValue("custom.width", column.width))
        if column.thresholds:
            look.append(models.DynamicConfigValue("thresholds", _thresholds(column.thresholds).build().to_json()))
        if column.is_gauge:
            cell: dict[str, Any] = {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}
            look += [models.DynamicConfigValue("custom.cellOptions", cell), models.DynamicConfigValue("min", 0)]
            look.append(models.DynamicConfigValue("max", 1))
        elif column.thresholds:
            look.append(models.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}))
        made.override_by_name(column.name, look)
    return made


def file_name(board: Board) -> str:
    """Where a dashboard is written."""
    return re.sub(r"^paceline-", "", board.uid) + ".json"
