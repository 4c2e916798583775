// Charts load their library when the first one is shown.
import { useEffect, useRef, useState } from '../vendor/preact-hooks.js';
import { html } from '../html.js';
import { absolute, isUtc, useTimes } from './time.js';

let library = null;

function load() {
  library ??= new Promise((resolve, reject) => {
    const style = document.createElement('link');
    style.rel = 'stylesheet';
    style.href = new URL('../vendor/uplot.css', import.meta.url);
    const script = document.createElement('script');
    script.src = new URL('../vendor/uplot.js', import.meta.url);
    script.onload = () => resolve(globalThis.uPlot);
    script.onerror = () => {
      library = null;
      reject(new Error('The chart could not be loaded.'));
    };
    document.head.append(style, script);
  });
  return library;
}

/** Returns the theme that is in effect, and follows it. */
function useTheme() {
  const read = () => getComputedStyle(document.documentElement).getPropertyValue('--surface');
  const [theme, setTheme] = useState(read);
  useEffect(() => {
    const update = () => setTheme(read());
    const media = matchMedia('(prefers-color-scheme: dark)');
    const observer = new MutationObserver(update);
    observer.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    media.addEventListener('change', update);
    return () => {
      observer.disconnect();
      media.removeEventListener('change', update);
    };
  }, []);
  return theme;
}

/** Labels the time axis: hours, and the day where one begins. */
function timeLabels(plot, splits, axis, space, step) {
  const zone = isUtc() ? 'UTC' : undefined;
  const clock = (date) => date.toLocaleTimeString('sv-SE', { hour: '2-digit', minute: '2-digit', timeZone: zone });
  const day = (date) => date.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', timeZone: zone });
  return splits.map((split) => {
    const date = new Date(split * 1000);
    return step >= 86400 || clock(date) === '00:00' ? day(date) : clock(date);
  });
}

/** Points without neighbours have no line: they get a dot. */
function lonely(plot, index, show) {
  if (show) return null;
  const values = plot.data[index];
  const dots = [];
  for (let i = 0; i < values.length; i++) {
    if (values[i] != null && values[i - 1] == null && values[i + 1] == null) dots.push(i);
  }
  return dots;
}

/** A box beside the cursor with the values below it. Charts share their cursor, but only the one under the pointer has a box. */
function tooltip(series, format) {
  const box = document.createElement('div');
  box.className = 'tip';
  box.hidden = true;
  const line = (name, text) => {
    const element = document.createElement(name);
    element.textContent = text;
    return element;
  };
  return {
    init: (plot) => plot.over.append(box),
    setCursor: (plot) => {
      const { idx, left } = plot.cursor;
      box.hidden = idx === null || idx === undefined || left < 0 || !plot.over.matches(':hover');
      if (box.hidden) return;
      const values = series.map((each, index) => {
        const value = plot.data[index + 1][idx];
        const row = line('div', '');
        row.append(line('span', each.label), line('b', value == null ? 'no data' : format(value)));
        return row;
      });
      box.replaceChildren(line('time', absolute(new Date(plot.data[0][idx] * 1000), isUtc()).slice(5, 16)), ...values);
      box.style.left = `${left > plot.over.clientWidth / 2 ? left - box.offsetWidth - 12 : left + 12}px`;
    },
  };
}

function Plot({ data, series, format, text, height, onCursor }) {
  const root = useRef(null);
  const plot = useRef(null);
  const theme = useTheme();
  const [times] = useTimes();
  useEffect(() => {
    let gone = false;
    let observer = null;
    load().then((uPlot) => {
      if (gone || !root.current) return;
      const style = getComputedStyle(document.documentElement);
      const color = (name) => style.getPropertyValue(name).trim();
      const axis = { stroke: color('--muted'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
      const tip = tooltip(series, format);
      plot.current = new uPlot(
        {
          width: root.current.clientWidth,
          height,
          padding: [8, 18, 0, 0],
          legend: { show: false },
          cursor: { y: false, drag: { x: false, y: false }, sync: { key: 'forge' }, points: { size: 6 } },
          hooks: { init: [tip.init], setCursor: [tip.setCursor, (u) => onCursor(u.cursor.idx ?? null)] },
          scales: { y: { range: (u, min, max) => [0, max > 0 ? max * 1.12 : 1] } },
          axes: [
            { ...axis, space: 60, values: timeLabels, size: 26 },
            { ...axis, size: (u, labels) => Math.max(54, 14 + 6.5 * Math.max(0, ...(labels || []).map((label) => label.length))), space: 32, values: (u, splits) => splits.map((split) => (split === null ? '' : format(split))) },
          ],
          tzDate: (seconds) => (times === 'UTC' ? uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC') : new Date(seconds * 1000)),
          series: [{}, ...series.map((each, index) => ({
            label: each.label, stroke: color(each.color), width: 1.6, dash: each.dash, points: { size: 4, filter: lonely },
            fill: index === 0 ? `${color(each.color)}1f` : undefined,
          }))],
        },
        data,
        root.current,
      );
      observer = new ResizeObserver(() => plot.current && root.current && plot.current.setSize({ width: root.current.clientWidth, height }));
      observer.observe(root.current);
    }, () => {});
    return () => {
      gone = true;
      if (observer) observer.disconnect();
      if (plot.current) plot.current.destroy();
      plot.current = null;
    };
  }, [JSON.stringify(series), theme, times]);
  useEffect(() => {
    if (plot.current) plot.current.setData(data);
  }, [data]);
  return html`<div class="plot" role="img" aria-label=${text} ref=${root} style=${{ height: `${height}px` }}></div>`;
}

function DataTable({ title, data, series, format }) {
  const rows = data[0].map((seconds, index) => index).reverse();
  return html`
    <div class="scroll chart-table" tabindex="0" role="region" aria-label=${`${title} as table`}>
      <table>
        <thead><tr><th scope="col">Time</th>${series.map((each) => html`<th scope="col" class="num" key=${each.label}>${each.label}</th>`)}</tr></thead>
        <tbody>${rows.map((row) => html`<tr key=${data[0][row]}><td>${absolute(new Date(data[0][row] * 1000), isUtc())}</td>
          ${series.map((each, index) => html`<td class="num">${data[index + 1][row] == null ? '–' : format(data[index + 1][row])}</td>`)}</tr>`)}</tbody>
      </table>
    </div>`;
}

/**
 * A line chart with a legend and its data as a table.
 *
 * data: [[seconds since 1970], [values], ...]; series: [{ label, color, dash }]; format turns a value into text.
 */
export function Chart({ title, unit, data, series, format, height = 150 }) {
  const [cursor, setCursor] = useState(null);
  const [table, setTable] = useState(false);
  const latest = (values) => {
    for (let i = values.length - 1; i >= 0; i--) if (values[i] != null) return values[i];
    return null;
  };
  const known = cursor !== null && cursor < data[0].length;
  const value = (index) => (known ? data[index + 1][cursor] : latest(data[index + 1]));
  const shown = (number) => (number == null ? '–' : format(number));
  const empty = data.slice(1).every((values) => values.every((one) => one == null));
  const text = `${title}${unit ? `, ${unit}` : ''}. ${series.map((each, index) => {
    const values = data[index + 1].filter((one) => one != null);
    return values.length ? `${each.label}: now ${shown(latest(values))}, highest ${shown(Math.max(...values))}` : `${each.label}: no data`;
  }).join('. ')}.`;
  return html`
    <figure class="chart">
      <figcaption>
        <h3>${title} ${unit && html`<span class="muted">${unit}</span>`}</h3>
        <button type="button" class="plain small" aria-pressed=${table} aria-label=${`Show as table: ${title.toLowerCase()}`} onClick=${() => setTable(!table)}>Show as table</button>
      </figcaption>
      <ul class="legend">
        ${series.map((each, index) => html`<li key=${each.label}><span class=${`dash ${each.color.slice(2)} ${each.dash ? 'dashed' : ''}`} aria-hidden="true"></span>${each.label} <b>${shown(value(index))}</b></li>`)}
        <li class="at muted">${known ? absolute(new Date(data[0][cursor] * 1000), isUtc()).slice(5, 16) : ''}</li>
      </ul>
      ${table ? html`<${DataTable} title=${title} data=${data} series=${series} format=${format} />`
        : empty ? html`<p class="state no-data">No data in this time range.</p>`
        : html`<${Plot} data=${data} series=${series} format=${format} text=${text} height=${height} onCursor=${setCursor} />`}
    </figure>`;
}
