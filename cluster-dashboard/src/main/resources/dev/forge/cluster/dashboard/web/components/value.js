import { html } from '../html.js';

/** A value of the application, as text. */
export function Value({ of }) {
  if (of === null || of === undefined) return html`<span class="muted">–</span>`;
  if (typeof of === 'object') return html`<pre tabindex="0">${JSON.stringify(of, null, 2)}</pre>`;
  const text = String(of);
  return text.includes('\n') || text.length > 120 ? html`<pre tabindex="0">${text}</pre>` : html`<code>${text}</code>`;
}

/** A list of names and contents; entries without content are left out. */
export function Facts({ entries }) {
  return html`
    <dl class="facts">
      ${entries.filter((entry) => entry && entry[1] !== null && entry[1] !== undefined && entry[1] !== '').map(([name, content]) => html`
        <div><dt>${name}</dt><dd>${content}</dd></div>`)}
    </dl>`;
}

/** The beginning of an id, with all of it as title. */
export function Id({ of }) {
  return of ? html`<code title=${of}>${String(of).slice(0, 8)}</code>` : html`<span class="muted">–</span>`;
}

export function Section({ title, children }) {
  return html`<section><h2>${title}</h2>${children}</section>`;
}
