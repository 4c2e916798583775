import { useResource, now } from '../api.js';
import { Link } from '../router.js';
import { html } from '../html.js';
import { Badge } from '../components/badge.js';
import { Bar, usage } from '../components/bar.js';
import { History, RangeChoice } from '../components/history.js';
import { Resource } from '../components/states.js';
import { Section, count, frequency, none, number, percent } from '../components/value.js';
import { Table } from '../components/table.js';
import { Time, duration } from '../components/time.js';

/** Returns name and version of a workflow, such as order@2. */
function versionOf(target) {
  const end = target.lastIndexOf('@');
  return end < 0 ? { name: target } : { name: target.slice(0, end), version: target.slice(end + 1) };
}

/** Returns the page that shows the subject of an item, by its kind. */
function subject({ kind, target }) {
  switch (kind) {
    case 'failing-jobs':
    case 'failed-jobs':
      return ['jobs', { name: target, status: 'failed' }];
    case 'abandoned-jobs':
      return ['jobs', { name: target, status: 'abandoned' }];
    case 'failed-batch':
      return ['batches', { id: target }];
    case 'failed-workflows':
      return ['workflows', { ...versionOf(target), status: 'failed' }];
    case 'compensated-workflows':
      return ['workflows', { ...versionOf(target), status: 'compensated' }];
    case 'overdue-jobs':
    case 'paused-jobs':
    case 'unhandled-jobs':
      return ['job-names', { id: target }];
    case 'blocked-workflows':
    case 'stranded-workflows':
      return ['workflows', { tab: 'versions' }];
    case 'missed-cron':
    case 'failed-cron':
    case 'stopped-cron':
      return ['crons', { id: target }];
    case 'failed-daemon':
    case 'restarting-daemon':
      return ['daemons', { q: target }];
    case 'flapping-node':
    case 'draining-node':
      return ['nodes', { q: target }];
    default:
      return null;
  }
}

function Attention() {
  const attention = useResource('attention', {}, { interval: 10000 });
  const rank = (item) => (item.severity === 'critical' ? 0 : 1);
  const items = attention.data ? [...attention.data.items].sort((a, b) => rank(a) - rank(b)) : [];
  const critical = items.filter((item) => item.severity === 'critical').length;
  return html`
    <${Section} title="Needs attention" aside=${items.length > 0 && html`<span class="muted">${count(items.length, 'item')}${critical ? `, ${number(critical)} critical` : ''}</span>`}>
      <${Resource} of=${attention}>${(data) => (data.items.length ? html`
        <ul class="attention">
          ${items.map((item) => {
            const page = subject(item);
            return html`
              <li key=${`${item.kind} ${item.target}`}>
                <${Badge} status=${item.severity} kind=${item.severity === 'critical' ? 'bad' : 'warn'} />
                <div><span class="what">${item.text}</span> <span class="muted">${item.nextStep}</span></div>
                ${page && html`<${Link} page=${page[0]} params=${page[1]} aria-label=${`Open ${item.kind.replaceAll('-', ' ')} ${item.target}`}>Open<//>`}
              </li>`;
          })}
        </ul>
        ${data.cutOff && html`<p class="note">There are more items than shown.</p>`}`
        : html`<p class="calm-state"><span class="dot good" aria-hidden="true"></span>Nothing needs attention. Failed jobs and runs, missed crons and nodes that keep crashing would appear here.</p>`)}<//>
    <//>`;
}

function Tile({ label, value, detail, page, params, kind }) {
  return html`<li class=${kind}><${Link} page=${page} params=${params}>
    <span class="label">${label}</span><span class="number">${value}</span><span class="detail">${detail || ' '}</span><//></li>`;
}

function Tiles() {
  const demand = useResource('demand', {}, { interval: 5000 });
  const hour = useResource('history', { range: 'PT1H' }, { interval: 15000 });
  const overview = useResource('overview');
  const sum = (name) => hour.data && hour.data.points.reduce((total, point) => total + point[name], 0);
  const [completed, failed] = [sum('completed'), sum('failed')];
  const daemons = overview.data ? overview.data.daemons : {};
  const instances = Object.values(daemons).reduce((all, one) => all + one, 0);
  const failing = daemons.failed || 0;
  return html`<${Resource} of=${demand}>${({ total }) => html`
    <ul class="tiles">
      <${Tile} label="Due jobs" value=${`${number(total.due)}${total.dueIsExact ? '' : '+'}`} page="job-names" params=${{ sort: '-due' }}
        detail=${total.oldestDueSeconds > 0 ? `oldest for ${duration(total.oldestDueSeconds * 1000)}` : 'none waits'} />
      <${Tile} label="Running jobs" value=${number(total.running)} page="jobs" params=${{ status: 'running' }} detail=${`of ${count(total.slots, 'slot')}`} />
      <${Tile} label="Needed slots" value=${number(total.neededSlots)} page="nodes" kind=${total.neededSlots > total.slots ? 'alarm' : ''}
        detail=${total.neededSlots > total.slots ? `${number(total.neededSlots - total.slots)} too few` : total.drainSeconds > 0 ? `drained in ${duration(total.drainSeconds * 1000)}` : 'enough slots'} />
      <${Tile} label="Completed, last hour" value=${number(completed)} page="jobs" params=${{ status: 'completed' }} detail=${completed === null ? '' : frequency(completed / 3600)} />
      <${Tile} label="Failed, last hour" value=${number(failed)} page="jobs" kind=${failed > 0 ? 'alarm' : ''}
        params=${{ status: 'failed', finishedFrom: new Date(Math.floor(now() / 60000) * 60000 - 3600000).toISOString().replace('.000Z', 'Z') }}
        detail=${failed === null ? '' : failed ? `${percent(failed / (failed + completed))} of ended jobs` : 'none failed'} />
      <${Tile} label=${failing ? 'Failed daemons' : 'Daemon instances'} value=${overview.data ? number(failing || instances) : '–'} page="daemons" kind=${failing ? 'alarm' : ''} detail=${failing ? `of ${count(instances, 'instance')}` : instances ? 'none failed' : 'no daemons'} />
    </ul>`}<//>`;
}

const lives = (node) => node.status !== 'dead';
/** Returns the nodes without dead ones that have restarted: another one with the name or the key has started since. */
function present(nodes) {
  const follows = (other, node) => (other.key === node.key || other.name === node.name) && new Date(other.startedAt) > new Date(node.lastHeartbeat);
  return nodes.filter((node) => lives(node) || !nodes.some((other) => follows(other, node)));
}

const share = (value) => html`<${Bar} share=${value} kind=${usage(value)} />`;

function Nodes({ params }) {
  const nodes = useResource('nodes');
  const overview = useResource('overview');
  const leaders = overview.data ? overview.data.leaders : [];
  const roles = (node) => leaders.filter((leader) => leader.node === node.id).map((leader) => leader.role);
  const nameOf = (id) => {
    const node = nodes.data && nodes.data.nodes.find((each) => each.id === id);
    return node ? node.name : `…${String(id).slice(-12)}`;
  };
  return html`
    <${Section} title="Nodes">
      <${Resource} of=${nodes}>${(data) => html`
        <${Table} label="Nodes" rows=${present(data.nodes)} rowKey=${(node) => node.id} order=${{ page: 'overview', params }} empty="No node has joined the cluster."
          columns=${[
            { title: 'Name', class: 'name', by: (node) => node.name, cell: (node) => html`<${Link} page="nodes" params=${{ q: node.name }}>${node.name}<//>` },
            { title: 'Status', by: (node) => node.status, cell: (node) => html`<${Badge} status=${node.status} />` },
            { title: 'Leads', cell: (node) => roles(node).join(', ') || none },
            { title: 'Load', by: (node) => (node.slots ? node.jobs / node.slots : node.jobs), cell: (node) => (!lives(node) ? none : node.slots
              ? html`<${Bar} share=${node.jobs / node.slots} text=${`${number(node.jobs)} / ${number(node.slots)}`} />` : number(node.jobs)) },
            { title: 'CPU', by: (node) => node.cpu, cell: (node) => (lives(node) ? share(node.cpu) : none) },
            { title: 'Heap', by: (node) => node.memory, cell: (node) => (lives(node) ? share(node.memory) : none) },
            { title: 'Heartbeat', by: (node) => node.lastHeartbeat, cell: (node) => html`<${Time} at=${node.lastHeartbeat} />` },
          ]} />`}<//>
    <//>
    <${Section} title="Leaders">
      <${Resource} of=${overview}>${(data) => html`
        <${Table} label="Leaders" rowKey=${(leader) => leader.role} rows=${data.leaders} empty="No leader was elected yet."
          columns=${[
            { title: 'Role', class: 'name', cell: (leader) => leader.role },
            { title: 'Node', cell: (leader) => (leader.node ? html`<${Link} page="nodes" params=${{ q: nameOf(leader.node) }}>${nameOf(leader.node)}<//>` : html`<${Badge} status="no leader" kind="warn" />`) },
            { title: 'Term', class: 'num', cell: (leader) => number(leader.term) },
            { title: 'Since', cell: (leader) => html`<${Time} at=${leader.acquiredAt} />` },
          ]} />`}<//>
    <//>`;
}

export function Overview({ params }) {
  return html`
    <h1>Overview</h1>
    <${Attention} />
    <${Tiles} />
    <div class="bar-head"><h2>Activity</h2><${RangeChoice} page="overview" params=${params} /></div>
    <${History} range=${params.range} />
    <${Nodes} params=${params} />`;
}
