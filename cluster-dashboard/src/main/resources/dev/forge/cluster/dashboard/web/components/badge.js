import { html } from '../html.js';

const KINDS = {
  good: ['completed', 'succeeded', 'active', 'running', 'ran', 'success'],
  busy: ['claimed', 'started', 'open', 'joining', 'retrying', 'compensating', 'cancelling', 'waiting', 'delivered'],
  bad: ['failed', 'abandoned', 'dead', 'error', 'compensation-failed', 'timed-out', 'node-lost', 'missed', 'blocked-missing-version', 'blocked-signature-mismatch'],
  warn: ['paused', 'stale', 'draining', 'unknown', 'skipped', 'stranded', 'retired-unresumable', 'compensated'],
};

/** A status in words; the colour only repeats it. Something that runs is good, unless it is `work`, which has to end. */
export function Badge({ status, kind: given, work }) {
  const text = String(status ?? 'unknown').toLowerCase().replaceAll('_', '-');
  const kind = given || (work && text === 'running' && 'busy') || Object.keys(KINDS).find((name) => KINDS[name].includes(text)) || 'calm';
  return html`<span class=${`badge ${kind}`}>${text.replaceAll('-', ' ')}</span>`;
}
