// Draws an object graph in columns from left to right as SVG, and the same objects as nested lists.

import { html, mark, sign, words } from "./elements.js";

const WIDTH = 216; // of a node
const HEIGHT = 56;
const COLUMN = WIDTH + 32; // five columns fit a window of 1280 pixels
const ROW = HEIGHT + 10;
const TITLE_CHARACTERS = 29;
const DETAIL_CHARACTERS = 33;

// Returns the nodes without parents, and the children of each node. A node is the child of its first parent only.
function trees({ nodes, edges }) {
  const children = nodes.map(() => []);
  const placed = new Set();
  for (const [from, to] of edges) {
    if (!placed.has(to)) children[from].push(to);
    placed.add(to);
  }
  return { roots: [...nodes.keys()].filter((index) => !placed.has(index)), children };
}

// Returns the nodes with column and row. The column is the longest path from a root; a node is beside the middle of its
// children, and leaves follow one another, so that edges of a tree never cross.
function layout(graph) {
  const { roots, children } = trees(graph);
  const columns = graph.nodes.map(() => 0);
  for (const [from, to] of graph.edges) {
    columns[to] = Math.max(columns[to], columns[from] + 1); // the server adds parents before their children
  }
  const rows = [];
  let next = 0;
  const place = (index) => {
    children[index].forEach(place);
    const own = children[index].map((child) => rows[child]);
    rows[index] = own.length ? (own[0] + own[own.length - 1]) / 2 : next++;
  };
  roots.forEach(place);
  return graph.nodes.map((node, index) => ({ ...node, x: columns[index] * COLUMN, y: rows[index] * ROW }));
}

function shortened(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

// Splits "Machine one-pool-1", but not "workers pool".
function kindAndName(title) {
  const found = /^([A-Z]\w+):? (.+)$/.exec(title);
  return found ? found.slice(1) : ["", title];
}

function edgePath(from, to) {
  const [x, y, end, middle] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
  return `M${x},${y} C${x + 16},${y} ${end - 16},${middle} ${end},${middle}`;
}

export function graphView(graph) {
  const placed = layout(graph);
  const width = Math.max(...placed.map((one) => one.x)) + WIDTH + 4;
  const height = Math.max(...placed.map((one) => one.y)) + HEIGHT + 4;
  return html`
    <div class="graph" tabindex="0" role="group" aria-label="Object graph; the list below has the same content">
      <svg width=${width} height=${height} viewBox=${`-2 -2 ${width} ${height}`} aria-hidden="true">
        ${graph.edges.map(([from, to]) => html`<path d=${edgePath(placed[from], placed[to])} />`)}
        ${placed.map(
          (one) => html`
            <g class=${`node ${one.state}`} transform=${`translate(${one.x},${one.y})`}>
              <title>${one.title}: ${words[one.state]}. ${one.detail}</title>
              <rect width=${WIDTH} height=${HEIGHT} rx="5" />
              <text class="detail" x="26" y="15">${kindAndName(one.title)[0]}</text>
              <text class="sign" x="9" y="31">${mark[one.state]}</text>
              <text x="26" y="31">${shortened(kindAndName(one.title)[1], TITLE_CHARACTERS)}</text>
              <text class="detail" x="9" y="48">${shortened(one.detail, DETAIL_CHARACTERS)}</text>
            </g>
          `,
        )}
      </svg>
    </div>
  `;
}

export function objectList(graph) {
  const { roots, children } = trees(graph);
  const item = (index) => {
    const { state, title, detail } = graph.nodes[index];
    const below = children[index];
    return html`<li>${sign(state)} ${title} <span class="since">${detail}</span>${below.length ? html`<ul>${below.map(item)}</ul>` : ""}</li>`;
  };
  return html`<ul class="objects">${roots.map(item)}</ul>`;
}
