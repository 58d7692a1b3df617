// The drawing by keyboard: from node to node with the arrow keys.

let here = null;

function startNetworkKeys() {
  const ways = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
  byId("graph").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (ways[event.key]) goTo(here === null ? topNode() : nextNode(here, ways[event.key]));
    else if (event.key === "Enter" && here !== null) inspect(here, true);
    else if (event.key === "+" || event.key === "=") zoomNetwork(1.3);
    else if (event.key === "-") zoomNetwork(1 / 1.3);
    else if (event.key === "0") fitNetwork();
    else return;
    event.preventDefault();
  });
  byId("graph").addEventListener("blur", () => network.nodes().removeClass("here"));
  byId("graph").addEventListener("focus", () => { if (here !== null) network.$id(`n${here}`).addClass("here"); });
}

/** Make a node the one that keys start from, and say which it is. */
function goTo(node) {
  here = node;
  network.nodes().removeClass("here");
  const element = network.$id(`n${node}`).addClass("here");
  const [parents, children] = [element.incomers("node").length, element.outgoers("node").length];
  announce(`${names[node]}: ${count(parents, "edge")} in, ${count(children, "edge")} out`);
  const { x, y } = element.renderedPosition();
  if (x < 20 || y < 20 || x > network.width() - 20 || y > network.height() - 20) network.center(element);
}

function topNode() {
  return network.nodes(":visible").min((element) => 1e6 * element.position("y") + element.position("x")).ele.data("node");
}

/** The nearest node in a direction; where there is none, the same. */
function nextNode(from, [dx, dy]) {
  const at = network.$id(`n${from}`).position();
  let [best, least] = [from, Infinity];
  for (let k = 0; k < names.length; k++) {
    if (k === from || network.$id(`n${k}`).hasClass("away")) continue;
    const to = network.$id(`n${k}`).position();
    const along = (to.x - at.x) * dx + (to.y - at.y) * dy;
    const aside = Math.abs((to.x - at.x) * dy) + Math.abs((to.y - at.y) * dx);
    if (along > 1 && along + 2 * aside < least) [best, least] = [k, along + 2 * aside];
  }
  return best;
}
