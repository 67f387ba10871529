// Views of the page: the documents of the server as HTML.

import { age, clusterLink, html, mark, since, sign, source, stateWord, table, verdicts, words } from "./elements.js";
import { graphView, objectList } from "./graph.js";

const SHOWN_CLUSTERS = 12; // Clusters of a release that are shown without a click

const connection = {
  live: ["done", "live"],
  connecting: ["working", "connecting"],
  lost: ["failed", "csctl ui does not answer: if it has ended, run it again, and open the address that it prints"],
};

export function frame(state, content) {
  const about = state.document?.about ?? {};
  const [how, text] = about.outage && state.live === "live" ? ["failed", "last known state"] : connection[state.live];
  return html`
    <header>
      <nav aria-label="Page"><a href="#/" aria-current=${state.route.view === "fleet" ? "page" : null}>Fleet</a></nav>
      <span class="context">${about.context}${about.namespace ? `, namespace ${about.namespace}` : ""}</span>
      <span class="live">${sign(how)} ${text}</span>
    </header>
    ${about.outage ? outageView(about.outage) : ""}
    ${(about.notices ?? []).map((one) => html`<p class="notice">${one}</p>`)}
    <main id="main" class=${how === "done" ? "" : "old"}>${content}</main>
  `;
}

function outageView({ what, why, since }) {
  const began = html`<time datetime=${since}>${new Date(since).toLocaleString()}</time>`;
  return html`<p id="outage" class="notice failed" role="alert">
    ${mark.failed} ${what} cannot be read since ${began}: ${why}. This is the last known state; the page continues by itself.
  </p>`;
}

export function messageView(route, problem) {
  const title = route.view === "cluster" ? `Cluster ${route.namespace}/${route.name}` : "Fleet";
  return html`<h1 tabindex="-1">${title}</h1><p class="notice failed" role="alert">${mark.failed} ${problem}</p>`;
}

export function fleetView({ document, filter, concernsOnly }, { set }) {
  const wanted = filter.toLowerCase();
  const shown = document.clusters.filter(
    (one) =>
      (!concernsOnly || one.state !== "done") &&
      `${one.namespace}/${one.name} ${one.class.wanted} ${one.reason}`.toLowerCase().includes(wanted),
  );
  const count = (state) => document.clusters.filter((one) => (one.ready ? "done" : one.state) === state).length;
  const troubled = document.clusters.filter((one) => one.state !== "done").length;
  return html`
    <h1 tabindex="-1">Fleet</h1>
    <p class="counts">
      ${["done", "working", "failed"].map((one) => html`<span>${sign(one)} ${count(one)} ${words[one]} </span>`)}
      <span>${troubled} troubled</span>
    </p>
    ${document.support.map((line) => html`<p class="notice support">${line}: <code>csctl compat calendar</code></p>`)}
    ${table(
      "Releases and their Clusters",
      ["Release", "Namespace", "Ready", "Kubernetes", "Newer", "Count", "Clusters"],
      document.releases.map(releaseRow),
      "releases",
    )}
    <form class="filter" role="search" onSubmit=${(event) => event.preventDefault()}>
      <label>Filter <input type="search" id="filter" value=${filter} onInput=${(event) => set({ filter: event.target.value })} /></label>
      <label><input type="checkbox" id="concerns" checked=${concernsOnly} onChange=${(event) => set({ concernsOnly: event.target.checked })} /> only troubled Clusters</label>
      <span role="status">${shown.length} of ${document.clusters.length} Clusters</span>
    </form>
    ${table(
      "Clusters",
      ["Cluster", "State", "Release", "Kubernetes", "Stage", "Reason", "Message"],
      shown.map(clusterRow),
      "clusters",
    )}
    ${table("ClusterStacks", ["ClusterStack", "Namespace", "State", "Detail"], document.stacks.map(stackRow), "stacks")}
  `;
}

function releaseRow(one) {
  const state = one.ready ? "done" : one.exists ? "working" : "failed";
  const links = one.clusters.map((cluster) => html`<li>${clusterLink(cluster)}${moving(cluster)}</li>`);
  const more = links.slice(SHOWN_CLUSTERS);
  return html`
    <tr key=${`${one.namespace}/${one.release}`}>
      <th scope="row">${one.release}</th>
      <td>${one.namespace}</td>
      <td>${sign(state)} ${one.ready ? "ready" : one.exists ? "not ready" : "missing"}</td>
      <td>${one.kubernetes}</td>
      <td>${one.newer.join(", ")}</td>
      <td>${one.clusters.length}</td>
      <td>
        <ul class="names">${links.slice(0, SHOWN_CLUSTERS)}</ul>
        ${more.length ? html`<details><summary>and ${more.length} more</summary><ul class="names">${more}</ul></details>` : ""}
      </td>
    </tr>
  `;
}

function moving(cluster) {
  return cluster.release.includes("→") ? html` <span class="since">${cluster.release}</span>` : "";
}

function clusterRow(one) {
  const { number, total, current } = one.stage;
  return html`
    <tr key=${`${one.namespace}/${one.name}`} class=${one.state}>
      <th scope="row">${clusterLink(one)}</th>
      <td>${sign(one.state, stateWord(one))} ${stateWord(one)}</td>
      <td>${one.release}</td>
      <td>${one.kubernetes}</td>
      <td>${total ? html`<span title=${current}>${number} of ${total}</span>` : ""}</td>
      <td>${one.reason}${since(one.since)}</td>
      <td class="message">${one.message}</td>
    </tr>
  `;
}

function stackRow(one) {
  return html`
    <tr key=${`${one.namespace}/${one.title}`}>
      <th scope="row">${one.title.replace("ClusterStack ", "")}</th>
      <td>${one.namespace}</td>
      <td>${sign(one.state)} ${words[one.state]}</td>
      <td class="message">${one.detail}</td>
    </tr>
  `;
}

export function clusterView(state, actions) {
  const one = state.document;
  const moved = one.release.includes("→") || one.kubernetes.includes("→");
  return html`
    <h1 tabindex="-1">${sign(one.state, stateWord(one))} Cluster ${one.namespace}/${one.name}</h1>
    <dl class="facts">
      <dt>Class</dt><dd>${one.class.wanted || "none"}</dd>
      <dt>Addons of release</dt><dd>${one.release || "none"}</dd>
      <dt>Kubernetes</dt><dd>${one.kubernetes}</dd>
      ${one.stage.total ? html`<dt>Stage</dt><dd>${one.stage.number} of ${one.stage.total}, ${one.stage.current}${" "}
        <progress value=${one.stage.number - 1} max=${one.stage.total} aria-label="Completed stages"></progress></dd>` : ""}
      ${moved || one.reason ? html`<dt>Reason</dt><dd>${one.reason || "Upgrading"}${since(one.since)}</dd>` : ""}
      <dt>Addons</dt><dd>${one.addons.join(", ") || "none"}</dd>
      ${one.syncs.length ? html`<dt>Syncs</dt><dd>${one.syncs.join(", ")}</dd>` : ""}
    </dl>
    <section aria-labelledby="state">
      <h2 id="state">State</h2>
      <ul class="findings">
        ${one.findings.map((found) => html`<li class=${found.state}>${sign(found.state)} <b>${found.title}</b> ${found.detail}</li>`)}
      </ul>
      <p class="hint">Details: <code>csctl drift ${one.namespace}/${one.name}</code></p>
    </section>
    <section aria-labelledby="objects">
      <h2 id="objects">Objects</h2>
      ${graphView(one.graph)}
      <details><summary>Objects as a list</summary>${objectList(one.graph)}</details>
    </section>
    ${upgradeSection(state, actions)} ${matrixSection(state, actions)} ${deliveriesSection(one.deliveries)} ${eventsSection(state)}
    <section aria-labelledby="changes">
      <h2 id="changes">Last changes</h2>
      ${table(
        "Conditions of the addons, the last change first",
        ["Condition", "Status", "Reason", "Message", "Age"],
        one.changes.map(
          (change) => html`<tr key=${change.type}><th scope="row">${change.type}</th><td>${change.status}</td>
            <td>${change.reason}</td><td class="message">${change.message}</td><td>${age(change.lastTransitionTime)}</td></tr>`,
        ),
        "conditions",
      )}
    </section>
  `;
}

function deliveriesSection(deliveries) {
  return html`
    <section aria-labelledby="deliveries">
      <h2 id="deliveries">Deliveries</h2>
      ${deliveries.length
        ? table("Last deliveries of the addons, the newest first", ["Began", "Delivery", "Result", "Objects"], deliveries.map(deliveryRow), "deliveries-list")
        : html`<p class="hint">The history in this management cluster has no delivery to this Cluster.</p>`}
    </section>
  `;
}

function deliveryRow(one) {
  return html`
    <tr key=${one.began}>
      <td>${age(one.began)}</td>
      <th scope="row">${one.title}</th>
      <td class="message">${one.state ? sign(one.state) : ""} ${one.outcome}${one.failure ? html`<br />${one.failure}` : ""}</td>
      <td>
        ${one.changes.length
          ? html`<details><summary>${one.numbers}</summary>
              <ul class="changes">${one.changes.map(([addon, change, name]) => html`<li>${addon ? html`<b>${addon}</b>` : `${change} ${name}`}</li>`)}</ul></details>`
          : one.numbers}
      </td>
    </tr>
  `;
}

function eventsSection({ document, events }) {
  const { document: found, problem } = events;
  const rows = found?.events.map(eventRow) ?? [];
  return html`
    <section aria-labelledby="events">
      <h2 id="events">Events</h2>
      ${problem ? html`<p class="notice failed" role="status">${mark.failed} The events cannot be read: ${problem}</p>` : ""}
      ${found || problem ? "" : html`<p aria-busy="true">Loading …</p>`}
      ${(found?.notices ?? []).map((one) => html`<p class="notice">${one}</p>`)}
      ${rows.length ? table("Events of the Cluster, its addons and its release, the newest first", ["Last seen", "Type", "Reason", "Object", "Message"], rows, "events-list") : ""}
      ${found && !rows.length ? html`<p class="hint">The API server has no events of this Cluster; it keeps them for an hour by default.</p>` : ""}
      ${found?.more ? html`<p class="hint">${found.more} older events: <code>kubectl events --namespace ${document.namespace}</code></p>` : ""}
    </section>
  `;
}

function eventRow(one) {
  const warning = one.type === "Warning";
  return html`
    <tr class=${warning ? "warning" : ""}>
      <td>${age(one.lastSeen)}</td>
      <td>${warning ? "⚠ " : ""}${one.type}</td>
      <th scope="row">${one.reason}</th>
      <td class="message">${one.subject}</td>
      <td class="message">${one.message}</td>
    </tr>
  `;
}

function problemView({ busy, problem }) {
  return html`<div role="status">
    ${busy ? html`<p aria-busy="true">csctl computes the answer …</p>` : ""}
    ${problem && !busy ? html`<p class="notice failed">${mark.failed} ${problem}</p>` : ""}
  </div>`;
}

function upgradeSection({ document, upgrade }, { set, ask }) {
  const submit = (event) => {
    event.preventDefault();
    if (upgrade.to && !upgrade.busy) ask("upgrade", "upgrade", { to: upgrade.to });
  };
  return html`
    <section aria-labelledby="upgrade">
      <h2 id="upgrade">Upgrade</h2>
      <form onSubmit=${submit}>
        <label for="target">To release or Kubernetes version</label>
        <input id="target" list="targets" autocomplete="off" value=${upgrade.to} onInput=${(event) => set({ upgrade: { ...upgrade, to: event.target.value } })} />
        <datalist id="targets">${document.targets.map((one) => html`<option value=${one} />`)}</datalist>
        <button disabled=${upgrade.busy}>Show the plan</button>
        <span class="since">Nothing is changed.</span>
      </form>
      ${problemView(upgrade)} ${upgrade.document ? answerView(upgrade.document) : ""}
    </section>
  `;
}

function answerView(answer) {
  const refused = !answer.allowed;
  return html`
    <div id="answer" class="answer">
      ${answer.upgrade ? html`<p>${mark.working} An upgrade is running: ${answer.upgrade.message}${since(answer.upgrade.since)}</p>` : ""}
      ${refused
        ? html`<p class="verdict failed">${sign("failed")} Refused now: one write may not change the Cluster to ${answer.to}.</p>
            <ul class="findings">${answer.facts.map((fact) => html`<li class="failed">${fact.text} <code>${fact.id}</code></li>`)}
              ${answer.facts.length ? "" : html`<li class="failed">${answer.refusal}</li>`}</ul>`
        : html`<p class="verdict done">${sign("done")} Allowed: ${answer.command ? `one write may change the Cluster to ${answer.to} now.` : "nothing to do."}</p>
            ${answer.command ? html`<pre><code>${answer.command}</code></pre>` : ""}`}
      ${answer.noWay ? noPlanView(answer.noWay) : ""}
      ${answer.undecided ? html`<p>The search for a plan stopped without a result: <code>csctl plan --timeout</code> searches longer.</p>` : ""}
      ${answer.steps.length ? stepsView(answer.steps) : ""}
      ${answer.warnings.map((one) => html`<p class="notice">${one}</p>`)}
    </div>
  `;
}

function noPlanView(refused) {
  return html`<p class="verdict failed">${sign("failed")} There is no plan: ${refused.message}</p>
    <ul class="findings">
      ${refused.facts.map((fact) => html`<li class="failed">${fact.text} ${source(fact.source)} <code>${fact.id}</code></li>`)}
    </ul>`;
}

function stepsView(steps) {
  return html`<h3>The plan: ${steps.length} ${steps.length === 1 ? "step" : "steps"}</h3>
    <ol class="path">
      ${steps.map(
        (step) => html`<li><span class="step">${step.title}</span><span class="since">${step.reason}</span>
          <details><summary>Commands</summary><pre><code>${step.commands.join("\n")}</code></pre></details></li>`,
      )}
    </ol>`;
}

function matrixSection({ matrix }, { ask }) {
  const found = matrix.document;
  return html`
    <section aria-labelledby="matrix">
      <h2 id="matrix">Compatible versions</h2>
      ${found ? "" : html`<button id="show-matrix" disabled=${matrix.busy} onClick=${() => ask("matrix", "matrix")}>Show the matrix</button>`}
      ${problemView(matrix)} ${found ? matrixView(found, matrix, ask) : ""}
    </section>
  `;
}

function matrixView(found, { checked }, ask) {
  const cell = ({ verdict, partly }) => html`${verdicts[verdict] ?? ""} ${verdict}${partly ? "*" : ""}`;
  const release = (row) => html`<tr key=${row.releases[0]}><th scope="row">${row.releases[0]}</th>
    ${found.kubernetes.map((minor) => {
      const one = row.kubernetes[minor];
      const query = { release: row.releases[0], kubernetes: minor };
      return html`<td class=${one.verdict}><button onClick=${() => ask("matrix", "check", query, "checked")}>${cell(one)}</button></td>`;
    })}</tr>`;
  const component = (row) => html`<tr><th scope="row">${row.component} ${row.version}${row.addon ? ` of addon ${row.addon}` : ""}</th>
    ${found.kubernetes.map((minor) => html`<td class=${row.kubernetes[minor].verdict}>${cell(row.kubernetes[minor])}</td>`)}</tr>`;
  return html`
    ${table("Releases with their own addons; a verdict opens its facts", ["Release", ...found.kubernetes], found.releases.map(release), "matrix-releases")}
    ${found.components.length ? table("Versions of components", ["Component", ...found.kubernetes], found.components.map(component), "matrix-components") : ""}
    <p class="hint">* not with every patch version</p>
    ${checkedView(checked ?? found.own, checked ? checked.release : "This Cluster")}
  `;
}

function checkedView(checked, title) {
  return html`<div role="status">${table(
    `${title} with Kubernetes ${checked.kubernetes}: ${checked.verdict}`,
    ["Verdict", "Fact", "Source"],
    checked.parts.map(
      (part) => html`<tr><td class=${part.verdict}>${verdicts[part.verdict] ?? ""} ${part.verdict}</td>
        <td>${part.text}${part.addon ? ` [addon ${part.addon}]` : ""}</td><td>${source(part.source)}</td></tr>`,
    ),
    "checked",
  )}</div>`;
}
