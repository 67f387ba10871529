// The view of one Cluster: its state, objects, upgrade, compatible versions, deliveries and events.

import { age, Command, html, mark, sign, since, source, stateWord, table, verdict } from "./elements.js";
import { graphView, objectList } from "./graph.js";

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
    </section>
    <section aria-labelledby="objects">
      <h2 id="objects">Objects</h2>
      ${graphView(one.graph)}
      <details><summary>Objects as a list</summary>${objectList(one.graph)}</details>
    </section>
    ${deliveredSection(state, actions)} ${upgradeSection(state, actions)} ${matrixSection(state, actions)}
    ${deliveriesSection(one.deliveries)} ${eventsSection(state)} ${changesSection(one.changes)}
  `;
}

function changesSection(changes) {
  const row = (one) => ({ key: one.type, cells: [one.type, one.status, one.reason, one.message, age(one.lastTransitionTime)] });
  const columns = ["Condition", "Status", "Reason", "Message", "Age"];
  return html`
    <section aria-labelledby="changes">
      <h2 id="changes">Last changes</h2>
      ${table("conditions", "Conditions of the addons, the last change first", columns, changes.map(row))}
    </section>
  `;
}

function deliveredSection({ document, route, objects }, { ask }) {
  const { document: found, busy } = objects;
  const drift = `csctl drift ${document.namespace}/${document.name}${route.context ? ` --context ${route.context}` : ""}`;
  return html`
    <section aria-labelledby="delivered">
      <h2 id="delivered">Delivered objects</h2>
      <button id="compare" disabled=${busy} onClick=${() => ask("objects", "objects")}>Compare with the workload cluster</button>
      <span class="since"> Nothing is changed. Fields that differ are named with who set them, without their values.</span>
      ${problemView(objects)} ${(found?.warnings ?? []).map((one) => html`<p class="notice">${one}</p>`)}
      ${(found?.owners ?? []).map(ownerView)} ${found ? html`<${Command} text=${drift} />` : ""}
    </section>
  `;
}

// The objects of an addon or sync, open if one of them is not well.
function ownerView({ name, objects }) {
  const [failed, working, done] = ["failed", "working", "done"].map((state) => objects.filter((one) => one.state === state));
  const troubled = failed.length + working.length;
  const worst = failed.length ? "failed" : working.length ? "working" : "done";
  const count = `${objects.length} ${objects.length === 1 ? "object" : "objects"}, ${troubled || "none"} troubled`;
  return html`<details key=${name} class="owner" open=${troubled > 0}>
    <summary>${sign(worst)} <b>${name}</b> <span class="since">${count}</span></summary>
    <ul class="findings">${[...failed, ...working, ...done].map(deliveredObject)}</ul>
  </details>`;
}

function deliveredObject({ title, state, health, change, fields, error }) {
  const said = [health, change].filter(Boolean).join(", ") || "healthy";
  return html`<li class=${state}>
    ${sign(state)} ${title} <span class="since">${said}</span>
    ${fields.length ? html`<ul>${fields.map((one) => html`<li><code>${one}</code></li>`)}</ul>` : ""} ${error}
  </li>`;
}

function deliveriesSection(deliveries) {
  const columns = ["Began", "Delivery", "Result", "Objects"];
  return html`
    <section aria-labelledby="deliveries">
      <h2 id="deliveries">Deliveries</h2>
      ${deliveries.length
        ? table("deliveries-list", "Last deliveries of the addons, the newest first", columns, deliveries.map(deliveryRow))
        : html`<p class="hint">The history in this management cluster has no delivery to this Cluster.</p>`}
    </section>
  `;
}

function deliveryRow({ began, title, state, outcome, failure, numbers, changes }) {
  const change = ([addon, what, name]) => html`<li>${addon ? html`<b>${addon}</b>` : `${what} ${name}`}</li>`;
  const result = html`${state ? sign(state) : ""} ${outcome}${failure ? html`<br />${failure}` : ""}`;
  const objects = changes.length ? html`<details><summary>${numbers}</summary><ul class="changes">${changes.map(change)}</ul></details>` : numbers;
  return { key: began, named: 1, cells: [age(began), title, result, objects] };
}

function eventsSection({ document, events }) {
  const { document: found, problem } = events;
  const rows = found?.events.map(eventRow) ?? [];
  const columns = ["Last seen", "Type", "Reason", "Object", "Message"];
  return html`
    <section aria-labelledby="events">
      <h2 id="events">Events</h2>
      ${problem ? html`<p class="notice failed" role="status">${mark.failed} The events cannot be read: ${problem}</p>` : ""}
      ${found || problem ? "" : html`<p aria-busy="true">Loading …</p>`}
      ${(found?.notices ?? []).map((one) => html`<p class="notice">${one}</p>`)}
      ${rows.length ? table("events-list", "Events of the Cluster, its addons and its release, the newest first", columns, rows) : ""}
      ${found && !rows.length ? html`<p class="hint">The API server has no events of this Cluster; it keeps them for an hour by default.</p>` : ""}
      ${found?.more ? html`<p class="hint">${found.more} older events: <code>kubectl events --namespace ${document.namespace}</code></p>` : ""}
    </section>
  `;
}

function eventRow({ lastSeen, type, reason, subject, message }) {
  const warning = type === "Warning";
  return { named: 2, kind: warning ? "warning" : "", cells: [age(lastSeen), `${warning ? "⚠ " : ""}${type}`, reason, subject, message] };
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
      ${problemView(upgrade)} ${upgrade.document ? answerView(upgrade.document, document) : ""}
    </section>
  `;
}

function answerView(answer, cluster) {
  const refused = !answer.allowed;
  return html`
    <div id="answer" class="answer">
      ${answer.upgrade ? html`<p>${mark.working} An upgrade is running: ${answer.upgrade.message}${since(answer.upgrade.since)}</p>` : ""}
      ${refused
        ? html`<p class="verdict failed">${sign("failed")} Refused now: one write may not change the Cluster to ${answer.to}.</p>
            <ul class="findings">${answer.facts.map((fact) => html`<li class="failed">${fact.text} <code>${fact.id}</code></li>`)}
              ${answer.facts.length ? "" : html`<li class="failed">${answer.refusal}</li>`}</ul>`
        : html`<p class="verdict done">${sign("done")} Allowed: ${answer.command ? `one write may change the Cluster to ${answer.to} now.` : "nothing to do."}</p>
            ${answer.command ? html`<${Command} text=${answer.command} />` : ""}`}
      ${answer.noWay ? noPlanView(answer.noWay) : ""}
      ${answer.undecided ? html`<p>The search for a plan stopped without a result: <code>csctl plan --timeout</code> searches longer.</p>` : ""}
      ${answer.steps.length ? pathView(answer, cluster) : ""}
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

// The plan as a path from the versions that the Cluster has to the target.
function pathView({ steps, to }, { release, kubernetes }) {
  const step = ({ title, reason, commands }) => html`<li><span class="step">${title}</span> <span class="since">${reason}</span>
    <details><summary>Commands</summary><${Command} text=${commands.join("\n")} /></details></li>`;
  return html`<h3>The plan: ${steps.length} ${steps.length === 1 ? "step" : "steps"}</h3>
    <div class="path">
      <p class="end">${release || "no addons"}, Kubernetes ${kubernetes}</p>
      <ol>${steps.map(step)}</ol>
      <p class="end">${to}</p>
    </div>`;
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
  const columns = (title) => [title, ...found.kubernetes];
  const said = ({ verdict: word, partly }) => verdict(word, `${word}${partly ? "*" : ""}`);
  const release = ({ releases: [own], kubernetes }) => {
    const check = (minor) => ask("matrix", "check", { release: own, kubernetes: minor }, "checked");
    return { key: own, cells: [own, ...found.kubernetes.map((minor) => html`<button onClick=${() => check(minor)}>${said(kubernetes[minor])}</button>`)] };
  };
  const component = ({ component, version, addon, kubernetes }) => ({
    cells: [`${component} ${version}${addon ? ` of addon ${addon}` : ""}`, ...found.kubernetes.map((minor) => said(kubernetes[minor]))],
  });
  return html`
    ${table("matrix-releases", "Releases with their own addons; a verdict opens its facts", columns("Release"), found.releases.map(release))}
    ${found.components.length ? table("matrix-components", "Versions of components", columns("Component"), found.components.map(component)) : ""}
    <p class="hint">* not with every patch version</p>
    ${checkedView(checked ?? found.own, checked ? checked.release : "This Cluster")}
  `;
}

function checkedView({ kubernetes, verdict: word, parts }, title) {
  const row = (part) => ({ cells: [verdict(part.verdict), `${part.text}${part.addon ? ` [addon ${part.addon}]` : ""}`, source(part.source)] });
  return html`<div role="status">
    ${table("checked", `${title} with Kubernetes ${kubernetes}: ${word}`, ["Verdict", "Fact", "Source"], parts.map(row))}
  </div>`;
}
