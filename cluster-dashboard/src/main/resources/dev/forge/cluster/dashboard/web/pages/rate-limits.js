import { useResource } from '../api.js';
import { go } from '../router.js';
import { html } from '../html.js';
import { Bar } from '../components/bar.js';
import { Resource } from '../components/states.js';
import { Table } from '../components/table.js';
import { Time, duration } from '../components/time.js';
import { Value, frequency, number, rate } from '../components/value.js';

const PAGE = 100;
/** Returns in how many seconds a bucket is full if nobody uses it. */
const missing = (limit) => (limit.perSecond > 0 ? Math.max(0, limit.capacity - limit.available) / limit.perSecond : 0);
const full = (limit) => (limit.capacity > 0 ? limit.available / limit.capacity : 0);

export function RateLimits({ params, session }) {
  const limits = useResource('rate-limits', { limit: PAGE, after: params.after }, { keep: true });
  // The next page begins after a key, which is hidden from visitors without values.
  const values = session.permissions.includes('values');
  return html`
    <h1>Rate limits</h1>
    <p class="lead">Shared buckets that callers have used lately, by key. A bucket disappears when it has been full for some minutes.</p>
    <${Resource} of=${limits}>${({ rateLimits }) => html`
      <${Table} label="Rate limits" rows=${rateLimits.map((limit, index) => ({ ...limit, index }))} rowKey=${(limit) => `${limit.key} ${limit.index}`} order=${{ page: 'rate-limits', params }}
        empty="No bucket is in use. Buckets appear here when callers acquire permits of a cluster-wide rate limit."
        columns=${[
          { title: 'Key', by: (limit) => limit.key, cell: (limit) => html`<${Value} of=${limit.key} />` },
          { title: 'Available', by: full, cell: (limit) => html`<${Bar} share=${full(limit)} kind=${full(limit) < 0.1 ? 'bad' : full(limit) < 0.3 ? 'warn' : 'good'} text=${`${rate(Math.floor(limit.available))} / ${rate(limit.capacity)}`} />` },
          { title: 'Refill', class: 'num', by: (limit) => limit.perSecond, cell: (limit) => html`<span title=${`${limit.perSecond} per second`}>${frequency(limit.perSecond)}</span>` },
          { title: 'Full again', class: 'num', by: missing, cell: (limit) => (missing(limit) > 0 ? `in ${duration(missing(limit) * 1000)}` : html`<span class="muted">now</span>`) },
          { title: 'Last used', by: (limit) => limit.updatedAt, cell: (limit) => html`<${Time} at=${limit.updatedAt} />` },
        ]} />
      <div class="pager">
        <span class="muted">${number(rateLimits.length)} shown</span><span class="space"></span>
        ${params.after && html`<button type="button" onClick=${() => go('rate-limits', { ...params, after: '' })}>First page</button>`}
        ${values && rateLimits.length === PAGE && html`<button type="button" id="next-page" onClick=${() => go('rate-limits', { ...params, after: rateLimits[PAGE - 1].key })}>Next page</button>`}
      </div>`}<//>`;
}
