import { useResource } from '../api.js';
import { Link } from '../router.js';
import { html } from '../html.js';
import { Actions } from '../components/dialog.js';
import { Badge } from '../components/badge.js';
import { Facts, Id, Section, Value } from '../components/value.js';
import { Resource } from '../components/states.js';
import { Table } from '../components/table.js';
import { Time, duration } from '../components/time.js';

const schedule = (cron) => (cron.expression ? html`<code>${cron.expression}</code> <span class="muted">${cron.zone}</span>` : `every ${duration(cron.interval)}`);

function actions(cron) {
  const { name } = cron;
  return [
    cron.state === 'paused'
      ? { title: `Resume cron ${name}`, text: 'The cron fires again at its next slot.', confirm: 'Resume', resource: 'crons', body: { id: name, state: 'running' } }
      : { title: `Pause cron ${name}`, text: 'The cron fires no slots until it is resumed.', confirm: 'Pause', resource: 'crons', body: { id: name, state: 'paused' } },
    { title: `Run now: cron ${name}`, text: 'Enqueues the job once, outside of the schedule.', confirm: 'Run now', resource: 'crons', body: { id: name, state: 'triggered' } },
  ];
}

export function Crons({ params, session }) {
  return params.id ? html`<${Cron} id=${params.id} session=${session} />` : html`<${List} session=${session} />`;
}

function List({ session }) {
  const crons = useResource('crons', { limit: 500 });
  return html`
    <h1>Crons</h1>
    <${Resource} of=${crons}>${(data) => html`
      <${Table} label="Crons" empty="There are no crons." rowKey=${(cron) => cron.name}
        rows=${[...data.cron, ...data.fixedRate].sort((a, b) => a.name.localeCompare(b.name))}
        columns=${[
          { title: 'Name', cell: (cron) => html`<${Link} page="crons" params=${{ id: cron.name }}>${cron.name}<//>` },
          { title: 'State', cell: (cron) => html`<${Badge} status=${cron.state} />` },
          { title: 'Schedule', cell: schedule },
          { title: 'Job', cell: (cron) => html`<${Link} page="jobs" params=${{ name: cron.runnable.target }}>${cron.runnable.target}<//>` },
          { title: 'Last run', cell: (cron) => html`<${Time} at=${cron.lastExecution && cron.lastExecution.time} />` },
          { title: 'Result', cell: (cron) => cron.lastExecution && cron.lastExecution.status && html`<${Badge} status=${cron.lastExecution.status} />` },
          { title: 'Next run', cell: (cron) => html`<${Time} at=${cron.nextExecution && cron.nextExecution.time} />` },
          { title: 'Problem', cell: (cron) => cron.problem },
          { title: 'Actions', cell: (cron) => html`<${Actions} session=${session} onDone=${crons.refresh} actions=${actions(cron)} />` },
        ]} />`}<//>`;
}

function Cron({ id, session }) {
  const found = useResource('crons', { id });
  return html`
    <p class="crumbs"><${Link} page="crons">Crons<//> / <code>${id}</code></p>
    <${Resource} of=${found}>${(cron) => html`
      <div class="headline">
        <h1>${cron.name} <${Badge} status=${cron.state} /></h1>
        <${Actions} session=${session} onDone=${found.refresh} actions=${actions(cron)} />
      </div>
      ${cron.problem && html`<p class="state error">${cron.problem}</p>`}
      <${Section} title="Facts">
        <${Facts} entries=${[
          ['Schedule', schedule(cron)],
          ['Job', html`<${Link} page="jobs" params=${{ name: cron.runnable.target }}>${cron.runnable.target}<//>`],
          ['Declared in', cron.declared ? 'code' : 'run time'],
          ['Target', cron.target], ['Capability', cron.capability], ['Missed slots', cron.misfire], ['Overlap', cron.overlap],
          ['Next run', html`<${Time} at=${cron.nextExecution && cron.nextExecution.time} />`],
        ]} />
      <//>
      <${Section} title="Latest slots">
        <${Table} label="Latest slots" rows=${cron.runs || []} rowKey=${(slot) => `${slot.time} ${slot.decidedAt}`} empty="No slot was decided yet."
          columns=${[
            { title: 'Slot', cell: (slot) => html`<${Time} at=${slot.time} />` },
            { title: 'Outcome', cell: (slot) => html`<${Badge} status=${slot.outcome} />` },
            { title: 'Status', cell: (slot) => slot.status && html`<${Badge} status=${slot.status} />` },
            { title: 'Reason', cell: (slot) => slot.reason },
            { title: 'Job', cell: (slot) => slot.job && html`<${Link} page="jobs" params=${{ id: slot.job }}><${Id} of=${slot.job} /><//>` },
            { title: 'Finished', cell: (slot) => html`<${Time} at=${slot.finishedAt} />` },
            { title: 'Error', cell: (slot) => slot.error && html`<${Value} of=${slot.error} />` },
          ]} />
      <//>`}<//>`;
}
