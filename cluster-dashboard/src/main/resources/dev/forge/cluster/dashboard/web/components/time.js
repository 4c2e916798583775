import { useEffect, useState } from '../vendor/preact-hooks.js';
import { now } from '../api.js';
import { html } from '../html.js';

const UNITS = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
const STORED = 'forge-dashboard-times';
export const TIMES = ['relative', 'local', 'UTC'];
const tickers = new Set();
let timer = null;
let times = TIMES[0];
try {
  const stored = localStorage.getItem(STORED);
  if (TIMES.includes(stored)) times = stored;
} catch (e) {
  // Storage is blocked: times are relative.
}

function tick() {
  for (const each of tickers) each();
}

function useTick() {
  const [, update] = useState(0);
  useEffect(() => {
    const again = () => update((n) => n + 1);
    tickers.add(again);
    timer ??= setInterval(() => {
      if (!document.hidden) tick();
    }, 5000);
    return () => {
      tickers.delete(again);
      if (!tickers.size) {
        clearInterval(timer);
        timer = null;
      }
    };
  }, []);
}

/** Returns how times are shown, and changes it for all of them. */
export function useTimes() {
  useTick();
  const choose = (choice) => {
    times = choice;
    try {
      localStorage.setItem(STORED, choice);
    } catch (e) {
      // Storage is blocked: the choice lasts as long as the page.
    }
    tick();
  };
  return [times, choose];
}

/** Returns whether times are those of UTC, without following later choices. */
export function isUtc() {
  return times === 'UTC';
}

/** Returns a duration with its two largest units. */
export function duration(millis) {
  if (millis === null || millis === undefined) return '';
  if (millis < 1000) return `${Math.round(millis)} ms`;
  if (millis < 10000) return `${(millis / 1000).toFixed(1).replace('.0', '')} s`;
  let rest = Math.round(millis / 1000);
  const parts = [];
  for (const [seconds, unit] of UNITS) {
    const count = Math.floor(rest / seconds);
    if (count || parts.length) parts.push(count ? `${count} ${unit}` : '');
    rest -= count * seconds;
  }
  return parts.slice(0, 2).filter(Boolean).join(' ');
}

/** Returns a time as 2026-01-31 12:00:00, local or in UTC. */
export function absolute(date, utc = false) {
  if (Number.isNaN(date.getTime())) return 'unknown time';
  return utc ? `${date.toISOString().slice(0, 19).replace('T', ' ')} UTC` : date.toLocaleString('sv-SE');
}

/** Returns a time relative to now, in the largest unit of which there are at least two. */
function relative(date) {
  const away = date.getTime() - now();
  const seconds = Math.round(Math.abs(away) / 1000);
  if (seconds < 1) return 'now';
  const [size, unit] = UNITS.find(([each]) => seconds >= 2 * each) || UNITS[UNITS.length - 1];
  const text = `${Math.floor(seconds / size)} ${unit}`;
  return away > 0 ? `in ${text}` : `${text} ago`;
}

/** A moment relative to now, with the absolute time as title, or as the user has chosen. With `full` it has both. */
export function Time({ at, full }) {
  useTick();
  if (!at) return html`<span class="muted none">–</span>`;
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return html`<span>${String(at)}</span>`;
  const exact = absolute(date, times === 'UTC');
  const text = full ? html`${exact} <span class="muted">(${relative(date)})</span>` : times === 'relative' ? relative(date) : exact;
  return html`<time datetime=${date.toISOString()} title=${`${absolute(date)} local, ${absolute(date, true)}, ${relative(date)}`}>${text}</time>`;
}

/** The time of day of a moment, with the date as title. */
export function Clock({ at }) {
  useTick();
  const date = new Date(at);
  const utc = times === 'UTC';
  if (Number.isNaN(date.getTime())) return html`<span>${String(at)}</span>`;
  return html`<time datetime=${date.toISOString()} title=${`${absolute(date)} local, ${absolute(date, true)}`}>${absolute(date, utc).slice(11, 19)}</time>`;
}

/** The time since a moment, which goes on. */
export function Elapsed({ since }) {
  useTick();
  return html`<span>${duration(Math.max(0, now() - new Date(since).getTime()))}</span>`;
}
