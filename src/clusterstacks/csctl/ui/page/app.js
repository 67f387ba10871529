// Requests documents from the server, follows its events, and draws the view of the address.

import * as address from "./address.js";
import { clusterView } from "./cluster.js";
import { html, place, render, stateWord } from "./elements.js";
import { fleetView } from "./fleet.js";
import { frame, messageView } from "./frame.js";

const TICK_MILLISECONDS = 15_000; // at this interval ages are drawn again, and events of the open Cluster are read

const empty = { busy: false, document: null, problem: "" };

// Answers about the open Cluster, by section.
const unasked = () => ({ events: empty, objects: empty, upgrade: { ...empty, to: "" }, matrix: { ...empty, checked: null } });

const state = {
  route: address.read(location.hash),
  document: null, // of the route
  problem: "",
  live: "connecting", // "connecting", "live" or "lost"
  ...unasked(),
};

let revision = 0; // of the snapshot that the server has
let shown = -1; // of the document on the page
let loading = false;
let states = new Map(); // of the Clusters that were drawn last

async function request(path, query = {}) {
  const response = await fetch(`/api/${path}?${new URLSearchParams(query)}`).catch(() => {
    throw Object.assign(new Error("csctl ui does not answer"), { lost: true });
  });
  const document = await response.json().catch(() => ({ error: `csctl answered ${response.status}` }));
  if (!response.ok) throw new Error(document.error);
  return document;
}

// Loads the document of the route; changes during a request cause one more request, however many they are.
async function load() {
  if (loading) return;
  loading = true;
  try {
    while (shown < revision) {
      const route = state.route;
      const wanted = revision;
      try {
        const { view, chosen, ...query } = route;
        const found = await request(view, query);
        if (route !== state.route) continue;
        announce(found);
        const recovered = !isOut(found) && isOut(state.document);
        const opened = !state.document;
        Object.assign(state, { document: found, problem: "" });
        if (opened || recovered) readEvents();
      } catch (error) {
        if (route !== state.route) continue;
        const last = error.lost ? state.document : null; // the header says that it is old
        Object.assign(state, { document: last, problem: last ? "" : error.message });
      }
      shown = wanted;
      draw();
    }
  } finally {
    loading = false;
  }
}

// A Cluster is of one context.
function isOut(found) {
  return Boolean(found?.about[0]?.outage);
}

// Events are not watched: that would be three more watches for each open Cluster.
function readEvents() {
  const { route, document: found, events } = state;
  const useful = route.view === "cluster" && found && !isOut(found) && !document.hidden;
  if (useful && !events.busy) actions.ask("events", "events");
}

// Tells screen readers which Clusters changed their state; not the whole page.
function announce(found) {
  const clusters = found.clusters ?? [found];
  const several = found.about.length > 1;
  const next = new Map(clusters.map((one) => [place(`${one.namespace}/${one.name}`, one, several), `${stateWord(one)} ${one.reason}`.trim()]));
  const news = [...next].filter(([key, now]) => states.has(key) && states.get(key) !== now);
  states = next;
  if (news.length) {
    const some = news.slice(0, 3).map(([key, now]) => `Cluster ${key}: ${now}`);
    const more = news.length > 3 ? `, and ${news.length - 3} more` : "";
    document.getElementById("announcements").textContent = some.join(", ") + more;
  }
}

function content() {
  if (state.problem) return messageView(state.route, state.problem);
  if (!state.document) return html`<p aria-busy="true">Loading …</p>`;
  return state.route.view === "cluster" ? clusterView(state, actions) : fleetView(state, actions);
}

function draw() {
  render(frame(state, content()), document.getElementById("page"));
  const { route } = state;
  document.title = route.view === "cluster" ? `${route.namespace}/${route.name} – Cluster stacks` : "Cluster stacks";
}

function navigate() {
  if (location.hash === "#main") return focusHeading(); // the skip link
  const route = address.read(location.hash);
  if (route.view === "fleet" && state.route.view === "fleet") return choose(route.chosen);
  states = new Map();
  Object.assign(state, { route, document: null, problem: "" }, unasked());
  shown = -1;
  draw();
  load().then(focusHeading);
}

function choose(chosen) {
  state.route.chosen = chosen; // the same route: a document under way is still wanted
  draw();
}

function focusHeading() {
  document.querySelector("h1")?.focus();
}

const actions = {
  // Chooses what the fleet shows. The address follows without an entry of the browser's history for each letter.
  choose(changes) {
    const next = address.ofFleet(state.route.chosen, changes);
    history.replaceState(null, "", next);
    choose(address.read(next).chosen);
  },

  set(values) {
    Object.assign(state, values);
    draw();
  },

  // Puts the answer of the server about the open Cluster into a field of a section.
  async ask(section, path, query = {}, field = "document") {
    const { route } = state;
    const { context, namespace, name } = route;
    const change = (values) => {
      if (route !== state.route) return; // the reader went on
      state[section] = { ...state[section], ...values };
      draw();
    };
    change({ busy: true });
    try {
      change({ busy: false, problem: "", [field]: await request(path, { context, namespace, name, ...query }) });
    } catch (error) {
      change({ busy: false, problem: error.message });
    }
  },
};

function follow() {
  const events = new EventSource("/events");
  events.onmessage = (event) => {
    if (state.live !== "live") shown = -1; // what happened meanwhile is not known
    state.live = "live";
    revision = Number(event.data);
    shown = Math.min(shown, revision - 1);
    draw();
    load();
  };
  events.onerror = () => {
    state.live = "lost";
    draw();
  };
}

window.addEventListener("hashchange", navigate);
document.addEventListener("visibilitychange", readEvents);
setInterval(() => {
  draw();
  readEvents();
}, TICK_MILLISECONDS);
draw();
follow();
