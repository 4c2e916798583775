import { html } from '../html.js';

export function Loading() {
  return html`<p class="state" role="status">Loading…</p>`;
}

export function Empty({ children }) {
  return html`<p class="state">${children}</p>`;
}

export function ErrorBox({ error }) {
  return html`<p class="state error" role="alert">${error.message}</p>`;
}

/** Shows what a resource delivers, or why it delivers nothing. */
export function Resource({ of, children }) {
  if (of.data) return children(of.data);
  return of.error ? html`<${ErrorBox} error=${of.error} />` : html`<${Loading} />`;
}
