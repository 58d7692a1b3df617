// One node: its parents, its tables, its Markov blanket, its missing cells, and what it answers.

let inspected = null;

function startInspector() {
  const chooser = byId("node");
  names.forEach((name, k) => chooser.append(make("option", { value: String(k) }, short(name, 60))));
  chooser.addEventListener("change", () => inspect(Number(chooser.value)));
  inspect(mostConnected());
}

/** The node with the most expected edges: a good one to begin with. */
function mostConnected() {
  const total = names.map(() => 0);
  const { source, target, p } = data.graphs.edges;
  p.forEach((value, k) => { total[source[k]] += value; total[target[k]] += value; });
  return total.indexOf(Math.max(...total));
}

/** Show a node; where the keyboard asked for it, take the reader there. */
function inspect(node, go = false) {
  inspected = node;
  here = node;
  byId("node").value = String(node);
  byId("inspector-heading").replaceChildren("Inspector: ", nameElement(names[node]));
  network.nodes().unselect();
  network.$id(`n${node}`).select();
  if (stepsShown()) {
    drawNetwork();
    fitNetwork();
  } else markNear();
  byId("picked").replaceChildren("Inspecting ", nameElement(names[node]), ": ", make("a", { href: "#inspector" }, "to the inspector"), ".");
  const { missing } = data.nodes;
  byId("inspected").replaceChildren(
    ...parentSets(node),
    ...(missing ? [make("p", { class: "note" }, missing, " So there are no tables, no imputed cells and no queries here.")]
      : [...(data.nodes.numbers ? [...distribution(node), ...slopes(node)] : []), ...regressions(node), ...familyTables(node), ...query(node)]),
    ...blanket(node),
    ...(missing ? [] : missingCells(node)));
  announce(`Inspector shows ${names[node]}`);
  if (go) byId("inspector-heading").focus();
}

function setText(parents) {
  return parents.length ? parents.map((k) => visible(names[k])).join(", ") : "no parents";
}

function parentSets(node) {
  return [make("h3", {}, "Parents"), sortableTable("Most probable parent sets", [
    { head: "parents", value: (row) => setText(row.parents) },
    { head: "probability", value: (row) => row.p, text: (row) => probabilityText(row.p), number: true },
    ...(data.graphs.exact ? [] : [
      { head: "error", value: (row) => row.mcse, number: true },
      { head: "R-hat", value: (row) => row.r_hat, text: (row) => rHatText(row.r_hat), number: true }]),
  ], data.nodes.sets[node])];
}

/** Coefficients of the parent sets as logistic regressions. */
function regressions(node) {
  const families = data.nodes.regressions?.[node];
  if (!families) return [];
  const found = [make("h3", {}, "Coefficients"), make("p", { class: "note" },
    "Of a logistic regression on the parents, whose second states count as +1 and first ones as -1: posterior mean, and the "
    + "interval that holds the coefficient with 95% probability.")];
  for (const family of families) {
    const parents = setText(family.parents);
    if (family.why) {
      found.push(make("p", { class: "note" }, nameElement(parents), `: ${family.why}.`));
      continue;
    }
    const share = family.share === null ? ""
      : `; a regression and no table with probability ${probabilityText(family.share)}`;
    found.push(sortableTable(`${visible(names[node])} = ${visible(data.nodes.states[node][1])}, given ${parents}${share}`, [
      { head: "coefficient", value: (k) => (k === 0 ? "bias" : names[family.parents[k - 1]]) },
      { head: "mean", value: (k) => family.mean[k], text: (k) => family.mean[k].toFixed(3), number: true },
      { head: "95% low", value: (k) => family.low[k], text: (k) => family.low[k].toFixed(3), number: true },
      { head: "95% high", value: (k) => family.high[k], text: (k) => family.high[k].toFixed(3), number: true },
    ], Array.from(family.mean.keys()), 12));
  }
  return found;
}

function familyTables(node) {
  const tables = data.nodes.tables[node];
  if (!tables.length) return [];
  const states = data.nodes.states[node];
  const found = [make("h3", {}, "Tables"), make("p", { class: "note" },
    "Probability of each state given the parents: posterior mean, and the interval that holds it with 95% probability.")];
  for (const table of tables) {
    if (table.why) {
      found.push(make("p", { class: "note" }, nameElement(setText(table.parents)), `: ${table.why}.`));
      continue;
    }
    found.push(sortableTable(`${visible(names[node])} given ${setText(table.parents)}`, [
      ...table.parents.map((parent, at) => ({
        head: nameElement(names[parent]), csv: names[parent], value: (k) => data.nodes.states[parent][table.given[k][at]],
      })),
      ...states.map((state, at) => ({
        head: nameElement(state), csv: state, value: (k) => table.mean[k][at], number: true,
        text: (k) => make("span", { class: "entry" }, probabilityText(table.mean[k][at]), " ",
          make("small", {}, `${probabilityText(table.low[k][at])}\u2013${probabilityText(table.high[k][at])}`)),
      })),
      { head: "cases", value: (k) => table.cases[k], number: true },
    ], Array.from(table.mean.keys()), 12));
  }
  return found;
}

function blanket(node) {
  const members = data.nodes.blankets[node];
  return [make("h3", {}, "Markov blanket"), members.length
    ? sortableTable("What else matters, when all of these are known nothing does", [
      { head: "member", value: ([member]) => names[member] },
      { head: "probability", value: ([, p]) => p, text: ([, p]) => probabilityText(p), number: true },
      { head: "error", value: ([, , error]) => error, number: true },
    ], members)
    : make("p", { class: "note" }, "No column belongs to it with a probability of 0.01 or more.")];
}

function missingCells(node) {
  const { why, columns } = data.nodes.cells;
  if (why) return [make("h3", {}, "Missing cells"), make("p", { class: "note" }, why)];
  const own = columns[node];
  if (!own || own.n === 0) return [];
  const states = data.nodes.states[node];
  const left = own.n > own.rows.length ? ` The first ${own.rows.length} of ${own.n}.` : "";
  return [make("h3", {}, "Missing cells"),
    make("p", { class: "note" }, `${own.mean ? "Posterior mean, and the interval that holds the number with 95% probability" : "Probability of each state"}`
      + `, with Monte Carlo errors of at most ${own.mcse}.${left}`),
    sortableTable(`Missing cells of ${visible(names[node])}; rows are counted from 0`, [
      { head: "row", value: (k) => own.rows[k], number: true },
      ...(own.mean ? [["mean", own.mean], ["95% low", own.low], ["95% high", own.high]].map(([head, values]) => ({
        head, value: (k) => values[k], number: true,
      })) : states.map((state, at) => ({
        head: nameElement(state), csv: state, value: (k) => own.p[k][at], text: (k) => probabilityText(own.p[k][at]), number: true,
      }))),
    ], Array.from(own.rows.keys()), 10)];
}
