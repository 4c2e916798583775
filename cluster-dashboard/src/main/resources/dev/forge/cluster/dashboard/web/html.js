// Everything from the server passes through this template function, which renders text as text.
import { h } from './vendor/preact.js';
import htm from './vendor/htm.js';

export const html = htm.bind(h);
