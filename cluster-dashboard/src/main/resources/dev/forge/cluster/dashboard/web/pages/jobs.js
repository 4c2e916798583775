import { useResource } from '../api.js';
import { Link, go } from '../router.js';
import { html } from '../html.js';
import { Actions } from '../components/dialog.js';
import { Badge } from '../components/badge.js';
import { Facts, Id, Section, Value } from '../components/value.js';
import { Filters } from '../components/filters.js';
import { Empty, Resource } from '../components/states.js';
import { Table } from '../components/table.js';
import { Time, duration } from '../components/time.js';
import { Timeline } from '../components/timeline.js';

const STATUSES = ['pending', 'claimed', 'running', 'completed', 'failed', 'cancelled', 'abandoned'];
const UNFINISHED = ['pending', 'claimed', 'running'];
const FILTERS = ['name', 'status', 'tag', 'group', 'key', 'metadata', 'error', 'createdFrom', 'createdBefore', 'finishedFrom', 'finishedBefore'];

function fields(session) {
  const values = session.permissions.includes('values');
  return [
    { name: 'name', label: 'Name' },
    { name: 'status', label: 'Status', options: STATUSES },
    { name: 'tag', label: 'Tag' },
    values && { name: 'group', label: 'Group' },
    values && { name: 'key', label: 'Unique key' },
    values && { name: 'metadata', label: 'Metadata', placeholder: 'key=value' },
    values && { name: 'error', label: 'Error contains' },
    { name: 'createdFrom', label: 'Created from', placeholder: '2026-01-31T12:00:00Z' },
    { name: 'createdBefore', label: 'Created before', placeholder: '2026-01-31T12:00:00Z' },
  ].filter(Boolean);
}

export function Jobs({ params, session }) {
  return params.id ? html`<${Job} id=${params.id} session=${session} />` : html`<${List} params=${params} session=${session} />`;
}

function bulk(filters, state, verb, text) {
  const any = Object.keys(filters).length > 0;
  return {
    title: `${verb} ${any ? 'matching jobs' : 'all jobs'}`,
    text,
    confirm: `${verb} ${any ? 'matching' : 'all'}`,
    danger: state === 'cancelled',
    resource: 'jobs',
    body: { ...filters, ...(any ? {} : { everyJob: true }), state, limit: 1000 },
    preview: true,
  };
}

function List({ params, session }) {
  const filters = Object.fromEntries(FILTERS.filter((name) => params[name]).map((name) => [name, params[name]]));
  const query = { ...filters, after: params.after, limit: 50 };
  const jobs = useResource('jobs', query);
  const paused = jobs.data && params.name && jobs.data.paused.includes(params.name);
  return html`
    <h1>Jobs</h1>
    <${Filters} page="jobs" params=${params} fields=${fields(session)} />
    <${Resource} of=${jobs}>${(data) => html`
      <div class="toolbar">
        ${data.paused.length > 0 && html`<span>Paused: ${data.paused.map((name) => html`<${Link} class="chip" page="jobs" params=${{ name }}>${name}<//> `)}</span>`}
        <span class="space"></span>
        <${Actions} session=${session} onDone=${jobs.refresh} actions=${[
          params.name && !paused && { title: `Pause jobs ${params.name}`, text: 'Workers start no further jobs of this name. Running ones continue.', confirm: 'Pause name', resource: 'jobs', body: { id: params.name, state: 'paused' } },
          paused && { title: `Resume jobs ${params.name}`, text: 'Workers start jobs of this name again.', confirm: 'Resume name', resource: 'jobs', body: { id: params.name, state: 'running' } },
          bulk(filters, 'retry', 'Retry', 'Failed, cancelled and abandoned jobs of this search become due again.'),
          bulk(filters, 'cancelled', 'Cancel', 'Unfinished jobs of this search are cancelled; running ones are interrupted.'),
        ]} />
      </div>
      <${Table} label="Jobs" rows=${data.jobs} rowKey=${(job) => job.id} empty="No jobs match."
        columns=${[
          { title: 'Id', cell: (job) => html`<${Link} page="jobs" params=${{ id: job.id }} aria-label=${`Job ${job.id}`}><${Id} of=${job.id} /><//>` },
          { title: 'Name', cell: (job) => job.name },
          { title: 'Status', cell: (job) => html`<${Badge} status=${job.status} />` },
          { title: 'Attempts', class: 'num', cell: (job) => (job.maxAttempts ? `${job.attempts} of ${job.maxAttempts}` : job.attempts) },
          { title: 'Priority', class: 'num', cell: (job) => job.priority },
          { title: 'Created', cell: (job) => html`<${Time} at=${job.createdAt} />` },
          { title: 'Due', cell: (job) => html`<${Time} at=${job.scheduledAt} />` },
          { title: 'Started', cell: (job) => html`<${Time} at=${job.startedAt} />` },
          { title: 'Finished', cell: (job) => html`<${Time} at=${job.finishedAt} />` },
          { title: 'Node', cell: (job) => html`<${Id} of=${job.node} />` },
        ]} />
      <div class="pager">
        <span class="muted">${data.jobs.length} shown, ${data.examined} examined${data.cutOff ? '; the search ended at its bound' : ''}</span>
        <span class="space"></span>
        ${params.after && html`<button type="button" onClick=${() => go('jobs', { ...params, after: '' })}>First page</button>`}
        ${data.next && html`<button type="button" id="next-page" onClick=${() => go('jobs', { ...params, after: data.next })}>Next page</button>`}
      </div>`}<//>`;
}

function trace(session, job) {
  const parent = job.metadata && job.metadata.traceparent;
  const id = typeof parent === 'string' && /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(parent);
  if (!id || !session.traceUrl) return null;
  return html`<a href=${session.traceUrl.replaceAll('{traceId}', id[1])} target="_blank" rel="noopener noreferrer">Open trace</a>`;
}

function Job({ id, session }) {
  const found = useResource('jobs', { id });
  return html`
    <p class="crumbs"><${Link} page="jobs">Jobs<//> / <code>${id}</code></p>
    <${Resource} of=${found}>${(job) => html`
      <div class="headline">
        <h1>${job.name} <${Badge} status=${job.status} /></h1>
        <${Actions} session=${session} onDone=${found.refresh} actions=${[
          UNFINISHED.includes(job.status) && { title: `Cancel job ${job.id}`, text: 'The job does not start, or is interrupted if it runs.', confirm: 'Cancel job', danger: true, resource: 'jobs', body: { id: job.id, state: 'cancelled' } },
          ['failed', 'cancelled', 'abandoned'].includes(job.status) && { title: `Retry job ${job.id}`, text: 'The job becomes due now, with new attempts.', confirm: 'Retry job', resource: 'jobs', body: { id: job.id, state: 'retry' } },
        ]} />
      </div>
      <p class="explanation">${job.explanation && job.explanation.text}</p>
      <div class="columns">
        <${Section} title="Facts">
          <${Facts} entries=${[
            ['Attempts', job.maxAttempts ? `${job.attempts} of ${job.maxAttempts}` : job.attempts],
            ['Recoveries', job.recoveries],
            ['Claims', job.epoch],
            ['Priority', job.priority],
            ['Capability', job.capability],
            ['Node', job.node && html`<${Id} of=${job.node} />`],
            ['Tags', job.tags && job.tags.join(', ')],
            ['Unique key', job.uniqueKey && html`<${Value} of=${job.uniqueKey} />`],
            ['Group', job.group && html`<${Value} of=${job.group} />`],
            ['Progress', job.progress && html`<${Value} of=${job.progress} />`],
            ['Trace', trace(session, job)],
          ]} />
        <//>
        <${Section} title="Timeline">
          <${Timeline} entries=${[
            { at: job.createdAt, label: 'Created' },
            { at: job.scheduledAt, label: 'Due' },
            ...(job.attemptHistory || []).map((attempt) => ({
              at: attempt.startedAt,
              label: `Attempt ${attempt.attempt}: ${attempt.result}`,
              kind: 'bad',
              detail: html`${attempt.durationMillis !== undefined && html`<span>after ${duration(attempt.durationMillis)}</span>`} <${Value} of=${attempt.error} />`,
            })),
            { at: job.startedAt, label: 'Last start' },
            { at: job.finishedAt, label: job.status, kind: job.status === 'completed' ? 'good' : 'bad' },
          ]} />
        <//>
      </div>
      <${Section} title="Payload"><${Value} of=${job.payload} /><//>
      ${job.result !== undefined && html`<${Section} title="Result"><${Value} of=${job.result} /><//>`}
      ${job.error !== undefined && html`<${Section} title="Error"><${Value} of=${job.error} /><//>`}
      ${Object.keys(job.metadata || {}).length > 0 && html`<${Section} title="Metadata"><${Value} of=${job.metadata} /><//>`}
      <${Section} title="Log"><${Log} id=${id} /><//>`}<//>`;
}

function Log({ id }) {
  const logs = useResource('jobs/logs', { id });
  return html`<${Resource} of=${logs}>${(data) =>
    data.lines.length
      ? html`<ol class="log">${data.lines.map((line) => html`<li><${Time} at=${line.time} /> <span class="muted">#${line.attempt}</span> <span class="line">${String(line.message ?? '')}</span></li>`)}</ol>`
      : html`<${Empty}>The handler has logged nothing.<//>`}<//>`;
}
