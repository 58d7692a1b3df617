// Parameters of a fit: a table with intervals drawn, and one parameter at a time with its density and its chains.

const PROBABILITY = "probability"; // what the parameter of a root is called
const LETTERS = 19; // of a name in a table
const fitted = data.coefficients;
let parameter = 0; // the one that is shown
let densityFigure = null;
let chainsFigure = null;

function parameterName(k) {
  return `${visible(fitted.nodes[fitted.node[k]])}: ${visible(fitted.label[k])}`;
}

function fixed(k, value) {
  return typeof value === "number" ? value.toFixed(fitted.places[k]) : numberText(value);
}

function isProbability(k) {
  return fitted.label[k] === PROBABILITY && data.roots.includes(fitted.nodes[fitted.node[k]]);
}

function startCoefficients() {
  const all = Array.from(fitted.mean.keys());
  const box = byId("coefficients-box");
  const groups = [["Coefficients", all.filter((k) => !isProbability(k))], ["Probabilities of roots", all.filter(isProbability)]];
  for (const [title, members] of groups.filter(([, own]) => own.length)) {
    box.append(make("h3", {}, title), coefficientTable(title, members));
  }
  if (data.ones.length) {
    box.append(make("details", { class: "more" }, make("summary", {}, "Which states count as 1"), sortableTable("State that is 1", [
      { head: "node", value: (row) => row[0] }, { head: "state", value: (row) => row[1] },
    ], data.ones)));
  }
  startParameter();
}

function coefficientTable(title, members) {
  const ends = members.flatMap((k) => [fitted.low[k], fitted.high[k]]).filter((value) => typeof value === "number");
  const unit = title !== "Coefficients";
  const [low, high] = unit ? [0, 1] : [Math.min(0, ...ends), Math.max(0, ...ends)];
  return sortableTable(`${title}${low < 0 ? "; intervals are drawn with dashes at 0" : ", drawn from 0 to 1"}`, [
    { head: "node", value: (k) => fitted.nodes[fitted.node[k]], text: (k) => cut(fitted.nodes[fitted.node[k]]) },
    { head: "parameter", value: (k) => fitted.label[k], text: (k) => chooseButton(k) },
    { head: "95% interval", csv: "drawn at", value: (k) => fitted.mean[k], text: (k) => forest(k, low, high) },
    { head: "mean", value: (k) => fitted.mean[k], text: (k) => fixed(k, fitted.mean[k]), number: true },
    { head: "95% low", value: (k) => fitted.low[k], text: (k) => fixed(k, fitted.low[k]), number: true },
    { head: "95% high", value: (k) => fitted.high[k], text: (k) => fixed(k, fitted.high[k]), number: true },
    { head: "error", value: (k) => fitted.mcse[k], number: true },
    { head: "effective draws", value: (k) => fitted.ess[k], number: true },
    { head: "R-hat", value: (k) => fitted.r_hat[k], text: (k) => rHatText(fitted.r_hat[k]), number: true },
    { head: "sd", value: (k) => fitted.sd[k], text: (k) => fixed(k, fitted.sd[k]), number: true },
  ], members, 30);
}

function chooseButton(k) {
  return make("button", { type: "button", class: "plain", onclick: () => chooseParameter(k, true) }, cut(fitted.label[k]));
}

/** A name that leaves room for the numbers; all of it shows in the chooser. */
function cut(name) {
  const shown = short(name, LETTERS);
  return make("bdi", { title: shown === visible(name) ? null : visible(name) }, shown);
}

/** The interval and the mean, drawn between two ends. */
function forest(k, low, high) {
  const share = (value) => (high > low ? (100 * (value - low)) / (high - low) : 50);
  const piece = (kind, from, to = null) => {
    const element = make("span", { class: kind });
    element.style.left = `${share(from)}%`;
    if (to !== null) element.style.width = `${share(to) - share(from)}%`;
    return element;
  };
  const picture = make("span", { class: "forest", "aria-hidden": "true" });
  if (low < 0) picture.append(piece("zero", 0));
  if (typeof fitted.low[k] === "number") picture.append(piece("interval", fitted.low[k], fitted.high[k]));
  picture.append(piece("point", fitted.mean[k]));
  return picture;
}

function startParameter() {
  const chooser = byId("chosen");
  for (const k of Array.from(fitted.mean.keys())) chooser.append(make("option", { value: String(k) }, short(parameterName(k), 60)));
  chooser.addEventListener("change", () => chooseParameter(Number(chooser.value)));
  densityFigure = plotFigure("Density", "", "", () => densityPlot(parameter));
  chainsFigure = plotFigure("Chains", "", "", () => chainsPlot(parameter));
  byId("parameter-box").append(make("p", { id: "parameter-text" }), densityFigure, densityLegend(), chainsFigure, chainLegend(fitted.n_chains));
  chooseParameter(0);
}

/** Show a parameter; where a table asked for it, take the reader there. */
function chooseParameter(k, go = false) {
  parameter = k;
  byId("chosen").value = String(k);
  byId("parameter-heading").replaceChildren("Parameter ", nameElement(parameterName(k)));
  byId("parameter-text").textContent = `${fixed(k, fitted.mean[k])}, from ${fixed(k, fitted.low[k])} to ${fixed(k, fitted.high[k])} with 95% probability. `
    + `Monte Carlo error ${numberText(fitted.mcse[k]) || "unknown"}, ${numberText(fitted.ess[k]) || "unknown"} effective draws, `
    + (fitted.r_hat[k] === null ? "no R-hat." : `R-hat ${rHatText(fitted.r_hat[k])}.`);
  const drawn = fitted.drawn[k];
  for (const figure of [densityFigure, chainsFigure]) figure.hidden = !drawn;
  byId("density-legend").hidden = !drawn;
  if (drawn) {
    refreshFigure(densityFigure, "Density", densityCaption(k), densitySummary(k));
    refreshFigure(chainsFigure, "Chains", `Chains that agree overlap like one. ${stepsText()}`, chainsSummary(k));
  } else {
    byId("parameter-text").textContent += ` Only the ${Object.keys(fitted.drawn).length} parameters that are slowest to agree are drawn.`;
  }
  announce(`Parameter ${parameterName(k)}`);
  if (go) byId("parameter-heading").focus();
}

function stepsText() {
  return thinnedText(fitted.steps.length > 1 ? fitted.steps[1] - fitted.steps[0] : 1, fitted.n_draws);
}

function densityCaption(k) {
  const { outside, why } = fitted.drawn[k];
  const parts = [`${fitted.n_chains * fitted.n_draws} draws of all chains.`];
  if (outside > 0) parts.push(`${(100 * outside).toPrecision(2)}% of them lie outside of what is drawn.`);
  if (why) parts.push(`No approximation: ${why}.`);
  return parts.join(" ");
}

function densitySummary(k) {
  return `Most of the draws lie between ${fixed(k, fitted.low[k])} and ${fixed(k, fitted.high[k])}.`
    + (fitted.drawn[k].curve ? " The approximation is drawn as a line." : "");
}

function densityPlot(k) {
  const { range: [low, high], top, density, curve } = fitted.drawn[k];
  const heights = unpack(density, 0, top);
  const at = Array.from({ length: 2 * heights.length + 1 }, (_, i) => low + ((high - low) * i) / (2 * heights.length));
  const steps = at.map((_, i) => heights[Math.min(heights.length - 1, i >> 1)]);
  const bars = { stroke: colour("bar"), fill: colour("bar-soft"), width: 1, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) };
  const line = { stroke: colour("approximation"), width: 2, dash: [7, 4], points: { show: false } };
  return {
    series: curve ? [bars, line] : [bars], values: curve ? [at, steps, unpack(curve, 0, top)] : [at, steps],
    x: isProbability(k) ? "probability" : "value", y: "density",
    extra: {
      scaleX: { range: () => [low, high] }, scaleY: { range: [0, 1.06 * top] },
      hooks: { draw: [(plot) => markInterval(plot, k)] },
    },
  };
}

/** Upright lines at the mean and at the ends of the interval. */
function markInterval(plot, k) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colour("ink");
  for (const [value, dash] of [[fitted.low[k], [2, 3]], [fitted.mean[k], []], [fitted.high[k], [2, 3]]]) {
    if (typeof value !== "number") continue;
    const x = Math.round(plot.valToPos(value, "x", true)) + 0.5;
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.setLineDash(dash.map((length) => length * devicePixelRatio));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

function densityLegend() {
  const items = [[{ width: 10, line: "bar" }, "draws"], [{ width: 2, line: "ink" }, "mean"],
    [{ width: 2, line: "ink", dashes: "2 3" }, "95% interval"]];
  if (Object.values(fitted.drawn).some((each) => each.curve)) {
    items.splice(1, 0, [{ width: 2, line: "approximation", dashes: "7 4" }, "approximation that draws were proposed from"]);
  }
  return make("ul", { class: "legend", id: "density-legend" }, ...items.map(([line, text]) => make("li", {}, legendLine(line), text)));
}

function chainTraces(k) {
  const { trace, ends } = fitted.drawn[k];
  const all = unpack(trace, ...ends);
  const each = fitted.steps.length;
  return Array.from({ length: fitted.n_chains }, (_, chain) => all.slice(chain * each, (chain + 1) * each));
}

function chainsSummary(k) {
  return meansText(chainTraces(k), fitted.places[k]);
}

function chainsPlot(k) {
  const chains = chainTraces(k);
  return { series: chains.map((_, chain) => lineSeries(chain)), values: [fitted.steps, ...chains], x: "draw", y: isProbability(k) ? "probability" : "value" };
}
