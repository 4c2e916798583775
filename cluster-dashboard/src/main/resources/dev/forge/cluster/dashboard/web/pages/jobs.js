import { useEffect, useRef, useState } from '../vendor/preact-hooks.js';
import { now, useResource } from '../api.js';
import { Link, go } from '../router.js';
import { html } from '../html.js';
import { Actions, mayChange } from '../components/dialog.js';
import { Badge } from '../components/badge.js';
import { Filters, toInstant, toLocal } from '../components/filters.js';
import { Id, IdLink, carriesRun, count, none, number, quiet } from '../components/value.js';
import { Resource } from '../components/states.js';
import { Table } from '../components/table.js';
import { Elapsed, Time, duration } from '../components/time.js';
import { Job } from './job.js';

const PAGE = 50;
const MOST = 1000;
// A job names at most so many of those that it waits for.
const MOST_NAMED = 10;
const STATUSES = ['pending', 'claimed', 'running', 'completed', 'failed', 'cancelled', 'abandoned'];
const HIDDEN = ['group', 'key', 'metadata', 'error'];
const FIELDS = [
  { name: 'name', label: 'Name', placeholder: 'whole name' },
  { name: 'status', label: 'Status', options: STATUSES },
  { name: 'tag', label: 'Tag' },
  { name: 'group', label: 'Group' },
  { name: 'error', label: 'Error contains' },
];
const MORE = [
  { name: 'id', label: 'Id', placeholder: 'whole id' },
  { name: 'key', label: 'Unique key' },
  { name: 'metadata', label: 'Metadata', placeholder: 'key=value' },
  { name: 'batch', label: 'Batch', placeholder: 'id' },
  { name: 'createdFrom', label: 'Created from', time: true },
  { name: 'createdBefore', label: 'Created before', time: true },
  { name: 'finishedFrom', label: 'Finished from', time: true },
  { name: 'finishedBefore', label: 'Finished before', time: true },
];

export function Jobs({ params, session }) {
  return params.id ? html`<${Job} key=${params.id} id=${params.id} session=${session} />` : html`<${List} params=${params} session=${session} />`;
}

const ENDED = ['completed', 'failed', 'cancelled', 'abandoned'];

/** The statuses of the jobs that an action can change. */
const POSSIBLE = { retry: ENDED.slice(1), rescheduled: ['pending'], cancelled: ['pending', 'claimed', 'running'], deleted: ENDED };

/** Returns the statuses that the jobs may have which an action would reach: those of the jobs if all are known, or those of the filter. */
function reached(filters, known) {
  if (known) return known.filter((job) => !carriesRun(job)).map((job) => job.status);
  if (filters.name && carriesRun(filters)) return [];
  return filters.status ? filters.status.split(',') : STATUSES;
}

/**
 * Returns the actions that are possible for the selected jobs, or for all that match the filters if none is selected.
 *
 * known: all of these jobs, if they are known
 */
function bulkActions(filters, selected, known) {
  const ids = [...selected.keys()];
  const statuses = reached(filters, known);
  const any = Object.keys(filters).length > 0;
  const whom = ids.length ? count(ids.length, 'selected job') : any ? 'all matching jobs' : 'all jobs';
  const scope = ids.length ? { ids: ids.join(',') } : any ? filters : { everyJob: true };
  const action = (state, verb, text, done, more) => ({
    state, title: `${verb} ${whom}`, button: verb, confirm: `${verb} ${ids.length === 1 ? 'job' : 'jobs'}`, text, bulk: true, selected: ids.length, resource: 'jobs', body: { ...scope, state },
    done: ({ changed, stopped }) => `${count(changed, `job ${done[0]}`, `jobs ${done[1]}`)}${stopped ? '. You stopped the change before its end' : ''}.`, ...more,
  });
  const all = [
    action('retry', 'Retry', 'Failed, cancelled and abandoned jobs become due again, with new attempts.', ['becomes due again', 'become due again']),
    action('rescheduled', 'Reschedule', 'Pending jobs become due at another time.', ['is rescheduled', 'are rescheduled'], {
      fields: [{ name: 'at', label: 'Due at (your time zone)', type: 'datetime-local', required: true, value: toLocal(new Date(now() + 3600000).toISOString()) }],
      body: (values) => ({ ...scope, state: 'rescheduled', at: toInstant(values.at) }),
    }),
    action('cancelled', 'Cancel', 'Unfinished jobs are cancelled; running ones are interrupted.', ['is cancelled', 'are cancelled'], { danger: true }),
    action('deleted', 'Delete', 'Ended jobs, their results and their logs are removed. This cannot be undone.', ['is deleted', 'are deleted'], { danger: true }),
  ];
  return all.filter(({ state }) => POSSIBLE[state].some((status) => statuses.includes(status)));
}

/** What a pending job waits for besides its time, as far as its row tells; the page of the job tells the rest. */
function Waits({ job, paused }) {
  if (job.status !== 'pending') return null;
  const after = job.waitsFor || [];
  const text = after.length === 1 ? html`after job <${IdLink} page="jobs" of=${after[0]} label="Job" />`
    : after.length ? `after ${count(after.length, 'job')}${after.length >= MOST_NAMED ? ' or more' : ''}`
      : job.waitsForBatch ? html`after batch <${IdLink} page="batches" of=${job.waitsForBatch} label="Batch" />`
        : paused.includes(job.name) ? 'name is paused'
          : job.scheduledAt && new Date(job.scheduledAt) <= now() ? null
            : carriesRun(job) ? html`for its <${Link} page="workflows" params=${{ id: job.id }} aria-label=${`Run ${job.id}`}>run<//>` : job.scheduledAt ? null : 'never due';
  return text && html`<span class="sub">${text}</span>`;
}

/** A checkbox that may be in between. */
function Check({ checked, partial, label, onChange }) {
  const box = useRef(null);
  useEffect(() => {
    box.current.indeterminate = Boolean(partial);
  }, [partial]);
  return html`<input type="checkbox" ref=${box} checked=${checked} aria-label=${label} onChange=${(event) => onChange(event.target.checked)} />`;
}

function Took({ job }) {
  if (!job.startedAt || job.status === 'pending' || job.status === 'claimed') return none;
  return job.finishedAt ? duration(Math.max(0, new Date(job.finishedAt) - new Date(job.startedAt))) : html`<${Elapsed} since=${job.startedAt} />`;
}

const took = (job) => (job.startedAt ? (job.finishedAt ? new Date(job.finishedAt) : now()) - new Date(job.startedAt) : null);

function List({ params, session }) {
  const values = session.permissions.includes('values');
  const visible = (field) => values || !HIDDEN.includes(field.name);
  const [fields, more] = [FIELDS.filter(visible), MORE.filter(visible)];
  const names = [...fields, ...more].map((field) => field.name);
  const filters = Object.fromEntries(names.filter((name) => params[name]).map((name) => [name, params[name]]));
  const [live, setLive] = useState(true);
  const [selected, setSelected] = useState(new Map());
  const jobs = useResource('jobs', { ...filters, after: params.after, limit: PAGE }, { live, keep: true });
  const operates = mayChange(session);
  // A selection belongs to a search: other filters would hide what an action reaches.
  useEffect(() => setSelected(new Map()), [JSON.stringify(filters)]);
  const pick = (picked, on) => setSelected((old) => {
    const next = new Map(old);
    for (const job of picked) {
      if (!on) next.delete(job.id);
      else if (next.size < MOST) next.set(job.id, job);
    }
    return next;
  });
  const any = names.some((name) => filters[name]);
  return html`
    <h1>Jobs</h1>
    <${Filters} page="jobs" params=${params} fields=${fields} more=${more} />
    <${Resource} of=${jobs}>${(data) => {
      const ids = data.jobs.map((job) => job.id);
      const here = ids.filter((id) => selected.has(id)).length;
      const complete = !data.next && !params.after;
      const shown = new Map(data.jobs.map((job) => [job.id, job]));
      const known = selected.size ? [...selected.values()].map((job) => shown.get(job.id) || job) : complete ? data.jobs : null;
      const affected = known || data.jobs;
      const actions = bulkActions(filters, selected, known);
      return html`
        <div class="toolbar">
          ${filters.name && html`<${Link} page="job-names" params=${{ id: filters.name }}>About ${filters.name}<//>`}
          ${data.paused.length > 0 && html`<span>Paused: ${data.paused.map((name) => html`<${Link} key=${name} class="chip" page="job-names" params=${{ id: name }}>${name}<//> `)}</span>`}
          <span class="space"></span>
          ${operates && html`<span class="scope">${selected.size
            ? html`<b>${number(selected.size)} selected</b> <button type="button" class="link" onClick=${() => setSelected(new Map())}>${any ? 'Select all matching' : 'Select all jobs'}</button>`
            : html`<b>${any ? `All ${complete ? `${number(ids.length)} ` : ''}matching jobs` : `All ${complete ? `${number(ids.length)} ` : ''}jobs`}</b>`}:</span>`}
          <${Actions} session=${session} onDone=${() => { setSelected(new Map()); jobs.refresh(); }} actions=${actions} />
          ${operates && affected.length > 0 && affected.every(carriesRun) && html`<span class="muted">These jobs carry <${Link} page="workflows">runs of workflows<//>, which are changed there.</span>`}
          <button type="button" class="live" aria-pressed=${live} title=${live ? 'Pause updates' : 'Resume updates'} onClick=${() => { if (!live) jobs.refresh(); setLive(!live); }}>
            <span class="dot" aria-hidden="true"></span>Live</button>
        </div>
        <${Table} label="Jobs" rows=${data.jobs} rowKey=${(job) => job.id} rowClass=${(job) => (selected.has(job.id) ? 'picked' : undefined)} order=${{ page: 'jobs', params }} opens dense
          empty=${any ? 'No job matches the filters.' : 'There are no jobs. Each job that the application enqueues appears here until its retention ends.'}
          columns=${[
            operates && { title: 'Select', class: 'check', head: html`<${Check} label="Select all jobs of this page" checked=${here > 0 && here === ids.length} partial=${here > 0 && here < ids.length} onChange=${(on) => pick(data.jobs, on)} />`,
              cell: (job) => html`<${Check} label=${`Select job ${job.id}`} checked=${selected.has(job.id)} onChange=${(on) => pick([job], on)} />` },
            { title: 'Id', by: (job) => job.id, cell: (job) => html`<${IdLink} page="jobs" of=${job.id} label="Job" />` },
            { title: 'Name', class: 'name slim', by: (job) => job.name, cell: (job) => html`<span title=${job.name}>${job.name}</span>` },
            { title: 'Status', by: (job) => job.status, cell: (job) => html`<${Badge} status=${job.status} work /><${Waits} job=${job} paused=${data.paused} />` },
            { title: 'Group', class: 'short', by: (job) => job.group, cell: (job) => (job.group === undefined ? none : html`<span title=${String(job.group)}>${String(job.group)}</span>`) },
            { title: 'Tags', class: 'short', cell: (job) => (job.tags ? html`<span title=${job.tags.join(', ')}>${job.tags.map((tag) => html`<span class="tag" key=${tag}>${tag}</span>`)}</span>` : none) },
            { title: 'Attempts', class: 'num', by: (job) => job.attempts, cell: (job) => (job.maxAttempts ? html`${job.attempts} <span class="muted">/ ${job.maxAttempts}</span>` : quiet(job.attempts)) },
            { title: 'Created', by: (job) => job.createdAt, cell: (job) => html`<${Time} at=${job.createdAt} />` },
            { title: 'Due', by: (job) => job.scheduledAt, cell: (job) => html`<${Time} at=${job.scheduledAt} />` },
            { title: 'Started', by: (job) => job.startedAt, cell: (job) => html`<${Time} at=${job.startedAt} />` },
            { title: 'Took', class: 'num', by: took, cell: (job) => html`<${Took} job=${job} />` },
            { title: 'Node', class: 'short', by: (job) => job.nodeName || job.node, cell: (job) => (job.nodeName ? html`<span title=${job.nodeName}>${job.nodeName}</span>` : html`<${Id} of=${job.node} />`) },
          ]} />
        <div class="pager">
          <span class="muted">${number(ids.length)} shown${data.cutOff ? '; the search ended at its bound' : ''}${params.sort ? '; sorted within this page' : ''}${live ? '' : '; updates are paused'}</span>
          <span class="space"></span>
          ${params.after && html`<button type="button" onClick=${() => go('jobs', { ...params, after: '' })}>First page</button>`}
          ${data.next && html`<button type="button" id="next-page" onClick=${() => go('jobs', { ...params, after: data.next })}>Next page</button>`}
        </div>`;
    }}<//>`;
}
