// What each engine does when, where parts run on the CPU, and what DRAM moves.

const LANE = 36;

views.timeline = (place, data) => {
  inView.whole = inView.end = data.end;
  const tracks = data.tracks.map((track) => {
    const first = summed(track.first), start = first.map((cycle, i) => cycle + track.wait[i]);
    const stop = start.map((cycle, i) => cycle + track.work[i]);
    return { name: track.name, first, start, stop, layer: summed(track.layer), number: summed(track.number), opcode: track.opcode };
  });
  const lanes = [...tracks.map((track) => track.name), ...(data.cpu.length ? ["CPU"] : [])];
  place.append(html("div", { class: "bar-above" }, html("span", {}, ""),
    zoomButtons(zoomTime, () => lookAt(0, inView.whole))));
  const draw = overTime(place, LANE * lanes.length + 48, LEFT, (box, x) => {
    lanes.forEach((name, lane) => box.axes.append(
      svg("text", { x: LEFT - 8, y: box.top + LANE * (lane + 0.5) + 4, "text-anchor": "end", class: "strong" }, name)));
    tracks.forEach((track, lane) => box.inside.append(...commands(track, data, x, box.top + LANE * lane)));
    if (data.cpu.length) box.inside.append(...cpuParts(data, x, box, box.top + LANE * tracks.length));
  });
  if (data.cpu.length) place.append(html("p", { class: "hint" },
    "The CPU lane shows after which cycle a part runs on the CPU. Its width means nothing: the time of the CPU is not simulated, and the accelerator waits meanwhile."));
  on("search", draw);
};

// The commands in view: neighbors of a layer that a pixel holds together are one bar.
function commands(track, data, x, top) {
  const bars = [], from = Math.max(0, after(track.stop, inView.start) - 1);
  let drawnTo = -1;
  for (let i = from; i < track.first.length && track.first[i] <= inView.end; i++) {
    const layer = track.layer[i], begin = i, left = x(track.start[i]);
    while (i + 1 < track.first.length && track.layer[i + 1] === layer && x(track.stop[i + 1]) - left < 1) i++;
    while (i + 1 < track.first.length && track.layer[i + 1] === layer && x(track.start[i + 1]) - x(track.stop[i]) < 0.5 && x(track.stop[i + 1]) - x(track.start[i + 1]) < 2) i++;
    const right = x(track.stop[i]);
    if (right < drawnTo) continue;
    const waited = x(track.first[begin]);
    if (left - waited > 0.7) bars.push(svg("rect", { x: waited, y: top + 4, width: left - waited, height: LANE - 8, class: "waits" }));
    const key = data.keys[layer], name = data.layers[layer] ?? "end of the program", last = i;
    const bar = svg("rect", { x: left, y: top + 4, width: Math.max(0.7, right - left), height: LANE - 8, fill: layerColor(layer), class: isFound(key) ? "bar" : "bar dim" });
    tell(bar, () => [name,
      last > begin ? noun(last - begin + 1, "command") : `${data.opcodes[track.opcode[begin]]} ${count(track.number[begin])}`,
      `${time(track.start[begin])} to ${time(track.stop[last])}`,
      track.start[begin] > track.first[begin] ? `waits from ${time(track.first[begin])}` : ""]);
    bars.push(clickable(bar, key));
    drawnTo = right;
  }
  return bars;
}

function cpuParts(data, x, box, top) {
  const wide = 14, places = [];
  return data.cpu.flatMap((part, order) => {
    if (part.at < inView.start || part.at > inView.end) return [];
    // Side by side, in order, where several run after the same cycle.
    let left = Math.max(box.left, Math.min(box.right - wide, x(part.at) - wide / 2));
    if (places.length && left < places.at(-1) + wide + 1 && data.cpu[order - 1].at === part.at) left = places.at(-1) + wide + 1;
    places.push(left);
    const bar = svg("rect", { x: left, y: top + 5, width: wide, height: LANE - 10, rx: 3, fill: colorOf("CPU"), class: part.keys.some(isFound) ? "cpu" : "cpu dim" });
    tell(bar, () => [`${order + 1}. on the CPU: ${part.name}`, `by ${part.by}, ${noun(part.keys.length, "operator")}, ${noun(part.macs, "MAC")}`,
      `after ${time(part.at)} of the accelerator; time on the CPU is not simulated`]);
    return clickable(bar, part.keys[0]);
  });
}

views.bandwidth = (place, data) => {
  const lines = data.lines.map((line) => {
    const cycle = [...summed(line.cycle), data.end], moved = [0];
    line.rate.forEach((rate, i) => moved.push(moved[i] + rate * (cycle[i + 1] - cycle[i])));
    return { name: line.name, cycle, moved };
  });
  place.append(legend(lines.map((line) => [`DRAM ${line.name}`, colorOf(line.name)])));
  const highest = Math.max(1, ...data.lines.flatMap((line) => line.rate));
  overTime(place, 180, LEFT, (box, x) => {
    const y = linear(0, highest * 1.05, box.bottom, box.top), pixels = Math.floor((box.right - box.left) / 2);
    axisLeft(box, y, "byte/cycle", tick);
    for (const line of lines) {
      const edges = Array.from({ length: pixels + 1 }, (_, i) => inView.start + ((inView.end - inView.start) * i) / pixels);
      const at = edges.map((cycle) => upTo(line, cycle));
      let path = "";
      for (let i = 0; i < pixels; i++) {
        const rate = y((at[i + 1] - at[i]) / (edges[i + 1] - edges[i]));
        path += `${i ? "L" : "M"}${x(edges[i]).toFixed(1)},${rate.toFixed(1)}H${x(edges[i + 1]).toFixed(1)}`;
      }
      box.inside.append(svg("path", { d: path, stroke: colorOf(line.name), class: "line" }));
    }
    const over = svg("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top, fill: "transparent" });
    let at = 0;
    over.addEventListener("pointermove", (event) => { at = x.invert(event.clientX - place.getBoundingClientRect().left); });
    const width = ((inView.end - inView.start) * 2) / (box.right - box.left);
    tell(over, () => [time(Math.round(at)), ...lines.map((line) => {
      const low = Math.max(0, at - width / 2), high = Math.min(data.end, at + width / 2);
      return `${line.name} ${real((upTo(line, high) - upTo(line, low)) / (high - low || 1))} byte/cycle`;
    })]);
    box.inside.append(over);
  });
};

// Bytes that have been moved until a cycle.
function upTo({ cycle, moved }, at) {
  const i = Math.min(Math.max(1, after(cycle, at)), cycle.length - 1);
  const span = cycle[i] - cycle[i - 1];
  return span ? moved[i - 1] + ((moved[i] - moved[i - 1]) * (at - cycle[i - 1])) / span : moved[i];
}
