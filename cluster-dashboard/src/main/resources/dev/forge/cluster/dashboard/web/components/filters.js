import { useEffect, useState } from '../vendor/preact-hooks.js';
import { go } from '../router.js';
import { html } from '../html.js';

const PAGING = { after: '', before: '' };

/** Returns an instant as the local time that a date field takes. */
export function toLocal(instant) {
  const date = new Date(instant);
  if (!instant || Number.isNaN(date.getTime())) return '';
  return date.toLocaleString('sv-SE').replace(' ', 'T');
}

/** Returns the instant of a local time. */
export function toInstant(local) {
  const date = new Date(local);
  return !local || Number.isNaN(date.getTime()) ? '' : date.toISOString().replace('.000Z', 'Z');
}

/** A text field that changes the address when the user has finished, or at once if nothing is read for it. */
function Text({ field, value, onChange }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const input = (event) => {
    setText(event.target.value);
    if (field.instant) onChange(event.target.value);
  };
  return html`<input type="text" id=${`filter-${field.name}`} value=${text} placeholder=${field.placeholder}
    maxlength="500" autocomplete="off" spellcheck="false" onInput=${input} onChange=${(event) => onChange(event.target.value.trim())} />`;
}

/** A local date and time, which is an instant in the address. */
function Moment({ field, value, onChange }) {
  return html`<input type="datetime-local" step="1" id=${`filter-${field.name}`} value=${toLocal(value)}
    onChange=${(event) => onChange(toInstant(event.target.value))} />`;
}

function Choice({ field, value, onChange }) {
  return html`<select id=${`filter-${field.name}`} value=${value} onChange=${(event) => onChange(event.target.value)}>
    <option value="">all</option>
    ${field.options.map((option) => html`<option value=${option} selected=${option === value}>${(field.texts && field.texts[option]) || option.replaceAll('_', ' ')}</option>`)}
  </select>`;
}

function Field({ field, params, page }) {
  const set = (value) => {
    if (value === (params[field.name] || '')) return;
    go(page, { ...params, [field.name]: value, ...PAGING }, { replace: Boolean(field.instant) });
  };
  return html`
    <div class=${field.time ? 'field wide' : 'field'}>
      <label for=${`filter-${field.name}`}>${field.label}</label>
      <${field.options ? Choice : field.time ? Moment : Text} field=${field} value=${params[field.name] || ''} onChange=${set} />
    </div>`;
}

/** Filters whose values are those of the address: they can be shared, and the back button restores them. */
export function Filters({ page, params, fields, more = [], children }) {
  const all = [...fields, ...more];
  const active = all.some((field) => params[field.name]);
  const hidden = more.filter((field) => params[field.name]).length;
  // Opened once if a filter inside is set; the user folds it afterwards.
  const [open] = useState(hidden > 0);
  const clear = () => go(page, { ...params, ...PAGING, ...Object.fromEntries(all.map((field) => [field.name, ''])) });
  return html`
    <form class="filters" role="search" aria-label="Filters" onSubmit=${(event) => event.preventDefault()}>
      ${fields.map((field) => html`<${Field} key=${field.name} field=${field} params=${params} page=${page} />`)}
      ${active && html`<button type="button" class="plain" onClick=${clear}>Clear filters</button>`}
      ${children}
      ${more.length > 0 && html`
        <details class="more" open=${open}>
          <summary>More filters${hidden ? ` (${hidden})` : ''}</summary>
          <div>${more.map((field) => html`<${Field} key=${field.name} field=${field} params=${params} page=${page} />`)}</div>
        </details>`}
    </form>`;
}

/** A choice between few values of a parameter. choices: [[value, text]]; the initial one is not in the address. */
export function Choices({ page, params, name, label, choices, initial = choices[0][0] }) {
  const current = params[name] || initial;
  return html`
    <div class="choices" role="group" aria-label=${label}>
      ${choices.map(([value, text]) => html`
        <button type="button" key=${value} aria-pressed=${current === value}
          onClick=${() => go(page, { ...params, ...PAGING, [name]: value === initial ? '' : value })}>${text}</button>`)}
    </div>`;
}
