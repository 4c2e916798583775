import { useResource } from '../api.js';
import { Link } from '../router.js';
import { html } from '../html.js';
import { Actions } from '../components/dialog.js';
import { Badge } from '../components/badge.js';
import { Facts, Id, Section } from '../components/value.js';
import { Resource } from '../components/states.js';
import { Table } from '../components/table.js';
import { Time } from '../components/time.js';
import { Timeline } from '../components/timeline.js';

export function Batches({ params, session }) {
  return params.id ? html`<${Batch} id=${params.id} session=${session} />` : html`<${List} />`;
}

function List() {
  const batches = useResource('batches', { limit: 100 });
  return html`
    <h1>Batches</h1>
    <${Resource} of=${batches}>${(data) => html`
      <${Table} label="Batches" rows=${data.batches} rowKey=${(batch) => batch.id} empty="There are no batches."
        columns=${[
          { title: 'Id', cell: (batch) => html`<${Link} page="batches" params=${{ id: batch.id }} aria-label=${`Batch ${batch.id}`}><${Id} of=${batch.id} /><//>` },
          { title: 'Name', cell: (batch) => String(batch.name ?? '') },
          { title: 'Status', cell: (batch) => html`<${Badge} status=${batch.status} />` },
          { title: 'Jobs', class: 'num', cell: (batch) => batch.jobs },
          { title: 'Completed', class: 'num', cell: (batch) => batch.completed },
          { title: 'Failed', class: 'num', cell: (batch) => batch.failed },
          { title: 'Remaining', class: 'num', cell: (batch) => batch.remaining },
          { title: 'Created', cell: (batch) => html`<${Time} at=${batch.createdAt} />` },
          { title: 'Ended', cell: (batch) => html`<${Time} at=${batch.endedAt} />` },
        ]} />`}<//>`;
}

function Batch({ id, session }) {
  const found = useResource('batches', { id });
  const job = (callback) => callback && html`<${Link} page="jobs" params=${{ id: callback }}><${Id} of=${callback} /><//>`;
  return html`
    <p class="crumbs"><${Link} page="batches">Batches<//> / <code>${id}</code></p>
    <${Resource} of=${found}>${(batch) => html`
      <div class="headline">
        <h1>${String(batch.name ?? 'Batch')} <${Badge} status=${batch.status} /></h1>
        <${Actions} session=${session} onDone=${found.refresh} actions=${[
          batch.status === 'open' && { title: `Close batch ${id}`, text: 'No further jobs can be added.', confirm: 'Close batch', resource: 'batches', body: { id, state: 'closed' } },
          batch.failed > 0 && { title: `Retry failed jobs of batch ${id}`, text: 'All failed jobs of the batch become due again.', confirm: 'Retry failed', resource: 'batches', body: { id, state: 'retry' } },
          ['open', 'running', 'failed'].includes(batch.status) && { title: `Cancel batch ${id}`, text: 'All unfinished jobs of the batch are cancelled.', confirm: 'Cancel batch', danger: true, resource: 'batches', body: { id, state: 'cancelled' } },
        ]} />
      </div>
      <div class="columns">
        <${Section} title="Facts">
          <${Facts} entries=${[
            ['Jobs', batch.jobs], ['Completed', batch.completed], ['Failed', batch.failed], ['Cancelled', batch.cancelled],
            ['Remaining', batch.exact ? batch.remaining : `${batch.remaining} or more`],
            ['Part of', batch.parent && html`<${Link} page="batches" params=${{ id: batch.parent }}><${Id} of=${batch.parent} /><//>`],
            ['On failure', job(batch.onFailure)], ['On end', job(batch.onEnd)], ['On success', job(batch.onSuccess)],
          ]} />
        <//>
        <${Section} title="Timeline">
          <${Timeline} entries=${[
            { at: batch.createdAt, label: 'Created' }, { at: batch.closedAt, label: 'Closed' },
            { at: batch.failedAt, label: 'First failure', kind: 'bad' }, { at: batch.cancelledAt, label: 'Cancelled' },
            { at: batch.endedAt, label: 'Ended' }, { at: batch.succeededAt, label: 'Succeeded', kind: 'good' },
          ]} />
        <//>
      </div>`}<//>`;
}
