import { html } from '../html.js';

const KINDS = {
  good: ['completed', 'succeeded', 'active', 'running', 'ran', 'success', 'compensated'],
  busy: ['claimed', 'started', 'open', 'joining', 'retrying', 'compensating', 'cancelling'],
  bad: ['failed', 'abandoned', 'dead', 'error', 'compensation-failed', 'timed-out', 'node-lost', 'missed'],
  warn: ['paused', 'stale', 'draining', 'unknown', 'skipped', 'stranded', 'waiting-for-code'],
};

/** A status in words; the colour only repeats it. */
export function Badge({ status }) {
  const text = String(status ?? 'unknown').toLowerCase().replaceAll('_', '-');
  const kind = Object.keys(KINDS).find((name) => KINDS[name].includes(text)) || 'calm';
  return html`<span class=${`badge ${kind}`}>${text.replaceAll('-', ' ')}</span>`;
}
