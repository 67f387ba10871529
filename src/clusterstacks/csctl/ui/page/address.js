// Addresses of views: "#/" is the fleet, "#/cluster/NAMESPACE/NAME" a Cluster. What the reader chose follows as a query,
// so that an address can be shared, and the browser goes back to it.

const decoded = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

// Returns the view of an address, the Cluster that it shows, and what was chosen.
export function read(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [view, namespace, name, ...rest] = path.split("/").map(decoded);
  const chosen = Object.fromEntries(new URLSearchParams(query));
  if (view === "cluster" && name && !rest.length) return { view, context: chosen.context ?? "", namespace, name };
  return { view: "fleet", chosen };
}

export function ofCluster({ context, namespace, name }, several) {
  const query = several ? `?${new URLSearchParams({ context })}` : "";
  return `#/cluster/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}${query}`;
}

// Returns the address of the fleet with other choices. Another choice than a page leads to the first page.
export function ofFleet(chosen, changes = {}) {
  const all = Object.entries({ ...chosen, page: "", ...changes }).filter(([, value]) => value);
  return all.length ? `#/?${new URLSearchParams(all)}` : "#/";
}
