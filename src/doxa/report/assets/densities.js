// Numbers: their distributions as small pictures, and the slopes of edges between them.

const WIDE = 340, BASE = 110, TOP = 6; // of a picture, and room for numbers below
const within = (value, low, high) => Math.min(high, Math.max(low, value));

function svgElement(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A picture over [low, high]: bars {from, to, heights}, curve {from, to, heights}, at [mean, low end, high end]. */
function densityPicture({ low, high, bars, curve, at = null, said }) {
  const top = Math.max(...bars.heights, ...(curve ? curve.heights : [])) || 1;
  const x = (value) => (WIDE * (value - low)) / (high - low);
  const y = (height) => BASE - ((BASE - TOP) * height) / top;
  const width = (bars.to - bars.from) / bars.heights.length;
  const steps = bars.heights.map((height, k) =>
    `V${y(height).toFixed(1)}H${x(bars.from + (k + 1) * width).toFixed(1)}`).join("");
  const picture = svgElement("svg", { viewBox: `0 0 ${WIDE} ${BASE + 20}`, class: "density", role: "img", "aria-label": said },
    svgElement("path", { class: "columns", d: `M${x(bars.from).toFixed(1)} ${BASE}${steps}V${BASE}Z` }));
  if (curve) {
    const step = (curve.to - curve.from) / (curve.heights.length - 1);
    const points = curve.heights.map((height, k) => `${x(curve.from + k * step).toFixed(1)} ${y(height).toFixed(1)}`);
    picture.append(svgElement("path", { class: "curve", d: `M${points.join("L")}` }));
  }
  (at ?? []).forEach((value, k) => picture.append(svgElement("path", {
    class: k === 0 ? "mean" : "end", d: `M${within(x(value), 0, WIDE).toFixed(1)} ${TOP}V${BASE}` })));
  picture.append(svgElement("path", { class: "axis", d: `M0 ${BASE}H${WIDE}` }));
  for (const value of roundNumbers(low, high)) {
    const label = svgElement("text", { x: within(x(value), 18, WIDE - 18).toFixed(1), y: BASE + 16, "text-anchor": "middle" }, byWidth(value, high - low));
    picture.append(svgElement("path", { class: "axis", d: `M${x(value).toFixed(1)} ${BASE}v4` }), label);
  }
  return picture;
}

/** Some five round numbers between two. */
function roundNumbers(low, high) {
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((each) => each * power >= rough) ?? 10);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high && found.length < 12; k++) found.push(k * step);
  return found;
}

function shortNumber(value, digits = 4) {
  return String(Number(value.toPrecision(digits)));
}

/** A number to a thousandth of a width. */
function byWidth(value, width) {
  return shortNumber(value, Math.max(1, Math.min(15, Math.ceil(Math.log10(Math.max(Math.abs(value), width) / width)) + 3)));
}

/** What was observed of a column, and what the networks make of it on the average. */
function distribution(node) {
  const own = data.nodes.numbers[node];
  const heading = make("h3", {}, "Distribution");
  if (own.p) {
    const states = data.nodes.states[node];
    return [heading, make("div", { class: "bars", role: "group", "aria-label": `Probabilities of ${names[node]}` },
      ...probabilityBars(own.p.map((p, s) => ({ name: states[s], p, text: `${probabilityText(p)} \u00b1 ${own.mcse[s]}` }))))];
  }
  const [mean, low, high] = own.at.map((value) => byWidth(value, own.range[1] - own.range[0]));
  return [heading, densityPicture({
    low: own.range[0], high: own.range[1], at: own.at, curve: ownCurve(own),
    bars: { from: own.bar_range[0], to: own.bar_range[1], heights: unpack(own.observed, 0, own.top) },
    said: `Density of ${names[node]}: mean ${mean}, 95% of cases between ${low} and ${high}`,
  }), make("p", { class: "note" }, `Columns: the ${count(own.n, "observed number")}. Line: the density, averaged over networks; mean `
    + `${own.mean}, standard deviation ${own.sd}; 95% of cases between the dotted lines, ${low} to ${high}.`)];
}

function ownCurve(own) {
  return { from: own.curve_range[0], to: own.curve_range[1], heights: unpack(own.curve, 0, own.top) };
}

/** Edges from other numbers, with slopes. */
function slopes(node) {
  const own = data.nodes.slopes[node];
  if (!own.length) return [];
  const ends = own.flatMap((row) => [row.low, row.high]);
  return [make("h3", {}, "Slopes"), make("p", { class: "note" },
    `How much ${visible(names[node])} changes with a unit of the other number, the other parents held fixed: posterior mean given that `
    + "there is the edge, and the interval that holds it with 95% probability. Errors are those of the simulation."),
  sortableTable(`Edges to ${visible(names[node])} from numbers`, [
    { head: "from", value: (row) => names[row.source] },
    { head: "probability", value: (row) => row.p, text: (row) => probabilityText(row.p), number: true },
    { head: "slope", value: (row) => row.mean, text: (row) => shortNumber(row.mean, 3), number: true },
    { head: "95% low", value: (row) => row.low, text: (row) => shortNumber(row.low, 3), number: true },
    { head: "95% high", value: (row) => row.high, text: (row) => shortNumber(row.high, 3), number: true },
    { head: "error", value: (row) => row.mcse, number: true },
  ], own, 12)];
}

/** Slopes beside the probabilities of edges, of those between numbers. */
function slopeColumns(edges) {
  const found = new Map(data.nodes.slopes.flatMap((own, target) => own.map((row) => [row.source * names.length + target, row])));
  const of = (k) => found.get(edges.source[k] * names.length + edges.target[k]);
  const column = (head, key) => ({
    head, value: (k) => of(k)?.[key] ?? null, text: (k) => (of(k) ? shortNumber(of(k)[key], 3) : ""), number: true,
  });
  return [column("slope", "mean"), column("slope, 95% low", "low"), column("slope, 95% high", "high")];
}

/** The bars of an answer about a number, with mean and 95% read off them. */
function answeredNumber(node, found) {
  const own = data.nodes.numbers[node];
  const [low, high] = own.range;
  const width = (high - low) / found.length;
  const total = found.reduce((sum, { p }) => sum + p, 0) || 1;
  const mean = found.reduce((sum, { p }, k) => sum + p * (low + (k + 0.5) * width), 0) / total;
  const end = (share) => {
    let below = 0;
    for (let k = 0; k < found.length; k++) {
      const p = found[k].p / total;
      if (below + p >= share) return low + (k + (p > 0 ? (share - below) / p : 0)) * width;
      below += p;
    }
    return high;
  };
  const at = [mean, end(0.025), end(0.975)];
  const [middle, least, most] = at.map((value) => byWidth(value, 10 * (high - low)));
  const words = `mean about ${middle}, 95% of cases about ${least} to ${most}`;
  return { words, picture: densityPicture({
    low, high, at, curve: ownCurve(own), bars: { from: low, to: high, heights: found.map(({ p }) => p / width) },
    said: `Density of ${names[node]}: ${words}` }) };
}
