import { html } from '../html.js';
import { Time } from './time.js';

/** Moments in order: [{ at, label, detail, kind }]; those without a time are left out. */
export function Timeline({ entries }) {
  const known = entries.filter((entry) => entry && entry.at).sort((a, b) => new Date(a.at) - new Date(b.at));
  return html`
    <ol class="timeline">
      ${known.map((entry) => html`
        <li class=${entry.kind || ''}>
          <span class="what">${entry.label}</span> <${Time} at=${entry.at} full />
          ${entry.detail && html`<div class="detail">${entry.detail}</div>`}
        </li>`)}
    </ol>`;
}
