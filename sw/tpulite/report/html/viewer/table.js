// Tables: a click on a heading sorts, one on a row shows the details of what it is about.

const CELLS = {
  text: (value) => value,
  name: (value) => value,
  count, percent, bytes, real,
  number: (value) => real(value),
  time: (value, most) => (state.milliseconds ? toTime(value).toFixed(decimals(toTime(most))) : count(value)),
  badge: (value) => value && html("span", { class: "badge", style: `background:${colorOf(value)}` }, value),
};

const NUMBERS = new Set(["count", "percent", "bytes", "real", "time", "number"]);

function cell(column, value, most) {
  if (value === null || value === undefined) return html("td", {}, "");
  if (column.kind === "spent") {
    const total = value.reduce((sum, [, cycles]) => sum + cycles, 0);
    const bar = spentBar(value);
    bar.style.width = `${(100 * total) / most}%`;
    return html("td", { class: "bar" }, bar);
  }
  if (typeof value === "string" && NUMBERS.has(column.kind)) return html("td", { class: "number remark" }, value);
  const classes = NUMBERS.has(column.kind) ? "number" : column.kind;
  return html("td", { class: classes }, CELLS[column.kind](value, most));
}

function order(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

function causeLegend(rows, index) {
  const found = new Set(rows.flatMap((row) => (row[index] ?? []).map(([cause]) => cause)));
  return legend(Object.keys(COLORS).filter((cause) => found.has(cause)).map((cause) => [cause, colorOf(cause)]));
}

function legend(entries, title) {
  return html("ul", { class: "legend" }, title ? html("li", {}, `${title}:`) : null,
    entries.map(([label, color]) => {
      const entry = html("li", {}, html("i", { class: color === LINE ? "stroke" : null, style: `background:${color}` }), label);
      return label in CAUSES ? tell(entry, () => [label, CAUSES[label]]) : entry;
    }));
}

views.table = (place, data) => {
  const bars = data.columns.findIndex((column) => column.kind === "spent");
  const sums = data.rows.map((row) => (row[bars] ?? []).reduce((sum, [, cycles]) => sum + cycles, 0));
  const most = Math.max(1, ...sums);
  let sorted = data.rows.map((_, index) => index), by = null, down = false;

  const heads = data.columns.map((column, index) => {
    const head = html("th", { scope: "col", class: [NUMBERS.has(column.kind) ? "number" : "", column.title.length < 16 ? "short" : ""].join(" "), tabindex: 0 });
    head.addEventListener("click", () => {
      [down, by] = [by === index ? !down : NUMBERS.has(column.kind) && index > 0, index];
      const value = (row) => (column.kind === "spent" ? sums[row] : data.rows[row][index]);
      sorted.sort((a, b) => order(value(a), value(b)) * (down && value(a) !== null && value(b) !== null ? -1 : 1) || a - b);
      draw();
    });
    return head;
  });
  const body = html("tbody");
  const head = html("thead", {}, html("tr", {}, heads));
  const empty = html("p", { class: "empty", hidden: true }, "Nothing here has such a name.");

  function row(index) {
    const key = data.keys?.[index];
    const line = html("tr", {}, data.columns.map((column, i) => cell(column, data.rows[index][i], most)));
    if (!isFound(key)) line.hidden = true;
    line.classList.toggle("selected", key !== null && key === state.selected);
    return clickable(line, key);
  }
  function draw() {
    data.columns.forEach((column, index) => {
      const unit = column.kind === "time" ? timeUnit() : column.title;
      heads[index].textContent = unit + (by === index ? (down ? " ▾" : " ▴") : "");
    });
    const rows = sorted.map(row);
    body.replaceChildren(...rows);
    empty.hidden = rows.some((line) => !line.hidden);
  }
  place.append(bars < 0 ? "" : causeLegend(data.rows, bars),
    html("div", { class: "scroll" }, html("table", { class: "data" }, head, body)), empty);
  draw();
  for (const what of ["search", "select", "unit"]) on(what, draw);
};
