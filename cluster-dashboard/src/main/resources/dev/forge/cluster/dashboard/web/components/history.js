// The charts of recent history, for the cluster or for one job name.
import { useMemo } from '../vendor/preact-hooks.js';
import { useResource } from '../api.js';
import { html } from '../html.js';
import { Chart } from './chart.js';
import { Choices } from './filters.js';
import { Resource } from './states.js';
import { duration } from './time.js';
import { rate } from './value.js';

const RANGES = [['1h', '1 h', 'PT1H'], ['6h', '6 h', 'PT6H'], ['24h', '24 h', 'PT24H'], ['7d', '7 d', 'P7D']];
const INITIAL = '6h';

/** Returns the ISO duration of a choice. */
function rangeOf(choice) {
  return (RANGES.find(([key]) => key === choice) || RANGES[1])[2];
}

export function RangeChoice({ page, params }) {
  return html`<${Choices} page=${page} params=${params} name="range" label="Time range" choices=${RANGES} initial=${INITIAL} />`;
}

const GOOD = '--chart-good';
const BAD = '--chart-bad';
const WARN = '--chart-warn';
const BUSY = '--chart-busy';
const PERCENTILES = [{ label: 'p50', color: BUSY }, { label: 'p95', color: WARN }];

/**
 * Returns the columns of all charts. The last point is not over, so it has no counts. The backlog is sampled as long as the cluster
 * runs: where a history of all jobs has neither a sample nor a job, nothing is known, and the lines have a gap.
 */
function columns({ points: all, stepSeconds, name, since }) {
  // A young cluster has no past that could be empty.
  const points = since === undefined ? all : all.filter((point) => Date.parse(point.at) + stepSeconds * 1000 > Date.parse(since));
  const isGap = (point) => name === undefined && !point.backlog && !point.completed && !point.failed && !point.retried && !point.recovered;
  const times = points.map((point) => Date.parse(point.at) / 1000);
  const last = points.length - 1;
  const counts = (field) => points.map((point, index) => ((index === last && last > 0) || isGap(point) ? null : (point[field] * 60) / stepSeconds));
  const of = (group, name) => points.map((point) => (point[group] ? point[group][name] : null));
  return {
    throughput: [times, counts('completed'), counts('failed')],
    failures: [times, counts('failed'), counts('retried'), counts('recovered')],
    waiting: [times, of('waiting', 'p50Millis'), of('waiting', 'p95Millis')],
    running: [times, of('running', 'p50Millis'), of('running', 'p95Millis')],
    backlog: [times, of('backlog', 'due'), of('backlog', 'running')],
  };
}

function Charts({ data, name }) {
  const all = useMemo(() => columns(data), [data]);
  return html`
    <div class="charts">
      <${Chart} title="Throughput" unit="jobs per minute" format=${rate} data=${all.throughput} series=${[{ label: 'completed', color: GOOD }, { label: 'failed', color: BAD }]} />
      <${Chart} title="Failures" unit="per minute" format=${rate} data=${all.failures} series=${[{ label: 'failed', color: BAD }, { label: 'retried', color: WARN }, { label: 'recovered', color: BUSY, dash: [4, 3] }]} />
      <${Chart} title="Wait time" unit="from due to start" format=${duration} data=${all.waiting} series=${PERCENTILES} />
      ${name && html`<${Chart} title="Run time" unit="of an attempt" format=${duration} data=${all.running} series=${PERCENTILES} />`}
      <${Chart} title="Backlog" unit="jobs" format=${rate} data=${all.backlog} series=${[{ label: 'due', color: WARN }, { label: 'running', color: BUSY }]} />
    </div>`;
}

const isKnown = (point) => Boolean(point.completed || point.failed || point.retried || point.recovered || point.waiting || point.running || (point.backlog && (point.backlog.due || point.backlog.running)));

export function History({ range, name }) {
  const history = useResource('history', { range: rangeOf(range), name }, { interval: 10000, keep: true });
  return html`<${Resource} of=${history}>${(data) => (data.points.some(isKnown)
    ? html`<${Charts} data=${data} name=${name} />`
    : html`<p class="state empty quiet">${name ? 'No job of this name ended or waited in this time range.' : 'No jobs in this time range. Charts of throughput, failures, wait time and backlog appear a minute after the first job.'}</p>`)}<//>`;
}
