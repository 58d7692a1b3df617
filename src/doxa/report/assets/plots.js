// Lines and points, by uPlot, in the colours of the page.

const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const plots = [];

function chainColour(chain) {
  return colour(`chain-${chain % 7}`);
}

function chainDash(chain) {
  return DASHES[Math.floor(chain / 7) % DASHES.length];
}

/**
 * A figure with a plot.
 * build() -> {series, values, x, y, extra}: made again when colours change.
 * summary: what it shows, for those who do not see it.
 */
function plotFigure(title, caption, summary, build) {
  const box = make("div", { class: "plot", role: "img", "aria-label": `${title}. ${summary}` });
  const words = make("figcaption", {}, make("b", {}, title), caption);
  const plot = { box, words, build, drawn: null };
  plots.push(plot);
  return make("figure", {}, words, box);
}

/** Draw a figure again, with other words, after what it shows has changed. */
function refreshFigure(figure, title, caption, summary) {
  const plot = plots.find((each) => figure.contains(each.box));
  plot.words.replaceChildren(make("b", {}, title), caption);
  plot.box.setAttribute("aria-label", `${title}. ${summary}`);
  if (plot.drawn) drawPlot(plot);
}

function drawPlot(plot) {
  plot.drawn?.destroy();
  const { series, values, x, y, extra = {} } = plot.build();
  const axis = (label, more = {}) => ({
    label, stroke: colour("soft"), labelFont: "13px system-ui, sans-serif", font: "12px system-ui, sans-serif",
    grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, ...more,
  });
  plot.drawn = new uPlot({
    width: Math.max(200, plot.box.clientWidth), height: 240,
    legend: { show: false }, cursor: { show: false }, select: { show: false },
    scales: { x: { time: false, ...extra.scaleX }, y: extra.scaleY ?? {} },
    axes: [axis(x, extra.wholeX ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] } : {}), axis(y, { size: 64 })],
    hooks: extra.hooks ?? {},
    series: [{}, ...series],
  }, values, plot.box);
}

function startPlots() {
  const waiting = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((each) => each.isIntersecting)) {
      waiting.unobserve(entry.target);
      drawPlot(plots.find((plot) => plot.box === entry.target));
    }
  }, { rootMargin: "400px" });
  const resized = new ResizeObserver((entries) => {
    for (const entry of entries) {
      const { drawn } = plots.find((plot) => plot.box === entry.target);
      const width = Math.max(200, Math.floor(entry.contentRect.width));
      if (drawn && drawn.width !== width) drawn.setSize({ width, height: 240 });
    }
  });
  for (const plot of plots) {
    waiting.observe(plot.box);
    resized.observe(plot.box);
  }
  onTheme(() => { for (const plot of plots) if (plot.drawn) drawPlot(plot); });
  window.addEventListener("beforeprint", () => { for (const plot of plots) if (!plot.drawn) drawPlot(plot); });
}

/** One line a chain. */
function lineSeries(chain, more = {}) {
  return { label: `chain ${chain}`, stroke: chainColour(chain), dash: chainDash(chain), width: 1, points: { show: false }, ...more };
}

/** Points and no line. */
function pointSeries(stroke, fill = stroke) {
  return { stroke, paths: () => null, points: { show: true, size: 5, stroke, fill, width: 1 } };
}

/** Which colour and dash is which chain. */
function chainLegend(n) {
  const items = Array.from({ length: n }, (_, chain) => make("li", {}, chainLine(chain), `chain ${chain}`));
  return make("ul", { class: "legend" }, ...items);
}

function chainLine(chain) {
  return legendLine({ width: 3, line: `chain-${chain % 7}`, dashes: chainDash(chain).join(" ") });
}

/** A sample of a line, for legends. */
function legendLine({ width, dashes = "", halo = false, line = "edge" }) {
  const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const set = (element, values) => { for (const [k, v] of Object.entries(values)) element.setAttribute(k, v); };
  set(picture, { width: 36, height: 14, "aria-hidden": "true" });
  const draw = (stroke, thickness, pattern, opacity) => {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    set(path, { d: "M2 7H34", "stroke-width": thickness, "stroke-dasharray": pattern, opacity });
    path.style.stroke = `var(--${stroke})`;
    picture.append(path);
  };
  if (halo) draw("halo", 12, "", 0.5);
  draw(line, width, dashes, 1);
  return picture;
}
