// Points over two axes, with lines among them.

views.scatter = (place, data) => {
  const [across, up] = data.axes;
  const kinds = [...new Set(data.points.map((point) => point.kind))];
  const marks = kinds.map((kind) => [kind, colorOf(kind)]);
  place.append(legend([...marks, ...data.lines.map((line) => [line.name, LINE])], data.legend));
  const holder = html("div");
  place.append(holder);

  function range(axis, name) {
    const values = [...data.points.map((point) => point[name]), ...data.lines.flatMap((line) => line.points.map((point) => point[name === "x" ? 0 : 1]))];
    const low = Math.min(...values), high = Math.max(...values);
    if (axis.log) {
      const room = Math.max(1.15, (high / low) ** 0.06);
      return [logarithmic, low / room, high * room];
    }
    const room = (high - low) * 0.06 || high * 0.1 || 1;
    return [linear, Math.max(0, low - room), high + room];
  }
  function draw() {
    if (!place.clientWidth || !data.points.length) return;
    const box = frame(place, 400, LEFT);
    const [alongX, ...x0] = range(across, "x"), [alongY, ...y0] = range(up, "y");
    const x = alongX(...x0, box.left, box.right), y = alongY(...y0, box.bottom, box.top);
    axisBelow(box, x, across.title, tick);
    axisLeft(box, y, up.title, tick);
    for (const line of data.lines) {
      const path = line.points.map(([a, b], i) => {
        const step = line.steps && i ? `L${x(a)},${y(line.points[i - 1][1])}` : "";
        return `${step}${i ? "L" : "M"}${x(a)},${y(b)}`;
      });
      box.inside.append(svg("path", { d: path.join(""), class: "line front" }));
    }
    const last = (point) => point.kind === kinds[0] && data.first;
    for (const point of [...data.points].sort((a, b) => last(a) - last(b))) {
      const mark = svg("circle", { cx: x(point.x), cy: y(point.y), r: point.size, fill: colorOf(point.kind), class: isFound(point.key) ? "point" : "point dim" });
      tell(mark, () => [point.name, `${real(point.x)} ${across.unit}`, `${real(point.y)} ${up.unit}`, ...point.tip]);
      box.inside.append(clickable(mark, point.key));
    }
    holder.replaceChildren(box.picture);
  }
  drawn(place, draw);
  on("search", draw);
};
