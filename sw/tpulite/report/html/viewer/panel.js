// The panel with everything that is known of one operator or layer.

function histogram({ low, high, counts }) {
  const width = 260, height = 64, most = Math.max(...counts), step = width / counts.length;
  const bars = counts.map((number, index) => svg("rect", {
    x: index * step, width: Math.max(step - 1, 0.5), fill: "var(--accent)",
    y: height - (height * number) / most, height: (height * number) / most,
  }));
  const label = `${count(counts.reduce((a, b) => a + b))} values from ${real(low)} to ${real(high)}`;
  return html("figure", {},
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, bars),
    html("figcaption", {}, label));
}

function facts(rows) {
  const shown = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return html("table", {}, shown.map(([name, value]) => html("tr", {}, html("th", {}, name), html("td", {}, value))));
}

function tensorFacts(tensor) {
  const rows = [["shape", `${tensor.shape} ${tensor.dtype}`], ["scale", tensor.scale], ["zero point", tensor.zero_point]];
  return html("div", { class: "tensor" }, html("h4", {}, `${tensor.role} `, html("code", { title: tensor.name }, tensor.name)),
    facts(rows), tensor.histogram ? histogram(tensor.histogram) : null);
}

function spentBar(spent) {
  const total = spent.reduce((sum, [, cycles]) => sum + cycles, 0) || 1;
  return html("div", { class: "spent" }, spent.map(([cause, cycles]) =>
    tell(html("i", { style: `width:${(100 * cycles) / total}%;background:${colorOf(cause)}` }),
      () => [cause, time(cycles), percent(cycles / total)])));
}

function layerFacts(layer, name) {
  const spent = layer.spent.map(([cause, cycles]) => `${cause} ${percent(cycles / layer.cycles)}`);
  const rows = [
    ["time", layer.cycles ? `${time(layer.cycles)}, ${percent(layer.share)} of all` : "hidden: it works only while others do"],
    ["limited by", layer.spent.length ? `${layer.spent[0][0]}: ${CAUSES[layer.spent[0][0]]}` : ""], ["spent on", spent.join(", ")],
    ["what would help", layer.cycles ? layer.advice : ""],
    ["MACs", layer.macs && count(layer.macs)],
    ["product", layer.product && `${count(layer.product[0])} vectors x ${count(layer.product[1])} products x ${count(layer.product[2])} channels`],
    ["utilization", layer.utilization === null ? "" : `${percent(layer.utilization)} of the multipliers`],
    ["DRAM read", bytes(layer.read)], ["DRAM written", bytes(layer.written)],
  ];
  return html("div", {}, layer.name === name ? null : html("h4", {}, layer.name), spentBar(layer.spent), facts(rows));
}

function part(title, ...content) {
  return content.flat().length ? html("section", {}, html("h3", {}, title), ...content) : null;
}

function showPanel() {
  const panel = document.getElementById("panel"), item = items[state.selected];
  panel.hidden = !item;
  document.body.classList.toggle("with-panel", Boolean(item));
  if (!item) return;
  const close = html("button", { type: "button", title: "Close (Esc)", "aria-label": "Close" }, "×");
  close.addEventListener("click", () => select(null));
  panel.replaceChildren(
    close,
    html("h2", {}, item.operator, item.where && html("span", { class: "badge", style: `background:${colorOf(item.where)}` },
      item.where === "none" ? "shape only" : item.where)),
    html("p", {}, html("code", {}, item.name)),
    facts(item.facts), ...item.notes.map((note) => html("p", { class: "note" }, note)),
    part("Cost", item.layers.map((layer) => layerFacts(layer, item.name))) ?? "",
    part("Tensors", item.tensors.map(tensorFacts)) ?? "",
    part("Attributes", item.attributes.length ? facts(item.attributes) : []) ?? "",
  );
  panel.scrollTop = 0;
}

on("select", showPanel);
on("unit", showPanel);
