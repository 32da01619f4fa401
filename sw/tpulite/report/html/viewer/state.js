// What the page shows: its data, what is searched for, what is selected, and the unit of time.

const page = JSON.parse(document.getElementById("data").textContent);
const items = page.items;

// What draws a figure or a table: a function of its place and its data.
const views = {};

const changes = new EventTarget();
const changed = (what) => changes.dispatchEvent(new Event(what));
const on = (what, act) => changes.addEventListener(what, act);

const state = { query: "", found: null, selected: null, milliseconds: page.mhz !== null };

function words(item) {
  const tensors = item.tensors.map((tensor) => tensor.name);
  const layers = item.layers.map((layer) => layer.name);
  return [item.name, item.operator, ...tensors, ...layers].join("\n").toLowerCase();
}

const texts = Object.fromEntries(Object.entries(items).map(([key, item]) => [key, words(item)]));

function search(query) {
  state.query = query.trim().toLowerCase();
  const keys = Object.keys(items).filter((key) => texts[key].includes(state.query));
  state.found = state.query ? new Set(keys) : null;
  changed("search");
}

const isFound = (key) => state.found === null || state.found.has(key);

function select(key) {
  state.selected = key in items ? key : null;
  changed("select");
}

function clickable(element, key) {
  if (!(key in items)) return element;
  element.dataset.key = key;
  element.classList.add("clickable");
  return element;
}

document.addEventListener("click", (event) => {
  const element = event.target.closest("[data-key]");
  if (element) select(element.dataset.key);
});

const toTime = (cycles) => (state.milliseconds ? cycles / page.mhz / 1e3 : cycles);
const timeUnit = () => (state.milliseconds ? "ms" : "cycles");
const time = (cycles) => (state.milliseconds ? `${significant.format(toTime(cycles))} ms` : `${count(cycles)} cycles`);
