// The drawing of the network, by Cytoscape.js; where nodes stand was worked out before.

const LABEL_SIZE = 15;
let network = null;

function startNetwork() {
  document.querySelector(".beside").classList.toggle("large", names.length > 20);
  network = cytoscape({
    container: byId("graph"),
    elements: names.map((name, k) => ({
      data: { id: `n${k}`, node: k, label: short(name, 22), width: labelWidth(short(name, 22)) },
      position: { x: data.graphs.places[k][0], y: data.graphs.places[k][1] },
    })),
    layout: { name: "preset" },
    style: networkStyle(),
    userZoomingEnabled: false, // the wheel scrolls the page
    boxSelectionEnabled: false,
    selectionType: "single",
    minZoom: 0.05,
    maxZoom: 4,
  });
  network.on("tap", "node", (event) => inspect(event.target.data("node")));
  onTheme(() => network.style(networkStyle()));
  for (const input of document.querySelectorAll("input[name=view]")) input.addEventListener("change", drawNetwork);
  byId("threshold").addEventListener("input", drawNetwork);
  byId("forbidden").addEventListener("change", drawNetwork);
  byId("forbidden-box").hidden = data.graphs.n_forbidden === 0;
  byId("forbidden-box").append(` (${data.graphs.n_forbidden})`);
  startSamples();
  startNearby();
  byId("zoom-in").addEventListener("click", () => zoomNetwork(1.3));
  byId("zoom-out").addEventListener("click", () => zoomNetwork(1 / 1.3));
  byId("zoom-fit").addEventListener("click", fitNetwork);
  byId("zoom-full").hidden = !document.fullscreenEnabled;
  byId("zoom-full").addEventListener("click", () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else byId("canvas").requestFullscreen();
  });
  new ResizeObserver(() => { network.resize(); fitNetwork(); }).observe(byId("graph"));
  startLegend();
  if (stepsShown()) return; // the inspector says around which node to draw
  drawNetwork();
  fitNetwork();
}

function startSamples() {
  const slider = byId("sample");
  slider.max = String(data.graphs.samples.length - 1);
  slider.addEventListener("input", drawNetwork);
  const step = (by) => {
    slider.value = String(Math.max(0, Math.min(Number(slider.max), Number(slider.value) + by)));
    drawNetwork();
  };
  byId("sample-back").addEventListener("click", () => step(-1));
  byId("sample-on").addEventListener("click", () => step(1));
}

function currentView() {
  return document.querySelector("input[name=view]:checked").value;
}

function drawNetwork() {
  const view = currentView();
  const threshold = Number(byId("threshold").value);
  const sample = data.graphs.samples[Number(byId("sample").value)];
  byId("threshold-box").hidden = view === "samples";
  byId("sample-box").hidden = view !== "samples";
  byId("threshold-value").textContent = threshold.toFixed(2);
  byId("sample-value").textContent = `${Number(byId("sample").value) + 1} of ${data.graphs.samples.length}`;
  const all = view === "samples" ? edgesOfSample(sample) : edgesOf(view, threshold);
  const [steps, forbidden] = [stepsShown(), byId("forbidden").checked ? forbiddenEdges() : []];
  const shown = nearbyNodes(all, steps);
  const within = ({ source, target }) => shown === null || (shown.has(source) && shown.has(target));
  const edges = all.filter(within).map((edge) => (shown === null ? edge : { ...edge, bends: undefined }));
  network.batch(() => {
    network.edges().remove();
    placeNodes(shown, edges);
    network.add([...edges, ...forbidden.filter(within)].map(edgeElement));
    markNear();
  });
  byId("graph").dataset.edges = String(edges.length);
  byId("drawn").textContent = viewText(all, view, threshold, sample) + nearbyText(shown, steps);
}

/** Colour the edges of the node that is inspected. */
function markNear() {
  network.edges().removeClass("near");
  if (inspected !== null) network.$id(`n${inspected}`).connectedEdges().addClass("near");
}

function edgeElement(edge) {
  const classes = ["arrow", "dashed", "halo", "faint", "required", "forbidden"].filter((mark) => edge[mark]);
  const element = {
    data: { source: `n${edge.source}`, target: `n${edge.target}`, width: 1 + 5 * edge.p },
    selectable: false,
  };
  if (edge.bends) {
    classes.push("bent");
    element.data.weights = edge.bends.map((bend) => bend[0]);
    element.data.distances = edge.bends.map((bend) => bend[1]);
  }
  element.classes = classes;
  return element;
}

function networkStyle() {
  const [ink, edge, halo] = [colour("ink"), colour("edge"), colour("halo")];
  return [
    { selector: "node", style: {
      label: "data(label)", shape: "round-rectangle", width: "data(width)", height: 30,
      "font-size": LABEL_SIZE, "font-family": "system-ui, sans-serif", "text-valign": "center", "text-halign": "center", "min-zoomed-font-size": 3,
      color: ink, "background-color": colour("node"), "border-width": 1.5, "border-color": colour("node-line"),
    } },
    { selector: "node.away", style: { display: "none" } },
    { selector: "node:selected", style: { "border-width": 4, "border-color": colour("focus") } },
    { selector: "node.here", style: { "underlay-color": colour("focus"), "underlay-opacity": 0.45, "underlay-padding": 7 } },
    { selector: "edge", style: {
      width: "data(width)", "line-color": edge, "target-arrow-color": edge, "source-arrow-color": edge,
      "curve-style": "bezier", "arrow-scale": 1.1, opacity: 0.85,
    } },
    { selector: "edge.arrow", style: { "target-arrow-shape": "triangle" } },
    { selector: "edge.bent", style: {
      "curve-style": "round-segments", "segment-weights": "data(weights)", "segment-distances": "data(distances)",
      "segment-radii": 40, "edge-distances": "node-position",
    } },
    { selector: "edge.dashed", style: { "line-style": "dashed", "line-dash-pattern": [8, 5] } },
    { selector: "edge.halo", style: { "underlay-color": halo, "underlay-opacity": 0.5, "underlay-padding": 5 } },
    { selector: "edge.faint", style: { opacity: 0.45 } },
    { selector: "edge.near", style: {
      "line-color": colour("focus"), "target-arrow-color": colour("focus"), opacity: 1, "z-index": 1,
    } },
    { selector: "edge.required", style: {
      "line-color": colour("required"), "target-arrow-color": colour("required"),
      "source-arrow-shape": "circle", "source-arrow-color": colour("required"),
    } },
    { selector: "edge.forbidden", style: {
      width: 1, "line-style": "dotted", "line-color": colour("forbidden"), "target-arrow-color": colour("forbidden"),
      "target-arrow-shape": "tee",
    } },
  ];
}

/** Room for a label; what is measured is the browser's own font. */
function labelWidth(text) {
  const pen = (labelWidth.pen ??= document.createElement("canvas").getContext("2d"));
  pen.font = `${LABEL_SIZE}px system-ui, sans-serif`;
  return Math.max(30, Math.ceil(pen.measureText(text).width) + 18);
}

function fitNetwork() {
  network.fit(network.nodes(":visible"), 24);
  if (network.zoom() > 1.4) {
    network.zoom(1.4);
    network.center(network.nodes(":visible"));
  }
}

function zoomNetwork(factor) {
  network.zoom({ level: network.zoom() * factor, renderedPosition: { x: network.width() / 2, y: network.height() / 2 } });
}

/** Samples of the lines that are drawn, with what they mean. */
function startLegend() {
  const items = [
    [{ width: 2 }, "improbable"], [{ width: 5 }, "probable"],
    [{ width: 3, dashes: "7 4" }, `direction uncertain: the other way round has over ${100 * UNCERTAIN}% of the two`],
    [{ width: 3, halo: true }, "its Monte Carlo error crosses the threshold"],
  ];
  if (data.graphs.required.length) items.push([{ width: 3, line: "required" }, "required"]);
  if (data.graphs.n_forbidden) items.push([{ width: 1.5, line: "forbidden", dashes: "2 3" }, "forbidden"]);
  byId("legend").append(...items.map(([line, text]) => make("li", {}, legendLine(line), text)));
}
