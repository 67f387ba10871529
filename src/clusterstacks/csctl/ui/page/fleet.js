// The view of the fleet: which Clusters the reader chose, in which order, and the tables.

import { ofFleet } from "./address.js";
import { clusterLink, html, place, sign, since, stateWord, table, words } from "./elements.js";

const PAGE = 50; // Clusters on a page

const RANKS = ["failed", "working", "done"]; // what needs a person comes first

const name = (one) => `${one.namespace}/${one.name}`;

const rank = (one) => RANKS.indexOf(one.state);

const troubled = (clusters) => clusters.filter((one) => one.state !== "done");

// What Clusters are filtered and grouped by, besides their labels.
const FIELDS = {
  context: (one) => one.context,
  namespace: (one) => one.namespace,
  class: (one) => one.class.wanted,
  release: (one) => one.group,
};

// Columns of the Clusters: the cell, and the value by which they are sorted.
const COLUMNS = [
  { title: "Cluster", key: "name", value: name, cell: clusterLink },
  { title: "State", key: "state", value: rank, cell: (one) => html`${sign(one.state, stateWord(one))} ${stateWord(one)}` },
  { title: "Release", key: "release", value: FIELDS.release, cell: (one) => one.release },
  { title: "Kubernetes", key: "kubernetes", value: (one) => one.kubernetes, cell: (one) => one.kubernetes },
  { title: "Stage", key: "stage", value: (one) => one.stage.number, cell: stageCell },
  { title: "Reason", key: "reason", value: (one) => one.reason, cell: (one) => html`${one.reason}${since(one.since)}` },
  { title: "Message", key: "message", value: (one) => one.message, cell: (one) => one.message },
];

function stageCell({ stage: { number, total, current } }) {
  return total ? html`<span title=${current}>${number} of ${total}</span>` : "";
}

function field(one, key) {
  if (Object.hasOwn(FIELDS, key)) return FIELDS[key](one);
  return Object.hasOwn(one.labels, key) ? one.labels[key] : "";
}

// Returns the Clusters that have every word of the filter: "namespace=team-a" is a field, "stage=prod" a label, and other
// words are part of what the table shows.
function matching(clusters, chosen) {
  const terms = (chosen.q ?? "").split(/\s+/).filter(Boolean);
  const has = (one) => (term) => {
    const [key, ...value] = term.split("=");
    if (value.length) return field(one, key) === value.join("=");
    const texts = [name(one), one.group, one.class.wanted, one.kubernetes, one.reason, one.message];
    return texts.join(" ").toLowerCase().includes(term.toLowerCase());
  };
  return (chosen.troubled ? troubled(clusters) : clusters).filter((one) => terms.every(has(one)));
}

function compare(one, other) {
  return typeof one === "number" ? one - other : one.localeCompare(other, "en", { numeric: true });
}

// Returns the Clusters by the column of a key, in reverse with "-KEY"; equal ones are by state and name.
function sorted(clusters, key = "state") {
  const { value } = COLUMNS.find((column) => column.key === key.replace("-", "")) ?? { value: rank };
  const direction = key.startsWith("-") ? -1 : 1;
  const order = (one, other) =>
    direction * compare(value(one), value(other)) || rank(one) - rank(other) || compare(name(one), name(other));
  return [...clusters].sort(order);
}

export function fleetView({ document: { about, clusters, releases, stacks, support }, route: { chosen } }, { choose }) {
  const several = about.length > 1;
  const found = sorted(matching(clusters, chosen), chosen.sort);
  const pages = Math.max(1, Math.ceil(found.length / PAGE));
  const page = Math.min(Math.max(1, Number(chosen.page) || 1), pages);
  const row = (one) => ({
    key: place(name(one), one, true),
    kind: one.state,
    cells: COLUMNS.map(({ cell }) => cell(one, several)),
  });
  return html`
    <h1 tabindex="-1">Fleet</h1>
    ${countsView(clusters)}
    ${support.map((line) => html`<p class="notice support">${line}: <code>csctl compat calendar</code></p>`)}
    ${filterView(clusters, chosen, found.length, several, choose)}
    ${chosen.by ? groupsTable(found, chosen) : ""}
    ${table("clusters", "Clusters", headers(chosen), found.slice((page - 1) * PAGE, page * PAGE).map(row))}
    ${pages > 1 ? pagesView(found.length, page, pages, chosen) : ""}
    ${releasesTable(releases, stacks, several)} ${stacksTable(stacks, several)}
  `;
}

function countsView(clusters) {
  const count = (state) => clusters.filter((one) => (one.ready ? "done" : one.state) === state).length;
  const ill = troubled(clusters).length;
  return html`<p class="counts">
    <span>${clusters.length} Clusters </span>
    ${["done", "working", "failed"].map((one) => html`<span>${sign(one)} ${count(one)} ${words[one]} </span>`)}
    <span>${ill ? html`<a href=${ofFleet({ troubled: 1 })}>${ill} troubled</a>` : "none troubled"}</span>
  </p>`;
}

function filterView(clusters, { q = "", by = "", troubled: only }, found, several, choose) {
  const labels = [...new Set(clusters.flatMap((one) => Object.keys(one.labels)))].sort();
  const keys = [...Object.keys(FIELDS).filter((one) => several || one !== "context"), ...labels];
  return html`<form class="filter" role="search" onSubmit=${(event) => event.preventDefault()}>
    <label>
      Filter
      <input type="search" id="filter" placeholder="text or label=value" value=${q} onInput=${(event) => choose({ q: event.target.value })} />
    </label>
    <label>
      Group by
      <select id="group" onChange=${(event) => choose({ by: event.target.value })}>
        <option value="">nothing</option>
        ${keys.map((one) => html`<option value=${one} selected=${one === by}>${one}</option>`)}
      </select>
    </label>
    <label>
      <input type="checkbox" id="troubled" checked=${Boolean(only)} onChange=${(event) => choose({ troubled: event.target.checked && 1 })} />
      only troubled Clusters
    </label>
    <span role="status">${found} of ${clusters.length} Clusters</span>
  </form>`;
}

// The title of a column sorts by it, and then in reverse.
function headers(chosen) {
  const { sort = "state" } = chosen;
  return COLUMNS.map(({ title, key }) => ({
    title,
    sorted: sort === key ? "ascending" : sort === `-${key}` ? "descending" : null,
    address: ofFleet(chosen, { sort: sort === key ? `-${key}` : key }),
  }));
}

// Counts the Clusters of each group, those with the most troubled ones first. A group leads to its Clusters.
function groupsTable(clusters, chosen) {
  const groups = new Map(clusters.map((one) => [field(one, chosen.by), []]));
  for (const one of clusters) groups.get(field(one, chosen.by)).push(one);
  const row = ([value, members]) => {
    const q = `${chosen.q ?? ""} ${chosen.by}=${value}`.trim();
    const link = html`<a href=${ofFleet(chosen, { q, by: "" })}>${value || "(none)"}</a>`;
    const ready = members.filter((one) => one.ready).length;
    return { key: value, cells: [html`${sign(sorted(members)[0].state)} ${link}`, members.length, ready, troubled(members).length] };
  };
  const order = ([value, members], [other, others]) => troubled(others).length - troubled(members).length || compare(value, other);
  return table("groups", `Clusters by ${chosen.by}`, [chosen.by, "Clusters", "Ready", "Troubled"], [...groups].sort(order).map(row));
}

function pagesView(total, page, pages, chosen) {
  const link = (number, text) => html`<a href=${ofFleet(chosen, { page: number })}>${text}</a>`;
  return html`<nav class="pages" aria-label="Pages of Clusters">
    ${page > 1 ? link(page - 1, "← Previous") : ""}
    <span>${(page - 1) * PAGE + 1} to ${Math.min(page * PAGE, total)} of ${total}</span>
    ${page < pages ? link(page + 1, "Next →") : ""}
  </nav>`;
}

function releasesTable(releases, stacks, several) {
  // Where nothing else is visible, a release may be one that the reader may not see.
  const visible = new Set([...stacks, ...releases.filter((one) => one.exists)].map((one) => place(one.namespace, one, true)));
  const state = (one) => {
    if (one.exists) return one.ready ? ["done", "ready"] : ["working", "not ready"];
    return visible.has(place(one.namespace, one, true)) ? ["failed", "missing"] : ["working", "not visible"];
  };
  const row = (one) => {
    const [how, word] = state(one);
    const users = one.clusters ? html`<a href=${ofFleet({ q: `release=${one.release}` })}>${one.clusters}</a>` : 0;
    const cells = [one.release, place(one.namespace, one, several), html`${sign(how, word)} ${word}`, one.kubernetes, one.newer.join(", "), users];
    return { key: place(`${one.namespace}/${one.release}`, one, true), cells };
  };
  return table("releases", "Releases", ["Release", "Namespace", "Ready", "Kubernetes", "Newer", "Clusters"], releases.map(row));
}

function stacksTable(stacks, several) {
  const row = (one) => ({
    key: place(`${one.namespace}/${one.title}`, one, true),
    cells: [
      one.title.replace("ClusterStack ", ""),
      place(one.namespace, one, several),
      html`${sign(one.state)} ${words[one.state]}`,
      one.detail,
    ],
  });
  return table("stacks", "ClusterStacks", ["ClusterStack", "Namespace", "State", "Detail"], stacks.map(row));
}
