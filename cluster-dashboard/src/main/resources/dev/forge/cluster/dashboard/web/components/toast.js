// Says that a change was made. One message at a time, outside of the pages, so that it survives them.
import { useEffect, useState } from '../vendor/preact-hooks.js';
import { html } from '../html.js';

const SHOWN = 10000;
let show = () => {};

/** Shows a message, which may have links. */
export function say(content) {
  show({ content });
}

export function Toast() {
  const [message, setMessage] = useState(null);
  useEffect(() => {
    show = setMessage;
    return () => {
      show = () => {};
    };
  }, []);
  useEffect(() => {
    const timer = message && setTimeout(() => setMessage(null), SHOWN);
    return () => clearTimeout(timer);
  }, [message]);
  return html`
    <div id="toast" role="status">
      ${message && html`<div class="toast"><span>${message.content}</span>
        <button type="button" class="plain small" aria-label="Dismiss message" onClick=${() => setMessage(null)}>✕</button></div>`}
    </div>`;
}
