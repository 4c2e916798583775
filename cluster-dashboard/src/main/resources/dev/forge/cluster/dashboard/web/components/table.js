import { go } from '../router.js';
import { html } from '../html.js';
import { Empty } from './states.js';

/** A click beside links and buttons opens the first link of the row, unless the user selects text. */
function open(event) {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.target.closest('a, button, input, label, select, summary, pre') || !getSelection().isCollapsed) return;
  const row = event.target.closest('tbody tr');
  const link = row && row.querySelector('a');
  if (link) link.click();
}

/** Arrow keys move between rows, from link to link or from checkbox to checkbox. */
function move(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const kind = event.target.tagName === 'A' ? 'a' : event.target.type === 'checkbox' ? 'input[type=checkbox]' : null;
  const row = event.target.closest('tbody tr');
  if (!step || !kind || !row) return;
  const targets = [...event.currentTarget.querySelectorAll('tbody tr')].map((each) => each.querySelector(kind)).filter(Boolean);
  const index = targets.findIndex((target) => target.closest('tr') === row) + step;
  if (targets[index]) {
    event.preventDefault();
    targets[index].focus();
  }
}

const keyOf = (column) => column.title.toLowerCase().replaceAll(' ', '-');

function compare(a, b) {
  const missing = (value) => value === null || value === undefined || value === '';
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  return typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true });
}

function sorted(rows, columns, sort) {
  const descending = sort.startsWith('-');
  const column = columns.find((each) => each.by && keyOf(each) === sort.replace('-', ''));
  if (!column) return rows;
  return [...rows].sort((a, b) => {
    const [x, y] = [column.by(a), column.by(b)];
    const absent = (value) => value === null || value === undefined || value === '';
    return absent(x) || absent(y) || !descending ? compare(x, y) : -compare(x, y);
  });
}

function Head({ column, order }) {
  if (!order || !column.by) return html`<th scope="col" role="columnheader" class=${column.class}>${column.head || column.title}</th>`;
  const key = keyOf(column);
  const current = order.params.sort || '';
  const state = current === key ? 'ascending' : current === `-${key}` ? 'descending' : 'none';
  const first = column.class === 'num' ? [`-${key}`, key] : [key, `-${key}`];
  const next = current === first[0] ? first[1] : current === first[1] ? '' : first[0];
  return html`
    <th scope="col" role="columnheader" class=${column.class} aria-sort=${state}>
      <button type="button" class="sort" onClick=${() => go(order.page, { ...order.params, sort: next }, { replace: true })}>
        ${column.title}<span aria-hidden="true">${{ ascending: '▲', descending: '▼', none: '' }[state]}</span></button>
    </th>`;
}

/**
 * A table. Columns have a title, a cell function, optionally the class of their cells (`num` aligns to the right), a head instead of
 * the title, and `by`, the value that sorts. order: { page, params } keeps the order in the address. With `opens`, a click on a row
 * follows its first link. On small screens rows are cards; the roles stay, which browsers drop with the display of a table.
 */
export function Table({ label, columns, rows, rowKey, rowClass, order, opens, dense, empty = 'Nothing here.' }) {
  const shown = columns.filter(Boolean);
  if (!rows.length) return html`<${Empty}>${empty}<//>`;
  return html`
    <div class="scroll cards" tabindex="0" role="region" aria-label=${label}>
      <table role="table" class=${[opens && 'opens', dense && 'dense'].filter(Boolean).join(' ')} onKeyDown=${move} onClick=${opens ? open : undefined}>
        <caption class="hidden">${label}</caption>
        <thead role="rowgroup"><tr role="row">${shown.map((column) => html`<${Head} key=${column.title} column=${column} order=${order} />`)}</tr></thead>
        <tbody role="rowgroup">
          ${(order && order.params.sort ? sorted(rows, shown, order.params.sort) : rows).map((row) => html`
            <tr role="row" key=${rowKey(row)} class=${rowClass && rowClass(row)}>${shown.map((column) => html`<td role="cell" class=${column.class} data-label=${column.title}>${column.cell(row)}</td>`)}</tr>`)}
        </tbody>
      </table>
    </div>`;
}
