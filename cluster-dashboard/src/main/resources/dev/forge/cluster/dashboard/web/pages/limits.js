import { useResource } from '../api.js';
import { Link } from '../router.js';
import { html } from '../html.js';
import { Actions } from '../components/dialog.js';
import { Facts, Section, Value } from '../components/value.js';
import { Resource } from '../components/states.js';
import { Table } from '../components/table.js';

const any = (limit) => limit ?? 'any';

export function Limits({ params, session }) {
  return params.id ? html`<${Limit} id=${params.id} session=${session} />` : html`<${List} />`;
}

function List() {
  const limits = useResource('limits', { limit: 500 });
  return html`
    <h1>Job limits</h1>
    <${Resource} of=${limits}>${(data) => html`
      <${Table} label="Job limits" rows=${data.limits} rowKey=${(limit) => limit.name} empty="No job has limits."
        columns=${[
          { title: 'Job', cell: (limit) => html`<${Link} page="limits" params=${{ id: limit.name }}>${limit.name}<//>` },
          { title: 'On nodes', class: 'num', cell: (limit) => limit.held },
          { title: 'Concurrency', class: 'num', cell: (limit) => any(limit.concurrency) },
          { title: 'Per group', class: 'num', cell: (limit) => any(limit.groupConcurrency) },
          { title: 'Rate per group', class: 'num', cell: (limit) => any(limit.groupRate) },
          { title: 'Ordered', cell: (limit) => (limit.ordered ? 'yes' : 'no') },
          { title: 'Set at run time', cell: (limit) => (limit.overridden ? 'yes' : 'no') },
        ]} />`}<//>`;
}

function Limit({ id, session }) {
  const found = useResource('limits', { id });
  return html`
    <p class="crumbs"><${Link} page="limits">Job limits<//> / <code>${id}</code></p>
    <${Resource} of=${found}>${(limit) => html`
      <div class="headline">
        <h1>${limit.name}</h1>
        <${Actions} session=${session} onDone=${found.refresh} actions=${[
          limit.overridden && { title: `Use declared limits of ${id}`, text: 'The limits that were set at run time are removed.', confirm: 'Use declared limits', resource: 'limits', body: { id, state: 'declared' } },
        ]} />
      </div>
      <${Section} title="Limits">
        <${Facts} entries=${[
          ['On nodes', limit.held], ['Concurrency', any(limit.concurrency)], ['Per group', any(limit.groupConcurrency)],
          ['Rate per group', any(limit.groupRate)], ['Burst per group', limit.groupBurst], ['Ordered', limit.ordered ? 'yes' : 'no'],
          ['Declared', limit.declared && html`<${Value} of=${limit.declared} />`],
        ]} />
      <//>
      <${Section} title="Groups">
        <${Table} label="Groups" rows=${limit.groups || []} rowKey=${(group) => String(group.group)} empty="No group has jobs on nodes or a weight."
          columns=${[
            { title: 'Group', cell: (group) => html`<${Value} of=${group.group} />` },
            { title: 'On nodes', class: 'num', cell: (group) => group.held },
            { title: 'Weight', class: 'num', cell: (group) => group.weight },
          ]} />
      <//>`}<//>`;
}
