// Traces, ranks, R-hat and effective draws, and how far chains agree.

function startEvidence() {
  const { evidence, graphs } = data;
  const n = evidence.log_score.length;
  const thinned = evidence.step > 1 ? `Every ${ordinal(evidence.step)} of ${evidence.n_draws} draws is drawn.`
    : `All ${evidence.n_draws} draws are drawn.`;
  const box = byId("evidence-box");
  box.append(quantitiesTable(), chainLegend(n));
  const figures = make("div", { class: "plots" });
  figures.append(
    traceFigure("Trace of the log score", "log_score", "nats", thinned),
    traceFigure("Trace of the number of edges", "n_edges", "edges", thinned),
    rankFigure("Ranks of the log score", "log_score"),
    rankFigure("Ranks of the number of edges", "n_edges"));
  if (!graphs.exact && n > 1) figures.append(agreementFigure());
  if (!graphs.exact) figures.append(essFigure());
  box.append(figures);
  if (!graphs.exact && n > 1) box.append(make("h3", {}, "Where chains differ most"), differenceTable());
}

function ordinal(k) {
  const end = k % 100 > 10 && k % 100 < 14 ? "th" : { 1: "st", 2: "nd", 3: "rd" }[k % 10] ?? "th";
  return `${k}${end}`;
}

function quantitiesTable() {
  return sortableTable("Run-wide quantities; R-hat should be below 1.01", [
    { head: "quantity", value: (row) => row.name },
    { head: "mean", value: (row) => row.mean, number: true },
    { head: "Monte Carlo error", value: (row) => row.mcse, number: true },
    { head: "effective draws", value: (row) => row.ess, number: true },
    { head: "R-hat", value: (row) => row.r_hat, text: (row) => rHatText(row.r_hat), number: true },
  ], data.evidence.quantities);
}

function traceFigure(title, quantity, unit, thinned) {
  const { draws } = data.evidence;
  const chains = data.evidence[quantity];
  const means = chains.map((chain, k) => `chain ${k} ${(chain.reduce((a, b) => a + b, 0) / chain.length).toFixed(1)}`);
  return plotFigure(title, `Chains that agree overlap like one. ${thinned}`, `Mean by chain: ${means.join(", ")}.`, () => ({
    series: chains.map((_, chain) => lineSeries(chain)), values: [draws, ...chains], x: "draw", y: unit,
  }));
}

function rankFigure(title, quantity) {
  const chains = data.evidence.ranks[quantity];
  const bins = chains[0].length;
  const at = Array.from({ length: bins + 1 }, (_, k) => k / bins);
  const worst = Math.max(...chains.flat().map((share) => Math.abs(share - 1)));
  return plotFigure(title, "Share of each chain's draws at each rank among all; level at 1 where chains agree.",
    `The largest distance from 1 is ${worst.toFixed(2)}.`, () => ({
      series: chains.map((_, chain) => lineSeries(chain, { width: 2, paths: uPlot.paths.stepped({ align: 1 }) })),
      values: [at, ...chains.map((chain) => [...chain, chain.at(-1)])], x: "rank, as a share of all", y: "relative share",
      extra: { scaleY: { range: (_, low, high) => [Math.min(0.5, low), Math.max(1.5, high)] } },
    }));
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

function essFigure() {
  const { ess, r_hat } = data.graphs.edges;
  const known = Array.from(ess.keys()).filter((k) => ess[k] > 0 && typeof r_hat[k] === "number").sort((a, b) => ess[a] - ess[b]);
  const above = known.filter((k) => r_hat[k] > 1.01).length;
  return plotFigure("R-hat and effective draws of each edge", "Edges above the dashed line, 1.01, differ between chains.",
    `${count(above, "edge")} of ${known.length} above 1.01.`, () => ({
      series: [{ stroke: colour("soft"), width: 1, dash: [4, 4], points: { show: false } }, pointSeries(colour("chain-0"), "transparent")],
      values: [known.map((k) => ess[k]), known.map(() => 1.01), known.map((k) => r_hat[k])],
      x: "effective draws", y: "R-hat",
      extra: { scaleX: { distr: 3 }, scaleY: { range: (_, low, high) => [Math.min(0.998, low), Math.max(1.02, high)] } },
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
    sortableTable("Directed edges, with the Monte Carlo interval of each probability", [
      ...columns(edges, ["from", "to"]),
      { head: "effective draws", value: (k) => edges.ess[k], number: true },
      { head: "R-hat", value: (k) => edges.r_hat[k], text: (k) => rHatText(edges.r_hat[k]), number: true },
    ], rows(edges)),
    make("h3", {}, "Undirected edges"), sortableTable("Pairs joined in either direction", columns(pairs, ["one", "other"]), rows(pairs), 10),
    make("h3", {}, "Equivalence classes"), sortableTable("Edges of equivalence classes", [
      ...columns(classes, ["from", "to"]),
      { head: "kind", value: (k) => (classes.directed[k] ? "directed" : "undirected") },
    ], rows(classes), 10));
  const known = [...must.map((edge) => [...edge, "required"]), ...forbidden.map((edge) => [...edge, "forbidden"])];
  if (known.length) {
    box.append(make("h3", {}, "Knowledge that was given"), sortableTable("Required and forbidden edges", [
      { head: "from", value: (row) => names[row[0]] },
      { head: "to", value: (row) => names[row[1]] },
      { head: "kind", value: (row) => row[2] },
    ], known, 10));
  }
}
