// How a fit was drawn: its parts, the weights of their approximations, tours between regenerations.

/** The nodes of a part; of many, the first. */
function partName(k, most = 3) {
  const { nodes } = data.method.parts[k];
  const shown = nodes.slice(0, most).map(visible).join(", ");
  return nodes.length > most ? `${shown} and ${nodes.length - most} more` : shown;
}

function percent(share) {
  return typeof share === "number" ? `${(100 * share).toFixed(1)}%` : "";
}

function startMethod() {
  const { parts, n_parts, weights, tours, evidence, bound } = data.method;
  const box = byId("method-box");
  const total = evidence ? `Log marginal likelihood of the table: ${evidence} nats` : "The log marginal likelihood of the table is not known from these draws";
  box.append(make("p", {}, total + (bound === null ? "." : `; never below ${bound}.`)),
    make("p", { class: "note" }, "Parameters that share no missing cell are independent given the table: each such part was drawn by what suits it. "
      + "Efficiency is of the approximation alone: effective draws a draw, 1 where it is exact. A Pareto k below 0.5 says that no few weights rule."),
    partsTable(parts));
  if (n_parts > parts.length) box.append(make("p", { class: "note" }, `The first ${parts.length} of ${n_parts} parts.`));
  if (weights.length) box.append(make("h3", {}, "Weights of the approximation"), weightFigures(weights));
  for (const each of tours) box.append(...tourParts(each));
}

function partsTable(parts) {
  const chance = (part) => ["exact", "variational"].includes(part.method);
  return sortableTable("Parts of the posterior, and how they were drawn", [
    { head: "nodes", value: (k) => parts[k].nodes.join(", "), text: (k) => nameElement(partName(k, 8)) },
    { head: "method", value: (k) => parts[k].method },
    { head: "accepted", value: (k) => (chance(parts[k]) ? null : parts[k].acceptance), text: (k) => (chance(parts[k]) ? "" : percent(parts[k].acceptance)), number: true },
    { head: "by chain", value: (k) => (chance(parts[k]) ? null : `${percent(parts[k].lowest)} to ${percent(parts[k].highest)}`) },
    { head: "approximation", value: (k) => parts[k].approximation },
    { head: "efficiency", value: (k) => parts[k].efficiency, number: true },
    { head: "Pareto k", value: (k) => parts[k].tail, number: true },
    { head: "log evidence", value: (k) => parts[k].evidence, number: true },
    { head: "error", value: (k) => parts[k].error, number: true },
    { head: "why", value: (k) => parts[k].why, prose: true },
  ], Array.from(parts.keys()), 12);
}

function weightFigures(weights) {
  const figures = make("div", { class: "plots" });
  for (const { part, efficiency, largest, range: [low, high], share } of weights) {
    const at = Array.from({ length: share.length + 1 }, (_, k) => low + ((high - low) * k) / share.length);
    figures.append(plotFigure(`Weights of ${short(partName(part), 60)}`,
      `By how many nats the posterior is denser than the approximation, at the posterior's draws; 0 where they agree. `
        + `Efficiency ${efficiency} by these draws, largest weight ${largest}.`,
      `Log weights from ${low} to ${high} nats.`, () => ({
        series: [{ stroke: colour("bar"), fill: colour("bar-soft"), width: 1, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) }],
        values: [at, [...share, share.at(-1)]], x: "log weight, nats", y: "share of draws",
        extra: { scaleY: { range: (_, low_, top) => [0, 1.06 * top] } },
      })));
  }
  return figures;
}

function tourParts(each) {
  const name = partName(each.part);
  const found = [make("h3", {}, "Tours of ", nameElement(name))];
  const refits = each.refits ? ` The proposal was fitted anew ${count(each.refits, "time")}, always between two tours.` : "";
  if (!each.rows.length) return [...found, make("p", { class: "note" }, each.note)];
  found.push(make("p", { class: "note" },
    `Between regenerations, where a chain forgets its past, lie ${each.n} complete tours of ${each.mean} draws on average, at most ${each.longest}.${refits} `
    + `Tours are independent: errors by them need no burn-in.${each.note ? ` Note: ${each.note}.` : ""}`));
  const figures = make("div", { class: "plots" });
  figures.append(plotFigure("Lengths of tours", "How many tours have so many draws.", `At most ${each.longest} draws.`, () => ({
    series: [{ stroke: colour("bar"), fill: colour("bar-soft"), width: 1, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) }],
    values: [each.edges.map((edge) => edge - 0.5), [...each.counts, each.counts.at(-1)]], x: "draws in a tour", y: "tours",
    extra: { scaleY: { range: (_, low, top) => [0, 1.06 * top] }, wholeX: true },
  })), make("div", {}, sortableTable(`Means of ${name} by tours, and their errors by tours and by chains`, [
    { head: "node", value: (row) => row[0] },
    { head: "parameter", value: (row) => row[1] },
    { head: "mean by tours", value: (row) => row[2], number: true },
    { head: "error by tours", value: (row) => row[3], number: true },
    { head: "error by chains", value: (row) => row[4], number: true },
  ], each.rows, 10)));
  return [...found, figures];
}
