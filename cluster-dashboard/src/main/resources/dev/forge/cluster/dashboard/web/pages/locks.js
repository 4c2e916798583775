import { useResource } from '../api.js';
import { Link } from '../router.js';
import { html } from '../html.js';
import { Id, Value, number } from '../components/value.js';
import { Resource } from '../components/states.js';
import { Table } from '../components/table.js';
import { Time } from '../components/time.js';

export function Locks({ params }) {
  const locks = useResource('locks', { limit: 500 });
  const nodes = useResource('nodes', {}, { interval: 30000 });
  const nameOf = (id) => {
    const node = nodes.data && nodes.data.nodes.find((each) => each.id === id);
    return node && node.name;
  };
  return html`
    <h1>Locks</h1>
    <p class="lead">Cluster-wide locks that nodes hold now. Owners renew them before they expire.</p>
    <${Resource} of=${locks}>${(data) => html`
      <${Table} label="Locks" rows=${data.locks} rowKey=${(lock) => lock.token} order=${{ page: 'locks', params }} empty="No lock is held. A cluster-wide lock appears here while a node holds it."
        columns=${[
          { title: 'Name', by: (lock) => lock.name, cell: (lock) => html`<${Value} of=${lock.name} />` },
          { title: 'Owner', by: (lock) => nameOf(lock.owner) || lock.owner, cell: (lock) => (nameOf(lock.owner) ? html`<${Link} page="nodes" params=${{ q: nameOf(lock.owner) }}>${nameOf(lock.owner)}<//>` : html`<${Id} of=${lock.owner} />`) },
          { title: 'Token', class: 'num', by: (lock) => lock.token, cell: (lock) => number(lock.token) },
          { title: 'Acquired', by: (lock) => lock.lockedAt, cell: (lock) => html`<${Time} at=${lock.lockedAt} />` },
          { title: 'Expires', by: (lock) => lock.expiresAt, cell: (lock) => html`<${Time} at=${lock.expiresAt} />` },
        ]} />
      ${data.locks.length === 500 && html`<p class="note">The 500 locks that were acquired last are shown.</p>`}`}<//>`;
}
