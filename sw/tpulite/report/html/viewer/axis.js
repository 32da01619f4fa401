// Scales and axes of figures.

function linear(low, high, from, to) {
  const scale = (value) => from + ((value - low) * (to - from)) / (high - low || 1);
  scale.invert = (pixel) => low + ((pixel - from) * (high - low)) / (to - from);
  scale.ticks = (number) => {
    const rough = (high - low) / Math.max(1, number), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
    const found = [];
    for (let at = Math.ceil(low / step); at * step <= high * (1 + 1e-12); at++) found.push(at * step);
    return found;
  };
  return scale;
}

function logarithmic(low, high, from, to) {
  const inner = linear(Math.log(low), Math.log(high), from, to);
  const scale = (value) => inner(Math.log(value));
  scale.ticks = (number) => {
    const decades = Math.log10(high / low);
    const steps = decades > number ? [1] : decades * 3 > number ? [1, 3] : decades > 0.8 ? [1, 2, 5] : null;
    if (!steps) return linear(low, high, from, to).ticks(number);
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
      for (const step of steps) found.push(step * 10 ** power);
    return found.filter((value) => value >= low && value <= high);
  };
  return scale;
}

// The frame of a figure: left and below there is room for axes.
function frame(place, height, left) {
  const width = Math.max(260, place.clientWidth);
  const box = { left, right: width - 14, top: 8, bottom: height - 40, width, height };
  const inside = svg("g"), axes = svg("g", { class: "axes" });
  const clip = `clip${frame.number++}`;
  const picture = svg("svg", { width, height, class: "figure" },
    svg("clipPath", { id: clip }, svg("rect", { x: left, y: 0, width: box.right - left, height: box.bottom })),
    axes, svg("g", { "clip-path": `url(#${clip})` }, inside));
  return { ...box, inside, axes, picture };
}
frame.number = 0;

function axisBelow(box, scale, title, label) {
  const { left, right, top, bottom, axes } = box;
  for (const value of scale.ticks((right - left) / 90)) {
    const x = scale(value);
    axes.append(svg("line", { x1: x, x2: x, y1: top, y2: bottom, class: "grid" }),
      svg("text", { x, y: bottom + 15, "text-anchor": "middle" }, label(value)));
  }
  axes.append(svg("line", { x1: left, x2: right, y1: bottom, y2: bottom }),
    svg("text", { x: (left + right) / 2, y: bottom + 33, "text-anchor": "middle", class: "title" }, title));
}

function axisLeft(box, scale, title, label) {
  const { left, right, top, bottom, axes } = box;
  for (const value of scale.ticks((bottom - top) / 30)) {
    const y = scale(value);
    axes.append(svg("line", { x1: left, x2: right, y1: y, y2: y, class: "grid" }),
      svg("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, label(value)));
  }
  const x = 12, y = (top + bottom) / 2;
  axes.append(svg("line", { x1: left, x2: left, y1: top, y2: bottom }),
    svg("text", { x, y, transform: `rotate(-90 ${x} ${y})`, "text-anchor": "middle", class: "title" }, title));
}

// Draw now, and again whenever the place becomes wider or narrower.
function drawn(place, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (!place.clientWidth || place.clientWidth === width) return;
    width = place.clientWidth;
    draw();
  }).observe(place);
}
