// Elements that several views use. Every text is inserted as text, never as HTML.

import { ofCluster } from "./address.js";
import htm from "./vendor/htm.module.js";
import { Component, h, render } from "./vendor/preact.mjs";

export const html = htm.bind(h);
export { render };

export const mark = { done: "✓", working: "…", failed: "✗" };
export const words = { done: "ready", working: "in progress", failed: "failed" };

const verdicts = { ok: "✓", untested: "~", unknown: "?", incompatible: "✗" };

// READY of 'csctl status' decides about "ready"; the state also counts what there is to look at.
export function stateWord(one) {
  if (!one.ready) return one.state === "done" ? "not ready" : words[one.state];
  return one.state === "done" ? words.done : "ready, troubled";
}

export function sign(state, word = words[state]) {
  return html`<span class=${`sign ${state}`} role="img" aria-label=${word}>${mark[state]}</span>`;
}

export function verdict(word, text = word) {
  return html`<span class=${`verdict ${word}`}>${verdicts[word] ?? ""} ${text}</span>`;
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

// A name, after its context if the page has several.
export function place(name, { context }, several) {
  return several ? `${context}: ${name}` : name;
}

export function clusterLink(one, several) {
  return html`<a href=${ofCluster(one, several)}>${place(`${one.namespace}/${one.name}`, one, several)}</a>`;
}

// A source is a link only if it is a web address: releases of others must not bring other kinds of links.
export function source(text) {
  if (!text) return "";
  return /^https?:\/\//.test(text) ? html`<a href=${text} target="_blank" rel="noopener noreferrer">${text}</a>` : text;
}

// A command with a button that copies it.
export class Command extends Component {
  copy = async () => {
    const said = await navigator.clipboard.writeText(this.props.text).then(
      () => "Copied",
      () => "Not allowed",
    );
    this.setState({ said });
  };

  render({ text }, { said = "Copy" }) {
    return html`<div class="command">
      <pre tabindex="0"><code>${text}</code></pre>
      <button type="button" aria-live="polite" onClick=${this.copy}>${said}</button>
    </div>`;
  }
}

// A table. A column is its title, or its title with the address that sorts by it, and how it is sorted. A row has a key,
// its cells, and the number of the cell that names it. In a narrow window each cell is a line that begins with the title.
export function table(id, caption, columns, rows) {
  const titles = columns.map((one) => one.title ?? one);
  const head = (one) => html`<th scope="col" aria-sort=${one.sorted}>${one.address ? html`<a href=${one.address}>${one.title}</a>` : one}</th>`;
  const cell = (content, index, named) =>
    index === named
      ? html`<th scope="row" data-title=${titles[index]}>${content}</th>`
      : html`<td data-title=${titles[index]}>${content}</td>`;
  return html`
    <div class="scroll" tabindex="0" role="group" aria-label=${caption}>
      <table id=${id}>
        <caption>${caption}</caption>
        <thead><tr>${columns.map(head)}</tr></thead>
        <tbody>
          ${rows.map(({ key, cells, named = 0, kind }) => html`<tr key=${key} class=${kind}>${cells.map((one, index) => cell(one, index, named))}</tr>`)}
        </tbody>
      </table>
    </div>
  `;
}
