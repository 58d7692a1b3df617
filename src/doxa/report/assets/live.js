// The bar of the live view: asks how far the run is, and loads the newer page where the reader is.

(() => {
"use strict";

const EVERY = 2000; // ms between two questions
const IDLE = 3000; // ms without a key or a click before the page may change by itself
const KEY = "doxa live " + location.pathname;

const byId = (id) => document.getElementById(id);
const bar = byId("live");
const own = { page: Number(bar.dataset.page), draws: Number(bar.dataset.draws) };
let touched = -Infinity;
let misses = 0;
let newest = own.page;

/** What the reader has set, in the order of the page. */
function controls() {
  return [...document.querySelectorAll("input, select")].filter((element) => element.id !== "live-follow");
}

function valueOf(element) {
  return element.type === "radio" || element.type === "checkbox" ? element.checked : element.value;
}

function setValue(element, value) {
  if (valueOf(element) === value) return;
  if (element.type === "radio" && !value) return; // another of its group will be chosen
  if (typeof value === "boolean") element.checked = value;
  else if (element.tagName === "SELECT" && ![...element.options].some((option) => option.value === value)) return;
  else element.value = value;
  for (const kind of ["input", "change"]) element.dispatchEvent(new Event(kind, { bubbles: true }));
}

/** The section that is read, and how far its top is from that of the window. */
function anchor() {
  const sections = [...document.querySelectorAll("main section[id]")];
  const above = sections.filter((section) => section.getBoundingClientRect().top <= 120);
  const section = above.at(-1);
  return section ? [section.id, section.getBoundingClientRect().top] : null;
}

function keepPlace() {
  const place = {
    values: controls().map(valueOf),
    open: [...document.querySelectorAll("details")].map((element) => element.open),
    anchor: anchor(),
    inside: byId("inspector")?.scrollTop ?? 0,
    focus: document.activeElement?.id ?? "",
    follow: byId("live-follow").checked,
  };
  try {
    sessionStorage.setItem(KEY, JSON.stringify(place));
  } catch { /* a browser that keeps nothing: the page begins anew */ }
}

function restorePlace() {
  let place = null;
  try {
    place = JSON.parse(sessionStorage.getItem(KEY));
    sessionStorage.removeItem(KEY);
  } catch { /* as above */ }
  if (!place) return;
  byId("live-follow").checked = place.follow;
  // One by one: the inspector makes its controls anew for the node that is chosen.
  place.values.forEach((value, k) => { const element = controls()[k]; if (element) setValue(element, value); });
  document.querySelectorAll("details").forEach((element, k) => { element.open = Boolean(place.open[k]); });
  if (place.focus) byId(place.focus)?.focus({ preventScroll: true });
  if (byId("inspector")) byId("inspector").scrollTop = place.inside;
  const section = place.anchor && byId(place.anchor[0]);
  if (section) scrollBy({ top: section.getBoundingClientRect().top - place.anchor[1], behavior: "instant" });
}

function showNewest() {
  keepPlace();
  location.reload();
}

/** Whether a change of the page would disturb: someone points, types, selects or looks at the full screen. */
function isBusy() {
  return performance.now() - touched < IDLE || document.fullscreenElement !== null || !getSelection().isCollapsed;
}

function say(state, text) {
  if (byId("live-text").textContent !== text) byId("live-text").textContent = text;
  if (byId("live-waiting")) byId("live-waiting").textContent = text; // of the page before the first draws
  if (bar.dataset.state !== state) {
    bar.dataset.state = state;
    byId("live-said").textContent = text; // once for each state, not every two seconds
  }
}

function take(status) {
  const behind = own.page && own.draws < status.draws ? ` This page shows the first ${own.draws}.` : "";
  say(status.state, status.text + behind);
  newest = status.page;
  byId("live-show").hidden = newest === own.page;
  byId("live-show").parentElement.hidden = own.page === 0;
  if (newest !== own.page && (own.page === 0 || (byId("live-follow").checked && !isBusy()))) showNewest();
}

async function ask() {
  try {
    const answer = await fetch("status", { cache: "no-store", signal: AbortSignal.timeout(8000) });
    if (!answer.ok) throw new Error(String(answer.status));
    take(await answer.json());
    misses = 0;
  } catch {
    misses += 1;
    if (misses > 1) {
      say("gone", bar.dataset.gone);
      byId("live-show").parentElement.hidden = true;
    }
  }
}

async function keepAsking() {
  if (!document.hidden) await ask(); // nobody looks: no page need be made
  setTimeout(keepAsking, misses > 1 ? 5 * EVERY : EVERY);
}

history.scrollRestoration = "manual";
for (const kind of ["pointerdown", "keydown", "wheel", "touchmove"]) {
  addEventListener(kind, () => { touched = performance.now(); }, { passive: true });
}
byId("live-show").addEventListener("click", showNewest);
restorePlace();
keepAsking();
document.documentElement.dataset.live = "yes";
})();
