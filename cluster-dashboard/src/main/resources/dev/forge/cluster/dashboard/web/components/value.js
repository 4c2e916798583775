import { useEffect, useState } from '../vendor/preact-hooks.js';
import { html } from '../html.js';
import { Link } from '../router.js';

const FORMAT = new Intl.NumberFormat('en-US');
const SHORT = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 3 });

/** Stands for a value that does not exist. */
export const none = html`<span class="muted none">–</span>`;

/** Returns a number with separators. */
export function number(value) {
  return value === null || value === undefined ? '–' : FORMAT.format(value);
}

/** Returns a number with three significant digits if it is small. */
export function rate(value) {
  return value === null || value === undefined ? '–' : Math.abs(value) >= 100 ? FORMAT.format(Math.round(value)) : SHORT.format(value);
}

/** Returns a zero that does not stand out, or a number. */
export function quiet(value) {
  return value === 0 ? html`<span class="muted">0</span>` : number(value);
}

/** Returns a frequency with the unit of time that gives a readable number. */
export function frequency(perSecond) {
  const [factor, unit] = perSecond >= 1 ? [1, 's'] : perSecond * 60 >= 1 ? [60, 'min'] : perSecond * 3600 >= 1 ? [3600, 'h'] : [86400, 'd'];
  return `${rate(perSecond * factor)} / ${unit}`;
}

/** Returns a share as percentage; small shares are not rounded to none. */
export function percent(share) {
  if (share === null || share === undefined) return '–';
  const value = share * 100;
  return value > 0 && value < 1 ? '< 1 %' : `${Math.round(value)} %`;
}

/** Returns a count with the noun in the right number. */
export function count(value, noun, plural = `${noun}s`) {
  return `${number(value)} ${value === 1 ? noun : plural}`;
}

/** Returns a value of the application as text. */
export function text(value) {
  return typeof value === 'object' && value !== null ? JSON.stringify(value, null, 2) : String(value);
}

/** Lays out JSON in lines. Works on the text: numbers keep all their digits. */
export function layOut(json) {
  let out = '';
  let depth = 0;
  const line = () => `\n${'  '.repeat(depth)}`;
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) || [];
  tokens.forEach((token, index) => {
    const empty = /^[\]}]$/.test(tokens[index + 1] || '');
    if (/^[[{]$/.test(token)) {
      depth += 1;
      out += empty ? token : token + line();
    } else if (/^[\]}]$/.test(token)) {
      depth -= 1;
      out += /^[[{]$/.test(tokens[index - 1]) ? token : line() + token;
    } else if (token === ',') out += token + line();
    else out += token === ':' ? ': ' : token;
  });
  return out;
}

const isLong = (of) => typeof of === 'object' || String(of).includes('\n') || String(of).length > 120;

/** A value of the application, as text. */
export function Value({ of }) {
  if (of === null || of === undefined) return none;
  return isLong(of) ? html`<pre tabindex="0">${text(of)}</pre>` : html`<code>${text(of)}</code>`;
}

/** The first line of a value, which unfolds. */
export function Folded({ of }) {
  if (of === null || of === undefined) return none;
  if (!isLong(of)) return html`<${Value} of=${of} />`;
  const all = text(of);
  // The class of an exception without its package, so that its message is seen.
  const first = all.split('\n', 1)[0].replace(/^(?:[a-z_][\w$]*\.)+(?=[A-Z])/, '');
  return html`<details class="folded"><summary><code>${first.length > 160 ? `${first.slice(0, 160)}…` : first}</code></summary><pre tabindex="0">${all}</pre></details>`;
}

async function copy(content) {
  try {
    await navigator.clipboard.writeText(content);
  } catch (e) {
    // Without TLS there is no clipboard object.
    const area = document.createElement('textarea');
    area.value = content;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

export function Copy({ of, label }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    const timer = done && setTimeout(() => setDone(false), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  return html`<button type="button" class="plain small" aria-label=${`Copy ${label}`} onClick=${() => copy(text(of)).then(() => setDone(true))}>${done ? 'Copied' : 'Copy'}</button>`;
}

/** A list of names and contents; entries without content are left out. */
export function Facts({ entries }) {
  return html`
    <dl class="facts">
      ${entries.filter((entry) => entry && entry[1] !== null && entry[1] !== undefined && entry[1] !== '' && entry[1] !== false).map(([name, content]) => html`
        <div><dt>${name}</dt><dd>${content}</dd></div>`)}
    </dl>`;
}

/** An id that fits into a table: its last digits, which are random. The title has all of them. */
export function Id({ of }) {
  return of ? html`<code class="id" title=${of}>${String(of).slice(-12)}</code>` : none;
}

/** A link to the page of a thing with an id. */
export function IdLink({ page, of, label }) {
  return of ? html`<${Link} page=${page} params=${{ id: of }} aria-label=${`${label} ${of}`}><${Id} of=${of} /><//>` : none;
}

/** Returns whether a job carries a run of a workflow: it is changed on the page of the run, which has the id of the job. */
export const carriesRun = (job) => job.name.startsWith('workflow:');

export function Section({ title, aside, children }) {
  return html`<section><div class="section-head"><h2>${title}</h2>${aside}</div>${children}</section>`;
}

/** A section with a value that can be folded and copied. */
export function ValueSection({ title, of, canCopy, kind }) {
  return html`
    <section class=${kind}>
      <details class="fold" open>
        <summary><h2>${title}</h2></summary>
        ${canCopy && html`<${Copy} of=${of} label=${title.toLowerCase()} />`}
        <${Value} of=${of} />
      </details>
    </section>`;
}
