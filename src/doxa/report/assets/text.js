// Elements and words. Text reaches the page as text, never as markup, whatever it says.

const data = JSON.parse(document.getElementById("doxa-data").textContent);

/** The element of the page that has this id. */
function byId(id) {
  return document.getElementById(id);
}

/** A new element with attributes and children; children that are no elements become text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** A name from the data, kept apart from the direction of the text around it. */
function nameElement(text) {
  return make("bdi", {}, visible(text));
}

/** A name with the characters shown that would not be seen, and one for a name of blanks. */
function visible(text) {
  const shown = text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (c) =>
    c === "\u200d" ? c : "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
  return shown.trim() === "" ? `"${shown}"` : shown;
}

/** A name cut to a length, for places where there is little room. */
function short(text, most = 28) {
  const characters = Array.from(visible(text));
  return characters.length <= most ? characters.join("") : characters.slice(0, most - 1).join("") + "\u2026";
}

function probabilityText(p, places = 3) {
  if (p === null || p === undefined) return "";
  const least = 10 ** -places;
  if (p > 0 && p < least) return "<" + least.toFixed(places).replace(/^0/, "");
  if (p < 1 && p > 1 - least) return ">" + (1 - least).toFixed(places).replace(/^0/, "");
  return p === 0 || p === 1 ? String(p) : p.toFixed(places);
}

function rHatText(value) {
  return typeof value === "number" ? value.toFixed(3) : numberText(value);
}

function numberText(value) {
  if (value === null || value === undefined) return "";
  if (value === "inf") return "infinite";
  return String(value);
}

function count(number, noun, plural = noun + "s") {
  return `${number} ${number === 1 ? noun : plural}`;
}

/** Say something to screen readers. */
function announce(text) {
  byId("announce").textContent = text;
}
