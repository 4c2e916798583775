import { useResource } from '../api.js';
import { html } from '../html.js';
import { Id, Value } from '../components/value.js';
import { Resource } from '../components/states.js';
import { Table } from '../components/table.js';
import { Time } from '../components/time.js';

export function Locks() {
  const locks = useResource('locks', { limit: 500 });
  return html`
    <h1>Locks</h1>
    <${Resource} of=${locks}>${(data) => html`
      <${Table} label="Locks" rows=${data.locks} rowKey=${(lock) => lock.token} empty="No lock is held."
        columns=${[
          { title: 'Name', cell: (lock) => html`<${Value} of=${lock.name} />` },
          { title: 'Owner', cell: (lock) => html`<${Id} of=${lock.owner} />` },
          { title: 'Token', class: 'num', cell: (lock) => lock.token },
          { title: 'Acquired', cell: (lock) => html`<${Time} at=${lock.lockedAt} />` },
          { title: 'Expires', cell: (lock) => html`<${Time} at=${lock.expiresAt} />` },
        ]} />`}<//>`;
}
