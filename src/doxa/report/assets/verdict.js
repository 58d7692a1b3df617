// The verdict, and the facts of the run.

const SIGNS = { yes: "\u2713", no: "\u2717", unknown: "?" };

function startVerdict() {
  const { state, word, why, next } = data.verdict;
  byId("title").textContent = visible(data.title);
  byId("verdict-box").append(make("div", { class: `verdict ${state}` },
    make("span", { class: "sign", "aria-hidden": "true" }, SIGNS[state]),
    make("div", {},
      make("p", {}, make("strong", {}, word)),
      make("p", {}, make("b", {}, "Why: "), why),
      make("p", {}, make("b", {}, "What to do: "), next))));
  for (const [name, value] of data.facts) byId("facts").append(make("dt", {}, visible(name)), make("dd", {}, nameElement(value)));
}
