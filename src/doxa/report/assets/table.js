// Tables that sort by any column and are copied as CSV.

const ROWS_AT_FIRST = 25;

/**
 * A table.
 * columns: [{head, value(row) -> what is sorted and copied, text(row) -> what is shown, number: is it one, prose: is it sentences}]
 * Rows stay in the order given until a column's head is pressed.
 */
function sortableTable(caption, columns, rows, atFirst = ROWS_AT_FIRST) {
  let order = rows.slice();
  let shown = atFirst;
  let sorted = null;
  const heads = columns.map((column, at) => make("th", { scope: "col", class: column.number ? "number" : "text" },
    make("button", { type: "button", onclick: () => sortBy(at) }, column.head)));
  const body = make("tbody");
  const more = make("button", { type: "button", onclick: () => { shown = Infinity; fill(); } });
  const copied = make("span", { role: "status" });
  const copy = make("button", { type: "button", onclick: () => copyText(toCsv(columns, order), copied, order.length) },
    "Copy as CSV");

  function sortBy(at) {
    const down = sorted === at ? heads[at].getAttribute("aria-sort") === "ascending" : Boolean(columns[at].number);
    sorted = at;
    order = rows.slice().sort((a, b) => compare(columns[at].value(a), columns[at].value(b), down));
    heads.forEach((head, k) => k === at ? head.setAttribute("aria-sort", down ? "descending" : "ascending")
      : head.removeAttribute("aria-sort"));
    fill();
  }

  function fill() {
    body.replaceChildren(...order.slice(0, shown).map((row) => make("tr", {}, ...columns.map((column, at) => {
      const content = (column.text ?? column.value)(row);
      const tag = at === 0 ? "th" : "td";
      const kind = column.number ? "number" : column.prose ? "text prose" : "text";
      return make(tag, { class: kind, scope: at === 0 ? "row" : null }, content instanceof Node ? content
        : column.number ? numberText(content) : content === null || content === undefined ? "" : nameElement(String(content)));
    }))));
    more.hidden = order.length <= shown;
    more.textContent = `Show all ${order.length} rows`;
  }

  fill();
  return make("div", {},
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...heads)), body)),
    make("div", { class: "tools" }, more, copy, copied));
}

/** Order of two values; what is missing comes last either way. */
function compare(a, b, down) {
  const [x, y] = [a, b].map((value) => (value === "inf" ? Infinity : value));
  const gone = (value) => value === null || value === undefined;
  if (gone(x) || gone(y)) return gone(x) - gone(y);
  const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
  return down ? -order : order;
}

function toCsv(columns, rows) {
  const lines = [columns.map((column) => csvCell(column.csv ?? column.head))];
  for (const row of rows) lines.push(columns.map((column) => csvCell(column.value(row))));
  return lines.map((cells) => cells.join(",")).join("\r\n") + "\r\n";
}

/** One cell: quoted where it must be; text that a spreadsheet would take for a formula has an apostrophe in front. */
function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? "'" + value : String(value);
  return /[",\r\n\t']/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function copyText(text, status, rows) {
  const done = () => { status.textContent = `${count(rows, "row")} copied`; };
  const byHand = () => {
    const area = make("textarea", { "aria-hidden": "true", class: "hidden" });
    area.value = text;
    document.body.append(area);
    area.select();
    if (document.execCommand("copy")) done();
    else status.textContent = "This browser does not let pages copy";
    area.remove();
  };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, byHand);
  else byHand();
}
