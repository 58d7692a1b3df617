// Traces, ranks, R-hat and effective draws, and how far chains agree.

function startEvidence() {
  const { evidence, graphs } = data;
  const n = evidence.log_score.length;
  const thinned = thinnedText(evidence.step, evidence.n_draws);
  const box = byId("evidence-box");
  box.append(quantitiesTable("Run-wide quantities; R-hat should be below 1.01", "quantity", evidence.quantities, (row) => row.name),
    chainLegend(n));
  const figures = make("div", { class: "plots" });
  figures.append(
    traceFigure("Trace of the log score", evidence.draws, evidence.log_score, "nats", thinned),
    traceFigure("Trace of the number of edges", evidence.draws, evidence.n_edges, "edges", thinned),
    rankFigure("Ranks of the log score", evidence.ranks.log_score),
    rankFigure("Ranks of the number of edges", evidence.ranks.n_edges));
  if (!graphs.exact && n > 1) figures.append(agreementFigure());
  if (!graphs.exact) figures.append(essFigure("edge", graphs.edges.ess, graphs.edges.r_hat));
  box.append(figures);
  if (!graphs.exact && n > 1) box.append(make("h3", {}, "Where chains differ most"), differenceTable());
}

function agreementFigure() {
  const { p, chains } = data.graphs.edges;
  const order = Array.from(p.keys()).sort((a, b) => p[a] - p[b]);
  const pooled = order.map((k) => p[k]);
  const worst = Math.max(...spreads());
  return plotFigure("Edge probabilities, chain by chain", "Each point is an edge in one chain; on the line where it agrees with all.",
    `The largest difference between two chains is ${worst.toFixed(3)}.`, () => ({
      series: [{ stroke: colour("soft"), width: 1, dash: [4, 4], points: { show: false } },
        ...chains.map((_, chain) => pointSeries(chainColour(chain), "transparent"))],
      values: [pooled, pooled, ...chains.map((chain) => order.map((k) => chain[k]))],
      x: "probability, all chains", y: "probability, one chain",
      extra: { scaleX: { range: [-0.02, 1.02] }, scaleY: { range: [-0.02, 1.02] } },
    }));
}

/** Of each listed edge, the largest difference between two chains. */
function spreads() {
  const { p, chains } = data.graphs.edges;
  return p.map((_, k) => {
    const own = chains.map((chain) => chain[k]);
    return Math.max(...own) - Math.min(...own);
  });
}

function differenceTable() {
  const { edges } = data.graphs;
  const spread = spreads();
  const rows = Array.from(spread.keys()).sort((a, b) => spread[b] - spread[a]).slice(0, 50);
  return sortableTable("Edge probabilities by chain", [
    { head: "from", value: (k) => names[edges.source[k]] },
    { head: "to", value: (k) => names[edges.target[k]] },
    { head: "largest difference", value: (k) => Number(spread[k].toFixed(4)), text: (k) => spread[k].toFixed(3), number: true },
    ...edges.chains.map((chain, c) => ({ head: `chain ${c}`, value: (k) => chain[k], text: (k) => probabilityText(chain[k]), number: true })),
    { head: "R-hat", value: (k) => edges.r_hat[k], text: (k) => rHatText(edges.r_hat[k]), number: true },
  ], rows, 8);
}

/** The tables of edges, pairs and knowledge. */
function startTables() {
  const { edges, pairs, class: classes, required: must, forbidden, unseen } = data.graphs;
  const columns = (of, heads) => [
    { head: heads[0], value: (k) => names[of.source[k]] },
    { head: heads[1], value: (k) => names[of.target[k]] },
    { head: "probability", value: (k) => of.p[k], text: (k) => probabilityText(of.p[k]), number: true },
    ...(of.p.every((p, k) => p === of.low[k] && p === of.high[k]) ? [] : [
      { head: "95% low", value: (k) => of.low[k], text: (k) => probabilityText(of.low[k]), number: true },
      { head: "95% high", value: (k) => of.high[k], text: (k) => probabilityText(of.high[k]), number: true }]),
  ];
  const rows = (of) => Array.from(of.p.keys());
  const box = byId("tables-box");
  box.append(make("h3", {}, "Directed edges"), make("p", { class: "note" }, `Expected number of edges: ${data.graphs.expected_edges}. ${unseen}`),
    sortableTable(`Directed edges${data.graphs.exact ? "" : ", with the Monte Carlo interval of each probability"}`, [
      ...columns(edges, ["from", "to"]),
      ...(data.graphs.exact ? [] : [
        { head: "effective draws", value: (k) => edges.ess[k], number: true },
        { head: "R-hat", value: (k) => edges.r_hat[k], text: (k) => rHatText(edges.r_hat[k]), number: true }]),
      ...(data.nodes.slopes ? slopeColumns(edges) : []),
    ], rows(edges)),
    make("h3", {}, "Undirected edges"), sortableTable("Pairs joined in either direction", columns(pairs, ["one", "other"]), rows(pairs), 10),
    make("h3", {}, "Equivalence classes"), sortableTable("Edges of equivalence classes", [
      ...columns(classes, ["from", "to"]),
      { head: "kind", value: (k) => (classes.directed[k] ? "directed" : "undirected") },
    ], rows(classes), 10));
  const { effects } = data.nodes;
  if (effects) box.append(make("h3", {}, "Causal effects"), make("p", { class: "note" }, effects.why || effects.assumes));
  if (effects && effects.rows) box.append(effectsTable(effects));
  const known = [...must.map((edge) => [...edge, "required"]), ...forbidden.map((edge) => [...edge, "forbidden"])];
  if (known.length) {
    box.append(make("h3", {}, "Knowledge that was given"), sortableTable("Required and forbidden edges", [
      { head: "from", value: (row) => names[row[0]] },
      { head: "to", value: (row) => names[row[1]] },
      { head: "kind", value: (row) => row[2] },
    ], known, 10));
  }
}

function effectsTable({ rows, levels }) {
  const number = (head, at) => ({ head, value: (row) => row[at], number: true });
  return sortableTable("Effects of setting a column, averaged over networks: mean and credible interval", [
    { head: "of", value: (row) => names[row[0]] },
    { head: "from", value: (row) => levels[row[0]][0] },
    { head: "to", value: (row) => levels[row[0]][1] },
    { head: "on", value: (row) => (row[2] === null ? `mean of ${names[row[1]]}` : `P(${names[row[1]]} = ${row[2]})`) },
    number("effect", 3), number("95% low", 4), number("95% high", 5), number("P(no effect)", 6),
  ], rows, 12);
}
