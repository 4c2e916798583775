import { useResource } from '../api.js';
import { Link } from '../router.js';
import { html } from '../html.js';
import { Actions } from '../components/dialog.js';
import { Badge } from '../components/badge.js';
import { Facts, Id, Section, Value } from '../components/value.js';
import { Filters } from '../components/filters.js';
import { Resource } from '../components/states.js';
import { Table } from '../components/table.js';
import { Time, duration } from '../components/time.js';

const STATUSES = ['running', 'waiting', 'compensating', 'completed', 'compensated', 'failed', 'blocked_missing_version', 'blocked_signature_mismatch', 'retired_unresumable', 'cancelled_by_operator'];
const ENDED = ['completed', 'compensated', 'failed', 'retired_unresumable', 'cancelled_by_operator'];
const text = (status) => String(status).replaceAll('-', '_');

export function Workflows({ params, session }) {
  return params.id ? html`<${Run} id=${params.id} session=${session} />` : html`<${List} params=${params} />`;
}

function List({ params }) {
  const runs = useResource('workflows', { name: params.name, status: params.status, limit: 100 });
  const missing = runs.error && runs.error.status === 404;
  return html`
    <h1>Workflows</h1>
    <${Filters} page="workflows" params=${params} fields=${[{ name: 'name', label: 'Workflow' }, { name: 'status', label: 'Status', options: STATUSES }]} />
    ${missing ? html`<p class="state">The application has no workflows.</p>` : html`<${Resource} of=${runs}>${(data) => html`
      <${Table} label="Workflow runs" rows=${data.runs} rowKey=${(run) => run.id} empty="No runs match."
        columns=${[
          { title: 'Id', cell: (run) => html`<${Link} page="workflows" params=${{ id: run.id }} aria-label=${`Run ${run.id}`}><${Id} of=${run.id} /><//>` },
          { title: 'Workflow', cell: (run) => run.name },
          { title: 'Version', cell: (run) => run.version },
          { title: 'Status', cell: (run) => html`<${Badge} status=${run.status} />` },
          { title: 'Created', cell: (run) => html`<${Time} at=${run.createdAt} />` },
          { title: 'Resumes', cell: (run) => html`<${Time} at=${run.wakeAt} />` },
          { title: 'Finished', cell: (run) => html`<${Time} at=${run.finishedAt} />` },
        ]} />`}<//>`}`;
}

function Run({ id, session }) {
  const found = useResource('workflows', { id });
  return html`
    <p class="crumbs"><${Link} page="workflows">Workflows<//> / <code>${id}</code></p>
    <${Resource} of=${found}>${(run) => html`
      <div class="headline">
        <h1>${run.name} <${Badge} status=${run.status} /></h1>
        <${Actions} session=${session} onDone=${found.refresh} actions=${[
          !ENDED.includes(text(run.status)) && { title: `Cancel run ${id}`, text: 'The run ends at its next step. Completed steps are not undone.', confirm: 'Cancel run', danger: true, resource: 'workflows', body: { id, state: 'cancelled' } },
          text(run.status) === 'failed' && { title: `Retry run ${id}`, text: 'The run continues with the step that failed.', confirm: 'Retry run', resource: 'workflows', body: { id, state: 'retry' } },
        ]} />
      </div>
      <${Section} title="Facts">
        <${Facts} entries=${[
          ['Version', run.version],
          ['Parent', run.parent && html`<${Link} page="workflows" params=${{ id: run.parent }}><${Id} of=${run.parent} /><//>`],
          ['Created', html`<${Time} at=${run.createdAt} />`],
          ['Resumes', run.wakeAt && html`<${Time} at=${run.wakeAt} />`],
          ['Finished', run.finishedAt && html`<${Time} at=${run.finishedAt} />`],
          ['Waits for', run.awaits && html`<${Value} of=${run.awaits} />`],
          ['Key', run.key && html`<${Value} of=${run.key} />`],
          ['Progress', run.progress && html`<${Value} of=${run.progress} />`],
          ['Resolution', run.resolutionReason && html`<${Value} of=${run.resolutionReason} />`],
        ]} />
      <//>
      <${Section} title="Steps">
        <${Table} label="Steps" rows=${run.steps} rowKey=${(step) => step.position} empty="No step was recorded yet."
          columns=${[
            { title: '#', class: 'num', cell: (step) => step.position },
            { title: 'Name', cell: (step) => step.name },
            { title: 'Kind', cell: (step) => step.kind },
            { title: 'Status', cell: (step) => html`<${Badge} status=${step.status} />` },
            { title: 'Attempts', class: 'num', cell: (step) => step.attempts },
            { title: 'Started', cell: (step) => html`<${Time} at=${step.startedAt} />` },
            { title: 'Took', class: 'num', cell: (step) => (step.startedAt && step.finishedAt ? duration(new Date(step.finishedAt) - new Date(step.startedAt)) : '–') },
            { title: 'Result', cell: (step) => html`<${Value} of=${step.error ?? step.result} />` },
          ]} />
      <//>
      <${Section} title="Input"><${Value} of=${run.input} /><//>
      ${run.result !== undefined && html`<${Section} title="Result"><${Value} of=${run.result} /><//>`}
      ${run.error !== undefined && html`<${Section} title="Error"><${Value} of=${run.error} /><//>`}`}<//>`;
}
