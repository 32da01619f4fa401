// What happens when the page opens: figures are drawn as soon as their section is.

for (const place of document.querySelectorAll(".view")) {
  const draw = () => {
    if (place.dataset.drawn) return;
    place.dataset.drawn = true;
    views[place.dataset.view](place, page.views[place.dataset.index]);
  };
  const details = place.closest("details");
  if (details.open) draw();
  details.addEventListener("toggle", () => { if (details.open) draw(); });
}

const field = document.getElementById("search"), unit = document.getElementById("unit");

function showFound() {
  const number = state.found?.size ?? 0;
  document.getElementById("found").textContent = state.found ? `${count(number)} found` : "";
}

field.addEventListener("input", () => { search(field.value); showFound(); });
field.form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (state.found?.size) select([...state.found][0]);
});
field.form.hidden = !Object.keys(items).length;

unit.hidden = page.mhz === null;
function showUnit() {
  unit.textContent = state.milliseconds ? "Show cycles" : "Show ms";
}
unit.addEventListener("click", () => {
  state.milliseconds = !state.milliseconds;
  showUnit();
  changed("unit");
});
showUnit();

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") select(null);
  if (event.key === "/" && document.activeElement !== field) { event.preventDefault(); field.focus(); }
  if (event.key === "Enter" && document.activeElement?.tagName === "TH") document.activeElement.click();
});
