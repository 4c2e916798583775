import { useResource } from '../api.js';
import { Link } from '../router.js';
import { html } from '../html.js';
import { Actions, mayChange } from '../components/dialog.js';
import { Badge } from '../components/badge.js';
import { Bar } from '../components/bar.js';
import { Choices, Filters } from '../components/filters.js';
import { History, RangeChoice } from '../components/history.js';
import { Empty, ErrorBox, Loading, Resource } from '../components/states.js';
import { Facts, Section, Value, carriesRun, count, frequency, none, number, percent, quiet } from '../components/value.js';
import { Table } from '../components/table.js';
import { duration } from '../components/time.js';

const RANGES = [['15m', '15 min', 'PT15M'], ['1h', '1 h', 'PT1H'], ['24h', '24 h', 'P1D']];
const any = (limit) => (limit === undefined || limit === null ? 'any' : typeof limit === 'number' ? number(limit) : limit);

export function JobNames({ params, session }) {
  return params.id ? html`<${JobName} key=${params.id} id=${params.id} params=${params} session=${session} />` : html`<${List} params=${params} session=${session} />`;
}

export function stateActions(name, paused) {
  return paused
    ? { title: `Resume ${name}`, text: 'Workers start jobs of this name again.', confirm: 'Resume', resource: 'jobs', body: { id: name, state: 'running' }, done: `Jobs ${name} start again.` }
    : { title: `Pause ${name}`, text: 'Workers start no further jobs of this name. Running ones continue.', confirm: 'Pause', resource: 'jobs', body: { id: name, state: 'paused' }, done: `Jobs ${name} are paused.` };
}

const retryFailed = (name) => ({
  title: `Retry all failed jobs ${name}`, text: 'All failed jobs of this name become due again, with new attempts.', confirm: 'Retry all failed jobs', bulk: true,
  resource: 'jobs', body: { name, status: 'failed', state: 'retry' }, done: ({ changed }) => `${count(changed, 'job becomes', 'jobs become')} due again.`,
});

const due = (row) => (row.dueIsExact ? quiet(row.due) : `${number(row.due)}+`);
const millis = (value) => (value === undefined || value === null ? '–' : duration(value));
const pair = (value) => (value ? `${millis(value.p50Millis)} / ${millis(value.p95Millis)}` : none);
const both = (value) => (value ? html`${millis(value.p50Millis)}<span class="sub">p95 ${millis(value.p95Millis)}</span>` : none);

function Ratio({ row }) {
  if (!row.completed && !row.failed) return none;
  return html`<${Bar} share=${row.failureRatio} kind=${row.failureRatio >= 0.05 ? 'bad' : 'warn'} text=${percent(row.failureRatio)} />`;
}

function Held({ limits }) {
  if (!limits) return html`<span class="muted none">–</span>`;
  if (limits.problem) return html`<${Badge} status="invalid" kind="warn" />`;
  const text = limits.concurrency ? `${number(limits.held)} / ${number(limits.concurrency)}` : number(limits.held);
  return html`${limits.concurrency ? html`<${Bar} share=${limits.held / limits.concurrency} kind=${limits.held >= limits.concurrency ? 'warn' : 'busy'} text=${text} />` : text}
    ${limits.overridden && html`<span class="sub">set at run time</span>`}`;
}

function List({ params, session }) {
  const range = (RANGES.find(([key]) => key === params.range) || RANGES[1])[2];
  const names = useResource('job-names', { range }, { keep: true });
  const matches = (row) => (!params.q || row.name.toLowerCase().includes(params.q.toLowerCase())) && (!params.state || (params.state === 'paused') === row.paused);
  return html`
    <h1>Job names</h1>
    <${Filters} page="job-names" params=${params} fields=${[{ name: 'q', label: 'Name contains', instant: true }, { name: 'state', label: 'State', options: ['active', 'paused'] }]}>
      <span class="space"></span>
      <${Choices} page="job-names" params=${params} name="range" label="Time range" choices=${RANGES} initial="1h" />
    <//>
    <${Resource} of=${names}>${(data) => html`
      <${Table} label="Job names" rows=${data.names.filter(matches)} rowKey=${(row) => row.name} order=${{ page: 'job-names', params }} opens
        empty=${data.names.length ? 'No job name matches the filters.' : 'No job names yet. A name appears here when a node registers its handler or a job is enqueued.'}
        columns=${[
          { title: 'Name', class: 'name', by: (row) => row.name, cell: (row) => html`<${Link} page="job-names" params=${{ id: row.name }} title=${row.name}>${row.name}<//>` },
          { title: 'State', by: (row) => (row.paused ? 'paused' : 'active'), cell: (row) => html`<${Badge} status=${row.paused ? 'paused' : 'active'} />` },
          { title: 'Due', class: 'num', by: (row) => row.due, cell: (row) => html`${due(row)}${row.oldestDueSeconds > 0 && html`<span class="sub">for ${duration(row.oldestDueSeconds * 1000)}</span>`}` },
          { title: 'Running', by: (row) => row.running, class: 'num', cell: (row) => html`${quiet(row.running)} <span class="muted">/ ${number(row.slots)}</span>` },
          { title: 'Completed', class: 'num', by: (row) => row.completedPerMinute, cell: (row) => (row.completedPerMinute ? frequency(row.completedPerMinute / 60) : quiet(0)) },
          { title: 'Failed', by: (row) => row.failureRatio, cell: (row) => html`<${Ratio} row=${row} />` },
          { title: 'Wait', class: 'num', by: (row) => row.waiting && row.waiting.p95Millis, cell: (row) => both(row.waiting) },
          { title: 'Run time', class: 'num', by: (row) => row.duration && row.duration.p95Millis, cell: (row) => both(row.duration) },
          { title: 'Limit', by: (row) => row.limits && row.limits.held, cell: (row) => html`<${Held} limits=${row.limits} />` },
          mayChange(session) && { title: 'Actions', class: 'act', cell: (row) => html`<${Actions} session=${session} onDone=${names.refresh} actions=${[stateActions(row.name, row.paused)]} />` },
        ]} />
      <p class="note">Rates and times are those of the chosen time range: the median, and below it the 95th percentile.${data.cutOff && ' There are more names than shown.'}</p>`}<//>`;
}

const NUMBER = (name, label, value, help) => ({ name, label, type: 'number', value: value === undefined || value === null ? '' : String(value), help });

function limitActions(id, limit) {
  const now = limit || {};
  return [
    {
      title: `Change limits of ${id}`, confirm: 'Change limits', text: 'These limits replace those of the handler until you use the declared ones again. An empty field means no limit.',
      resource: 'limits',
      fields: [
        NUMBER('concurrency', 'Concurrency', now.concurrency, 'Jobs of this name that run at the same time in the cluster.'),
        NUMBER('groupConcurrency', 'Concurrency per group', now.groupConcurrency),
        { name: 'groupRate', label: 'Rate per group', value: now.groupRate || '', placeholder: '10/s', help: 'Starts per time, such as 10/s, 100/m or 1/15m.' },
        NUMBER('groupBurst', 'Burst per group', now.groupBurst, 'Jobs of a group that start at once after a quiet time. Needs a rate.'),
      ],
      body: (values) => ({ id, state: 'overridden', ...Object.fromEntries(['concurrency', 'groupConcurrency', 'groupRate', 'groupBurst'].filter((name) => values[name].trim()).map((name) => [name, values[name].trim()])) }),
      done: `The limits of ${id} are changed.`,
    },
    now.overridden && { title: `Use declared limits of ${id}`, text: 'The limits that were set at run time are removed.', confirm: 'Use declared limits', resource: 'limits', body: { id, state: 'declared' }, done: `${id} uses its declared limits.` },
  ];
}

const weightAction = (id, group, weight) => ({
  title: group ? `Set weight of group ${group}` : `Set weight of a group of ${id}`, button: 'Set weight', confirm: group ? 'Set weight' : 'Set weight of a group', text: 'The weight is the number of jobs that the group starts whenever its turn comes.', resource: 'limits',
  fields: [!group && { name: 'group', label: 'Group', required: true }, { name: 'weight', label: 'Weight', type: 'number', required: true, value: String(weight || 1) }],
  body: (values) => ({ id, state: 'weighted', group: group || values.group.trim(), weight: values.weight.trim() }),
  done: 'The weight is set.',
});

function Limits({ id, session }) {
  const found = useResource('limits', { id });
  const none = found.error && found.error.status === 404;
  const values = session.permissions.includes('values');
  if (!found.data && !none) return html`<${Section} title="Limits">${found.error ? html`<${ErrorBox} error=${found.error} />` : html`<${Loading} />`}<//>`;
  const limit = found.data;
  const both = (current, declared) => html`${any(current)}${limit.declared && html` <span class="muted">(declared: ${any(declared)})</span>`}`;
  return html`
    <${Section} title="Limits" aside=${html`<${Actions} session=${session} onDone=${found.refresh} actions=${limitActions(id, limit)} />`}>
      ${!limit ? html`<${Empty}>These jobs have no limits: as many run as workers have slots.<//>` : html`
        ${limit.problem && html`<p class="note top"><${Badge} status="invalid" kind="warn" /> ${limit.problem}. Change the limits, or correct the row in forge_job_limits.</p>`}
        ${limit.overridden && html`<p class="note top"><${Badge} status="changed" kind="warn" /> These limits were set at run time and replace the declared ones.</p>`}
        <${Facts} entries=${[
          ['On nodes now', number(limit.held)],
          ['Concurrency', both(limit.concurrency, limit.declared && limit.declared.concurrency)],
          ['Concurrency per group', both(limit.groupConcurrency, limit.declared && limit.declared.groupConcurrency)],
          ['Rate per group', both(limit.groupRate, limit.declared && limit.declared.groupRate)],
          ['Burst per group', (limit.groupBurst || (limit.declared && limit.declared.groupBurst)) && both(limit.groupBurst, limit.declared && limit.declared.groupBurst)],
          ['Order within a group', limit.ordered ? 'as enqueued' : 'any'],
        ]} />`}
    <//>
    <${Section} title="Groups" aside=${values && html`<${Actions} session=${session} onDone=${found.refresh} actions=${[weightAction(id)]} />`}>
      <${Table} label="Groups" rows=${(limit && limit.groups ? limit.groups : []).map((group, index) => ({ ...group, index }))} rowKey=${(group) => `${group.group} ${group.index}`}
        empty="No group has jobs on nodes or a weight."
        columns=${[
          { title: 'Group', cell: (group) => (values ? html`<${Link} page="jobs" params=${{ name: id, group: group.group }}>${String(group.group)}<//>` : html`<${Value} of=${group.group} />`) },
          { title: 'On nodes', class: 'num', cell: (group) => number(group.held) },
          { title: 'Weight', class: 'num', cell: (group) => number(group.weight) },
          values && mayChange(session) && { title: 'Actions', class: 'act', cell: (group) => html`<${Actions} session=${session} onDone=${found.refresh} actions=${[weightAction(id, String(group.group), group.weight)]} />` },
        ]} />
    <//>`;
}

function JobName({ id, params, session }) {
  const names = useResource('job-names', { range: 'PT1H' });
  const row = names.data && names.data.names.find((each) => each.name === id);
  return html`
    <p class="crumbs"><${Link} page="job-names">Job names<//> / <code>${id}</code></p>
    <div class="headline">
      <h1>${id} ${row && html`<${Badge} status=${row.paused ? 'paused' : 'active'} />`}</h1>
      <${Actions} session=${session} onDone=${names.refresh} actions=${[row && stateActions(id, row.paused), !carriesRun({ name: id }) && retryFailed(id)]} />
    </div>
    <p class="links">
      <${Link} page="jobs" params=${{ name: id }}>All jobs<//> <${Link} page="jobs" params=${{ name: id, status: 'failed' }}>Failed jobs<//>
      <${Link} page="jobs" params=${{ name: id, status: 'running' }}>Running jobs<//> <${Link} page="jobs" params=${{ name: id, status: 'pending' }}>Pending jobs<//>
    </p>
    <${Resource} of=${names}>${() => (row ? html`
      <${Section} title="Now and in the last hour">
        <${Facts} entries=${[
          ['Due', html`${due(row)} ${row.oldestDueSeconds > 0 && html`<span class="muted">oldest for ${duration(row.oldestDueSeconds * 1000)}</span>`}`],
          ['Running', `${number(row.running)} of ${count(row.slots, 'slot')}`], ['Executor', row.executor],
          ['Completed', html`${number(row.completed)} <span class="muted">${frequency(row.completedPerMinute / 60)}</span>`],
          ['Failed', html`${number(row.failed)} <span class="muted">${percent(row.failureRatio)}</span>`], ['Retried', number(row.retried)], ['Recovered from lost nodes', number(row.recovered)],
          ['Wait p50 / p95', row.waiting && pair(row.waiting)], ['Run p50 / p95', row.duration && pair(row.duration)],
        ]} />
      <//>` : html`<${Empty}>No node has a handler of this name, and no job of it is due or ended in the last hour.<//>`)}<//>
    <div class="bar-head"><h2>Activity</h2><${RangeChoice} page="job-names" params=${params} /></div>
    <${History} range=${params.range} name=${id} />
    <${Limits} id=${id} session=${session} />`;
}
