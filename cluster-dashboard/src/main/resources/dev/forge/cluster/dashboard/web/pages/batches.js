import { useResource } from '../api.js';
import { Link, go } from '../router.js';
import { html } from '../html.js';
import { Actions } from '../components/dialog.js';
import { Badge } from '../components/badge.js';
import { SmallStack, Stack } from '../components/bar.js';
import { Facts, IdLink, Section, Value, none, number, percent, quiet } from '../components/value.js';
import { Resource } from '../components/states.js';
import { Table } from '../components/table.js';
import { Time, duration } from '../components/time.js';
import { Timeline } from '../components/timeline.js';

const PAGE = 50;
const ended = (batch) => batch.jobs - batch.remaining;
const parts = (batch) => [
  { label: 'completed', count: batch.completed, kind: 'good' }, { label: 'failed', count: batch.failed, kind: 'bad' }, { label: 'cancelled', count: batch.cancelled, kind: 'calm' },
];
// Counts of jobs stop there; then the number of completed jobs, and with it the progress, is unknown.
const MOST_COUNTED_IN_LIST = 1000;
const MOST_COUNTED = 100000;
const isCut = (batch, count, most) => !batch.exact && count >= most;
const orMore = (batch, count) => (isCut(batch, count, MOST_COUNTED) ? `${number(count)} or more` : number(count));
const inList = (batch, count) => (isCut(batch, count, MOST_COUNTED_IN_LIST) ? `${number(count)}+` : quiet(count));
const uncounted = html`<span class="muted none" title="Too many jobs to count">–</span>`;
// A batch whose failed jobs were retried has ended before, and runs again.
const endOf = (batch) => (['succeeded', 'failed', 'cancelled'].includes(batch.status) ? batch.succeededAt || batch.endedAt : undefined);

export function Batches({ params, session }) {
  return params.id ? html`<${Batch} key=${params.id} id=${params.id} session=${session} />` : html`<${List} params=${params} />`;
}

function List({ params }) {
  const batches = useResource('batches', { limit: PAGE, after: params.after }, { keep: true });
  return html`
    <h1>Batches</h1>
    <p class="lead">Jobs that were enqueued together and are followed as one.</p>
    <${Resource} of=${batches}>${(data) => html`
      <${Table} label="Batches" rows=${data.batches} rowKey=${(batch) => batch.id} opens empty="There are no batches. A batch appears here when the application begins one."
        columns=${[
          { title: 'Id', cell: (batch) => html`<${IdLink} page="batches" of=${batch.id} label="Batch" />` },
          { title: 'Name', class: 'name', cell: (batch) => (batch.name === undefined ? none : html`<span title=${String(batch.name)}>${String(batch.name)}</span>`) },
          { title: 'Status', cell: (batch) => html`<${Badge} status=${batch.status} work />` },
          { title: 'Progress', cell: (batch) => (batch.exact ? html`<${SmallStack} total=${batch.jobs} parts=${parts(batch)} text=${batch.jobs ? percent(Math.floor((ended(batch) / batch.jobs) * 100) / 100) : '–'} />` : uncounted) },
          { title: 'Jobs', class: 'num', cell: (batch) => number(batch.jobs) },
          { title: 'Completed', class: 'num', cell: (batch) => (batch.exact ? quiet(batch.completed) : uncounted) },
          { title: 'Failed', class: 'num', cell: (batch) => (batch.failed ? html`<${Link} class="alarm" page="jobs" params=${{ batch: batch.id, status: 'failed' }} aria-label=${`${number(batch.failed)} failed jobs of batch ${batch.id}`}>${inList(batch, batch.failed)}<//>` : quiet(0)) },
          { title: 'Cancelled', class: 'num', cell: (batch) => inList(batch, batch.cancelled) },
          { title: 'Remaining', class: 'num', cell: (batch) => inList(batch, batch.remaining) },
          { title: 'Created', cell: (batch) => html`<${Time} at=${batch.createdAt} />` },
          { title: 'Ended', cell: (batch) => html`<${Time} at=${endOf(batch)} />` },
        ]} />
      <div class="pager">
        <span class="muted">${number(data.batches.length)} shown, the newest first</span><span class="space"></span>
        ${params.after && html`<button type="button" onClick=${() => go('batches', { ...params, after: '' })}>First page</button>`}
        ${data.next && html`<button type="button" id="next-page" onClick=${() => go('batches', { ...params, after: data.next })}>Next page</button>`}
      </div>`}<//>`;
}

function Batch({ id, session }) {
  const found = useResource('batches', { id });
  const job = (callback) => callback && html`<${IdLink} page="jobs" of=${callback} label="Job" />`;
  const jobs = (text, status) => html`<${Link} page="jobs" params=${{ batch: id, status }}>${text}<//>`;
  return html`
    <p class="crumbs"><${Link} page="batches">Batches<//> / <code>${id}</code></p>
    <${Resource} of=${found} title="Batch">${(batch) => html`
      <div class="headline">
        <h1>${String(batch.name ?? 'Batch')} <${Badge} status=${batch.status} work /></h1>
        <${Actions} session=${session} onDone=${found.refresh} actions=${[
          batch.failed > 0 && (!batch.cancelledAt || batch.endedAt) && { title: `Retry failed jobs of batch ${id}`, text: 'All failed jobs of the batch become due again.', button: 'Retry failed jobs', confirm: 'Retry failed jobs', resource: 'batches', body: { id, state: 'retry' }, done: 'The failed jobs become due again.' },
          batch.status === 'open' && { title: `Close batch ${id}`, text: 'No further jobs can be added.', confirm: 'Close batch', resource: 'batches', body: { id, state: 'closed' }, done: 'The batch is closed.' },
          ['open', 'running', 'failed'].includes(batch.status) && !batch.endedAt && { title: `Cancel batch ${id}`, text: 'All unfinished jobs of the batch are cancelled.', confirm: 'Cancel batch', danger: true, resource: 'batches', body: { id, state: 'cancelled' }, done: 'The batch is being cancelled.' },
        ]} />
      </div>
      <p class="links">${jobs('All jobs')}${batch.failed > 0 && jobs('Failed jobs', 'failed')}${batch.remaining > 0 && jobs('Pending jobs', 'pending')}${batch.remaining > 0 && jobs('Running jobs', 'running')}</p>
      <${Section} title="Progress" aside=${batch.exact && html`<span class="muted">${number(ended(batch))} of ${number(batch.jobs)} jobs have ended</span>`}>
        ${batch.exact
          ? html`<${Stack} label="Ended jobs" total=${batch.jobs} parts=${[...parts(batch), { label: 'remaining', count: batch.remaining, kind: 'rest', rest: true }]} />`
          : html`
            <${Facts} entries=${[['Failed', orMore(batch, batch.failed)], ['Cancelled', orMore(batch, batch.cancelled)], ['Remaining', orMore(batch, batch.remaining)]]} />
            <p class="note">There are too many jobs to count all of them, so the number of completed jobs is unknown.</p>`}
      <//>
      <div class="columns">
        <${Section} title="Facts">
          <${Facts} entries=${[
            ['Jobs', number(batch.jobs)], ['Took', endOf(batch) && duration(new Date(endOf(batch)) - new Date(batch.createdAt))],
            ['Name', batch.name !== undefined && html`<${Value} of=${batch.name} />`],
            ['Part of', batch.parent && html`<${IdLink} page="batches" of=${batch.parent} label="Batch" />`],
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
