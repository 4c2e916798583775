import { html } from '../html.js';
import { Empty } from './states.js';

/** Arrow keys move between the links of rows. */
function move(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || event.target.tagName !== 'A') return;
  const links = [...event.currentTarget.querySelectorAll('tbody tr')].map((row) => row.querySelector('a')).filter(Boolean);
  const row = event.target.closest('tr');
  const index = links.findIndex((link) => link.closest('tr') === row) + step;
  if (links[index]) {
    event.preventDefault();
    links[index].focus();
  }
}

/**
 * A table. Columns have a title, a cell function and optionally the class of their cells; `num` aligns to the right.
 */
export function Table({ label, columns, rows, rowKey, empty = 'Nothing here.' }) {
  if (!rows.length) return html`<${Empty}>${empty}<//>`;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${label}>
      <table onKeyDown=${move}>
        <caption class="hidden">${label}</caption>
        <thead><tr>${columns.map((column) => html`<th scope="col" class=${column.class}>${column.title}</th>`)}</tr></thead>
        <tbody>
          ${rows.map((row) => html`
            <tr key=${rowKey(row)}>${columns.map((column) => html`<td class=${column.class}>${column.cell(row)}</td>`)}</tr>`)}
        </tbody>
      </table>
    </div>`;
}
