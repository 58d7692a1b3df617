// Figures and tables of chains, which more than one kind of page has.

function ordinal(k) {
  const end = k % 100 > 10 && k % 100 < 14 ? "th" : { 1: "st", 2: "nd", 3: "rd" }[k % 10] ?? "th";
  return `${k}${end}`;
}

/** How many of the draws a trace shows. */
function thinnedText(step, all) {
  return step > 1 ? `Every ${ordinal(step)} of ${all} draws is drawn.` : `All ${all} draws are drawn.`;
}

/** Means of quantities, with what their draws tell of the chains. */
function quantitiesTable(caption, head, rows, name) {
  return sortableTable(caption, [
    { head, value: name },
    { head: "mean", value: (row) => row.mean, number: true },
    { head: "Monte Carlo error", value: (row) => row.mcse, number: true },
    { head: "effective draws", value: (row) => row.ess, number: true },
    { head: "R-hat", value: (row) => row.r_hat, text: (row) => rHatText(row.r_hat), number: true },
  ], rows);
}

function meansText(chains, places = 1) {
  const means = chains.map((chain, k) => `chain ${k} ${(chain.reduce((a, b) => a + b, 0) / chain.length).toFixed(places)}`);
  return `Mean by chain: ${means.join(", ")}.`;
}

function traceFigure(title, draws, chains, unit, thinned) {
  return plotFigure(title, `Chains that agree overlap like one. ${thinned}`, meansText(chains), () => ({
    series: chains.map((_, chain) => lineSeries(chain)), values: [draws, ...chains], x: "draw", y: unit,
  }));
}

function rankFigure(title, chains) {
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

/** R-hat against effective draws, of edges or parameters. */
function essFigure(what, ess, r_hat) {
  const known = Array.from(ess.keys()).filter((k) => ess[k] > 0 && typeof r_hat[k] === "number").sort((a, b) => ess[a] - ess[b]);
  const above = known.filter((k) => r_hat[k] > 1.01).length;
  return plotFigure(`R-hat and effective draws of each ${what}`, `Above the dashed line, 1.01, chains differ about the ${what}.`,
    `${count(above, what)} of ${known.length} above 1.01.`, () => ({
      series: [{ stroke: colour("soft"), width: 1, dash: [4, 4], points: { show: false } }, pointSeries(colour("chain-0"), "transparent")],
      values: [known.map((k) => ess[k]), known.map(() => 1.01), known.map((k) => r_hat[k])],
      x: "effective draws", y: "R-hat",
      extra: { scaleX: { distr: 3 }, scaleY: { range: (_, low, high) => [Math.min(0.998, low), Math.max(1.02, high)] } },
    }));
}
