// Draws one dashboard: Grafana's own panel components, fed with what Prometheus answered (window.board, made by shots.py).

import {
  FieldType, applyFieldOverrides, createTheme, getDisplayProcessor, getFieldDisplayValues, reduceField, standardEditorsRegistry,
  standardFieldConfigEditorRegistry, standardTransformers, standardTransformersRegistry, toDataFrame, dateTime, renderMarkdown,
  transformDataFrame, thresholdsOverrideProcessor, FieldConfigOptionsRegistry, setTimeZoneResolver,
} from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import {
  BarGauge, BigValue, GlobalStyles, PanelChrome, Table, TimeSeries, VizRepeater,
} from '@grafana/ui';
import React, { useLayoutEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { MemoryRouter } from 'react-router-dom';
import { ThemeContext } from '@grafana/data';
import { lastValueFrom } from 'rxjs';
import plotStyle from 'uplot/dist/uPlot.min.css';

const theme = createTheme({ colors: { mode: 'dark' } });
const board = window.board;
const cell = { height: 30, gap: 8, header: 64 };
const range = { from: dateTime(board.from * 1000), to: dateTime(board.to * 1000), raw: { from: 'now-24h', to: 'now' } };

setTimeZoneResolver(() => 'utc');

// The properties that panels and overrides may set; Grafana's server side registers the same.
function option(id, isCustom = false, process = (value) => value) {
  return { id, path: id.replace(/^custom\./, ''), name: id, isCustom, process, shouldApply: (field) => !isCustom || field.type !== FieldType.time };
}
const options = [
  ...['unit', 'min', 'max', 'decimals', 'displayName', 'noValue', 'mappings', 'color', 'links'].map((id) => option(id)),
  option('thresholds', false, thresholdsOverrideProcessor),
  ...[
    'width', 'minWidth', 'cellOptions', 'barAlignment', 'hidden', 'align', 'drawStyle', 'lineWidth', 'lineInterpolation', 'lineStyle', 'fillOpacity', 'gradientMode', 'showPoints',
    'pointSize', 'spanNulls', 'stacking', 'thresholdsStyle', 'axisLabel', 'axisPlacement', 'axisSoftMin', 'axisSoftMax', 'scaleDistribution', 'hideFrom',
  ].map((id) => option(`custom.${id}`, true)),
];
standardEditorsRegistry.setInit(() => []);
standardFieldConfigEditorRegistry.setInit(() => options.filter((one) => !one.isCustom));
standardTransformersRegistry.setInit(() =>
  [standardTransformers.mergeTransformer, standardTransformers.organizeFieldsTransformer].map((one) =>
    ({ id: one.id, name: one.name, transformation: async () => one, editor: () => null })));

function frames(panel) {
  return panel.answers.flatMap((answer) => {
    const isTable = answer.isTable;
    if (isTable) {
      if (!answer.series.length) return [];
      const labels = [...new Set(answer.series.flatMap((one) => Object.keys(one.metric)))].sort();
      const value = panel.answers.length > 1 ? `Value #${answer.ref}` : 'Value';
      return [toDataFrame({
        refId: answer.ref,
        fields: [
          { name: 'Time', type: FieldType.time, values: answer.series.map((one) => one.values.at(-1)[0] * 1000) },
          ...labels.map((label) => ({ name: label, type: FieldType.string, values: answer.series.map((one) => one.metric[label]) })),
          { name: value, type: FieldType.number, values: answer.series.map((one) => Number(one.values.at(-1)[1])) },
        ],
      })];
    }
    return answer.series.map((one) => toDataFrame({
      refId: answer.ref,
      name: one.legend,
      fields: [
        { name: 'Time', type: FieldType.time, config: {}, values: one.values.map((at) => at[0] * 1000) },
        { name: 'Value', type: FieldType.number, labels: one.metric, config: { displayNameFromDS: one.legend },
          values: one.values.map((at) => (at[1] === 'NaN' ? null : Number(at[1]))) },
      ],
    }));
  });
}

async function prepared(panel) {
  let data = frames(panel);
  for (const step of panel.json.transformations ?? []) {
    data = await lastValueFrom(transformDataFrame([{ id: step.id, options: step.options }], data));
  }
  const config = structuredClone(panel.json.fieldConfig ?? { defaults: {}, overrides: [] });
  config.defaults.custom = config.defaults.custom ?? {};
  return applyFieldOverrides({
    data, fieldConfig: config, replaceVariables: (text) => text, theme, timeZone: 'utc',
    fieldConfigRegistry: new FieldConfigOptionsRegistry(() => options),
  });
}

function Events({ builder }) {
  useLayoutEffect(() => {
    builder.addHook('draw', (plot) => {
      const { ctx, bbox } = plot;
      ctx.save();
      for (const event of board.events) {
        const x = plot.valToPos(event.at * 1000, 'x', true);
        if (x < bbox.left || x > bbox.left + bbox.width) continue;
        ctx.strokeStyle = theme.visualization.getColorByName(event.colour);
        ctx.lineWidth = 1;
        ctx.setLineDash([4, 4]);
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
      }
      ctx.restore();
    });
  }, [builder]);
  return null;
}

function Nothing({ panel, width, height }) {
  const text = panel.json.fieldConfig?.defaults?.noValue ?? 'No data';
  return <div style={{ width, height, display: 'grid', placeItems: 'center', color: theme.colors.text.secondary }}>{text}</div>;
}

function Drawn({ panel, data, width, height }) {
  const { json } = panel;
  const values = () => getFieldDisplayValues({
    data, fieldConfig: json.fieldConfig, reduceOptions: json.options.reduceOptions, replaceVariables: (text) => text, theme, timeZone: 'utc',
  });
  if (json.type === 'text') {
    return <div className="markdown-html" style={{ padding: 8 }} dangerouslySetInnerHTML={{ __html: renderMarkdown(json.options.content) }} />;
  }
  if (!data.length || data.every((frame) => !frame.length)) {
    return json.type === 'stat'
      ? <BigValue width={width} height={height} theme={theme} colorMode="value" graphMode="none" justifyMode="auto"
          value={{ text: json.fieldConfig.defaults.noValue, numeric: NaN }} />
      : <Nothing panel={panel} width={width} height={height} />;
  }
  if (json.type === 'timeseries') {
    const legend = { ...json.options.legend, showLegend: json.options.legend?.showLegend ?? true };
    return (
      <TimeSeries frames={data} structureRev={1} timeRange={range} timeZone="utc" width={width} height={height} legend={legend} options={json.options}>
        {(builder) => <Events builder={builder} />}
      </TimeSeries>
    );
  }
  if (json.type === 'table') {
    const sort = json.options.sortBy;
    return <Table data={data[0]} width={width} height={height} initialSortBy={sort} cellHeight={json.options.cellHeight} timeRange={range} />;
  }
  if (json.type === 'bargauge') {
    return <VizRepeater getValues={values} source={data} width={width} height={height} orientation="horizontal" autoGrid itemSpacing={6} renderCounter={0}
      getAlignmentFactors={() => ({ title: 'retry_after_seconds', text: '999 hour' })}
      renderValue={({ value, width, height, alignmentFactors, orientation }) => (
        <BarGauge value={value.display} width={width} height={Math.min(height, 40)} orientation={orientation} field={value.field} theme={theme}
          itemSpacing={6} displayMode={json.options.displayMode} display={value.view?.getFieldDisplayProcessor(value.colIndex)}
          alignmentFactors={alignmentFactors} showUnfilled={json.options.showUnfilled} valueDisplayMode={json.options.valueMode} />)} />;
  }
  return <VizRepeater getValues={values} source={data} width={width} height={height} orientation="auto" autoGrid itemSpacing={4} renderCounter={0}
    renderValue={({ value, width, height, count }) => (
      <BigValue value={value.display} count={count} width={width} height={height} theme={theme} colorMode={json.options.colorMode}
        graphMode="none" justifyMode={json.options.justifyMode} textMode={json.options.textMode} text={json.options.text} />)} />;
}

// A panel that cannot be drawn says why, and shots.py fails when it finds that text.
class Guarded extends React.Component {
  state = { error: null };
  static getDerivedStateFromError(error) { return { error }; }
  render() {
    return this.state.error ? <pre className="cannot-draw">{String(this.state.error.stack)}</pre> : this.props.children;
  }
}

function Panel({ panel, data, unit }) {
  const { x, y, w, h } = panel.json.gridPos;
  const place = { position: 'absolute', left: x * unit, top: cell.header + y * (cell.height + cell.gap) };
  if (panel.json.type === 'row') {
    return <div style={{ ...place, fontSize: 18, fontWeight: 500, lineHeight: '34px' }}>⌄ {panel.json.title}</div>;
  }
  const width = w * unit - cell.gap;
  const height = h * (cell.height + cell.gap) - cell.gap;
  return (
    <div style={place}>
      <PanelChrome title={panel.json.title} description={panel.json.description} width={width} height={height} padding={panel.json.type === 'table' ? 'none' : 'md'}>
        {(innerWidth, innerHeight) => <Drawn panel={panel} data={data} width={innerWidth} height={innerHeight} />}
      </PanelChrome>
    </div>
  );
}

function Board({ drawn }) {
  const unit = (board.width - 16) / 24;
  const chosen = board.variables.map(([name, value]) => (
    <span key={name} style={{ marginRight: 8, border: `1px solid ${theme.colors.border.medium}`, borderRadius: 2, padding: '4px 8px' }}>
      <span style={{ color: theme.colors.text.secondary }}>{name}</span> {value}
    </span>
  ));
  return (
    <div style={{ position: 'relative', width: board.width, padding: 8, background: theme.colors.background.canvas, minHeight: board.height }}>
      <div style={{ display: 'flex', alignItems: 'center', height: 48 }}>
        <span style={{ fontSize: 20, fontWeight: 500, marginRight: 24, whiteSpace: 'nowrap' }}>{board.title}</span>
        {chosen}
        <span style={{ marginLeft: 'auto', color: theme.colors.text.secondary }}>{board.shown}</span>
      </div>
      {drawn.map(({ panel, data }, index) => <Guarded key={index}><Panel panel={panel} data={data} unit={unit} /></Guarded>)}
    </div>
  );
}

async function main() {
  await initPluginTranslations('grafana-ui').catch(() => undefined);
  const drawn = [];
  for (const panel of board.panels) drawn.push({ panel, data: panel.json.type === 'row' ? [] : await prepared(panel) });
  createRoot(document.getElementById('root')).render(
    <MemoryRouter>
      <ThemeContext.Provider value={theme}>
        <style>{plotStyle}</style>
        <GlobalStyles isExtensionSidebarOpen={false} />
        <Board drawn={drawn} />
      </ThemeContext.Provider>
    </MemoryRouter>,
  );
}

main().catch((error) => { document.body.innerText = String(error.stack ?? error); });
