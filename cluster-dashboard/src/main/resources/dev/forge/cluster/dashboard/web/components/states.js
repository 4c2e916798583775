import { html } from '../html.js';

/** Errors that a banner reports for the whole page. */
const GENERAL = ['unauthenticated', 'down'];

export function Loading() {
  return html`<p class="state" role="status">Loading…</p>`;
}

export function Empty({ children }) {
  return html`<p class="state empty">${children}</p>`;
}

export function ErrorBox({ error, stale, path }) {
  // A refused or unknown parameter explains itself.
  const what = path && !(error.status >= 400 && error.status < 500) ? `Could not load ${path.replaceAll(/[-/]/g, ' ')}: ` : '';
  return html`<p class="state error" role="alert">${what}${error.message}${stale ? ' The data below are those of the last success.' : ''}</p>`;
}

/**
 * Shows the content of a resource, or why there is none. Content stays when a later read fails. A page whose heading is part of the
 * content gives a title for the time without content.
 */
export function Resource({ of, title, children }) {
  if (!of.data) return html`${title && html`<h1>${title}</h1>`}${of.error ? html`<${ErrorBox} error=${of.error} path=${of.path} />` : html`<${Loading} />`}`;
  return html`
    ${of.error && !GENERAL.includes(of.error.code) && html`<${ErrorBox} error=${of.error} path=${of.path} stale />`}
    <div class=${of.stale ? 'stale' : undefined}>${children(of.data)}</div>`;
}
