import { useResource } from '../api.js';
import { Link, go } from '../router.js';
import { html } from '../html.js';
import { Filters } from '../components/filters.js';
import { Resource } from '../components/states.js';
import { Table } from '../components/table.js';
import { Time } from '../components/time.js';
import { Id, none, number, text } from '../components/value.js';

const SOURCES = ['dashboard', 'endpoint', 'http', 'java', 'sql'];
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const PAGES = { __proto__: null, job: 'jobs', jobs: 'jobs', batch: 'batches', workflow: 'workflows' };
const NAMES = { __proto__: null, name: 'job-names', limit: 'job-names', weight: 'job-names', cron: 'crons' };

/** The target of an entry, as a link if its page is known. */
export function Target({ entry }) {
  const noun = entry.action.split('.')[0];
  const target = String(entry.target);
  if (UUID.test(target)) {
    return PAGES[noun] ? html`<${Link} page=${PAGES[noun]} params=${{ id: target }} aria-label=${`${noun} ${target}`}><${Id} of=${target} /><//>` : html`<${Id} of=${target} />`;
  }
  if (NAMES[noun]) return html`<${Link} page=${NAMES[noun]} params=${{ id: target }}>${target}<//>`;
  if (noun === 'daemon') return html`<${Link} page="daemons" params=${{ q: target }}>${target}<//>`;
  return html`<span title=${target}>${target}</span>`;
}

export function AuditTable({ entries, params, empty, short }) {
  return html`
    <${Table} label="Audit entries" rows=${entries} rowKey=${(entry) => entry.id} empty=${empty}
      columns=${[
        { title: 'When', cell: (entry) => html`<${Time} at=${entry.at} />` },
        { title: 'Who', cell: (entry) => html`${short ? entry.who : html`<${Link} page="audit" params=${{ ...params, who: entry.who, before: '' }}>${entry.who}<//>`}${entry.address && html`<span class="sub">${entry.address}</span>`}` },
        { title: 'Source', cell: (entry) => entry.source },
        { title: 'Action', cell: (entry) => html`<code>${entry.action}</code>` },
        !short && { title: 'Target', class: 'name', cell: (entry) => html`<${Target} entry=${entry} />` },
        { title: 'Count', class: 'num', cell: (entry) => number(entry.count) },
        { title: 'Reason', class: 'wrap', cell: (entry) => entry.reason || none },
        { title: 'Detail', class: 'wrap', cell: (entry) => (entry.detail === undefined ? none : text(entry.detail)) },
      ]} />`;
}

export function Audit({ params }) {
  const { who, source, action, target, before } = params;
  const audit = useResource('audit', { who, source, action, target, before, limit: 100 }, { keep: true });
  return html`
    <h1>Audit</h1>
    <p class="lead">Changes that people made to jobs, crons, daemons, workflows, limits and nodes, with their reasons.</p>
    <${Filters} page="audit" params=${params} fields=${[
      { name: 'who', label: 'Who' }, { name: 'source', label: 'Source', options: SOURCES },
      { name: 'action', label: 'Action', placeholder: 'job.cancel' }, { name: 'target', label: 'Target' },
    ]} />
    <${Resource} of=${audit}>${(data) => html`
      <${AuditTable} entries=${data.entries} params=${params} empty=${who || source || action || target
        ? 'No entry matches the filters.' : 'No change was recorded yet. Each change that somebody makes to jobs, crons, daemons, workflows and nodes appears here.'} />
      <div class="pager">
        <span class="muted">${number(data.entries.length)} shown, the newest first</span><span class="space"></span>
        ${before && html`<button type="button" onClick=${() => go('audit', { ...params, before: '' })}>First page</button>`}
        ${data.next && html`<button type="button" id="next-page" onClick=${() => go('audit', { ...params, before: data.next })}>Next page</button>`}
      </div>`}<//>`;
}
