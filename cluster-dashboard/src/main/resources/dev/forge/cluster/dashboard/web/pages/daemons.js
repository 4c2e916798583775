import { useResource } from '../api.js';
import { html } from '../html.js';
import { Actions } from '../components/dialog.js';
import { Badge } from '../components/badge.js';
import { Section, Value } from '../components/value.js';
import { Empty, Resource } from '../components/states.js';
import { Table } from '../components/table.js';
import { Time } from '../components/time.js';

export function Daemons({ session }) {
  const daemons = useResource('daemons');
  return html`
    <h1>Daemons</h1>
    <${Resource} of=${daemons}>${(data) => (data.daemons.length ? data.daemons.map((daemon) => html`
      <${Section} key=${daemon.name} title=${daemon.name}>
        <div class="toolbar">
          <${Badge} status=${daemon.paused ? 'paused' : 'running'} />
          <span class="muted">${daemon.scope === 'cluster' ? 'one node at a time' : 'on each node'}; candidates: ${daemon.candidates.join(', ') || 'none'}</span>
          <span class="space"></span>
          <${Actions} session=${session} onDone=${daemons.refresh} actions=${[daemon.paused
            ? { title: `Resume daemon ${daemon.name}`, text: 'A candidate starts the daemon again.', confirm: 'Resume', resource: 'daemons', body: { id: daemon.name, state: 'running' } }
            : { title: `Pause daemon ${daemon.name}`, text: 'All instances stop until the daemon is resumed.', confirm: 'Pause', danger: true, resource: 'daemons', body: { id: daemon.name, state: 'paused' } }]} />
        </div>
        <${Table} label=${`Instances of ${daemon.name}`} rows=${daemon.instances} rowKey=${(each) => `${each.instance} ${each.node}`} empty="No instance."
          columns=${[
            { title: 'Instance', class: 'num', cell: (each) => each.instance },
            { title: 'Status', cell: (each) => html`<${Badge} status=${each.status} />` },
            { title: 'Node', cell: (each) => each.nodeName || '–' },
            { title: 'Term', class: 'num', cell: (each) => each.term },
            { title: 'Started', cell: (each) => html`<${Time} at=${each.startedAt} />` },
            { title: 'Restarts', class: 'num', cell: (each) => each.restarts },
            { title: 'Note', cell: (each) => html`<${Value} of=${each.note} />` },
            { title: 'Error', cell: (each) => html`<${Value} of=${each.error} />` },
          ]} />
      <//>`) : html`<${Empty}>There are no daemons.<//>`)}<//>`;
}
