// Marginals on a grid, as a map of colours.

let mapAt = null; // the cell that was pointed at

function startGrid() {
  if (!data.grid) {
    byId("grid").hidden = true;
    document.querySelector('nav a[href="#grid"]').hidden = true;
    return;
  }
  const { states, errors, square, whole, given } = data.grid;
  states.forEach((label, k) => byId("map-what").append(make("option", { value: String(k) }, `probability of ${short(label, 30)}`)));
  if (errors) byId("map-what").append(make("option", { value: "error" }, "Monte Carlo error"));
  const notes = [];
  if (square > 1) notes.push(`Each cell is the mean over ${square} x ${square} variables of a grid of ${whole[0]} x ${whole[1]}.`);
  if (given.length) notes.push("Crosses mark what was observed.");
  byId("map-note").textContent = notes.join(" ");
  for (const id of ["map-what", "map-scale"]) byId(id).addEventListener("change", drawMap);
  const map = byId("map");
  map.addEventListener("pointermove", (event) => readCell(cellUnder(event)));
  map.addEventListener("keydown", mapKey);
  onTheme(drawMap);
  drawMap();
}

/** What is shown: values of the cells, the ends of the colours, and words. */
function mapShown() {
  const { p, errors, largest, states, given } = data.grid;
  const what = byId("map-what").value;
  const isError = what === "error";
  const values = isError ? unpack(errors, 0, largest) : unpack(p[Number(what)], 0, 1);
  const known = new Set(given);
  const unknown = values.filter((_, k) => !known.has(k));
  const found = [unknown.reduce((a, b) => Math.min(a, b), 1), unknown.reduce((a, b) => Math.max(a, b), 0)];
  const ends = isError ? [0, largest] : byId("map-scale").value === "found" && found[1] > found[0] ? found : [0, 1];
  return { values, found, ends, isError, words: isError ? "Monte Carlo error" : `probability of ${visible(states[Number(what)])}` };
}

function drawMap() {
  const { rows, columns, given } = data.grid;
  const { values, found, ends, isError, words } = mapShown();
  byId("map-scale").disabled = isError;
  const map = byId("map");
  const size = Math.max(1, Math.floor(704 / columns));
  map.width = size * columns;
  map.height = size * rows;
  const pen = map.getContext("2d");
  const paint = colourScale();
  values.forEach((value, k) => {
    pen.fillStyle = paint((value - ends[0]) / (ends[1] - ends[0]));
    pen.fillRect(size * (k % columns), size * Math.floor(k / columns), size, size);
  });
  if (!isError && size > 4) given.forEach((k) => cross(pen, size * (k % columns), size * Math.floor(k / columns), size));
  const key = byId("key").getContext("2d");
  for (let x = 0; x < 256; x++) {
    key.fillStyle = paint(x / 255);
    key.fillRect(x, 0, 1, 1);
  }
  const places = isError ? 4 : 2;
  byId("key-low").textContent = ends[0].toFixed(places);
  byId("key-high").textContent = ends[1].toFixed(places);
  map.setAttribute("aria-label", `Map of the ${words}, ${rows} rows and ${columns} columns, from ${found[0].toFixed(3)} to ${found[1].toFixed(3)}`);
  if (mapAt !== null) readCell(mapAt);
}

/** A colour for each share of the way from low to high. */
function colourScale() {
  const [low, middle, high] = ["map-low", "map-middle", "map-high"].map((name) =>
    colour(name).match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16)));
  return (share) => {
    const at = Math.max(0, Math.min(1, share));
    const [from, to, way] = at < 0.5 ? [low, middle, 2 * at] : [middle, high, 2 * at - 1];
    return `rgb(${from.map((part, k) => Math.round(part + (to[k] - part) * way)).join(" ")})`;
  };
}

function cross(pen, x, y, size) {
  pen.strokeStyle = colour("ink");
  pen.lineWidth = Math.max(1, size / 12);
  const [near, far] = [size * 0.3, size * 0.7];
  pen.beginPath();
  for (const [a, b, c, d] of [[near, near, far, far], [near, far, far, near]]) {
    pen.moveTo(x + a, y + b);
    pen.lineTo(x + c, y + d);
  }
  pen.stroke();
}

function cellUnder(event) {
  const map = byId("map");
  const box = map.getBoundingClientRect();
  const scale = Math.min(box.width / map.width, box.height / map.height) || 1; // the picture keeps its shape inside the box
  const { rows, columns } = data.grid;
  const column = Math.floor(((event.clientX - box.left) / scale / map.width) * columns);
  const row = Math.floor(((event.clientY - box.top) / scale / map.height) * rows);
  return column >= 0 && row >= 0 && column < columns && row < rows ? row * columns + column : null;
}

/** Say what stands in a cell. */
function readCell(k) {
  if (k === null) return;
  mapAt = k;
  const { columns, square, given, errors, largest } = data.grid;
  const { values, isError, words } = mapShown();
  const [row, column] = [Math.floor(k / columns), k % columns];
  const name = square > 1 ? `Rows from ${row * square}, columns from ${column * square}` : `X${row}_${column}`;
  const error = !isError && errors && !given.includes(k) ? ` \u00b1 ${unpack(errors.slice(2 * k, 2 * k + 2), 0, largest)[0].toPrecision(1)}` : "";
  byId("map-cell").textContent = `${name}: ${words} ${values[k].toFixed(isError ? 4 : 3)}${error}${given.includes(k) ? ", observed" : ""}`;
}

function mapKey(event) {
  const way = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
  if (!way || event.ctrlKey || event.metaKey || event.altKey) return;
  const { rows, columns } = data.grid;
  const [row, column] = mapAt === null ? [0, 0] : [Math.floor(mapAt / columns) + way[0], (mapAt % columns) + way[1]];
  readCell(Math.max(0, Math.min(rows - 1, row)) * columns + Math.max(0, Math.min(columns - 1, column)));
  event.preventDefault();
}
