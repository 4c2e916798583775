import { useEffect, useState } from '../vendor/preact-hooks.js';
import { go } from '../router.js';
import { html } from '../html.js';

/** A text field that changes the address when the user has finished. */
function Text({ field, value, onChange }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  return html`<input type=${field.type || 'text'} id=${`filter-${field.name}`} value=${text} placeholder=${field.placeholder}
    maxlength="500" autocomplete="off" spellcheck="false"
    onInput=${(event) => setText(event.target.value)} onChange=${(event) => onChange(event.target.value.trim())} />`;
}

function Choice({ field, value, onChange }) {
  return html`<select id=${`filter-${field.name}`} value=${value} onChange=${(event) => onChange(event.target.value)}>
    <option value="">all</option>
    ${field.options.map((option) => html`<option value=${option} selected=${option === value}>${option.replaceAll('_', ' ')}</option>`)}
  </select>`;
}

/** Filters whose values are those of the address: they can be shared, and the back button restores them. */
export function Filters({ page, params, fields, children }) {
  const set = (name, value) => go(page, { ...params, [name]: value, after: '' });
  const active = fields.some((field) => params[field.name]);
  return html`
    <form class="filters" role="search" aria-label="Filters" onSubmit=${(event) => event.preventDefault()}>
      ${fields.map((field) => html`
        <div class="field" key=${field.name}>
          <label for=${`filter-${field.name}`}>${field.label}</label>
          <${field.options ? Choice : Text} field=${field} value=${params[field.name] || ''} onChange=${(value) => set(field.name, value)} />
        </div>`)}
      ${active && html`<button type="button" class="plain" onClick=${() => go(page, {})}>Clear</button>`}
      ${children}
    </form>`;
}
