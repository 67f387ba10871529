// What surrounds each view: the contexts, whether the page is current, and what is missing.

import { html, mark, place, sign } from "./elements.js";

const connection = {
  live: ["done", "live"],
  connecting: ["working", "connecting"],
  lost: ["failed", "csctl ui does not answer: if it has ended, run it again, and open the address that it prints"],
};

export function frame(state, content) {
  const about = state.document?.about ?? [];
  const out = about.filter((one) => one.outage);
  const partly = out.length < about.length;
  const outage = ["failed", partly ? `${out.length} of ${about.length} cannot be read` : "last known state"];
  const [how, text] = out.length && state.live === "live" ? outage : connection[state.live];
  const old = state.live !== "live" || (out.length > 0 && !partly);
  const scope = ({ context, namespace }) => context + (namespace ? `, namespace ${namespace}` : "");
  return html`
    <header>
      <nav aria-label="Page"><a href="#/" aria-current=${state.route.view === "fleet" ? "page" : null}>Fleet</a></nav>
      <span class="context">${about.map(scope).join("; ")}</span>
      <span class="live">${sign(how)} ${text}</span>
    </header>
    ${out.map((one) => outageView(place(one.outage.what, one, about.length > 1), one.outage))}
    ${about.map((one) => one.notices.map((notice) => html`<p class="notice">${place(notice, one, about.length > 1)}</p>`))}
    <main id="main" class=${old ? "old" : ""}>${content}</main>
  `;
}

function outageView(what, { why, since }) {
  const began = html`<time datetime=${since}>${new Date(since).toLocaleString()}</time>`;
  return html`<p class="notice failed outage" role="alert">
    ${mark.failed} ${what} cannot be read since ${began}: ${why}. This is the last known state; the page continues by itself.
  </p>`;
}

export function messageView(route, problem) {
  const title = route.view === "cluster" ? `Cluster ${route.namespace}/${route.name}` : "Fleet";
  return html`<h1 tabindex="-1">${title}</h1><p class="notice failed" role="alert">${mark.failed} ${problem}</p>`;
}
