// What the network shows: the edges of a view above a threshold, and what marks each.

const { names } = data.graphs;
const UNCERTAIN = 0.1; // share of the other direction from which on a direction counts as uncertain

const edgeAt = new Map(); // source * n + target -> place among the directed edges
data.graphs.edges.source.forEach((source, k) => edgeAt.set(source * names.length + data.graphs.edges.target[k], k));
const bends = new Map(data.graphs.edges.bends);
const required = new Set(data.graphs.required.map(([i, j]) => i * names.length + j));

/** Probability of the edge i -> j; 0 where it is not listed. */
function edgeProbability(i, j) {
  const k = edgeAt.get(i * names.length + j);
  return k === undefined ? 0 : data.graphs.edges.p[k];
}

function directionUncertain(i, j) {
  const back = edgeProbability(j, i);
  return back > UNCERTAIN * (edgeProbability(i, j) + back);
}

/** Edges of a view: [{source, target, p, low, high, arrow, dashed, halo, faint, required, bends}]. */
function edgesOf(view, threshold) {
  const columns = data.graphs[view === "directed" ? "edges" : view];
  const found = [];
  for (let k = 0; k < columns.p.length; k++) {
    const [p, low, high] = [columns.p[k], columns.low[k], columns.high[k]];
    const open = low < threshold && high > threshold;
    if (p < threshold && !open) continue;
    const [i, j] = [columns.source[k], columns.target[k]];
    const arrow = view === "directed" || (view === "class" && columns.directed[k] === 1);
    found.push({
      source: i, target: j, p, low, high, arrow, halo: open, faint: p < threshold,
      dashed: view === "directed" && directionUncertain(i, j),
      required: required.has(i * names.length + j) || (!arrow && required.has(j * names.length + i)),
      bends: bends.get(edgeAt.get(i * names.length + j)),
    });
  }
  return found;
}

/** Edges of a sampled graph, as wide as they are probable. */
function edgesOfSample(sample) {
  return sample.edges.map((cell) => {
    const [i, j] = [Math.floor(cell / names.length), cell % names.length];
    return {
      source: i, target: j, p: edgeProbability(i, j), arrow: true, halo: false, faint: false, dashed: false,
      required: required.has(cell), bends: bends.get(edgeAt.get(cell)),
    };
  });
}

function forbiddenEdges() {
  return data.graphs.forbidden.map(([source, target]) => ({ source, target, p: 0, arrow: true, forbidden: true }));
}

/** In words, what is drawn. */
function viewText(edges, view, threshold, sample) {
  if (view === "samples") {
    const { samples, n_samples: all } = data.graphs;
    const share = samples.length < all ? ` ${samples.length} of the ${all} graphs that were sampled are in this page, at even distances.` : "";
    return `Chain ${sample.chain}, draw ${sample.draw}: ${count(edges.length, "edge")}, log score ${sample.score} nats.${share}`;
  }
  const above = edges.filter((edge) => !edge.faint).length;
  const open = edges.filter((edge) => edge.halo).length;
  const what = { directed: "directed edge", pairs: "undirected edge", class: "edge" }[view];
  const text = `${count(above, what)} of probability ${threshold.toFixed(2)} or more`;
  if (!open) return text + ".";
  return `${text}; on ${count(open, "edge")} the Monte Carlo error crosses this threshold (halo).`;
}
