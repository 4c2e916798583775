import { html } from '../html.js';
import { Value, none, number, percent } from './value.js';

const width = (share) => ({ width: `${Math.max(0, Math.min(1, share)) * 100}%` });

/** A share as a bar; the text beside it says the same. */
export function Bar({ share, text, kind = 'busy' }) {
  if (share === null || share === undefined) return none;
  return html`<span class="meter"><span class="bar" aria-hidden="true"><span class=${`fill ${kind}`} style=${width(share)}></span></span><span>${text ?? percent(share)}</span></span>`;
}

/** Returns the kind of a share of something that should not be used up. */
export const usage = (share) => (share >= 0.9 ? 'bad' : share >= 0.75 ? 'warn' : 'busy');

/** Several counts of a whole as a small bar; the text beside it says how much is done. parts: [{ label, count, kind }] */
export function SmallStack({ parts, total, text }) {
  return html`<span class="meter" title=${parts.map((part) => `${part.label} ${number(part.count)}`).join(', ')}><span class="bar" aria-hidden="true">
    ${total > 0 && parts.filter((part) => part.count).map((part) => html`<span key=${part.label} class=${`fill ${part.kind}`} style=${width(part.count / total)}></span>`)}</span><span>${text}</span></span>`;
}

/** Several counts of a whole as one bar with a legend. parts: [{ label, count, kind }] */
export function Stack({ parts, total, label }) {
  const done = parts.reduce((sum, part) => sum + (part.rest ? 0 : part.count), 0);
  return html`
    <div class="stack">
      <div class="bar large" role="progressbar" aria-label=${label} aria-valuemin="0" aria-valuemax=${total} aria-valuenow=${Math.min(done, total)}>
        ${total > 0 && parts.filter((part) => part.count && !part.rest).map((part) => html`<span key=${part.label} class=${`fill ${part.kind}`} style=${width(part.count / total)}></span>`)}
      </div>
      <ul class="legend">
        ${parts.map((part) => html`<li key=${part.label}><span class=${`dot ${part.kind}`} aria-hidden="true"></span>${part.label} <b>${part.text ?? number(part.count)}</b></li>`)}
      </ul>
    </div>`;
}

/** Returns the progress that a job or a run reports as share and text: a percentage, or done and total; otherwise null. */
export function progressOf(value) {
  const of = (share, text) => (Number.isFinite(share) && share >= 0 && share <= 1 ? { share, text } : null);
  if (typeof value === 'number') return of(value / 100, percent(value / 100));
  if (!value || typeof value !== 'object') return null;
  if (typeof value.done === 'number' && value.total > 0) return of(value.done / value.total, `${number(value.done)} of ${number(value.total)}`);
  if (typeof value.percent === 'number') return of(value.percent / 100, percent(value.percent / 100));
  return null;
}

/** Returns what the bar does not say of a progress, its message first; null if it is more than a message and simple values. */
function restOfProgress(value) {
  const { message, ...others } = typeof value === 'object' ? { ...value } : {};
  const rest = Object.entries(others).filter(([key]) => !['done', 'total', 'percent'].includes(key));
  if ((!progressOf(value) && typeof message !== 'string') || [message, ...rest.map(([, each]) => each)].some((each) => typeof each === 'object' && each !== null)) return null;
  return [message, ...rest.map(([key, each]) => `${key}: ${each}`)].filter((each) => each !== undefined && each !== null && each !== '').join(', ');
}

const SUCCEEDED = ['completed', 'compensated'];

/** Returns the last progress as an entry of facts; null if a bar shows it, or if the work has succeeded since. */
export function progressFact(value, status, hasBar, hasEnded) {
  if (value === undefined || SUCCEEDED.includes(status)) return null;
  const rest = restOfProgress(value);
  const share = progressOf(value);
  if (hasBar && share && rest !== null) return null;
  return [hasEnded ? 'Last progress' : 'Progress', rest === null ? html`<${Value} of=${value} />` : [share && share.text, rest].filter(Boolean).join(', ')];
}

export function Progress({ of }) {
  const progress = progressOf(of);
  if (!progress) return null;
  const now = Math.round(progress.share * 100);
  return html`
    <div class="progress">
      <div class="bar large" role="progressbar" aria-label="Progress" aria-valuemin="0" aria-valuemax="100" aria-valuenow=${now}>
        <span class="fill busy" style=${width(progress.share)}></span></div>
      <b>${progress.text}</b>${restOfProgress(of) && html`<span class="muted">${restOfProgress(of)}</span>`}
    </div>`;
}
