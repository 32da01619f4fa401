// Rectangles: rows of a memory over time, live ranges, rows of slices.

views.rectangles = (place, data) => {
  const [wide, tall] = data.end, ticks = data.ticks;
  const letters = ticks ? Math.min(26, Math.max(...ticks.map(([, text]) => text.length))) : 0;
  const colors = new Set(data.kinds.map((kind) => kind.color).filter((color) => color));
  if (colors.size) place.append(legend([...colors].map((color) => [color, colorOf(color)])));

  function fill(box, x) {
    const left = Math.max(LEFT, 7 * letters + 14);
    const y = linear(0, tall, box.top, box.bottom);
    if (ticks) for (const [at, text] of ticks) {
      box.axes.append(tell(svg("text", { x: box.left - 6, y: y(at) + 4, "text-anchor": "end" }, ending(text, letters)), () => [text]));
    } else {
      axisLeft(box, linear(0, tall, box.bottom, box.top), data.axes[1], tick);
    }
    const up = ticks ? y : linear(0, tall, box.bottom, box.top);
    for (const [start, stop, low, high, number] of data.rects) {
      if (data.time && (stop < inView.start || start > inView.end)) continue;
      const kind = data.kinds[number], [a, b] = [up(low), up(high)].sort((p, q) => p - q);
      const rect = svg("rect", {
        x: x(start), width: Math.max(0.5, x(stop) - x(start)), y: a, height: Math.max(0.5, b - a),
        fill: kind.color ? colorOf(kind.color) : layerColor(kind.layer), "fill-opacity": kind.light ? 0.4 : kind.color ? 0.6 : 1,
        class: kind.key === undefined || isFound(kind.key) ? "block" : "block dim",
      });
      tell(rect, () => [kind.label, kind.tip,
        data.time ? `rows ${count(low)} to ${count(high - 1)}` : `${data.axes[0]}: ${count(start)} to ${count(stop - 1)}`,
        data.time ? `${time(start)} to ${time(stop)}` : ""]);
      box.inside.append(clickable(rect, kind.key));
      if (kind.text && x(stop) - x(start) > 14 && b - a > 9)
        box.inside.append(svg("text", { x: (x(start) + x(stop)) / 2, y: (a + b) / 2 + 4, "text-anchor": "middle", class: "label" }, kind.text));
    }
    return left;
  }
  if (data.time) {
    on("search", overTime(place, data.height, LEFT, fill));
    return;
  }
  const holder = html("div");
  place.append(holder);
  drawn(place, () => {
    const box = frame(place, data.height, Math.max(LEFT, Math.min(7 * letters + 14, place.clientWidth / 2.5)));
    const x = linear(0, wide, box.left, box.right);
    axisBelow(box, x, data.axes[0], tick);
    fill(box, x);
    holder.replaceChildren(box.picture);
  });
};
