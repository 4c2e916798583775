import { render } from './vendor/preact.js';
import { useEffect, useState } from './vendor/preact-hooks.js';
import { loadSession, useConnection } from './api.js';
import { Link, useRoute } from './router.js';
import { html } from './html.js';
import { ErrorBox, Loading } from './components/states.js';
import { Overview } from './pages/overview.js';
import { Nodes } from './pages/nodes.js';
import { Jobs } from './pages/jobs.js';
import { Batches } from './pages/batches.js';
import { Limits } from './pages/limits.js';
import { Crons } from './pages/crons.js';
import { Daemons } from './pages/daemons.js';
import { Workflows } from './pages/workflows.js';
import { Locks } from './pages/locks.js';

const PAGES = {
  overview: ['Overview', Overview],
  nodes: ['Nodes', Nodes],
  jobs: ['Jobs', Jobs],
  batches: ['Batches', Batches],
  limits: ['Job limits', Limits],
  crons: ['Crons', Crons],
  daemons: ['Daemons', Daemons],
  workflows: ['Workflows', Workflows],
  locks: ['Locks', Locks],
};
const THEME = 'forge-dashboard-theme';

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

function ThemeSwitch() {
  const [dark, setDark] = useState(isDark());
  const toggle = () => {
    const theme = dark ? 'light' : 'dark';
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem(THEME, theme);
    } catch (e) {
      // Storage is blocked: the choice lasts as long as the page.
    }
    setDark(!dark);
  };
  return html`<button type="button" class="plain" id="theme" aria-pressed=${dark} onClick=${toggle}>Dark mode</button>`;
}

function Banner() {
  const state = useConnection();
  if (state === 'expired') {
    return html`<div class="banner bad" role="alert" id="banner">
      Your session has ended. <a href="">Reload to log in again</a>. Data on this page may be outdated.</div>`;
  }
  if (state === 'down') {
    return html`<div class="banner warn" role="alert" id="banner">The server does not respond. Trying again…</div>`;
  }
  return null;
}

/** "/" moves to the first filter. */
function useShortcuts() {
  useEffect(() => {
    const press = (event) => {
      if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
      const filter = document.querySelector('.filters input, .filters select');
      if (filter) {
        event.preventDefault();
        filter.focus();
      }
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}

function App() {
  const route = useRoute();
  const [session, setSession] = useState(null);
  const [error, setError] = useState(null);
  useShortcuts();
  useEffect(() => {
    const controller = new AbortController();
    loadSession(controller.signal).then(setSession, setError);
    return () => controller.abort();
  }, []);
  const [title, Page] = PAGES[route.page] || ['Unknown page', null];
  useEffect(() => {
    const subject = route.params.id ? `${route.params.id} · ${title}` : title;
    document.title = session ? `${subject} · ${session.cluster}` : 'Forge Cluster';
  }, [route, session]);
  return html`
    <a class="skip" href="#content">Skip to content</a>
    <header>
      <div class="brand"><span class="mark" aria-hidden="true"></span><span>Forge Cluster</span></div>
      ${session && html`<strong class="cluster" title=${`Served by node ${session.node.name}, version ${session.version}`}>${session.cluster}</strong>`}
      <span class="space"></span>
      ${session && session.user && html`<span class="user">${session.user}</span>`}
      <${ThemeSwitch} />
    </header>
    <nav aria-label="Pages">
      ${Object.entries(PAGES).map(([page, [name]]) => html`
        <${Link} key=${page} page=${page} aria-current=${page === route.page ? 'page' : undefined}>${name}<//>`)}
    </nav>
    <main id="content" tabindex="-1">
      <${Banner} />
      ${session && session.readOnly && html`<div class="banner calm" id="read-only" role="note">${session.readOnly}</div>`}
      ${session && !session.readOnly && !session.permissions.includes('values') && html`<div class="banner calm" role="note">Values are hidden: you lack the permission to see them.</div>`}
      ${session && Page && html`<${Page} key=${route.page} params=${route.params} session=${session} />`}
      ${session && !Page && html`<h1>Unknown page</h1><p class="state">There is no page “${route.page}”.</p>`}
      ${!session && (error ? html`<h1>${title}</h1><${ErrorBox} error=${error} />` : html`<${Loading} />`)}
    </main>`;
}

const root = document.getElementById('app');
root.textContent = '';
render(html`<${App} />`, root);
