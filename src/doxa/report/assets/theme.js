// Dark and light: as the system has it, or as chosen; and light on paper.

const themeListeners = [];

/** Call a function whenever colours change. */
function onTheme(listener) {
  themeListeners.push(listener);
}

/** A colour of the style sheet, by name. */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  for (const listener of themeListeners) listener();
}

function startTheme() {
  const chooser = byId("theme");
  chooser.addEventListener("change", () => setTheme(chooser.value));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(chooser.value));
  window.addEventListener("beforeprint", () => {
    setTheme("light");
    for (const folded of document.querySelectorAll("#verdict details")) folded.open = true;
  });
  window.addEventListener("afterprint", () => setTheme(chooser.value));
}
