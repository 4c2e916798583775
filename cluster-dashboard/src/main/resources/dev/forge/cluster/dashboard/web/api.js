// Requests to the API: relative addresses, the application's CSRF token, and one place that knows whether the session has ended or
// the server is away.
import { useCallback, useEffect, useRef, useState } from './vendor/preact-hooks.js';

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const READ_TIMEOUT = 10000;
// A call that changes many jobs takes up to a minute.
const CHANGE_TIMEOUT = 75000;
const OUTAGES = ['unavailable', 'busy'];
const listeners = new Set();
const readers = new Set();
let connection = 'ok';
let session = null;
let clockOffset = 0;

function setConnection(state) {
  if (state !== connection) {
    connection = state;
    for (const listener of listeners) listener(state);
  }
}

/** Returns ok, expired, down, or away: the server responds, its database does not, or too many read it. */
export function useConnection() {
  const [state, setState] = useState(connection);
  useEffect(() => {
    listeners.add(setState);
    setState(connection);
    return () => listeners.delete(setState);
  }, []);
  return state;
}

/** Returns the time of the server in milliseconds. */
export function now() {
  return Date.now() + clockOffset;
}

/** Compares the clocks. The header has whole seconds, so small differences are none. */
function readClock(response) {
  const date = Date.parse(response.headers.get('Date') || '');
  if (Number.isNaN(date)) return;
  const offset = date + 500 - Date.now();
  clockOffset = Math.abs(offset) < 2000 ? 0 : offset;
}

function expired() {
  setConnection('expired');
  return new ApiError(401, 'unauthenticated', 'Your session has ended. Reload the page to log in again.');
}

function down(message) {
  setConnection('down');
  return new ApiError(0, 'down', message);
}

/** Reads a value of JSON. Numbers with more digits than JavaScript keeps stay as they are, in browsers that can do this. */
function exactly(key, value, context) {
  if (typeof value !== 'number' || !context || !context.source || !JSON.rawJSON) return value;
  const digits = context.source.replace(/e.*/i, '').replace(/\D/g, '').replace(/^0+/, '').length;
  return digits > 17 || (Number.isInteger(value) && digits > 15 && !Number.isSafeInteger(value)) ? JSON.rawJSON(context.source) : value;
}

async function request(path, params, options, signal) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params || {})) {
    if (value !== undefined && value !== null && value !== '') query.set(name, value);
  }
  const text = query.toString();
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(), options.method ? CHANGE_TIMEOUT : READ_TIMEOUT);
  const stop = () => timeout.abort();
  if (signal) signal.addEventListener('abort', stop);
  let response;
  let body;
  try {
    response = await fetch(`api/v1/${path}${text ? `?${text}` : ''}`, {
      credentials: 'same-origin',
      cache: 'no-store',
      // A redirect is the application's way to its login page.
      redirect: 'manual',
      signal: timeout.signal,
      ...options,
      headers: { Accept: 'application/json', 'X-Requested-With': 'XMLHttpRequest', ...options.headers },
    });
    readClock(response);
    if (response.type === 'opaqueredirect' || response.status === 401) throw expired();
    const json = (response.headers.get('Content-Type') || '').startsWith('application/');
    body = json ? JSON.parse(await response.text(), exactly) : null;
    // A login page instead of data.
    if (response.ok && !json) throw expired();
  } catch (e) {
    if (e instanceof ApiError || (signal && signal.aborted)) throw e;
    throw down('The server does not respond in time.');
  } finally {
    clearTimeout(timer);
    if (signal) signal.removeEventListener('abort', stop);
  }
  if (!response.ok) {
    const code = (body && body.code) || '';
    if (!body && response.status >= 500) throw down(`The server responds with status ${response.status}.`);
    setConnection(OUTAGES.includes(code) ? 'away' : 'ok');
    const message = body && typeof body.error === 'string' ? body.error : `The server responds with status ${response.status}.`;
    throw new ApiError(response.status, code, message);
  }
  setConnection('ok');
  return body;
}

export function read(path, params, signal) {
  return request(path, params, {}, signal);
}

export async function loadSession(signal) {
  session = await request('session', {}, {}, signal);
  return session;
}

/** Changes something. A token that is no longer valid is replaced once. */
export async function change(path, body) {
  const send = () => {
    const headers = { 'Content-Type': 'application/json' };
    if (session && session.csrf) headers[session.csrf.header] = session.csrf.token;
    return request(path, {}, { method: 'POST', headers, body: JSON.stringify(body) });
  };
  try {
    return await send();
  } catch (e) {
    // The application's own filter refuses tokens without a code of the dashboard.
    if (e.status !== 403 || (e.code && e.code !== 'csrf')) throw e;
    await loadSession();
    return send();
  }
}

/** Reads everything that is shown once more: something was changed. */
export function readAgain() {
  for (const reader of readers) reader();
}

/**
 * Reads a resource, and again every few seconds while the tab is visible and the page is live. The request is aborted when the
 * component goes away or its parameters change. Data of the last success stay while later reads fail; with `keep`, data of other
 * parameters stay until the new ones arrive, marked as stale. Without a path nothing is read.
 */
export function useResource(path, params = {}, { interval = 5000, live = true, keep = false } = {}) {
  const key = JSON.stringify([path, params]);
  const [state, setState] = useState({ key, data: null, error: null });
  const [round, setRound] = useState(0);
  const alive = useRef(live);
  alive.current = live;
  const refresh = useCallback(() => setRound((n) => n + 1), []);
  useEffect(() => {
    if (!path) return undefined;
    const controller = new AbortController();
    let timer = null;
    let loading = false;
    const next = (delay) => {
      clearTimeout(timer);
      // Updates may be paused until then.
      if (interval && !controller.signal.aborted && !document.hidden) timer = setTimeout(() => (alive.current ? load() : next(delay)), delay);
    };
    const load = async () => {
      if (loading) return;
      loading = true;
      try {
        const data = await read(path, params, controller.signal);
        if (controller.signal.aborted) return;
        setState({ key, data, error: null });
        next(interval);
      } catch (error) {
        if (controller.signal.aborted) return;
        setState((old) => ({ key, data: old.key === key ? old.data : null, error }));
        next(interval * 2);
      } finally {
        loading = false;
      }
    };
    const visible = () => {
      clearTimeout(timer);
      if (document.hidden) return;
      if (alive.current) load();
      else next(interval);
    };
    document.addEventListener('visibilitychange', visible);
    readers.add(refresh);
    load();
    return () => {
      readers.delete(refresh);
      document.removeEventListener('visibilitychange', visible);
      clearTimeout(timer);
      controller.abort();
    };
  }, [key, round, interval]);
  const own = state.key === key;
  return { data: own || keep ? state.data : null, error: own ? state.error : null, stale: !own, path, refresh };
}
