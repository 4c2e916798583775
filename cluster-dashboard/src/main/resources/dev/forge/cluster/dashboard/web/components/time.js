import { useEffect, useState } from '../vendor/preact-hooks.js';
import { html } from '../html.js';

const UNITS = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
const tickers = new Set();
let timer = null;

function useTick() {
  const [, tick] = useState(0);
  useEffect(() => {
    const update = () => tick((n) => n + 1);
    tickers.add(update);
    timer ??= setInterval(() => {
      if (!document.hidden) for (const each of tickers) each();
    }, 5000);
    return () => {
      tickers.delete(update);
      if (!tickers.size) {
        clearInterval(timer);
        timer = null;
      }
    };
  }, []);
}

/** Returns a duration with its two largest units. */
export function duration(millis) {
  if (millis === null || millis === undefined) return '';
  if (millis < 1000) return `${Math.round(millis)} ms`;
  let rest = Math.round(millis / 1000);
  const parts = [];
  for (const [seconds, unit] of UNITS) {
    const count = Math.floor(rest / seconds);
    if (count || parts.length) parts.push(count ? `${count} ${unit}` : '');
    rest -= count * seconds;
  }
  return parts.slice(0, 2).filter(Boolean).join(' ');
}

/** A moment relative to now, with the absolute time as title. */
export function Time({ at }) {
  useTick();
  if (!at) return html`<span class="muted">–</span>`;
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return html`<span>${String(at)}</span>`;
  const away = date.getTime() - Date.now();
  const near = Math.abs(away) < 1000;
  const text = near ? 'now' : away > 0 ? `in ${duration(away)}` : `${duration(-away)} ago`;
  return html`<time datetime=${date.toISOString()} title=${`${date.toLocaleString()} (${date.toISOString()})`}>${text}</time>`;
}
