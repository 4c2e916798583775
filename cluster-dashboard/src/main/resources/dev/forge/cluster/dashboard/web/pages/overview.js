import { useResource } from '../api.js';
import { Link } from '../router.js';
import { html } from '../html.js';
import { Badge } from '../components/badge.js';
import { Resource } from '../components/states.js';
import { Section } from '../components/value.js';
import { Table } from '../components/table.js';
import { Time, duration } from '../components/time.js';

function Counts({ page, counts, filter }) {
  const entries = Object.entries(counts);
  if (!entries.length) return html`<p class="muted">none</p>`;
  return html`<ul class="counts">
    ${entries.map(([status, count]) => html`
      <li key=${status}><${Link} page=${page} params=${filter ? { status } : {}}><b>${count}</b> <${Badge} status=${status} /><//></li>`)}
  </ul>`;
}

function Demand() {
  const demand = useResource('demand', {}, { interval: 10000 });
  return html`<${Resource} of=${demand}>${({ total, jobs }) => html`
    <ul class="tiles">
      <li><span class="number">${total.due}${total.dueIsExact ? '' : '+'}</span> due jobs</li>
      <li><span class="number">${total.running}</span> running jobs</li>
      <li><span class="number">${total.slots}</span> slots</li>
      <li><span class="number">${total.neededSlots}</span> needed slots</li>
      <li><span class="number">${total.oldestDueSeconds ? duration(total.oldestDueSeconds * 1000) : '–'}</span> oldest due job</li>
    </ul>
    <${Table} label="Demand by job" rowKey=${([name]) => name} empty="No handlers and no jobs."
      rows=${Object.entries(jobs)}
      columns=${[
        { title: 'Job', cell: ([name]) => html`<${Link} page="jobs" params=${{ name }}>${name}<//>` },
        { title: 'State', cell: ([, job]) => html`<${Badge} status=${job.paused ? 'paused' : 'running'} />` },
        { title: 'Executor', cell: ([, job]) => job.executor },
        { title: 'Due', class: 'num', cell: ([, job]) => `${job.due}${job.dueIsExact ? '' : '+'}` },
        { title: 'Running', class: 'num', cell: ([, job]) => job.running },
        { title: 'Slots', class: 'num', cell: ([, job]) => job.slots },
        { title: 'Time to drain', class: 'num', cell: ([, job]) => (job.drainSeconds === undefined ? '–' : duration(job.drainSeconds * 1000)) },
      ]} />`}<//>`;
}

export function Overview() {
  const overview = useResource('overview');
  const nodes = useResource('nodes');
  const name = (id) => {
    const node = nodes.data && nodes.data.nodes.find((each) => each.id === id);
    return node ? node.name : String(id).slice(0, 8);
  };
  return html`
    <h1>Overview</h1>
    <${Resource} of=${overview}>${(data) => html`
      <div class="cards">
        <${Section} title="Nodes"><${Counts} page="nodes" counts=${data.nodes} /><//>
        <${Section} title="Unfinished jobs"><${Counts} page="jobs" counts=${data.jobs} filter /><//>
        <${Section} title="Daemon instances"><${Counts} page="daemons" counts=${data.daemons} /><//>
      </div>
      <${Section} title="Leaders">
        <${Table} label="Leaders" rowKey=${(leader) => leader.role} rows=${data.leaders} empty="No leader roles."
          columns=${[
            { title: 'Role', cell: (leader) => leader.role },
            { title: 'Node', cell: (leader) => (leader.node ? html`<${Link} page="nodes">${name(leader.node)}<//>` : html`<${Badge} status="no leader" />`) },
            { title: 'Term', class: 'num', cell: (leader) => leader.term },
            { title: 'Since', cell: (leader) => html`<${Time} at=${leader.acquiredAt} />` },
          ]} />
      <//>`}<//>
    <${Section} title="Demand"><${Demand} /><//>`;
}
