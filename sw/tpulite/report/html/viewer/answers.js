// Inputs as pictures, and what the network answered.

views.answers = (place, data) => {
  for (const run of data) {
    const pictures = run.pictures.map((picture) => html("figure", {},
      html("img", { src: picture.url, alt: `input ${picture.name}` }), html("figcaption", {}, `${picture.name}, ${picture.shape}`)));
    const outputs = run.outputs.map((output) => {
      const most = Math.max(...output.top.map((each) => Math.abs(each.value)).filter(Number.isFinite), 1e-30);
      const rows = output.top.map((each, index) => html("tr", { class: index ? "" : "first" },
        html("th", {}, each.label), html("td", { class: "number" }, real(each.value)),
        html("td", { class: "bar" }, html("div", { style: `width:${(100 * Math.max(0, Number(each.value) || 0)) / most}%` }))));
      return html("div", {}, html("h4", {}, "output ", html("code", {}, output.name)),
        html("table", { class: "classes" }, rows), output.lines.map((line) => html("p", {}, line)));
    });
    const expected = run.expected ? html("p", { class: "note" }, run.expected) : null;
    place.append(html("article", { class: "answer" }, html("h3", {}, run.name, html("small", {}, run.remark)), html("div", { class: "pictures" }, pictures),
      html("div", { class: "outputs" }, outputs, expected)));
  }
};
