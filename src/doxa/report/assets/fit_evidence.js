// Evidence that a fit has converged.

function startFitEvidence() {
  const { parts, steps, traces, ranks } = data.evidence;
  const named = (k) => `log density of ${partName(k)}`;
  const box = byId("evidence-box");
  box.append(quantitiesTable("Log density of each part, nats; R-hat should be below 1.01", "quantity", Array.from(parts.keys(), (k) => ({ ...parts[k], k })),
    (row) => named(row.k)), chainLegend(fitted.n_chains));
  const figures = make("div", { class: "plots" });
  figures.append(essFigure("parameter", fitted.ess, fitted.r_hat));
  const thinned = thinnedText(steps.length > 1 ? steps[1] - steps[0] : 1, fitted.n_draws);
  for (const { part, chains } of traces) {
    const name = named(part);
    figures.append(traceFigure(short(name[0].toUpperCase() + name.slice(1), 80), steps, chains, "nats", thinned));
  }
  for (const { parameter: k, chains } of ranks) figures.append(rankFigure(`Ranks of ${short(parameterName(k), 48)}`, chains));
  box.append(figures);
}
