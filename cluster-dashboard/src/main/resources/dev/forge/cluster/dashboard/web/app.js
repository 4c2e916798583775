import { render } from './vendor/preact.js';
import { useEffect, useRef, useState } from './vendor/preact-hooks.js';
import { loadSession, useConnection } from './api.js';
import { Link, go, useRoute } from './router.js';
import { html } from './html.js';
import { Dialog, DialogHost } from './components/dialog.js';
import { Boundary, ErrorBox, Loading } from './components/states.js';
import { TIMES, useTimes } from './components/time.js';
import { Toast } from './components/toast.js';
import { Overview } from './pages/overview.js';
import { Jobs } from './pages/jobs.js';
import { JobNames } from './pages/job-names.js';
import { Batches } from './pages/batches.js';
import { Crons } from './pages/crons.js';
import { Daemons } from './pages/daemons.js';
import { Workflows } from './pages/workflows.js';
import { Nodes } from './pages/nodes.js';
import { Locks } from './pages/locks.js';
import { RateLimits } from './pages/rate-limits.js';
import { Audit } from './pages/audit.js';

// Without a prototype: the address of a page may be any text, such as constructor.
const PAGES = {
  __proto__: null,
  overview: ['Overview', Overview, 'o'],
  jobs: ['Jobs', Jobs, 'j'],
  'job-names': ['Job names', JobNames, 'n'],
  batches: ['Batches', Batches, 'b'],
  crons: ['Crons', Crons, 'c'],
  daemons: ['Daemons', Daemons, 'd'],
  workflows: ['Workflows', Workflows, 'w'],
  nodes: ['Nodes', Nodes, 's'],
  locks: ['Locks', Locks, 'l'],
  'rate-limits': ['Rate limits', RateLimits, 'r'],
  audit: ['Audit', Audit, 'a'],
};
// Outlines on a field of 16 by 16.
const ICONS = {
  overview: 'M2 9h3.5V14H2zM6.3 2h3.5v12H6.3zM10.5 6H14v8h-3.5z',
  jobs: 'M2 3.5h12M2 8h12M2 12.5h8',
  'job-names': 'M2 2h5.5L14 8.5 8.5 14 2 7.5zM5 5h.01',
  batches: 'M8 1.5 14 5 8 8.5 2 5zM2 8l6 3.5L14 8M2 11l6 3.5 6-3.5',
  crons: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 5v3l2 2',
  daemons: 'M13.5 6.5A5.7 5.7 0 0 0 3 5.5M3 2v3.5h3.5M2.5 9.5A5.7 5.7 0 0 0 13 10.5M13 14v-3.5H9.5',
  workflows: 'M2 2h4v4H2zM10 10h4v4h-4zM4 6v6h6M10 4h4M12 2v4',
  nodes: 'M2 2.5h12v4.5H2zM2 9h12v4.5H2zM4.5 4.8h.01M4.5 11.2h.01',
  locks: 'M3 7h10v7H3zM5 7V5a3 3 0 0 1 6 0v2',
  'rate-limits': 'M2 11.5a6 6 0 1 1 12 0M8 11.5 11 6.5',
  audit: 'M3.5 2h6L12.5 5v9h-9zM6 7h4M6 10h4',
};
const GROUPS = [
  ['Cluster', ['overview']],
  ['Work', ['jobs', 'job-names', 'batches']],
  ['Services', ['crons', 'daemons', 'workflows']],
  ['Resources', ['nodes', 'locks', 'rate-limits']],
  ['History', ['audit']],
];
// Addresses of earlier versions.
const MOVED = { __proto__: null, limits: 'job-names' };
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

function TimeChoice() {
  const [times, choose] = useTimes();
  return html`<label class="times">Times <select id="times" value=${times} onChange=${(event) => choose(event.target.value)}>
    ${TIMES.map((each) => html`<option value=${each} selected=${each === times}>${each}</option>`)}</select></label>`;
}

function Banner() {
  const state = useConnection();
  if (state === 'expired') {
    return html`<div class="banner bad" role="alert" id="banner">
      Your session has ended. <a href="">Reload to log in again</a>. Data on this page may be outdated.</div>`;
  }
  if (state === 'down') {
    return html`<div class="banner warn" role="alert" id="banner">The server does not respond, perhaps because its database is away. Trying again… Data on this page may be outdated.</div>`;
  }
  if (state === 'away') {
    return html`<div class="banner warn" role="alert" id="banner">The database does not respond or is busy. Trying again… Data on this page may be outdated.</div>`;
  }
  return null;
}

/** "/" moves to the first filter, "g" and a letter open a page, "?" shows all keys. */
function useShortcuts(help) {
  useEffect(() => {
    let pending = 0;
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
      if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== 'checkbox') return;
      if (Date.now() - pending < 1500) {
        pending = 0;
        const page = Object.keys(PAGES).find((each) => PAGES[each][2] === event.key);
        if (page) {
          event.preventDefault();
          go(page, {});
          return;
        }
      }
      if (event.key === 'g') pending = Date.now();
      if (event.key === '?') help();
      const filter = event.key === '/' && document.querySelector('.filters input, .filters select');
      if (filter) {
        event.preventDefault();
        filter.focus();
      }
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}

function Help({ onClose }) {
  return html`
    <${Dialog} title="Keyboard shortcuts" onClose=${onClose}>${(close) => html`
      <dl class="keys">
        <div><dt><kbd>/</kbd></dt><dd>First filter</dd></div>
        <div><dt><kbd>↑</kbd> <kbd>↓</kbd></dt><dd>Previous or next row of a table</dd></div>
        <div><dt><kbd>Esc</kbd></dt><dd>Close a dialog</dd></div>
        ${Object.entries(PAGES).map(([page, [name, , key]]) => html`<div key=${page}><dt><kbd>g</kbd> <kbd>${key}</kbd></dt><dd>${name}</dd></div>`)}
      </dl>
      <div class="buttons"><button type="button" onClick=${close}>Close</button></div>`}<//>`;
}

function App() {
  const route = useRoute();
  const name = MOVED[route.page] || route.page;
  const [session, setSession] = useState(null);
  const [error, setError] = useState(null);
  const [help, setHelp] = useState(false);
  const main = useRef(null);
  const visited = useRef(false);
  useShortcuts(() => setHelp(true));
  useEffect(() => {
    const controller = new AbortController();
    let timer = null;
    const load = () => loadSession(controller.signal).then(setSession, (failure) => {
      if (controller.signal.aborted) return;
      setError(failure);
      if (!(failure.status >= 400 && failure.status < 500)) timer = setTimeout(load, 5000);
    });
    load();
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, []);
  const [title, Page] = PAGES[name] || ['Unknown page', null];
  useEffect(() => {
    const subject = route.params.id ? `${route.params.id} · ${title}` : title;
    document.title = session ? `${subject} · ${session.cluster}` : 'Forge Cluster';
  }, [route, session]);
  useEffect(() => {
    // Readers of the screen continue with the new page.
    if (visited.current) main.current.focus({ preventScroll: true });
    visited.current = true;
    // On small screens the pages are a row that scrolls.
    const here = document.querySelector('nav [aria-current]');
    const nav = here && here.closest('nav');
    if (nav && nav.scrollWidth > nav.clientWidth) nav.scrollLeft = here.offsetLeft - nav.offsetLeft - 16;
  }, [name, route.params.id]);
  return html`
    <a class="skip" href="#content">Skip to content</a>
    <header>
      <div class="brand"><span class="mark" aria-hidden="true"></span><span>Forge Cluster</span></div>
      ${session && html`<strong class="cluster" title=${`Served by node ${session.node.name}, version ${session.version}`}>${session.cluster}</strong>`}
      <span class="space"></span>
      ${session && session.user && html`<span class="user">${session.user}</span>`}
      <${TimeChoice} />
      <${ThemeSwitch} />
      <button type="button" class="plain keyboard" aria-label="Keyboard shortcuts" title="Keyboard shortcuts" onClick=${() => setHelp(true)}>?</button>
    </header>
    <nav aria-label="Pages">
      ${GROUPS.map(([group, pages]) => html`
        <div role="group" aria-label=${group} key=${group}>
          <span class="group" aria-hidden="true">${group}</span>
          ${pages.map((page) => html`<${Link} key=${page} page=${page} aria-current=${page === name ? 'page' : undefined}><svg viewBox="0 0 16 16" aria-hidden="true"><path d=${ICONS[page]} /></svg>${PAGES[page][0]}<//>`)}
        </div>`)}
    </nav>
    <main id="content" tabindex="-1" ref=${main}>
      <${Banner} />
      ${session && session.readOnly && html`<div class="banner calm" id="read-only" role="note">${session.readOnly}</div>`}
      ${session && !session.readOnly && !session.permissions.includes('values') && html`<div class="banner calm" role="note">Values are hidden: you lack the permission to see them.</div>`}
      ${session && Page && html`<${Boundary} key=${`${name} ${route.params.id || ''}`} title=${title}><${Page} params=${route.params} session=${session} /><//>`}
      ${session && !Page && html`<h1>Unknown page</h1><p class="state">There is no page “${route.page}”.</p>`}
      ${!session && (error ? html`<h1>${title}</h1><${ErrorBox} error=${error} />` : html`<${Loading} />`)}
    </main>
    <${DialogHost} />
    <${Toast} />
    ${help && html`<${Help} onClose=${() => setHelp(false)} />`}`;
}

const root = document.getElementById('app');
root.textContent = '';
render(html`<${App} />`, root);
