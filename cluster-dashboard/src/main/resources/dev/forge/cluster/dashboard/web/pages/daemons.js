import { useResource } from '../api.js';
import { Link } from '../router.js';
import { html } from '../html.js';
import { Actions } from '../components/dialog.js';
import { Badge } from '../components/badge.js';
import { Filters } from '../components/filters.js';
import { Folded, Section, Value, none, number, quiet } from '../components/value.js';
import { Empty, Resource } from '../components/states.js';
import { Table } from '../components/table.js';
import { Time } from '../components/time.js';

function action({ name, paused }) {
  return paused
    ? { title: `Resume daemon ${name}`, text: 'A candidate starts the daemon again.', confirm: 'Resume', resource: 'daemons', body: { id: name, state: 'running' }, done: `Daemon ${name} starts again.` }
    : { title: `Pause daemon ${name}`, text: 'All instances stop until the daemon is resumed.', confirm: 'Pause', resource: 'daemons', body: { id: name, state: 'paused' }, done: `Daemon ${name} is paused.` };
}

function stateOf(daemon) {
  if (daemon.paused) return 'paused';
  if (!daemon.instances.length) return 'stopped';
  return daemon.instances.some((each) => each.status === 'failed') ? 'failed' : 'running';
}

export function Daemons({ params, session }) {
  const daemons = useResource('daemons');
  const matches = (daemon) => (!params.q || daemon.name.toLowerCase().includes(params.q.toLowerCase())) && (!params.state || stateOf(daemon) === params.state);
  return html`
    <h1>Daemons</h1>
    <${Filters} page="daemons" params=${params} fields=${[{ name: 'q', label: 'Name contains', instant: true }, { name: 'state', label: 'State', options: ['running', 'failed', 'paused', 'stopped'] }]} />
    <${Resource} of=${daemons}>${(data) => {
      const shown = data.daemons.filter(matches);
      if (!shown.length) return html`<${Empty}>${data.daemons.length ? 'No daemon matches the filters.' : 'There are no daemons. A daemon appears here when a node with its method has started.'}<//>`;
      return shown.map((daemon) => html`
        <${Section} key=${daemon.name} title=${html`${daemon.name} <${Badge} status=${stateOf(daemon)} />`}
          aside=${html`<${Actions} session=${session} onDone=${daemons.refresh} actions=${[action(daemon)]} />`}>
          <p class="note top">Runs on ${daemon.scope === 'cluster' ? 'one node at a time' : 'each node'}. ${daemon.candidates.length ? `Candidates: ${daemon.candidates.join(', ')}.` : 'No active node may run it.'}</p>
          <${Table} label=${`Instances of ${daemon.name}`} rows=${daemon.instances} rowKey=${(each) => `${each.instance} ${each.node}`} empty=${daemon.paused ? 'No instance runs: the daemon is paused.' : 'No instance runs.'}
            columns=${[
              { title: 'Instance', cell: (each) => each.instance },
              { title: 'Status', cell: (each) => html`<${Badge} status=${each.status} />` },
              { title: 'Node', cell: (each) => (each.nodeName ? html`<${Link} page="nodes" params=${{ q: each.nodeName }}>${each.nodeName}<//>` : none) },
              { title: 'Term', class: 'num', cell: (each) => (each.term ? number(each.term) : none) },
              { title: 'Started', cell: (each) => html`<${Time} at=${each.startedAt} />` },
              { title: 'Restarts', class: 'num', cell: (each) => quiet(each.restarts) },
              { title: 'Note', class: 'wrap', cell: (each) => html`<${Value} of=${each.note} />` },
              { title: 'Error', class: 'wrap', cell: (each) => html`<${Folded} of=${each.error} />` },
            ]} />
        <//>`);
    }}<//>`;
}
