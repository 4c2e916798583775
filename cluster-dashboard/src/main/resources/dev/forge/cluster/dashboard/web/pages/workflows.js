import { now, useResource } from '../api.js';
import { Link, go } from '../router.js';
import { html } from '../html.js';
import { Actions } from '../components/dialog.js';
import { Badge } from '../components/badge.js';
import { Progress, progressFact } from '../components/bar.js';
import { Facts, Folded, IdLink, Section, Value, ValueSection, count, none, number, quiet } from '../components/value.js';
import { Filters } from '../components/filters.js';
import { Empty, Resource } from '../components/states.js';
import { Table } from '../components/table.js';
import { Elapsed, Time, absolute, duration, isUtc } from '../components/time.js';

const STATUSES = ['running', 'waiting', 'compensating', 'completed', 'compensated', 'failed', 'blocked_missing_version', 'blocked_signature_mismatch', 'retired_unresumable', 'cancelled_by_operator'];
const ENDED = ['completed', 'compensated', 'failed', 'retired_unresumable', 'cancelled_by_operator'];
const PAGE = 50;
const MOST_COUNTED = 10000;
const NONE = 'The application has no workflows.';
const underscored = (status) => String(status).replaceAll('-', '_');

export function Workflows({ params, session }) {
  if (params.id) return html`<${Run} key=${params.id} id=${params.id} session=${session} />`;
  const tab = (name, text) => html`<${Link} page="workflows" params=${{ tab: name }} aria-current=${(params.tab || '') === name ? 'true' : undefined}>${text}<//>`;
  return html`
    <h1>Workflows</h1>
    <div class="tabs">${tab('', 'Runs')}${tab('versions', 'Versions')}</div>
    ${params.tab === 'versions' ? html`<${Versions} params=${params} />` : html`<${Runs} params=${params} />`}`;
}

function Runs({ params }) {
  const { name, version, status, after } = params;
  const runs = useResource('workflows', { name, version, status, after, limit: PAGE }, { keep: true });
  if (runs.error && runs.error.status === 404) return html`<${Empty}>${NONE}<//>`;
  return html`
    <${Filters} page="workflows" params=${params} fields=${[{ name: 'name', label: 'Workflow' }, { name: 'version', label: 'Version' }, { name: 'status', label: 'Status', options: STATUSES }]} />
    <${Resource} of=${runs}>${(data) => html`
      <${Table} label="Workflow runs" rows=${data.runs} rowKey=${(run) => run.id} opens
        empty=${data.cutOff ? 'No run among those that were examined matches the filters. The next page continues the search.' : after ? 'There are no older runs.' : name || version || status ? 'No run matches the filters.' : 'There are no runs. Each started workflow appears here until its retention ends.'}
        columns=${[
          { title: 'Id', cell: (run) => html`<${IdLink} page="workflows" of=${run.id} label="Run" />` },
          { title: 'Workflow', class: 'name', cell: (run) => run.name },
          { title: 'Version', cell: (run) => run.version },
          { title: 'Status', cell: (run) => html`<${Badge} status=${run.status} work />${run.awaits !== undefined && html`<span class="sub" title=${String(run.awaits)}>for signal ${String(run.awaits)}</span>`}` },
          { title: 'Created', cell: (run) => html`<${Time} at=${run.createdAt} />` },
          { title: 'Resumes', cell: (run) => (!run.wakeAt ? none : html`<${Time} at=${run.wakeAt} />${run.awaits !== undefined && html`<span class="sub">deadline</span>`}`) },
          { title: 'Finished', cell: (run) => html`<${Time} at=${run.finishedAt} />` },
          { title: 'Took', class: 'num', cell: (run) => (run.finishedAt ? duration(new Date(run.finishedAt) - new Date(run.createdAt)) : html`<${Elapsed} since=${run.createdAt} />`) },
          { title: 'Parent', cell: (run) => html`<${IdLink} page="workflows" of=${run.parent} label="Run" />` },
        ]} />
      <div class="pager">
        <span class="muted">${number(data.runs.length)} shown, the newest first${data.cutOff ? '; the search ended at its bound' : ''}</span><span class="space"></span>
        ${after && html`<button type="button" onClick=${() => go('workflows', { ...params, after: '' })}>First page</button>`}
        ${data.next && html`<button type="button" id="next-page" onClick=${() => go('workflows', { ...params, after: data.next })}>Next page</button>`}
      </div>`}<//>`;
}

/** The number of blocked runs of a version, with a link for each status that they have. */
function Blocked({ of: { name, version, blocked, mismatched } }) {
  const link = (runs, status, text) => runs > 0 && html`<${Link} page="workflows" params=${{ name, version, status }} title=${text} aria-label=${`${count(runs, 'blocked run')} of ${name} version ${version}: ${text}`}>${number(runs)}<//>`;
  const links = [link(blocked - mismatched, 'blocked_missing_version', 'no live node has the version'), link(mismatched, 'blocked_signature_mismatch', 'the method does not match the history')].filter(Boolean);
  return links.length ? html`${links[0]}${links[1] && html` + ${links[1]}`}` : quiet(0);
}

function Versions({ params }) {
  const versions = useResource('workflow-versions', {}, { interval: 10000 });
  if (versions.error && versions.error.status === 404) return html`<${Empty}>${NONE}<//>`;
  return html`<${Resource} of=${versions}>${(data) => html`
    <${Table} label="Versions of workflows" rows=${data.versions} rowKey=${(each) => `${each.name} ${each.version}`} order=${{ page: 'workflows', params }} opens
      empty="No version has runs in flight. A version appears here when a run starts."
      columns=${[
        { title: 'Workflow', class: 'name', by: (each) => each.name, cell: (each) => html`<${Link} page="workflows" params=${{ name: each.name, version: each.version }}>${each.name}<//>` },
        { title: 'Version', by: (each) => each.version, cell: (each) => each.version },
        { title: 'In flight', class: 'num', by: (each) => each.inFlight, cell: (each) => (each.inFlight < MOST_COUNTED ? quiet(each.inFlight) : `${number(each.inFlight)}+`) },
        { title: 'Blocked', class: 'num', by: (each) => each.blocked, cell: (each) => html`<${Blocked} of=${each} />` },
        { title: 'Code', by: (each) => (each.stranded ? 'stranded' : 'deployed'), cell: (each) => (each.stranded
          ? html`<${Badge} status="stranded" /> <span class="muted">no live node has this version</span>` : html`<${Badge} status="deployed" kind="good" />`) },
      ]} />
    ${data.cutOff && html`<p class="note">There are more versions than shown.</p>`}`}<//>`;
}

/** What a run is blocked by, and what helps. */
const BLOCKED = {
  blocked_missing_version: (run) => `No live node has version ${run.version} of the workflow. The run continues when one has started.`,
  blocked_signature_mismatch: () => 'The method does not match the recorded history; the error below says where. Deploy the method that the run began with, then retry the run.',
};

const KIND = { completed: 'good', failed: 'bad', timed_out: 'bad', waiting: 'busy', retrying: 'busy' };

/** A step: a line with its place in time, which unfolds to its values. */
function Step({ step, from, to, current }) {
  const start = step.startedAt ? new Date(step.startedAt).getTime() : null;
  const end = step.finishedAt || step.deliveredAt ? new Date(step.finishedAt || step.deliveredAt).getTime() : current || ['waiting', 'retrying'].includes(step.status) ? Math.max(to, start) : start;
  const share = (time) => ((time - from) / Math.max(1, to - from)) * 100;
  const bar = (begin, until, kind) => html`<span class=${`fill ${kind}`} style=${{ left: `${Math.min(99.5, share(begin))}%`, width: `${Math.max(0, share(until) - share(begin))}%` }}></span>`;
  const undone = step.compensationStartedAt ? new Date(step.compensationStartedAt).getTime() : null;
  const undoneAt = step.compensatedAt ? new Date(step.compensatedAt).getTime() : to;
  const status = step.deliveredAt ? 'delivered' : step.status;
  // A step that is compensated was completed before.
  const kind = undone === null ? KIND[underscored(status)] || 'calm' : 'good';
  const attempts = `${step.attempts > 1 ? count(step.attempts, 'attempt') : ''}${step.compensationAttempts ? `${step.attempts > 1 ? ', ' : ''}${count(step.compensationAttempts, 'compensation')}` : ''}`;
  return html`
    <li>
      <details>
        <summary class=${current ? 'current' : ''}>
          <span class="muted num">${step.position}</span>
          <span class="step-name" title=${step.name}>${step.name}<span class="sub">${step.kind}${attempts && `, ${attempts}`}</span></span>
          <span><${Badge} status=${status} /></span>
          <span class="track" aria-hidden="true">${start !== null && bar(start, end, kind)}${undone !== null && bar(undone, undoneAt, underscored(step.status) === 'compensation_failed' ? 'bad' : 'warn')}</span>
          <span class="took">${step.startedAt && (step.finishedAt ? duration(new Date(step.finishedAt) - new Date(step.startedAt)) : step.deliveredAt ? duration(end - start) : html`${step.status === 'waiting' ? 'waiting' : 'since'} <${Elapsed} since=${step.startedAt} />`)}</span>
        </summary>
        <div class="step-body">
          <${Facts} entries=${[['Started', step.startedAt && html`<${Time} at=${step.startedAt} full />`], ['Finished', step.finishedAt && html`<${Time} at=${step.finishedAt} full />`], ['Signal sent', step.deliveredAt && html`<${Time} at=${step.deliveredAt} full />`], ['Attempts', number(step.attempts)], ['Compensation attempts', step.compensationAttempts],
            ['Compensation started', step.compensationStartedAt && html`<${Time} at=${step.compensationStartedAt} full />`], ['Compensation ended', step.compensatedAt && html`<${Time} at=${step.compensatedAt} full />`]]} />
          ${step.error !== undefined && html`<h3>Error</h3><${Value} of=${step.error} />`}
          ${step.result !== undefined && html`<h3>Result</h3><${Value} of=${step.result} />`}
          ${step.attemptHistory && html`<h3>Failed attempts</h3><ol class="timeline">${step.attemptHistory.map((each) => html`
            <li class="bad" key=${`${each.attempt} ${each.compensation}`}><span class="what">${each.compensation ? 'Compensation' : 'Attempt'} ${each.attempt}</span> ended <${Time} at=${each.endedAt} full />${each.durationMillis !== undefined && `, took ${duration(each.durationMillis)}`}
              <div class="detail"><${Folded} of=${each.error} /></div></li>`)}</ol>`}
        </div>
      </details>
    </li>`;
}

function Steps({ run }) {
  if (!run.steps.length) return html`<${Empty}>No step was recorded yet. Steps, waits, jobs and child runs appear here as the run goes on.<//>`;
  const from = new Date(run.createdAt).getTime();
  const ends = run.steps.map((step) => new Date(step.compensatedAt || step.finishedAt || step.startedAt || run.createdAt).getTime());
  const to = Math.max(...ends, run.finishedAt ? new Date(run.finishedAt).getTime() : now());
  const ended = ENDED.includes(underscored(run.status));
  const open = ended ? [] : run.steps.filter((step) => ['waiting', 'retrying'].includes(step.status) && !step.deliveredAt).map((step) => step.position);
  return html`
    <div class="step-scale" aria-hidden="true"><span>${absolute(new Date(from), isUtc())}</span><span>${duration(to - from)}</span><span>${absolute(new Date(to), isUtc())}${run.finishedAt ? '' : ' (now)'}</span></div>
    <ol class="steps">${run.steps.map((step) => html`<${Step} key=${step.position} step=${step} from=${from} to=${to} current=${open.includes(step.position)} />`)}</ol>`;
}

function actions(run, values) {
  const { id } = run;
  const status = underscored(run.status);
  const awaited = typeof run.awaits === 'string' && values ? run.awaits : '';
  return [
    ['failed', 'blocked_signature_mismatch'].includes(status) && { title: `Retry run ${id}`, text: status === 'failed' ? 'The run continues with the step that failed.' : 'The method that is deployed now is compared with the recorded history, and continues the run if they match.', confirm: 'Retry run', resource: 'workflows', body: { id, state: 'retry' }, done: 'The run continues.' },
    !ENDED.includes(status) && {
      title: `Send signal to run ${id}`, button: 'Send signal', confirm: 'Send signal', text: awaited ? 'The run waits for the signal below.' : 'The run receives the signal when it waits for it.', resource: 'workflows',
      fields: [{ name: 'signal', label: 'Signal', required: true, value: awaited }, { name: 'value', label: 'Value', type: 'json', help: 'A JSON value, such as true, 42, "yes" or {"approved": true}.' }],
      body: (fields) => ({ id, state: 'signalled', signal: fields.signal.trim(), ...(fields.value.trim() ? { value: fields.value } : {}) }), done: 'The signal is sent.',
    },
    ![...ENDED, 'compensating'].includes(status) && { title: `Cancel run ${id}`, text: 'The run ends at its next step.', confirm: 'Cancel run', danger: true, resource: 'workflows', body: { id, state: 'cancelled' }, done: 'The run is being cancelled.' },
  ];
}

/** Returns the signals by their names: each name with the times at which they were sent. */
function sent(signals) {
  const names = new Map();
  for (const { name, sentAt } of signals) names.set(String(name), [...(names.get(String(name)) || []), sentAt]);
  return [...names];
}

function Run({ id, session }) {
  const found = useResource('workflows', { id });
  const values = session.permissions.includes('values');
  return html`
    <p class="crumbs"><${Link} page="workflows">Workflows<//> / <code>${id}</code></p>
    <${Resource} of=${found} title="Run">${(run) => html`
      <div class="headline">
        <h1>${run.name} <${Badge} status=${run.status} work /></h1>
        <${Actions} session=${session} onDone=${found.refresh} actions=${actions(run, values)} />
      </div>
      ${BLOCKED[underscored(run.status)] && html`<p class="explanation"><b>Why is it blocked?</b>${BLOCKED[underscored(run.status)](run)}</p>`}
      ${run.awaits !== undefined && html`<p class="explanation"><b>Waits for a signal</b>${String(run.awaits)}</p>`}
      ${run.signals && html`<p class="explanation" id="signals"><b>Signals that were sent and not consumed</b>${sent(run.signals).map(([name, times], index) => html`${index > 0 && ', '}${name}${times.length > 1 && ` (${number(times.length)})`} <span class="muted"><${Time} at=${times[0]} /></span>`)}</p>`}
      ${!ENDED.includes(underscored(run.status)) && html`<${Progress} of=${run.progress} />`}
      ${run.error !== undefined && html`<${ValueSection} title="Error" of=${run.error} canCopy=${values} kind="failure" />`}
      <${Section} title="Facts">
        <${Facts} entries=${[
          ['Version', run.version],
          ['Runs', html`<${Link} page="workflows" params=${{ name: run.name }}>All runs<//>, <${Link} page="workflows" params=${{ name: run.name, version: run.version }}>of this version<//>`],
          ['Parent', run.parent && html`<${IdLink} page="workflows" of=${run.parent} label="Run" />`],
          ['Created', html`<${Time} at=${run.createdAt} full />`],
          [run.awaits === undefined ? 'Resumes' : 'Deadline', run.wakeAt && html`<${Time} at=${run.wakeAt} full />`],
          ['Finished', run.finishedAt && html`<${Time} at=${run.finishedAt} full />`],
          ['Took', run.finishedAt && duration(new Date(run.finishedAt) - new Date(run.createdAt))],
          ['Key', run.key !== undefined && html`<${Value} of=${run.key} />`],
          progressFact(run.progress, underscored(run.status), !ENDED.includes(underscored(run.status)), ENDED.includes(underscored(run.status))),
          ['Resolution', run.resolutionReason !== undefined && html`<${Value} of=${run.resolutionReason} />`],
        ]} />
      <//>
      <${Section} title="Steps" aside=${html`<span class="muted">${count(run.steps.length, 'step')}</span>`}><${Steps} run=${run} /><//>
      <div class="columns">
        <${ValueSection} title="Input" of=${run.input} canCopy=${values && run.input !== undefined} />
        ${run.result !== undefined && html`<${ValueSection} title="Result" of=${run.result} canCopy=${values} />`}
      </div>`}<//>`;
}
