import { useEffect, useRef, useState } from '../vendor/preact-hooks.js';
import { change } from '../api.js';
import { html } from '../html.js';

/**
 * Asks before something is changed.
 *
 * action: { title, text, confirm, danger, resource, body, preview }. With preview the server first counts what the change would reach.
 */
export function Confirm({ action, onClose, onDone }) {
  const dialog = useRef(null);
  const [reason, setReason] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const [preview, setPreview] = useState(null);
  useEffect(() => {
    dialog.current.showModal();
    if (action.preview) {
      change(action.resource, { ...action.body, preview: true }).then(setPreview, setError);
    }
  }, []);
  const confirm = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const result = await change(action.resource, { ...action.body, reason: reason.trim() || null });
      onDone(result);
    } catch (e) {
      setError(e);
      setBusy(false);
    }
  };
  const ready = !action.preview || (preview && preview.matched > 0);
  return html`
    <dialog ref=${dialog} aria-labelledby="dialog-title" onClose=${onClose}>
      <form onSubmit=${confirm}>
        <h2 id="dialog-title">${action.title}</h2>
        <p>${action.text}</p>
        ${action.preview && html`<p class="preview" role="status">${previewText(preview)}</p>`}
        <label for="dialog-reason">Reason (optional)</label>
        <input id="dialog-reason" value=${reason} maxlength="500" autocomplete="off" onInput=${(event) => setReason(event.target.value)} />
        ${error && html`<p class="state error" role="alert">${error.message}</p>`}
        <div class="buttons">
          <button type="button" onClick=${() => dialog.current.close()}>Close</button>
          <button type="submit" class=${action.danger ? 'primary danger' : 'primary'} disabled=${busy || !ready}>${action.confirm}</button>
        </div>
      </form>
    </dialog>`;
}

function previewText(preview) {
  if (!preview) return 'Counting…';
  return `${preview.matched} ${preview.matched === 1 ? 'job matches' : 'jobs match'}${preview.next ? ', and there may be more: one call changes only these' : ''}.`;
}

/** Buttons that open the dialog; nothing without the permission to change states. */
export function Actions({ session, actions, onDone }) {
  const [open, setOpen] = useState(null);
  if (session.readOnly || !session.permissions.includes('operate')) return null;
  return html`
    <span class="actions">
      ${actions.filter(Boolean).map((action) => html`
        <button type="button" class=${action.danger ? 'danger' : ''} key=${action.confirm} onClick=${() => setOpen(action)}
          aria-label=${action.label || action.title}>${action.confirm}</button>`)}
      ${open && html`<${Confirm} action=${open} onClose=${() => setOpen(null)}
        onDone=${(result) => { setOpen(null); onDone(result); }} />`}
    </span>`;
}
