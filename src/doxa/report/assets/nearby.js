// Large networks: the inspected node and what is within some steps of it, since no drawing of hundreds of nodes can be read.

const MANY_NODES = 60; // beyond, a neighbourhood is shown at first
const MOST_NEAR = 40; // nodes of one: those that come first are the nearest
const A_LINE = 8; // nodes side by side

function startNearby() {
  byId("near-box").hidden = names.length <= MANY_NODES;
  byId("near").value = names.length > MANY_NODES ? "2" : "0";
  byId("near").addEventListener("change", () => { drawNetwork(); fitNetwork(); });
}

/** Steps within which nodes are shown; 0: all are. */
function stepsShown() {
  return Number(byId("near").value);
}

/** The nodes within so many steps, nearest first, the surest edges before others; null: all. */
function nearbyNodes(edges, steps) {
  if (!steps) return null;
  const beside = new Map();
  for (const { source, target, p } of edges) {
    for (const [from, to] of [[source, target], [target, source]]) {
      if (!beside.has(from)) beside.set(from, []);
      beside.get(from).push([p, to]);
    }
  }
  const centre = inspected ?? mostConnected();
  const found = new Set([centre]);
  let ring = [centre];
  for (let step = 0; step < steps; step++) {
    const next = ring.flatMap((node) => beside.get(node) ?? []).sort((a, b) => b[0] - a[0]).map(([, node]) => node);
    ring = [...new Set(next)].filter((node) => !found.has(node)).slice(0, MOST_NEAR - found.size);
    ring.forEach((node) => found.add(node));
  }
  return found;
}

/** Show these nodes and no others, each below its parents; all of them where they were worked out to stand. */
function placeNodes(shown, edges) {
  const places = shown === null ? data.graphs.places : layers(shown, edges);
  network.nodes().forEach((element) => {
    const node = element.data("node");
    const away = shown !== null && !shown.has(node);
    element.toggleClass("away", away);
    if (!away) element.position({ x: places[node][0], y: places[node][1] });
  });
}

/** Edges without cycles: the surest first, and no other that would close one. */
function acyclic(edges) {
  const children = new Map();
  const leads = (from, to) => from === to || (children.get(from) ?? []).some((next) => leads(next, to));
  return [...edges].sort((one, other) => other.p - one.p).filter(({ source, target }) => {
    if (leads(target, source)) return false;
    children.set(source, [...(children.get(source) ?? []), target]);
    return true;
  });
}

/** Layer of each node: below all that leads to it, and just above the first that it leads to. */
function depths(shown, edges) {
  const depth = new Map([...shown].map((node) => [node, 0]));
  for (let moved = true; moved;) {
    moved = false;
    for (const { source, target } of edges) {
      if (depth.get(target) > depth.get(source)) continue;
      depth.set(target, depth.get(source) + 1);
      moved = true;
    }
  }
  for (const node of [...shown].sort((a, b) => depth.get(b) - depth.get(a))) {
    const below = edges.filter(({ source }) => source === node).map(({ target }) => depth.get(target));
    if (below.length) depth.set(node, Math.min(...below) - 1);
  }
  return depth;
}

/** Places in layers of lines of a few nodes, each node as near as can be to the mean of what leads to it. */
function layers(shown, edges) {
  const kept = acyclic(edges);
  const depth = depths(shown, kept);
  const places = {};
  const wide = (node) => network.$id(`n${node}`).data("width") + 30;
  let y = 0;
  for (const level of [...new Set(depth.values())].sort((a, b) => a - b)) {
    const layer = [...shown].filter((node) => depth.get(node) === level);
    const wish = new Map(layer.map((node) => {
      const above = kept.filter(({ source, target }) => target === node && places[source]).map(({ source }) => places[source][0]);
      return [node, above.length ? above.reduce((sum, x) => sum + x, 0) / above.length : 0];
    }));
    layer.sort((a, b) => wish.get(a) - wish.get(b));
    const lines = Math.ceil(layer.length / A_LINE);
    for (let line = 0; line < lines; line++) {
      const row = layer.filter((_, k) => k % lines === line);
      let x = (line % 2 ? 20 : -20) * (lines > 1) - row.reduce((sum, node) => sum + wide(node), 0) / 2;
      for (const node of row) {
        places[node] = [x + wide(node) / 2, y];
        x += wide(node);
      }
      y += 60;
    }
    y += 60;
  }
  return places;
}

/** In words, which nodes are shown; nothing where all are. */
function nearbyText(shown, steps) {
  if (shown === null) return "";
  const cut = shown.size >= MOST_NEAR ? `, the nearest ${MOST_NEAR} of those` : "";
  return ` Shown of ${names.length} nodes: ${visible(names[inspected ?? mostConnected()])} and ${count(shown.size - 1, "node")} within `
    + `${count(steps, "step")} of it${cut}. Click one to go there.`;
}
