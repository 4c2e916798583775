import { useResource } from '../api.js';
import { html } from '../html.js';
import { Actions } from '../components/dialog.js';
import { Badge } from '../components/badge.js';
import { Id } from '../components/value.js';
import { Resource } from '../components/states.js';
import { Table } from '../components/table.js';
import { Time } from '../components/time.js';

const percent = (share) => (share === null || share === undefined ? '–' : `${Math.round(share * 100)} %`);

export function Nodes({ session }) {
  const nodes = useResource('nodes');
  return html`
    <h1>Nodes</h1>
    <${Resource} of=${nodes}>${(data) => html`
      <${Table} label="Nodes" rows=${data.nodes} rowKey=${(node) => node.id}
        columns=${[
          { title: 'Name', cell: (node) => html`${node.name} ${node.id === session.node.id && html`<span class="muted">(serves this page)</span>`}` },
          { title: 'Status', cell: (node) => html`<${Badge} status=${node.status} />` },
          { title: 'Id', cell: (node) => html`<${Id} of=${node.id} />` },
          { title: 'Host', cell: (node) => node.hostname },
          { title: 'Roles', cell: (node) => node.roles.join(', ') },
          { title: 'Mode', cell: (node) => node.mode },
          { title: 'Capabilities', cell: (node) => node.capabilities.join(', ') },
          { title: 'Version', cell: (node) => node.version },
          { title: 'Jobs', class: 'num', cell: (node) => node.jobs },
          { title: 'CPU', class: 'num', cell: (node) => percent(node.cpu) },
          { title: 'Heap', class: 'num', cell: (node) => percent(node.memory) },
          { title: 'Started', cell: (node) => html`<${Time} at=${node.startedAt} />` },
          { title: 'Heartbeat', cell: (node) => html`<${Time} at=${node.lastHeartbeat} />` },
          { title: 'Actions', cell: (node) => node.status === 'active' && html`
            <${Actions} session=${session} onDone=${nodes.refresh} actions=${[{
              title: `Drain node ${node.name}`, text: 'The node finishes its jobs, starts no new ones and reports that it is not ready.',
              confirm: 'Drain', danger: true, resource: 'nodes', body: { id: node.id, state: 'draining' } }]} />` },
        ]} />`}<//>`;
}
