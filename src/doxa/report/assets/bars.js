// Probabilities as bars, with intervals.

/** rows: [{name, p, low, high, mark, text}]; low and high end the interval, mark is what to compare with; both may be absent. */
function probabilityBars(rows) {
  return rows.flatMap(({ name, p, low = null, high = null, mark = null, text }) => {
    const track = make("span", { class: "track", "aria-hidden": "true" }, placed("fill", 0, p));
    if (low !== null && high !== null) track.append(placed("interval", low, high));
    if (mark !== null) track.append(placed("mark", mark, mark));
    return [make("span", { class: "name" }, nameElement(name)), track, make("span", { class: "value" }, text)];
  });
}

function placed(kind, low, high) {
  const element = make("span", { class: kind });
  element.style.left = `${100 * low}%`;
  if (high > low) element.style.width = `${100 * (high - low)}%`;
  return element;
}
