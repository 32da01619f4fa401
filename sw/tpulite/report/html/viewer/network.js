// The network as boxes and arrows; dragging moves it, buttons zoom it.

const MARGIN = 24, TALLEST = 620, OVERVIEW = 110;

views.network = (place, data) => {
  const [wide, high] = data.box, boxes = data.boxes;
  const reach = (axis, half) => [Math.min(...boxes.map((box) => box[axis])) - half, Math.max(...boxes.map((box) => box[axis])) + half];
  const [left, right] = reach("x", wide / 2 + MARGIN), [top, bottom] = reach("y", high / 2 + MARGIN);
  const lines = data.arrows.map(([from, to, path]) =>
    svg("path", { d: path, class: "arrow", "data-from": from, "data-to": to, "marker-end": "url(#head)" }));
  const drawnBoxes = boxes.map((box, index) => drawBox(box, index, wide, high, lines));
  const whole = svg("g", { id: "whole" }, lines, drawnBoxes);
  const picture = svg("svg", { class: "network" },
    svg("defs", {}, svg("marker", { id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" },
      svg("path", { d: "M0,0L8,4L0,8z", class: "head" }))), whole);
  const shown = svg("rect", { class: "shown" });
  const overview = svg("svg", { class: "overview", viewBox: `${left} ${top} ${right - left} ${bottom - top}`, width: OVERVIEW, preserveAspectRatio: "xMidYMin" },
    svg("use", { href: "#whole" }), shown);
  const view = { x: left, y: top, scale: 1 };

  function draw() {
    const { clientWidth: width, clientHeight: height } = picture;
    view.x = Math.max(left - width * view.scale / 2, Math.min(right - width * view.scale / 2, view.x));
    view.y = Math.max(top - height * view.scale / 2, Math.min(bottom - height * view.scale / 2, view.y));
    const size = { x: view.x, y: view.y, width: width * view.scale, height: height * view.scale };
    picture.setAttribute("viewBox", Object.values(size).join(" "));
    for (const [name, value] of Object.entries(size)) shown.setAttribute(name, value);
  }
  function center(x, y) {
    view.x = x - (picture.clientWidth * view.scale) / 2;
    view.y = y - (picture.clientHeight * view.scale) / 2;
    draw();
  }
  function zoom(factor, x = picture.clientWidth / 2, y = picture.clientHeight / 2) {
    const scale = Math.max(0.4, Math.min(Math.max(1, (bottom - top) / picture.clientHeight, (right - left) / picture.clientWidth), view.scale * factor));
    view.x += x * (view.scale - scale);
    view.y += y * (view.scale - scale);
    view.scale = scale;
    draw();
  }
  function reset() {
    view.scale = Math.min(1.25, Math.max(1, (right - left) / picture.clientWidth));
    view.x = (left + right - picture.clientWidth * view.scale) / 2;
    view.y = top;
    draw();
  }
  draggable(picture, (dx, dy) => {
    view.x -= dx * view.scale;
    view.y -= dy * view.scale;
    draw();
  });
  onWheel(picture, (factor, event) => zoom(factor, event.offsetX, event.offsetY));
  overview.addEventListener("click", (event) => {
    const size = overview.getBoundingClientRect();
    center(left + ((event.clientX - size.left) / size.width) * (right - left), top + ((event.clientY - size.top) / size.height) * (bottom - top));
  });
  const buttons = zoomButtons((factor) => zoom(factor), reset);
  const tall = Math.min(bottom - top, TALLEST);
  picture.style.height = `${tall}px`;
  overview.style.height = `${tall}px`;
  const meanings = boxes.map((box) => box.meaning).filter((meaning) => meaning);
  const entries = [...new Set(meanings)].map((meaning) =>
    [`${meaning}: ${count(meanings.filter((each) => each === meaning).length)}`, colorOf(meaning)]);
  place.append(html("div", { class: "bar-above" }, legend(entries), buttons),
    html("div", { class: "drawing" }, bottom - top > TALLEST ? overview : null, picture));
  drawn(place, reset);

  const index = Object.fromEntries(boxes.map((box, number) => [box.name, number]));
  on("search", () => {
    drawnBoxes.forEach((box, number) => box.classList.toggle("dim", state.found !== null && !(boxes[number].meaning && isFound(boxes[number].name))));
    const found = boxes.filter((box) => box.meaning && state.found?.has(box.name));
    const visible = ({ y }) => y > view.y && y < view.y + picture.clientHeight * view.scale;
    if (found.length && !found.some(visible)) center(found[0].x, found[0].y);
  });
  on("select", () => {
    drawnBoxes.forEach((box) => box.classList.remove("selected"));
    drawnBoxes[index[state.selected]]?.classList.add("selected");
  });
};

function drawBox(box, index, wide, high, lines) {
  const color = box.meaning ? colorOf(box.meaning) : "var(--line)";
  const x = -wide / 2, y = -high / 2, letters = 41;
  const said = () => (box.cycles ? time(box.cycles) : box.line);
  const line = svg("text", { x: -x - 8, y: 12, "text-anchor": "end" }, said());
  on("unit", () => { line.textContent = said(); });
  const element = svg("g", { class: "box", transform: `translate(${box.x} ${box.y})` },
    svg("rect", { x, y, width: wide, height: high, rx: 5, class: "paper" }),
    svg("rect", { x, y, width: wide, height: high, rx: 5, fill: box.meaning ? color : "none", "fill-opacity": 0.16, stroke: color, "stroke-width": box.alarm ? 5 : 1, class: "edge" }),
    box.part ? svg("rect", { x: x + 1, y: -y - 5, width: (wide - 2) * box.part, height: 4, fill: color }) : null,
    svg("text", { x: x + 8, y: -6, class: "strong" }, box.operator),
    svg("text", { x: -x - 8, y: -6, "text-anchor": "end", class: "soft" }, ending(box.name, Math.max(8, letters - Math.round(1.35 * box.operator.length)))),
    svg("text", { x: x + 8, y: 12, class: "soft" }, ending(box.shape, letters - line.textContent.length)), line);
  const mine = lines.filter((line) => line.dataset.from == index || line.dataset.to == index);
  element.addEventListener("pointerenter", () => mine.forEach((line) => line.classList.add("lit")));
  element.addEventListener("pointerleave", () => mine.forEach((line) => line.classList.remove("lit")));
  tell(element, () => [`${box.operator} ${box.name}`, box.takes ? `${box.takes} to ${box.shape}` : box.shape,
    box.meaning, box.why, said()]);
  return box.meaning ? clickable(element, box.name) : element;
}
