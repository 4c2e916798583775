import { useResource } from '../api.js';
import { html } from '../html.js';
import { Actions, mayChange } from '../components/dialog.js';
import { Badge } from '../components/badge.js';
import { Bar, usage } from '../components/bar.js';
import { Filters } from '../components/filters.js';
import { Id, count, none, number } from '../components/value.js';
import { Resource } from '../components/states.js';
import { Table } from '../components/table.js';
import { Time } from '../components/time.js';

const share = (value) => html`<${Bar} share=${value} kind=${usage(value)} />`;
const lives = (node) => node.status !== 'dead';
const list = (texts) => (texts.length ? texts.join(', ') : none);

function drainText(nodes, node) {
  const alone = nodes.every((each) => each.id === node.id || each.status !== 'active');
  return `The node starts no new jobs, leads nothing and reports that it is not ready. Its jobs have the drain timeout to end; others then run them again. Only a restart of the node ends this.${alone ? ' It is the only active node: jobs wait until another one joins.' : ''}`;
}

export function Nodes({ params, session }) {
  const nodes = useResource('nodes');
  const overview = useResource('overview');
  const leaders = overview.data ? overview.data.leaders : [];
  const leads = (node) => leaders.filter((leader) => leader.node === node.id).map((leader) => leader.role);
  const q = (params.q || '').toLowerCase();
  const matches = (node) => (!q || node.name.toLowerCase().includes(q) || node.hostname.toLowerCase().includes(q) || node.id === q) && (!params.status || node.status === params.status);
  return html`
    <h1>Nodes</h1>
    <${Filters} page="nodes" params=${params} fields=${[{ name: 'q', label: 'Name or host contains', instant: true }, { name: 'status', label: 'Status', options: ['joining', 'active', 'draining', 'stale', 'dead'] }]} />
    <${Resource} of=${nodes}>${(data) => html`
      <${Table} label="Nodes" rows=${data.nodes.filter(matches)} rowKey=${(node) => node.id} order=${{ page: 'nodes', params }} empty=${data.nodes.length ? 'No node matches the filters.' : 'No node has joined the cluster.'}
        columns=${[
          { title: 'Name', class: 'name', by: (node) => node.name, cell: (node) => html`<span title=${node.name}>${node.name}</span>${node.hostname !== node.name && html`<span class="sub" title=${node.hostname}>${node.hostname}</span>`}<span class="sub"><${Id} of=${node.id} />${node.id === session.node.id && ', serves this page'}</span>` },
          { title: 'Status', by: (node) => node.status, cell: (node) => html`<${Badge} status=${node.status} />` },
          { title: 'Load', by: (node) => (node.slots ? node.jobs / node.slots : node.jobs), cell: (node) => (!lives(node) ? none : node.slots
            ? html`<${Bar} share=${node.jobs / node.slots} text=${`${number(node.jobs)} / ${number(node.slots)}`} />` : number(node.jobs)) },
          { title: 'CPU', by: (node) => node.cpu, cell: (node) => (lives(node) ? share(node.cpu) : none) },
          { title: 'Heap', by: (node) => node.memory, cell: (node) => (lives(node) ? share(node.memory) : none) },
          { title: 'Heartbeat', by: (node) => node.lastHeartbeat, cell: (node) => html`<${Time} at=${node.lastHeartbeat} /><span class="sub">started <${Time} at=${node.startedAt} /></span>` },
          { title: 'Roles', by: (node) => -leads(node).length, cell: (node) => html`${leads(node).map((role) => html`<div key=${role}><b>leads ${role}</b></div>`)}${list(node.roles)}<span class="sub">mode ${node.mode}${node.capabilities.length > 0 && `, has ${node.capabilities.join(', ')}`}</span>` },
          { title: 'Version', by: (node) => node.version, cell: (node) => html`${node.version}<span class="sub">${count(node.connections, 'connection')}</span>` },
          mayChange(session) && { title: 'Actions', class: 'act', cell: (node) => node.status === 'active' && html`
            <${Actions} session=${session} onDone=${nodes.refresh} actions=${[{
              title: `Drain node ${node.name}`, text: drainText(data.nodes, node),
              confirm: 'Drain', resource: 'nodes', body: { id: node.id, state: 'draining' }, done: `Node ${node.name} is draining.` }]} />` },
        ]} />`}<//>`;
}
