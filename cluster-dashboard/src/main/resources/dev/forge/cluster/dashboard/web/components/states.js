import { Component } from '../vendor/preact.js';
import { html } from '../html.js';

const NAMES = { attention: 'what needs attention', demand: 'the numbers of jobs', history: 'the charts', overview: 'the leaders', 'jobs/logs': 'the log', audit: 'the audit trail' };
/** Errors that a banner reports for the whole page. */
const GENERAL = ['unauthenticated', 'down', 'unavailable', 'busy'];

export function Loading() {
  return html`<p class="state" role="status">Loading…</p>`;
}

/** Shows that a page has failed, instead of the page as it was before. */
export class Boundary extends Component {
  componentDidCatch(error) {
    console.error(error);
    this.setState({ error });
  }

  render({ title, children }, { error }) {
    return error
      ? html`<h1>${title}</h1><p class="state error" role="alert">This page cannot be shown: ${String(error.message || error)} <a href="">Reload</a></p>`
      : children;
  }
}

export function Empty({ children }) {
  return html`<p class="state empty">${children}</p>`;
}

export function ErrorBox({ error, stale, path }) {
  // A refused or unknown parameter explains itself.
  const refused = error.status >= 400 && error.status < 500;
  const what = path && !refused ? `Could not load ${NAMES[path] || path.replaceAll(/[-/]/g, ' ')}: ` : '';
  return html`<p class="state error" role="alert">${what}${error.message}${stale ? ' The data below are those of the last success.' : ''}${path && !refused && !/Trying again/.test(error.message) && ' Trying again…'}</p>`;
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
