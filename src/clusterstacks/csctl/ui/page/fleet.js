// The view of the fleet: which Clusters the reader chose, in which order, and their tables.

import { ofFleet } from "./address.js";
import { clusterLink, html, sign, since, stateWord, table, words } from "./elements.js";

const PAGE = 50; // Clusters on a page

const RANKS = ["failed", "working", "done"]; // what needs a person comes first

// What a Cluster can be filtered and grouped by, besides its labels.
const FIELDS = {
  context: (one) => one.context,
  namespace: (one) => one.namespace,
  class: (one) => one.class.wanted,
  release: (one) => one.group,
};

const name = (one) => `${one.namespace}/${one.name}`;

// Columns of the Clusters: the value by which they are sorted, and the cell.
const COLUMNS = [
  { title: "Cluster", key: "name", value: name, cell: clusterLink },
  { title: "State", key: "state", value: (one) => RANKS.indexOf(one.state), cell: (one) => html`${sign(one.state, stateWord(one))} ${stateWord(one)}` },
  { title: "Context", key: "context", value: FIELDS.context, cell: FIELDS.context },
  { title: "Release", key: "release", value: FIELDS.release, cell: (one) => one.release },
  { title: "Kubernetes", key: "kubernetes", value: (one) => one.kubernetes, cell: (one) => one.kubernetes },
  { title: "Stage", key: "stage", value: (one) => one.stage.number, cell: stageCell },
  { title: "Reason", key: "reason", value: (one) => one.reason, cell: (one) => html`${one.reason}${since(one.since)}` },
  { title: "Message", cell: (one) => one.message },
];

function stageCell({ stage: { number, total, current } }) {
  return total ? html`<span title=${current}>${number} of ${total}</span>` : "";
}

function field(one, key) {
  if (Object.hasOwn(FIELDS, key)) return FIELDS[key](one);
  return Object.hasOwn(one.labels, key) ? one.labels[key] : "";
}

// Returns the Clusters that have every word of the filter: "namespace=team-a" and "stage=prod" name a field or a label,
// other words are part of what the table shows.
function matching(clusters, { q = "", troubled }) {
  const terms = q.split(/\s+/).filter(Boolean);
  const has = (one) => {
    const text = [name(one), one.group, one.class.wanted, one.kubernetes, one.reason, one.message].join(" ").toLowerCase();
    return (term) => {
      const [key, ...value] = term.split("=");
      return value.length ? field(one, key) === value.join("=") : text.includes(term.toLowerCase());
    };
  };
  return clusters.filter((one) => (!troubled || one.state !== "done") && terms.every(has(one)));
}

// Returns the Clusters by a column, in reverse with "-KEY"; equal ones, and all without a column, are by state and name.
function sorted(clusters, key = "state") {
  const direction = key.startsWith("-") ? -1 : 1;
  const byName = (one, other) => compare(name(one), name(other));
  const byState = (one, other) => RANKS.indexOf(one.state) - RANKS.indexOf(other.state);
  const { value } = COLUMNS.find((column) => column.key === key.replace("-", "")) ?? COLUMNS[1];
  return [...clusters].sort((one, other) => direction * compare(value(one), value(other)) || byState(one, other) || byName(one, other));
}

function compare(one, other) {
  if (typeof one === "number") return one - other;
  return one.localeCompare(other, "en", { numeric: true });
}

function groups(clusters, by) {
  const found = new Map();
  for (const one of clusters) {
    const value = field(one, by);
    found.set(value, [...(found.get(value) ?? []), one]);
  }
  const troubled = (members) => members.filter((one) => one.state !== "done").length;
  return [...found]
    .map(([value, members]) => ({ value, members, troubled: troubled(members), ready: members.filter((one) => one.ready).length }))
    .sort((one, other) => other.troubled - one.troubled || compare(one.value, other.value));
}

export function fleetView({ document, route }, { choose }) {
  const { chosen } = route;
  const { clusters } = document;
  const several = document.about.length > 1;
  const found = sorted(matching(clusters, chosen), chosen.sort);
  const page = Math.min(Math.max(1, Number(chosen.page) || 1), Math.max(1, Math.ceil(found.length / PAGE)));
  const shown = found.slice((page - 1) * PAGE, page * PAGE);
  const columns = COLUMNS.filter((one) => several || one.key !== "context");
  const row = (one) => ({ key: `${one.context} ${name(one)}`, kind: one.state, cells: columns.map(({ cell }) => cell(one, several)) });
  return html`
    <h1 tabindex="-1">Fleet</h1>
    ${countsView(clusters)}
    ${document.support.map((line) => html`<p class="notice support">${line}: <code>csctl compat calendar</code></p>`)}
    ${filterView(clusters, chosen, found.length, several, choose)}
    ${chosen.by ? groupsTable(found, chosen) : ""}
    ${table("clusters", "Clusters", columns.map((one) => header(one, chosen)), shown.map(row))}
    ${pagesView(found.length, page, chosen)}
    ${releasesTable(document, chosen, several)} ${stacksTable(document, several)}
  `;
}

function countsView(clusters) {
  const count = (state) => clusters.filter((one) => (one.ready ? "done" : one.state) === state).length;
  const troubled = clusters.filter((one) => one.state !== "done").length;
  return html`<p class="counts">
    <span>${clusters.length} Clusters</span>
    ${["done", "working", "failed"].map((one) => html`<span>${sign(one)} ${count(one)} ${words[one]} </span>`)}
    <span>${troubled ? html`<a href=${ofFleet({ troubled: 1 })}>${troubled} troubled</a>` : "none troubled"}</span>
  </p>`;
}

function filterView(clusters, chosen, found, several, choose) {
  const labels = [...new Set(clusters.flatMap((one) => Object.keys(one.labels)))].sort();
  const keys = [...Object.keys(FIELDS).filter((one) => several || one !== "context"), ...labels];
  return html`<form class="filter" role="search" onSubmit=${(event) => event.preventDefault()}>
    <label>Filter <input type="search" id="filter" placeholder="text or label=value" value=${chosen.q ?? ""} onInput=${(event) => choose({ q: event.target.value })} /></label>
    <label>Group by <select id="group" value=${chosen.by ?? ""} onChange=${(event) => choose({ by: event.target.value })}>
      <option value="">nothing</option>
      ${keys.map((one) => html`<option value=${one} selected=${one === chosen.by}>${one}</option>`)}
    </select></label>
    <label><input type="checkbox" id="troubled" checked=${Boolean(chosen.troubled)} onChange=${(event) => choose({ troubled: event.target.checked ? "1" : "" })} /> only troubled Clusters</label>
    <span role="status">${found} of ${clusters.length} Clusters</span>
  </form>`;
}

// A column's link sorts by it; a second click sorts in reverse.
function header({ title, key }, chosen) {
  if (!key) return title;
  const { sort = "state" } = chosen;
  const order = { [key]: "ascending", [`-${key}`]: "descending" }[sort];
  return { title, sorted: order, address: ofFleet(chosen, { sort: sort === key ? `-${key}` : key }) };
}

function groupsTable(clusters, chosen) {
  const rows = groups(clusters, chosen.by).map(({ value, members, troubled, ready }) => {
    const q = [chosen.q, `${chosen.by}=${value}`].filter(Boolean).join(" ");
    const link = html`<a href=${ofFleet(chosen, { q, by: "" })}>${value || "(none)"}</a>`;
    return { key: value, cells: [html`${sign(sorted(members)[0].state)} ${link}`, members.length, ready, troubled] };
  });
  return table("groups", `Clusters by ${chosen.by}`, [chosen.by, "Clusters", "Ready", "Troubled"], rows);
}

function pagesView(total, page, chosen) {
  if (total <= PAGE) return "";
  const link = (number, text) => (number < 1 || number > Math.ceil(total / PAGE) ? "" : html`<a href=${ofFleet(chosen, { page: number })}>${text}</a>`);
  return html`<nav class="pages" aria-label="Pages of Clusters">
    ${link(page - 1, "← Previous")}
    <span>${(page - 1) * PAGE + 1} to ${Math.min(page * PAGE, total)} of ${total}</span>
    ${link(page + 1, "Next →")}
  </nav>`;
}

function releasesTable({ releases, stacks }, chosen, several) {
  // In a namespace without any of them, a release may also be one that the reader may not see.
  const visible = new Set([...stacks, ...releases.filter((one) => one.exists)].map((one) => `${one.context} ${one.namespace}`));
  const rows = releases.map((one) => {
    const hidden = !one.exists && !visible.has(`${one.context} ${one.namespace}`);
    const state = one.ready ? "done" : one.exists || hidden ? "working" : "failed";
    const word = one.ready ? "ready" : one.exists ? "not ready" : hidden ? "not visible" : "missing";
    const users = one.clusters ? html`<a href=${ofFleet(chosen, { q: `release=${one.release}`, by: "" })}>${one.clusters}</a>` : 0;
    const place = several ? [one.context] : [];
    return {
      key: `${one.context} ${one.namespace}/${one.release}`,
      cells: [one.release, ...place, one.namespace, html`${sign(state, word)} ${word}`, one.kubernetes, one.newer.join(", "), users],
    };
  });
  const columns = ["Release", ...(several ? ["Context"] : []), "Namespace", "Ready", "Kubernetes", "Newer", "Clusters"];
  return table("releases", "Releases", columns, rows);
}

function stacksTable({ stacks }, several) {
  const rows = stacks.map((one) => ({
    key: `${one.context} ${one.namespace}/${one.title}`,
    cells: [
      one.title.replace("ClusterStack ", ""),
      ...(several ? [one.context] : []),
      one.namespace,
      html`${sign(one.state)} ${words[one.state]}`,
      one.detail,
    ],
  }));
  return table("stacks", "ClusterStacks", ["ClusterStack", ...(several ? ["Context"] : []), "Namespace", "State", "Detail"], rows);
}
