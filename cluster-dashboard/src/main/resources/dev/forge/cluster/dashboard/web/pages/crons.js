import { useResource } from '../api.js';
import { Link } from '../router.js';
import { html } from '../html.js';
import { Actions, mayChange } from '../components/dialog.js';
import { Badge } from '../components/badge.js';
import { Facts, Folded, IdLink, Section, Value, count, none, number } from '../components/value.js';
import { Filters } from '../components/filters.js';
import { Resource } from '../components/states.js';
import { Table } from '../components/table.js';
import { Time, absolute, duration, isUtc } from '../components/time.js';

const MACROS = { __proto__: null, '@yearly': 'every year', '@annually': 'every year', '@monthly': 'every month', '@weekly': 'every week', '@daily': 'every day', '@midnight': 'every day at 00:00', '@hourly': 'every hour' };
const DAYS = { 0: 'Sunday', 1: 'Monday', 2: 'Tuesday', 3: 'Wednesday', 4: 'Thursday', 5: 'Friday', 6: 'Saturday', 7: 'Sunday', SUN: 'Sunday', MON: 'Monday', TUE: 'Tuesday', WED: 'Wednesday', THU: 'Thursday', FRI: 'Friday', SAT: 'Saturday' };

/** Returns a simple cron expression in words, or null. */
export function words(expression) {
  if (MACROS[expression]) return MACROS[expression];
  const interval = /^@every\s+P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$/i.exec(expression.trim());
  if (interval) {
    const [days, hours, minutes, seconds] = interval.slice(1).map((part) => Number(part || 0));
    return `every ${duration((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)}`;
  }
  const parts = expression.trim().split(/\s+/);
  const [second, minute, hour, day, month, weekday, more] = parts.length === 5 ? ['0', ...parts] : parts;
  if (weekday === undefined || more !== undefined || month !== '*') return null;
  const every = (field) => (/^(\*|0)\/(\d+)$/.exec(field) || [])[2];
  const isNumber = (field) => /^\d+$/.test(field);
  const any = (field) => field === '*' || field === '?';
  const days = any(day) && any(weekday);
  if (second === '*' && minute === '*' && hour === '*' && days) return 'every second';
  if (every(second) && minute === '*' && hour === '*' && days) return `every ${count(Number(every(second)), 'second')}`;
  if (second !== '0') return null;
  if (hour === '*' && days) {
    if (minute === '*') return 'every minute';
    if (every(minute)) return `every ${count(Number(every(minute)), 'minute')}`;
    return minute === '0' ? 'every hour' : isNumber(minute) ? `every hour at minute ${Number(minute)}` : null;
  }
  if (!isNumber(minute)) return null;
  if (every(hour) && days) return `every ${count(Number(every(hour)), 'hour')}${minute === '0' ? '' : ` at minute ${Number(minute)}`}`;
  if (!isNumber(hour)) return null;
  const at = `at ${hour.padStart(2, '0')}:${minute.padStart(2, '0')}`;
  if (days) return `every day ${at}`;
  const [from, to] = weekday.toUpperCase().split('-').map((each) => DAYS[each]);
  if (any(day) && from && (to || !weekday.includes('-'))) return to ? `${from} to ${to} ${at}` : `every ${from} ${at}`;
  if (any(weekday) && isNumber(day)) return `on day ${day} of each month ${at}`;
  if (any(weekday) && day === 'L') return `on the last day of each month ${at}`;
  return null;
}

function Schedule({ cron }) {
  if (!cron.expression) return cron.interval === undefined ? none : `every ${duration(cron.interval)}`;
  const text = words(cron.expression);
  return html`${text ? html`<span title=${cron.expression}>${text}</span>` : html`<code>${cron.expression}</code>`} <span class="sub">${text && html`<code>${cron.expression}</code> `}${cron.zone}</span>`;
}

function actions(cron) {
  const { name } = cron;
  return [
    { title: `Run now: cron ${name}`, text: 'Enqueues the job once, outside of the schedule.', confirm: 'Run now', resource: 'crons', body: { id: name, state: 'triggered' },
      done: ({ job }) => (job ? html`Cron ${name} has enqueued job <${Link} page="jobs" params=${{ id: job }}>${job}<//>.` : `Cron ${name} is triggered.`) },
    cron.state === 'paused'
      ? { title: `Resume cron ${name}`, text: 'The cron fires again at its next slot.', confirm: 'Resume', resource: 'crons', body: { id: name, state: 'running' }, done: `Cron ${name} fires again.` }
      : { title: `Pause cron ${name}`, text: 'The cron fires no slots until it is resumed.', confirm: 'Pause', resource: 'crons', body: { id: name, state: 'paused' }, done: `Cron ${name} is paused.` },
  ];
}

/** Returns the result of a slot in one word. */
function resultOf(slot) {
  if (!slot) return null;
  return slot.outcome === 'ran' ? { SUCCESS: 'succeeded', ERROR: 'failed', STARTED: 'started' }[slot.status] || 'ran' : slot.outcome;
}

const RECENT = 20;
const SIGNS = { succeeded: ['✓', 'good'], ran: ['✓', 'good'], failed: ['✕', 'bad'], started: ['▸', 'busy'], missed: ['!', 'bad'], skipped: ['–', 'warn'] };

const describe = (slot) => `${absolute(new Date(slot.time), isUtc())}: ${resultOf(slot)}${slot.reason ? `, ${slot.reason}` : ''}`;

/** The latest slots as squares, the newest last. */
function Slots({ slots, large }) {
  return html`
    <ul class=${large ? 'slots large' : 'slots'} aria-label="Latest slots">
      ${[...slots].reverse().map((slot) => {
        const result = resultOf(slot);
        const [sign, kind] = SIGNS[result] || ['?', 'calm'];
        const text = describe(slot);
        return html`<li key=${`${slot.time} ${slot.decidedAt}`}>${slot.job
          ? html`<${Link} page="jobs" params=${{ id: slot.job }} class=${`slot ${kind}`} title=${text}><span aria-hidden="true">${sign}</span><span class="hidden">${text}</span><//>`
          : html`<span class=${`slot ${kind}`} title=${text}><span aria-hidden="true">${sign}</span><span class="hidden">${text}</span></span>`}</li>`;
      })}
    </ul>`;
}

const WORDS = ['succeeded', 'failed', 'missed', 'skipped', 'started'];

/** The latest slots in a list: bars of different shapes and colours, the newest last, which lead to the page of the cron. */
function Strip({ slots, cron }) {
  const results = slots.map(resultOf);
  const known = WORDS.filter((word) => results.includes(word));
  return html`
    <${Link} page="crons" params=${{ id: cron }} class="strip-bars" aria-label=${`Latest ${count(slots.length, 'slot')} of ${cron}: ${known.map((word) => `${results.filter((each) => each === word).length} ${word}`).join(', ')}`}>
      ${[...slots].reverse().map((slot) => html`<span key=${`${slot.time} ${slot.job}`} class=${`beat ${resultOf(slot)}`} title=${describe(slot)}></span>`)}
    <//>`;
}

/** A cron that is not paused may have no run at the moment. */
const stateOf = (cron) => (cron.state === 'running' ? 'active' : cron.state);
const last = (cron) => cron.lastSlot || cron.lastExecution;

function Result({ cron }) {
  const slot = last(cron);
  const result = resultOf(slot);
  const run = cron.lastExecution;
  return result ? html`<span title=${slot.reason}><${Badge} status=${result} /></span><span class="sub"><${Time} at=${slot.time} /></span>
    ${run && run.time !== slot.time && resultOf(run) === 'failed' && html`<span class="sub problem">last run failed <${Time} at=${run.time} /></span>`}` : none;
}

export function Crons({ params, session }) {
  return params.id ? html`<${Cron} key=${params.id} id=${params.id} session=${session} />` : html`<${List} params=${params} session=${session} />`;
}

function List({ params, session }) {
  const crons = useResource('crons', { limit: 1000, recent: RECENT }, { interval: 10000 });
  const matches = (cron) => (!params.q || cron.name.toLowerCase().includes(params.q.toLowerCase()))
    && (!params.state || cron.state === params.state)
    && (!params.result || resultOf(last(cron)) === params.result || (params.result === 'failed' && resultOf(cron.lastExecution) === 'failed'));
  return html`
    <h1>Crons</h1>
    <${Filters} page="crons" params=${params} fields=${[
      { name: 'q', label: 'Name contains', instant: true }, { name: 'state', label: 'State', options: ['running', 'paused', 'unknown'], texts: { running: 'active' } },
      { name: 'result', label: 'Last result', options: ['succeeded', 'failed', 'missed', 'skipped', 'started'] },
    ]} />
    <${Resource} of=${crons}>${(data) => {
      const all = [...data.cron, ...data.fixedRate].sort((a, b) => a.name.localeCompare(b.name));
      return html`
        <${Table} label="Crons" rowKey=${(cron) => cron.name} rows=${all.filter(matches)} order=${{ page: 'crons', params }} opens
          empty=${all.length ? 'No cron matches the filters.' : 'There are no crons. Methods with a schedule and crons that are created at run time appear here.'}
          columns=${[
            { title: 'Name', class: 'name', by: (cron) => cron.name, cell: (cron) => html`<${Link} page="crons" params=${{ id: cron.name }} title=${cron.name}>${cron.name}<//>${cron.runnable.target !== cron.name && html`<span class="sub" title=${cron.runnable.target}>${cron.runnable.target}</span>`}` },
            { title: 'State', by: (cron) => cron.state, cell: (cron) => html`<${Badge} status=${stateOf(cron)} />${cron.problem && html`<span class="sub problem" title=${cron.problem}>${cron.problem}</span>`}` },
            { title: 'Schedule', by: (cron) => cron.expression || String(cron.interval), cell: (cron) => html`<${Schedule} cron=${cron} />` },
            { title: 'Next run', by: (cron) => cron.nextExecution && cron.nextExecution.time, cell: (cron) => (cron.state === 'paused' ? none : html`<${Time} at=${cron.nextExecution && cron.nextExecution.time} />`) },
            { title: 'Last result', by: (cron) => resultOf(last(cron)), cell: (cron) => html`<${Result} cron=${cron} />` },
            { title: 'Latest slots', class: 'strip-cell', cell: (cron) => (cron.recent && cron.recent.length ? html`<${Strip} slots=${cron.recent} cron=${cron.name} />` : none) },
            mayChange(session) && { title: 'Actions', class: 'act', cell: (cron) => html`<${Actions} session=${session} onDone=${crons.refresh} actions=${actions(cron)} />` },
          ]} />`;
    }}<//>`;
}

function Cron({ id, session }) {
  const found = useResource('crons', { id, limit: 60 });
  return html`
    <p class="crumbs"><${Link} page="crons">Crons<//> / <code>${id}</code></p>
    <${Resource} of=${found} title="Cron">${(cron) => {
      const runs = cron.runs || [];
      return html`
        <div class="headline">
          <h1>${cron.name} <${Badge} status=${stateOf(cron)} /></h1>
          <${Actions} session=${session} onDone=${found.refresh} actions=${actions(cron)} />
        </div>
        ${cron.problem && html`<p class="state error">${cron.problem}</p>`}
        <div class="columns">
          <${Section} title="Facts">
            <${Facts} entries=${[
              ['Schedule', html`<${Schedule} cron=${cron} />`],
              ['Job', html`<${Link} page="job-names" params=${{ id: cron.runnable.target }}>${cron.runnable.target}<//>`],
              ['Jobs of this name', html`<${Link} page="jobs" params=${{ name: cron.runnable.target }}>All jobs<//>`],
              ['Declared in', cron.declared ? 'code' : 'run time'], ['Runs on', cron.target === 'leader' ? 'the leader' : 'any worker'], ['Capability', cron.capability],
              ['Group', cron.group !== undefined && html`<${Value} of=${cron.group} />`], ['Missed slots', cron.misfire], ['Overlap', cron.overlap],
            ]} />
          <//>
          <${Section} title="Next slots">
            ${cron.upcoming && cron.upcoming.length ? html`<ol class="list">${cron.upcoming.map((time) => html`<li key=${time}><${Time} at=${time} full /></li>`)}</ol>`
              : cron.nextExecution ? html`<${Time} at=${cron.nextExecution.time} full />` : html`<p class="state empty">${cron.state === 'paused' ? 'None: the cron is paused.' : 'None: the schedule has no further slot.'}</p>`}
          <//>
        </div>
        <${Section} title="Latest slots" aside=${html`<span class="muted">${number(runs.length)} shown</span>`}>
          ${runs.length > 0 && html`<div class="strip"><${Slots} slots=${runs} large />
            <ul class="legend">${[['succeeded', 'succeeded'], ['failed', 'failed'], ['started', 'started'], ['missed', 'missed'], ['skipped', 'skipped']].map(([result, text]) => html`<li key=${result}><span class=${`slot ${SIGNS[result][1]}`} aria-hidden="true">${SIGNS[result][0]}</span> ${text}</li>`)}</ul></div>`}
          <${Table} label="Latest slots" rows=${runs} rowKey=${(slot) => `${slot.time} ${slot.decidedAt}`} empty="No slot was decided yet. The first one appears here when its time has come."
            columns=${[
              { title: 'Slot', cell: (slot) => html`<${Time} at=${slot.time} full />` },
              { title: 'Result', cell: (slot) => html`<${Badge} status=${resultOf(slot)} />` },
              { title: 'Job', cell: (slot) => html`<${IdLink} page="jobs" of=${slot.job} label="Job" />` },
              { title: 'Attempts', class: 'num', cell: (slot) => slot.attempt ?? none },
              { title: 'Delay', class: 'num', cell: (slot) => (slot.startedAt ? duration(Math.max(0, new Date(slot.startedAt) - new Date(slot.time))) : none) },
              { title: 'Took', class: 'num', cell: (slot) => (slot.startedAt && slot.finishedAt ? duration(Math.max(0, new Date(slot.finishedAt) - new Date(slot.startedAt))) : none) },
              { title: 'Term', class: 'num', cell: (slot) => (slot.term === undefined ? none : number(slot.term)) },
              { title: 'Reason or error', class: 'wrap', cell: (slot) => html`${slot.reason}${slot.error !== undefined && html`<${Folded} of=${slot.error} />`}${!slot.reason && slot.error === undefined && none}` },
            ]} />
        <//>`;
    }}<//>`;
}
