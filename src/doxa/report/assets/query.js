// Queries tried from the page: P(node | another is seen, or is set), from answers worked out before.

const asked = { column: null, state: 0, how: "seen" };
let answerStarts = null; // y * n + x -> where its answers begin

function answerPlaces() {
  if (answerStarts) return answerStarts;
  answerStarts = new Map();
  let start = 0;
  for (const pair of data.nodes.answers.pairs) {
    answerStarts.set(pair, start);
    start += 3 * answerCells(Math.floor(pair / names.length)) * data.nodes.states[pair % names.length].length;
  }
  return answerStarts;
}

/** How many probabilities an answer about a column has: of states, or of the bars of a number. */
function answerCells(node) {
  return data.nodes.bars ? data.nodes.bars[node] : data.nodes.states[node].length;
}

/** P(y = s | x = t) for every s: [{p, error}], p null where too few simulated rows had x = t. */
function answer(y, x, t, how) {
  const start = answerPlaces().get(y * names.length + x);
  const text = data.nodes.answers[how];
  const width = data.nodes.states[x].length;
  return Array.from({ length: answerCells(y) }, (_, s) => {
    const at = start + 3 * (s * width + t);
    const code = 64 * DIGITS.indexOf(text[at]) + DIGITS.indexOf(text[at + 1]);
    return code === 4095 ? { p: null, error: null } : { p: code / 4000, error: data.nodes.answers.steps[DIGITS.indexOf(text[at + 2])] };
  });
}

function query(node) {
  const { why } = data.nodes.answers;
  const heading = make("h3", {}, "Query");
  if (why) return [heading, make("p", { class: "note" }, why)];
  const others = names.map((_, k) => k).filter((k) => answerPlaces().has(node * names.length + k));
  if (!others.length) return [heading, make("p", { class: "note" }, "No answers about this column had room on this page: ask posterior.query.")];
  if (!others.includes(asked.column)) [asked.column, asked.state] = [likelyQuestion(node, others), 0];
  const column = make("select", { "aria-label": "Column that is known" }, ...others.map((k) =>
    make("option", { value: String(k), selected: k === asked.column }, short(names[k], 40))));
  const state = make("select", { "aria-label": "Its state" });
  const how = make("select", { "aria-label": "How it is known" },
    make("option", { value: "seen", selected: asked.how === "seen" }, "is seen to be"),
    make("option", { value: "done", selected: asked.how === "done" }, "is set, by intervention, to"));
  const bars = make("div", { class: "bars", role: "group", "aria-live": "polite" });
  const note = make("p", { class: "note" });
  const fillStates = () => state.replaceChildren(...data.nodes.states[asked.column].map((label, k) =>
    make("option", { value: String(k), selected: k === asked.state }, short(label, 40))));
  const show = () => showAnswer(node, bars, note);
  column.addEventListener("change", () => { [asked.column, asked.state] = [Number(column.value), 0]; fillStates(); show(); });
  state.addEventListener("change", () => { asked.state = Number(state.value); show(); });
  how.addEventListener("change", () => { asked.how = how.value; show(); });
  fillStates();
  show();
  return [heading, make("div", { class: "ask" }, "When", column, how, state), bars, note];
}

/** The column that most probably belongs to the Markov blanket. */
function likelyQuestion(node, others) {
  const member = data.nodes.blankets[node].find(([k]) => others.includes(k));
  return member ? member[0] : others[0];
}

function showAnswer(node, bars, note) {
  const { states, answers } = data.nodes;
  const found = answer(node, asked.column, asked.state, asked.how);
  const first = names.slice(0, node).reduce((total, _, k) => total + answerCells(k), 0);
  bars.setAttribute("aria-label", `Probabilities of ${names[node]}`);
  if (found[0].p === null) {
    bars.replaceChildren();
    note.textContent = "Too few simulated rows have this state for an answer: ask posterior.query.";
    return;
  }
  const number = data.nodes.numbers?.[node]?.curve ? answeredNumber(node, found) : null;
  bars.classList.toggle("bars", !number);
  bars.replaceChildren(...(number ? [number.picture] : probabilityBars(found.map(({ p, error }, s) => ({
    name: states[node][s], p, mark: answers.marginal[first + s], text: `${probabilityText(p)} \u00b1 ${error.toPrecision(1)}`,
  })))));
  const worst = Math.max(...found.map(({ error }) => error)).toPrecision(1);
  const shown = number
    ? `In one new case: ${number.words}. Columns are the density, with errors of at most ${worst} in the share of one; the line is the `
      + "density when nothing is known."
    : "In one new case; the upright line is the probability when nothing is known.";
  note.textContent = `${shown} By simulation of ${answers.rows} rows `
    + `from ${answers.networks} networks${asked.how === "done" ? ", if the edges are causal" : ""}; the error is that of the simulation.`
    + (answers.all ? "" : " Only pairs of columns that tell most of each other are answered here.");
}
