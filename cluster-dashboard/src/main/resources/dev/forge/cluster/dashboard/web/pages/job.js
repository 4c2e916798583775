import { now, useResource } from '../api.js';
import { Link, go } from '../router.js';
import { html } from '../html.js';
import { Actions } from '../components/dialog.js';
import { Badge } from '../components/badge.js';
import { Progress, progressFact } from '../components/bar.js';
import { toInstant, toLocal } from '../components/filters.js';
import { Empty, Resource } from '../components/states.js';
import { Facts, Folded, Id, IdLink, Section, Value, ValueSection, carriesRun, layOut, number } from '../components/value.js';
import { Clock, Elapsed, Time, duration } from '../components/time.js';
import { AuditTable } from './audit.js';

const UNFINISHED = ['pending', 'claimed', 'running'];
const RETRYABLE = ['failed', 'cancelled', 'abandoned'];

function traceLink(session, job) {
  const parent = job.metadata && job.metadata.traceparent;
  const id = typeof parent === 'string' && /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(parent);
  if (!id || !session.traceUrl) return null;
  return html`<a href=${session.traceUrl.replaceAll('{traceId}', id[1])} target="_blank" rel="noopener noreferrer">Open trace</a>`;
}

const newJob = ({ id }) => html`Job <${Link} page="jobs" params=${{ id }}>${id}<//> was enqueued.`;

/** Returns the actions of a job, the ones that repeat it first. */
function actions(job, session, gone) {
  // The cluster refuses them: the run would not know.
  if (carriesRun(job)) return [];
  const { id, status } = job;
  const values = session.permissions.includes('values');
  // Without the text a part of the payload is hidden, and would be lost.
  const editable = values && job.payloadText !== undefined;
  const payload = () => [{ name: 'payload', label: 'Payload', type: 'json', required: true, value: layOut(job.payloadText) }];
  const edited = (text) => (text.trim() === layOut(job.payloadText) ? {} : { payload: text });
  const retryable = RETRYABLE.includes(status);
  return [
    retryable && { title: `Retry job ${id}`, text: 'The job becomes due now, with new attempts.', confirm: 'Retry job', button: 'Retry', resource: 'jobs', body: { id, state: 'retry' }, done: 'The job becomes due again.' },
    retryable && editable && {
      title: `Retry with payload… job ${id}`, heading: `Retry job ${id} with another payload`, button: 'Retry with payload…', confirm: 'Retry job with this payload', text: 'The job becomes due now with the payload below. The old payload is replaced.', resource: 'jobs', fields: payload,
      body: (fields) => ({ id, state: 'retry', ...edited(fields.payload) }), done: 'The job becomes due again.',
    },
    {
      title: `Duplicate job ${id}`, button: 'Duplicate', confirm: 'Enqueue duplicate', text: `A new job of the same name becomes due now. This job stays as it is.${editable ? '' : ' The new job has the same payload.'}`, resource: 'jobs', fields: editable ? payload : [],
      body: (fields) => ({ id, state: 'duplicated', ...(editable ? edited(fields.payload) : {}) }), done: newJob,
    },
    status === 'pending' && {
      title: `Reschedule job ${id}`, button: 'Reschedule', confirm: 'Reschedule job', text: 'The job becomes due at another time.', resource: 'jobs',
      fields: () => [{ name: 'at', label: 'Due at (your time zone)', type: 'datetime-local', required: true, value: toLocal(new Date(job.scheduledAt) > now() ? job.scheduledAt : now() + 3600000) }],
      body: (fields) => ({ ids: id, state: 'rescheduled', at: toInstant(fields.at) }), done: ({ changed }) => (changed ? 'The job is rescheduled.' : 'Nothing was changed: the job is due at that time already, or it has started.'),
    },
    UNFINISHED.includes(status) && { title: `Cancel job ${id}`, button: 'Cancel job', text: 'The job does not start, or is interrupted if it runs.', confirm: 'Cancel job', danger: true, resource: 'jobs', body: { id, state: 'cancelled' }, done: 'The job is cancelled.' },
    !UNFINISHED.includes(status) && {
      title: `Delete job ${id}`, button: 'Delete', confirm: 'Delete job', danger: true, text: 'The job, its result and its log are removed. This cannot be undone.', resource: 'jobs', body: { ids: id, state: 'deleted' },
      done: ({ changed }) => (changed ? 'The job is deleted.' : 'The job could not be deleted in its present status.'), after: gone,
    },
  ];
}

/** Returns the attempts: those that failed, and the last one if it did not. */
function attemptsOf(job) {
  const past = job.attemptHistory || [];
  const last = past[past.length - 1];
  // Numbers repeat after a retry and after the loss of a node, times do not.
  const isKnown = last && (last.epoch === job.epoch || new Date(last.startedAt) >= new Date(job.startedAt));
  if (!job.startedAt || job.status === 'pending' || isKnown) return past;
  const end = job.finishedAt && new Date(job.finishedAt) - new Date(job.startedAt);
  return [...past, { attempt: job.attempts, node: job.node, startedAt: job.startedAt, durationMillis: end, result: job.status }];
}

const KINDS = { completed: 'good', running: 'busy', claimed: 'busy' };

function Attempts({ job, nameOf }) {
  const attempts = attemptsOf(job);
  if (!attempts.length) return html`<${Empty}>The job has not started yet. Each attempt appears here with its node and its error.<//>`;
  return html`
    <ol class="timeline">
      ${attempts.map((each) => html`
        <li key=${`${each.attempt} ${each.startedAt}`} class=${KINDS[each.result] || 'bad'}>
          <span class="what">Attempt ${each.attempt}</span> <${Badge} status=${each.result} work />
          <div><${Time} at=${each.startedAt} full />
            ${each.result === 'running' ? html`, running for <${Elapsed} since=${each.startedAt} />` : each.durationMillis !== undefined && each.durationMillis !== null && html`, took ${duration(each.durationMillis)}`}
            ${each.node && html` on ${nameOf(each.node, each.nodeName)}`}</div>
          ${each.error !== undefined && each.error !== null && html`<div class="detail"><${Folded} of=${each.error} /></div>`}
        </li>`)}
    </ol>`;
}

function Relations({ job, values }) {
  const jobs = (ids) => ids && html`<ul class="list">${ids.map((id) => html`<li key=${id}><${IdLink} page="jobs" of=${id} label="Job" /></li>`)}</ul>`;
  const batch = (id) => id && html`<${IdLink} page="batches" of=${id} label="Batch" />`;
  return html`
    <${Facts} entries=${[
      ['Workflow', carriesRun(job) && html`<${Link} page="workflows" params=${{ id: job.id }}>Run of the workflow<//>`],
      ['Batch', batch(job.batch)], ['Waits for jobs', jobs(job.waitsFor)], ['Waits for batch', batch(job.waitsForBatch)], ['Awaited by', jobs(job.awaitedBy)],
      ['Group', job.group !== undefined && html`<${Value} of=${job.group} />${values && html` <${Link} page="jobs" params=${{ name: job.name, group: job.group }}>Jobs of this group<//>`}`],
      ['Name', html`<${Link} page="job-names" params=${{ id: job.name }}>${job.name}<//>`],
      ['Same name', html`<${Link} page="jobs" params=${{ name: job.name }}>All jobs<//>, <${Link} page="jobs" params=${{ name: job.name, status: 'failed' }}>failed jobs<//>`],
    ]} />`;
}

function Log({ id, running }) {
  const logs = useResource('jobs/logs', { id }, { interval: running ? 5000 : 30000 });
  return html`<${Resource} of=${logs}>${(data) =>
    data.lines.length
      ? html`<ol class="log" tabindex="0" aria-label="Log lines">${data.lines.map((line, index) => html`<li key=${index}><${Clock} at=${line.time} /> <span class="muted" title=${`Attempt ${line.attempt}`}>#${line.attempt}</span> <span class="line">${String(line.message ?? '')}</span></li>`)}</ol>`
      : html`<${Empty}>The handler has logged nothing for this job.<//>`}<//>`;
}

function Changes({ id }) {
  const audit = useResource('audit', { target: id, limit: 20 }, { interval: 15000 });
  return html`<${Resource} of=${audit}>${(data) => html`<${AuditTable} entries=${data.entries} short empty="Nobody has changed this job. Cancellations and retries by operators appear here." />`}<//>`;
}

export function Job({ id, session }) {
  const found = useResource('jobs', { id });
  const nodes = useResource('nodes', {}, { interval: 30000 });
  const values = session.permissions.includes('values');
  return html`
    <p class="crumbs"><${Link} page="jobs">Jobs<//> / <code>${id}</code></p>
    <${Resource} of=${found} title="Job">${(job) => {
      const nameOf = (node, given) => {
        const known = nodes.data && nodes.data.nodes.find((each) => each.id === node);
        const name = given || (known ? known.name : node === job.node ? job.nodeName : null);
        if (!name) return html`node <${Id} of=${node} />`;
        // A node that has left has no row to show.
        return nodes.data && !nodes.data.nodes.some((each) => each.name === name) ? html`<span title=${node}>${name}</span>` : html`<${Link} page="nodes" params=${{ q: name }}>${name}<//>`;
      };
      const waited = job.startedAt && job.attempts === 1 && new Date(job.startedAt) - new Date(job.scheduledAt);
      const gone = ({ changed }) => changed && go('jobs', {}, { replace: true });
      return html`
        <div class="headline">
          <h1>${job.name} <${Badge} status=${job.status} work /></h1>
          <${Actions} session=${session} onDone=${found.refresh} actions=${actions(job, session, gone)} />
          ${carriesRun(job) && html`<${Link} id="run" page="workflows" params=${{ id: job.id }}>Open the run of this job<//>`}
        </div>
        ${UNFINISHED.includes(job.status) && job.explanation && html`<p class="explanation">${job.status === 'pending' && html`<b>Why is it not running?</b>`}${job.explanation.text}</p>`}
        ${job.status === 'running' && html`<${Progress} of=${job.progress} />`}
        ${job.error !== undefined && job.status !== 'completed' && html`<${ValueSection} title="Error" of=${job.error} canCopy=${values} kind="failure" />`}
        <div class="columns">
          <div>
            <${Section} title="Attempts" aside=${html`<span class="muted">${number(job.attempts)}${job.maxAttempts ? ` of ${number(job.maxAttempts)}` : ''}</span>`}>
              <${Attempts} job=${job} nameOf=${nameOf} />
            <//>
            <${ValueSection} title="Payload" of=${job.payloadText === undefined ? job.payload : layOut(job.payloadText)} canCopy=${values && job.payload !== undefined} />
          </div>
          <div>
            <${Section} title="Facts">
              <${Facts} entries=${[
                ['Created', html`<${Time} at=${job.createdAt} full />`],
                ['Due', job.scheduledAt && html`<${Time} at=${job.scheduledAt} full />`],
                ['Started', job.startedAt && html`<${Time} at=${job.startedAt} full />`],
                ['Finished', job.finishedAt && html`<${Time} at=${job.finishedAt} full />`],
                ['Waited', waited > 0 && duration(waited)],
                ['Took', job.startedAt && job.finishedAt && duration(new Date(job.finishedAt) - new Date(job.startedAt))],
                ['Node', job.node && nameOf(job.node)],
                ['Priority', number(job.priority)], ['Capability', job.capability],
                ['Recoveries', job.recoveries > 0 && number(job.recoveries)], ['Claims', number(job.epoch)],
                ['Tags', job.tags && job.tags.map((tag) => html`<span class="tag" key=${tag}>${tag}</span>`)],
                ['Unique key', job.uniqueKey !== undefined && html`<${Value} of=${job.uniqueKey} />`],
                progressFact(job.progress, job.status, job.status === 'running', !UNFINISHED.includes(job.status)),
                ['Trace', traceLink(session, job)],
              ]} />
            <//>
            <${Section} title="Relations"><${Relations} job=${job} values=${values} /><//>
            ${job.result !== undefined && html`<${ValueSection} title="Result" of=${job.result} canCopy=${values} />`}
            ${Object.keys(job.metadata || {}).length > 0 && html`<${ValueSection} title="Metadata" of=${job.metadata} canCopy=${values} />`}
          </div>
        </div>
        <${Section} title="Log"><${Log} id=${id} running=${UNFINISHED.includes(job.status)} /><//>
        <${Section} title="Changes by operators"><${Changes} id=${id} /><//>`;
    }}<//>`;
}
