// The state of the page is the query string: it survives path prefixes and logins, can be shared, and needs no base address.
import { useEffect, useState } from './vendor/preact-hooks.js';
import { html } from './html.js';

const listeners = new Set();

export function current() {
  const params = Object.fromEntries(new URLSearchParams(location.search));
  const page = params.page || 'overview';
  delete params.page;
  return { page, params };
}

/** Returns the relative address of a page; empty parameters are left out. */
export function href(page, params = {}) {
  const query = new URLSearchParams();
  if (page !== 'overview') query.set('page', page);
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== '') query.set(name, value);
  }
  const text = query.toString();
  return text ? `?${text}` : './';
}

export function go(page, params, { replace = false } = {}) {
  const target = href(page, params);
  const before = current();
  if (replace) history.replaceState(null, '', target);
  else history.pushState(null, '', target);
  for (const listener of listeners) listener();
  const after = current();
  if (before.page !== after.page || before.params.id !== after.params.id) scrollTo(0, 0);
}

export function useRoute() {
  const [route, setRoute] = useState(current);
  useEffect(() => {
    const update = () => setRoute(current());
    listeners.add(update);
    addEventListener('popstate', update);
    return () => {
      listeners.delete(update);
      removeEventListener('popstate', update);
    };
  }, []);
  return route;
}

/** A link within the dashboard: a normal address, without a reload for a plain click. */
export function Link({ page, params, children, ...rest }) {
  const follow = (event) => {
    if (event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      go(page, params);
    }
  };
  return html`<a ...${rest} href=${href(page, params)} onClick=${follow}>${children}</a>`;
}
