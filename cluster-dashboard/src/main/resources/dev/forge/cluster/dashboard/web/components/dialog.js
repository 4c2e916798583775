import { useEffect, useRef, useState } from '../vendor/preact-hooks.js';
import { change, readAgain } from '../api.js';
import { html } from '../html.js';
import { say } from './toast.js';
import { count, number } from './value.js';

const CALL = 1000;
/** Errors after which nobody knows how far the server came. */
const UNCERTAIN = ['down', 'unavailable', 'busy', 'failed'];

/** A modal dialog; Esc and the button close it. */
export function Dialog({ title, onClose, children, wide }) {
  const dialog = useRef(null);
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current.showModal();
    const text = dialog.current.querySelector('textarea');
    if (text === document.activeElement && text) text.setSelectionRange(0, 0);
    return () => opener && opener.isConnected && opener.focus && opener.focus();
  }, []);
  return html`
    <dialog ref=${dialog} class=${wide ? 'wide' : ''} aria-labelledby="dialog-title" onClose=${onClose}>
      <h2 id="dialog-title">${title}</h2>
      ${children(() => dialog.current && dialog.current.close())}
    </dialog>`;
}

/** Returns why a value of a field cannot be sent, or null. */
function problem(field, value) {
  const text = value.trim();
  if (!text) return field.required ? `${field.label} is required.` : null;
  if (field.type === 'number' && !(Number.isInteger(Number(text)) && Number(text) >= (field.min ?? 1))) return `${field.label} must be a whole number of at least ${field.min ?? 1}.`;
  if (field.type === 'datetime-local' && Number.isNaN(new Date(text).getTime())) return `${field.label} is not a time.`;
  if (field.type === 'json') {
    try {
      JSON.parse(text);
    } catch (e) {
      return `${field.label} is not valid JSON: ${e.message}`;
    }
    if (text.includes('******')) return `${field.label} contains masked values (******). Replace them with the real ones.`;
  }
  return null;
}

function Field({ field, value, error, onInput, disabled }) {
  const id = `dialog-${field.name}`;
  const attributes = { id, value, disabled, 'aria-invalid': error ? 'true' : undefined, 'aria-describedby': error ? `${id}-error` : field.help ? `${id}-help` : undefined, onInput: (event) => onInput(event.target.value) };
  return html`
    <div class="dialog-field">
      <label for=${id}>${field.label}${field.required ? '' : ' (optional)'}</label>
      ${field.type === 'json'
        ? html`<textarea ...${attributes} rows=${Math.min(18, Math.max(4, value.split('\n').length))} spellcheck="false" autocomplete="off"></textarea>`
        : html`<input ...${attributes} type=${field.type === 'number' ? 'text' : field.type || 'text'} inputmode=${field.type === 'number' ? 'numeric' : undefined}
            step=${field.type === 'datetime-local' ? '1' : undefined} maxlength=${field.max ?? 500} placeholder=${field.placeholder} autocomplete="off" />`}
      ${field.help && html`<p class="help" id=${`${id}-help`}>${field.help}</p>`}
      ${error && html`<p class="invalid" id=${`${id}-error`}>${error}</p>`}
    </div>`;
}

/**
 * Asks before something is changed.
 *
 * action: { title, heading, text, confirm, danger, resource, body, fields, bulk, selected, done }. A dangerous action needs a reason.
 * `fields` is a list, or a function that makes it when the dialog opens. The body is an object, or a function of their values. A bulk action is counted first, and then made in calls of 1,000 jobs.
 * `done` is a text, or a function of the result, that the user gets to see; `after` replaces the usual reading afterwards.
 */
export function Confirm({ action, onClose, onDone }) {
  const [given] = useState(() => (typeof action.fields === 'function' ? action.fields() : action.fields || []));
  const fields = [...given.filter(Boolean), { name: 'reason', label: 'Reason', required: Boolean(action.danger) }];
  const [values, setValues] = useState(() => Object.fromEntries(fields.map((field) => [field.name, field.value ?? ''])));
  const [invalid, setInvalid] = useState({});
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const [preview, setPreview] = useState(null);
  const [progress, setProgress] = useState(null);
  const stopped = useRef(false);
  const alive = useRef(true);
  const bodyOf = () => (typeof action.body === 'function' ? action.body(values) : action.body);
  useEffect(() => {
    if (action.bulk) change(action.resource, { ...bodyOf(), limit: CALL, preview: true }).then(setPreview, setError);
    return () => {
      alive.current = false;
    };
  }, []);
  const finish = (result) => {
    const text = typeof action.done === 'function' ? action.done(result, values) : action.done;
    if (text) say(result.rejected ? `${text} ${count(result.rejected, 'job', 'jobs')} could not be changed: the database rejects it, see the log.` : text);
    readAgain();
    onDone(result);
  };
  const changeMany = async (body) => {
    let after;
    let changed = 0;
    let rejected = 0;
    try {
      do {
        const result = await change(action.resource, { ...body, limit: CALL, after });
        changed += result.changed;
        rejected += result.rejected;
        after = result.next;
        setProgress(changed);
      } while (after && !stopped.current && alive.current);
    } catch (e) {
      const before = changed ? ` ${count(changed, 'job was', 'jobs were')} changed before.` : UNCERTAIN.includes(e.code) ? '' : ' No job was changed.';
      e.message = `${e.message}${before}${UNCERTAIN.includes(e.code) ? ' The change may go on: see the audit page.' : ''}`;
      throw e;
    }
    finish({ changed, rejected, stopped: Boolean(after) });
  };
  const confirm = async (event) => {
    event.preventDefault();
    const problems = Object.fromEntries(fields.map((field) => [field.name, problem(field, values[field.name])]).filter(([, text]) => text));
    setInvalid(problems);
    const first = fields.find((field) => problems[field.name]);
    if (first) {
      document.getElementById(`dialog-${first.name}`).focus();
      return;
    }
    setBusy(true);
    setError(null);
    const body = { ...bodyOf(), reason: values.reason.trim() || undefined };
    try {
      if (action.bulk) await changeMany(body);
      else finish(await change(action.resource, body));
    } catch (e) {
      if (!alive.current) say(`${action.title}: ${e.message}`);
      else if (e.code === 'reason-required') setInvalid({ reason: e.message });
      else setError(e);
      setBusy(false);
      setProgress(null);
    }
  };
  const ready = !action.bulk || (preview && (preview.matched > 0 || preview.next));
  const running = progress !== null;
  return html`
    <${Dialog} title=${action.heading || action.title} onClose=${onClose} wide=${fields.some((field) => field.type === 'json')}>${(close) => html`
      <form onSubmit=${confirm} noValidate>
        <p>${action.text}</p>
        ${action.bulk && html`<p class="preview" role="status">${running ? `${number(progress)} changed so far…` : error && !preview ? 'The jobs could not be counted.' : previewText(preview, action.selected)}</p>`}
        ${fields.map((field) => html`<${Field} key=${field.name} field=${field} value=${values[field.name]} error=${invalid[field.name]} disabled=${busy}
          onInput=${(value) => setValues((old) => ({ ...old, [field.name]: value }))} />`)}
        ${error && html`<p class="state error" role="alert">${error.message}</p>`}
        <div class="buttons">
          ${running
            ? html`<button type="button" onClick=${() => { stopped.current = true; }}>Stop</button>`
            : html`<button type="button" onClick=${close}>Close</button>`}
          <button type="submit" class=${action.danger ? 'primary danger' : 'primary'} disabled=${busy || !ready}>${busy ? 'Working…' : action.confirm}</button>
        </div>
      </form>`}<//>`;
}

function previewText(preview, selected) {
  if (!preview) return 'Counting…';
  const { matched, next } = preview;
  if (!matched && next) return `None of the first ${number(preview.examined)} jobs match; later ones may.`;
  if (!matched) return 'No job matches in a status in which this is possible.';
  if (selected && matched < selected) return `${number(matched)} of ${number(selected)} selected jobs match; the others are in another status.`;
  return next ? `${number(matched)} or more jobs match. They are changed 1,000 at a time.` : `${count(matched, 'job matches', 'jobs match')}.`;
}

export const mayChange = (session) => !session.readOnly && session.permissions.includes('operate');

let ask = () => {};

/** The dialog of all actions. It is outside of the pages: a table that is read again does not close it. */
export function DialogHost() {
  const [open, setOpen] = useState(null);
  const current = useRef(null);
  current.current = open;
  useEffect(() => {
    const close = () => setOpen(null);
    ask = setOpen;
    addEventListener('popstate', close);
    return () => removeEventListener('popstate', close);
  }, []);
  return open && html`<${Confirm} key=${open.id} action=${open.action} onClose=${() => setOpen(null)}
    onDone=${(result) => {
      // The user may have closed it, and opened another one or another page.
      setOpen((now) => (now && now.id === open.id ? null : now));
      if (current.current && current.current.id === open.id) (open.action.after || open.onDone)(result);
    }} />`;
}

/** Buttons that open the dialog; nothing without the permission to change states. */
export function Actions({ session, actions, onDone = () => {} }) {
  if (!mayChange(session)) return null;
  return html`
    <span class="actions">
      ${actions.filter(Boolean).map((action) => html`
        <button type="button" class=${action.danger ? 'danger' : ''} key=${action.confirm} disabled=${action.disabled} aria-label=${action.title}
          aria-haspopup="dialog" onClick=${() => ask({ id: Date.now(), action, onDone })}>${action.button || action.confirm}</button>`)}
    </span>`;
}
