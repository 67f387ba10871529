// Elements that several views use. Every text is inserted as text, never as HTML.

import htm from "./vendor/htm.module.js";
import { h, render } from "./vendor/preact.mjs";

export const html = htm.bind(h);
export { h, render };

export const mark = { done: "✓", working: "…", failed: "✗" };
export const words = { done: "ready", working: "in progress", failed: "failed" };

export const verdicts = { ok: "✓", untested: "~", unknown: "?", incompatible: "✗" };

// READY of 'csctl status' decides about "ready"; the state also counts what there is to look at.
export function stateWord(one) {
  if (!one.ready) return one.state === "done" ? "not ready" : words[one.state];
  return one.state === "done" ? words.done : "ready, troubled";
}

export function sign(state, word = words[state]) {
  return html`<span class=${`sign ${state}`} role="img" aria-label=${word}>${mark[state]}</span>`;
}

export function age(time) {
  const seconds = Math.round((Date.now() - Date.parse(time)) / 1000);
  if (!time || Number.isNaN(seconds)) return "";
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * size) return html`<time datetime=${time} title=${time}>${Math.floor(seconds / size)} ${unit}</time>`;
  }
  return html`<time datetime=${time} title=${time}>${Math.max(seconds, 0)} s</time>`;
}

export function since(time) {
  return time ? html`<span class="since"> since ${age(time)}</span>` : "";
}

export function clusterLink({ namespace, name }) {
  return html`<a href=${`#/cluster/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`}>${namespace}/${name}</a>`;
}

// A source is a link only if it is a web address: releases of others must not bring other kinds of links.
export function source(text) {
  if (!text) return "";
  return /^https?:\/\//.test(text) ? html`<a href=${text} target="_blank" rel="noopener noreferrer">${text}</a>` : text;
}

export function table(caption, header, rows, name) {
  return html`
    <div class="scroll" tabindex="0" role="group" aria-label=${caption}>
      <table id=${name}>
        <caption>${caption}</caption>
        <thead><tr>${header.map((one) => html`<th scope="col">${one}</th>`)}</tr></thead>
        <tbody>${rows}</tbody>
      </table>
    </div>
  `;
}
