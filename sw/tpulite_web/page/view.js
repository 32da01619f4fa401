// What is drawn of a run: time of the engines, elements of the array, rows of the buffer.

const ENGINES = [
  { key: "load", name: "LOAD", does: "DRAM → buffer", color: "#4aa8ff" },
  { key: "store", name: "STORE", does: "buffer → DRAM", color: "#c58bff" },
  { key: "mxu", name: "MXU", does: "systolic array", color: "#ffb638" },
  { key: "vpu", name: "VPU", does: "element-wise", color: "#3ddc97" },
];
const DRAIN = { name: "Drain", does: "sums → int8 → buffer", color: "#ff8f5a" };
const STATES = ["idle", "busy", "waits for a token", "stalled on the buffer", "stalled on AXI"];
const STATE_COLORS = [null, null, "#33404f", "#d9556b", "#7d5ae0"];
const READ_PORTS = ["activation", "weight", "record", "vector A", "vector B", "store"];
const READ_COLORS = ["#ffffff", "#ffe08a", "#f5a3ff", "#8ff0c8", "#8ff0c8", "#c58bff"];
const WRITE_PORTS = ["drain", "load", "vector"];
const WRITE_COLORS = [DRAIN.color, "#4aa8ff", "#3ddc97"];
const NO_ROW = 0xffff;

// A cycle of the RTL, out of the bytes of watch.h's Frame.
function readFrame(seen, size, index, n) {
  const view = new DataView(seen.buffer, size * index, size);
  const many = (count, read) => Array.from({ length: count }, (_, i) => read(i));
  const sums = 44 + 3 * n, elements = sums + 4 * n;
  return {
    reads: many(6, (i) => view.getUint16(2 * i, true)),
    writes: many(3, (i) => view.getUint16(12 + 2 * i, true)),
    refused: view.getUint16(18, true),
    axi: view.getUint16(20, true),
    enters: view.getUint16(22, true) & 1,
    leaves: view.getUint16(22, true) & 2,
    index: many(4, (i) => view.getUint32(24 + 4 * i, true)),
    state: many(4, (i) => view.getUint8(40 + i)),
    data: many(3, (i) => many(n, (j) => view.getInt8(44 + n * i + j))),
    sums: many(n, (i) => view.getInt32(sums + 4 * i, true)),
    element: (row, column) => {
      const at = elements + 12 * (row * n + column);
      return {
        weight: view.getInt16(at, true), next: view.getInt16(at + 2, true),
        activation: view.getInt8(at + 4), valid: view.getUint8(at + 5), sum: view.getInt32(at + 8, true),
      };
    },
  };
}

// Fit a canvas to its place, in the pixels of the screen; return its context and size.
function fitted(canvas, height) {
  const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio))
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width];
}

const LABEL = 66, LANE = 22, BAND = 18;
const LAYER_COLORS = ["#2f4a66", "#4a3b66", "#2f5a50", "#66513a", "#5a3346", "#3d5a2f"];

// Return the layer of what the array computes over time: where each begins and ends, and which it is.
function layerSpans(spans, layers) {
  const layerOf = new Map();
  layers.forEach((layer, i) => [...layer.commands, ...layer.others].forEach((command) => layerOf.set(command, i)));
  const words = spans[2], found = [];
  for (let i = 0; i < words.length; i += 3) {
    const layer = words[i + 1] === 1 ? layerOf.get(words[i + 2]) : undefined;
    if (layer === undefined) continue;
    const end = words[i + 3] ?? words[i] + 1;
    if (found.length && found.at(-1).layer === layer) found.at(-1).end = end;
    else found.push({ start: words[i], end, layer, name: layers[layer].name });
  }
  return found;
}

// Draw what each engine does from `first` to `last`; return a function from a place to its cycle.
function drawTimeline(canvas, { spans, layers }, first, last, cycle, marks) {
  const height = BAND + 4 * LANE + 20;
  const [c, width] = fitted(canvas, height);
  const x = (t) => LABEL + ((t - first) / (last - first)) * (width - LABEL - 4);
  c.font = "11px system-ui, sans-serif";
  c.textBaseline = "middle";
  c.fillStyle = "#8fa1b3";
  c.fillText("Layer", 2, BAND / 2);
  for (const { start, end, layer, name } of layers) {
    if (end <= first || start >= last) continue;
    const left = x(Math.max(start, first)), wide = x(Math.min(end, last)) - left;
    c.fillStyle = LAYER_COLORS[layer % LAYER_COLORS.length];
    c.fillRect(left, 1, Math.max(wide, 0.6), BAND - 4);
    c.fillStyle = "#dce5ee";
    if (wide > 30) c.fillText(fitting(c, name, wide - 6), left + 3, BAND / 2 - 1);
  }
  ENGINES.forEach((engine, e) => {
    const y = BAND + e * LANE;
    c.fillStyle = "#8fa1b3";
    c.fillText(engine.name, 2, y + LANE / 2);
    c.fillStyle = "#0f151c";
    c.fillRect(LABEL, y + 2, width - LABEL - 4, LANE - 4);
    const words = spans[e], count = words.length / 3;
    let low = 0, high = count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (words[3 * middle] <= first) low = middle + 1;
      else high = middle;
    }
    for (let i = Math.max(0, low - 1); i < count && words[3 * i] < last; i++) {
      const state = words[3 * i + 1];
      if (!state) continue;
      const end = i + 1 < count ? words[3 * i + 3] : last;
      const left = x(Math.max(words[3 * i], first)), right = x(Math.min(end, last));
      c.fillStyle = STATE_COLORS[state] ?? engine.color;
      const inset = state === 1 ? 2 : 7;
      c.fillRect(left, y + inset, Math.max(right - left - (right - left > 4 ? 1 : 0), 0.6), LANE - 2 * inset);
      if (state === 1 && right - left > 26) {
        c.fillStyle = "#10151b";
        c.fillText(`#${words[3 * i + 2]}`, left + 4, y + LANE / 2);
      }
    }
  });
  c.fillStyle = "#8fa1b3";
  const step = niceStep((last - first) / Math.max(2, width / 110));
  for (let t = Math.ceil(first / step) * step; t < last; t += step)
    c.fillText(t.toLocaleString("en"), Math.min(x(t), width - 40), BAND + 4 * LANE + 11);
  c.fillStyle = "#ffffff14";
  if (marks) c.fillRect(x(marks[0]), 0, Math.max(2, x(marks[1]) - x(marks[0])), BAND + 4 * LANE);
  c.fillStyle = "#fff";
  c.fillRect(x(cycle + 0.5) - 0.75, 0, 1.5, BAND + 4 * LANE + 3);
  return (place) => Math.floor(first + ((place - LABEL) / (width - LABEL - 4)) * (last - first));
}

function fitting(context, name, width) {
  if (context.measureText(name).width <= width) return name;
  const letters = Math.floor((name.length * width) / context.measureText(name).width) - 1;
  return letters < 2 ? "" : `${name.slice(0, letters)}…`;
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((k) => k * power).find((k) => k >= least) || 10 * power;
}

function drawArray(canvas, frame, n) {
  const available = canvas.clientWidth, margin = 50, gap = n > 4 ? 3 : 6;
  const cell = Math.min((available - margin - 4) / n, n > 4 ? 66 : 96);
  const height = 12 + n * cell + 44;
  const [c] = fitted(canvas, height);
  const left = margin + (available - margin - n * cell) / 2;
  const font = (size, bold) => (c.font = `${bold ? "600 " : ""}${Math.round(size)}px ui-monospace, monospace`);
  c.textAlign = "center";
  c.textBaseline = "middle";
  for (let r = 0; r < n; r++) {
    const y = 12 + r * cell;
    const entering = frame.element(r, 0);
    font(Math.min(13, cell / 4.2), true);
    c.fillStyle = entering.valid ? "#ffb638" : "#3a4655";
    c.textAlign = "right";
    c.fillText(entering.valid ? `${entering.activation} ▸` : "·", left - 6, y + cell / 2);
    c.textAlign = "center";
    for (let k = 0; k < n; k++) {
      const e = frame.element(r, k), x = left + k * cell, size = cell - gap;
      const strength = Math.min(1, Math.abs(e.weight) / 128);
      c.fillStyle = e.weight < 0 ? `rgba(255, 99, 120, ${0.08 + 0.42 * strength})` : `rgba(74, 168, 255, ${0.08 + 0.42 * strength})`;
      c.beginPath();
      c.roundRect(x, y, size, size, 5);
      c.fill();
      if (e.valid) {
        c.strokeStyle = "#ffb638";
        c.lineWidth = 2;
        c.stroke();
      }
      font(cell / 4.4, true);
      c.fillStyle = e.valid ? "#fff" : "#b9c6d3";
      c.fillText(e.weight, x + size / 2, y + size * 0.22);
      font(Math.min(14, cell / 4.8));
      c.fillStyle = e.valid ? "#ffb638" : "#48566a";
      c.fillText(e.valid ? e.activation : "", x + size / 2, y + size * 0.53);
      c.fillStyle = e.valid ? "#7fe3b4" : "#48566a";
      c.fillText(e.valid ? e.sum : "", x + size / 2, y + size * 0.83);
    }
  }
  const y = 12 + n * cell;
  for (let k = 0; k < n; k++) {
    font(Math.min(13, cell / 4.6), true);
    c.fillStyle = frame.leaves ? "#7fe3b4" : "#3a4655";
    c.fillText(frame.leaves ? "▾" : "·", left + k * cell + (cell - gap) / 2, y + 8);
    c.fillText(frame.leaves ? frame.sums[k] : "", left + k * cell + (cell - gap) / 2, y + 26);
  }
}

// The buffer as a picture of its rows: who wrote each, brighter for larger values.
class BufferView {
  constructor(canvas, writers, n) {
    [this.canvas, this.n] = [canvas, n];
    this.rows = [...writers.keys()].filter((row) => writers[row]);
    this.places = new Map(this.rows.map((row, place) => [row, place]));
    this.side = Math.max(8, Math.ceil(Math.sqrt(this.rows.length)));
    this.image = new ImageData(this.side, Math.max(1, Math.ceil(this.rows.length / this.side)));
    this.plain = new OffscreenCanvas(this.side, this.image.height);
  }

  start(buffer, writers) {
    [this.buffer, this.writers] = [buffer.slice(), writers.slice()];
    for (const row of this.rows) this.paint(row);
  }

  write(frame) {
    frame.writes.forEach((row, port) => {
      if (row === NO_ROW) return;
      this.buffer.set(frame.data[port].map((value) => value & 255), row * this.n);
      this.writers[row] = port + 1;
      this.paint(row);
    });
  }

  paint(row) {
    const writer = this.writers[row], at = 4 * this.places.get(row);
    if (!writer) return this.image.data.set([18, 25, 33, 255], at);
    let most = 0;
    for (let i = 0; i < this.n; i++) most = Math.max(most, Math.abs((this.buffer[row * this.n + i] << 24) >> 24));
    const bright = 0.28 + (0.72 * most) / 128;
    const color = parseInt(WRITE_COLORS[writer - 1].slice(1), 16);
    this.image.data.set([16, 8, 0].map((s) => ((color >> s) & 255) * bright).concat(255), at);
  }

  // What lies at a place of the canvas.
  at(x, y) {
    const cell = this.canvas.clientWidth / this.side;
    const row = this.rows[Math.floor(y / cell) * this.side + Math.floor(x / cell)];
    if (row === undefined) return "";
    const values = [...this.buffer.subarray(row * this.n, (row + 1) * this.n)].map((value) => (value << 24) >> 24);
    const writer = this.writers[row];
    return `row ${row}: ${writer ? `${values.join(" ")}, written by ${WRITE_PORTS[writer - 1]}` : "not written yet"}`;
  }

  draw(frame) {
    const size = this.canvas.clientWidth;
    const [c] = fitted(this.canvas, size);
    this.plain.getContext("2d").putImageData(this.image, 0, 0);
    c.imageSmoothingEnabled = false;
    c.drawImage(this.plain, 0, 0, size, (size * this.image.height) / this.side);
    const cell = size / this.side;
    const ring = (row, color, wide) => {
      const place = this.places.get(row);
      if (place === undefined) return;
      c.strokeStyle = color;
      c.lineWidth = 2;
      const r = wide ? 7 : 5;
      c.strokeRect(((place % this.side) + 0.5) * cell - r, (Math.floor(place / this.side) + 0.5) * cell - r, 2 * r, 2 * r);
    };
    frame.reads.forEach((row, i) => row !== NO_ROW && ring(row, READ_COLORS[i], false));
    frame.writes.forEach((row, i) => row !== NO_ROW && ring(row, WRITE_COLORS[i], true));
  }
}

// The ports of the buffer in a cycle, as lines of text.
function portLines(frame) {
  const lines = [];
  const shown = (values) => values.join(" ");
  frame.writes.forEach((row, i) => row !== NO_ROW && lines.push([`write ${WRITE_PORTS[i]}`, `row ${row} ← ${shown(frame.data[i])}`, WRITE_COLORS[i]]));
  frame.reads.forEach((row, i) => row !== NO_ROW && lines.push([`read ${READ_PORTS[i]}`, `row ${row}`, READ_COLORS[i]]));
  [...READ_PORTS, ...WRITE_PORTS].forEach((name, i) => (frame.refused >> i) & 1 && lines.push([name, "refused: another port has the bank", "#d9556b"]));
  const beats = ["AR", "R", "AW", "W", "B"].filter((_, i) => (frame.axi >> i) & 1);
  if (beats.length) lines.push(["DRAM", `AXI transfer ${beats.join(" ")}`, "#8fa1b3"]);
  return lines;
}
