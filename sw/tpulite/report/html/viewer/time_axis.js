// What all figures over time share: which cycles are in view, moved by dragging, zoomed by buttons.

const inView = { start: 0, end: 0, whole: 0, frame: 0 };

function lookAt(start, end) {
  const least = Math.min(inView.whole, 20), length = Math.max(least, Math.min(end - start, inView.whole));
  inView.start = Math.max(0, Math.min(start, inView.whole - length));
  inView.end = inView.start + length;
  inView.frame ||= requestAnimationFrame(() => { // a drag moves more often than a screen shows
    inView.frame = 0;
    changed("view");
  });
}

function zoomTime(factor, at = (inView.start + inView.end) / 2) {
  lookAt(at - (at - inView.start) * factor, at + (inView.end - at) * factor);
}

function draggable(element, move) {
  let last = null, moved = 0;
  element.addEventListener("pointerdown", (event) => { last = event; moved = 0; });
  element.addEventListener("pointermove", (event) => {
    if (!last || !event.buttons) return;
    const dx = event.clientX - last.clientX, dy = event.clientY - last.clientY;
    moved += Math.abs(dx) + Math.abs(dy);
    last = event;
    if (moved > 3) move(dx, dy);
  });
  for (const what of ["pointerup", "pointerleave"]) element.addEventListener(what, () => { last = null; });
  // The end of a drag is no click on what happens to be there.
  element.addEventListener("click", (event) => { if (moved > 3) event.stopPropagation(); }, true);
}

function onWheel(element, zoom) {
  element.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the wheel alone scrolls the page
    event.preventDefault();
    zoom(2 ** (event.deltaY / 300), event);
  }, { passive: false });
}

function zoomButtons(zoom, reset) {
  const button = (text, title, act) => {
    const element = html("button", { type: "button", title, "aria-label": title }, text);
    element.addEventListener("click", act);
    return element;
  };
  return html("div", { class: "buttons" }, button("−", "Zoom out", () => zoom(2)),
    button("+", "Zoom in", () => zoom(0.5)), button("whole", "Show the whole", reset));
}

// A figure over time: `make` fills a frame, given the scale of x.
function overTime(place, height, left, make) {
  const holder = html("div");
  place.append(holder);
  function draw() {
    if (!place.clientWidth) return;
    const box = frame(place, height, left), x = linear(inView.start, inView.end, box.left, box.right);
    const shown = linear(toTime(inView.start), toTime(inView.end), box.left, box.right);
    axisBelow(box, shown, timeUnit(), tick);
    make(box, x);
    holder.replaceChildren(box.picture);
    place.scale = x;
  }
  draggable(holder, (dx) => {
    const cycles = (dx * (inView.end - inView.start)) / (place.clientWidth - left - 14);
    lookAt(inView.start - cycles, inView.end - cycles);
  });
  onWheel(holder, (factor, event) => {
    zoomTime(factor, place.scale.invert(event.clientX - holder.getBoundingClientRect().left));
  });
  drawn(place, draw);
  for (const what of ["view", "unit"]) on(what, draw);
  return draw;
}

const LEFT = 78;

function summed(steps) {
  let total = 0;
  return steps.map((step) => (total += step));
}

// The index of the first value that is larger.
function after(values, value) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > value) high = middle; else low = middle + 1;
  }
  return low;
}
