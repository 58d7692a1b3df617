// Marginals of an inference: a card with bars for each variable, the method, and the table of all.

const found = data.marginals;
const CARDS_AT_FIRST = 24;
const hasErrors = "mcse" in found;
let cardsShown = CARDS_AT_FIRST;

const begins = []; // of each variable, where its states begin among all that are held
found.names.reduce((at, _, k) => { begins.push(at); return at + (found.half ? 1 : found.labels[found.states[k]].length); }, 0);

/** States of a variable: [{label, p, low, high, mcse, ess}]; of two, the first is what the second leaves. */
function statesOf(k) {
  const labels = found.labels[found.states[k]];
  const held = (s, label) => {
    const at = begins[k] + s;
    const one = { label, p: found.p[at] };
    return !hasErrors ? one : { ...one, low: found.low[at], high: found.high[at], mcse: found.mcse[at], ess: found.ess[at] };
  };
  if (!found.half) return labels.map((label, s) => held(s, label));
  const second = held(0, labels[1]);
  const turned = (value) => (typeof value === "number" ? Number((1 - value).toFixed(5)) : value);
  return [{ ...second, label: labels[0], p: turned(second.p), low: turned(second.high), high: turned(second.low) }, second];
}

function estimateText({ p, mcse }) {
  if (!hasErrors || mcse === 0) return probabilityText(p, 4);
  if (typeof mcse !== "number") return `${probabilityText(p)}, error unknown`;
  const first = Math.floor(Math.log10(mcse));
  const places = Math.max(0, -first + (mcse < 2 * 10 ** first ? 1 : 0)); // two figures of the error where the first is 1
  return `${p.toFixed(places)} \u00b1 ${mcse.toFixed(places)}`;
}

function startMarginals() {
  const { n, left_out: left, names } = found;
  const what = found.exact ? "Exact probabilities: they have no Monte Carlo error."
    : !hasErrors ? "Probabilities of the approximation; their errors are not known."
      : "Probability and Monte Carlo error of each state; the whisker is its 95% interval.";
  byId("marginals-note").textContent = what + (left ? ` The first ${names.length} of ${n} variables are in this page.` : "");
  byId("finder").hidden = names.length < 7;
  byId("find").addEventListener("input", () => { cardsShown = CARDS_AT_FIRST; fillCards(); });
  byId("order").addEventListener("change", fillCards);
  if (!hasErrors) byId("order").querySelector("[value=error]").remove();
  byId("cards-more").addEventListener("click", () => { cardsShown += 4 * CARDS_AT_FIRST; fillCards(); });
  fillCards();
}

function chosenVariables() {
  const part = byId("find").value.trim().toLowerCase();
  const kept = Array.from(found.names.keys()).filter((k) => found.names[k].toLowerCase().includes(part));
  const key = {
    sure: (k) => Math.max(...statesOf(k).map((state) => state.p)),
    error: (k) => -Math.max(...statesOf(k).map((state) => state.mcse ?? 0)),
  }[byId("order").value];
  if (!key) return kept;
  const keys = new Map(kept.map((k) => [k, key(k)]));
  return kept.sort((a, b) => keys.get(a) - keys.get(b));
}

function fillCards() {
  const chosen = chosenVariables();
  byId("cards").replaceChildren(...chosen.slice(0, cardsShown).map((k) => make("div", { class: "card" },
    make("h3", {}, nameElement(found.names[k])),
    make("div", { class: "bars", role: "group", "aria-label": `Probabilities of ${visible(found.names[k])}` },
      ...probabilityBars(statesOf(k).map((state) => ({ ...state, name: state.label, text: estimateText(state) })))))));
  byId("cards-more").hidden = chosen.length <= cardsShown;
  byId("cards-status").textContent = found.names.length <= CARDS_AT_FIRST && chosen.length === found.names.length ? ""
    : `${Math.min(cardsShown, chosen.length)} of ${count(chosen.length, "variable")} shown.`;
}

function startHow() {
  const { method, why, evidence, numbers, given } = data.method;
  const box = byId("method-box");
  box.append(make("p", {}, make("b", {}, method.replace("_", " ")), `: ${why}.`));
  if (evidence) box.append(make("p", {}, `Log evidence: ${evidence} nats.`));
  if (numbers.length) box.append(sortableTable("What the verdict rests on", [
    { head: "number", value: (row) => row[1] || row[0] },
    { head: "value", value: (row) => row[2], number: true },
  ], numbers));
  if (given.length) box.append(make("h3", {}, "What was observed"), sortableTable("Observed", [
    { head: "variable", value: (row) => row[0] }, { head: "state", value: (row) => row[1] },
  ], given, 12));
}

function startValueTable() {
  const rows = Array.from(found.names.keys()).flatMap((k) => statesOf(k).map((state) => ({ name: found.names[k], ...state })));
  const errors = !hasErrors ? [] : [
    { head: "error", value: (row) => row.mcse, number: true },
    { head: "95% low", value: (row) => row.low, text: (row) => probabilityText(row.low), number: true },
    { head: "95% high", value: (row) => row.high, text: (row) => probabilityText(row.high), number: true },
    { head: "effective draws", value: (row) => row.ess, number: true },
  ];
  byId("tables-box").append(sortableTable("Probabilities of all states", [
    { head: "variable", value: (row) => row.name },
    { head: "state", value: (row) => row.label },
    { head: "probability", value: (row) => row.p, text: (row) => probabilityText(row.p, 4), number: true },
    ...errors,
  ], rows));
}
