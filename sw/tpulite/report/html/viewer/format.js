// Numbers as people read them, and colors.

const grouped = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });
const significant = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });

const count = (value) => grouped.format(value);

function real(value) {
  if (typeof value === "string") return value; // not finite, or no number at all
  if (Number.isInteger(value)) return grouped.format(value);
  return Math.abs(value) < 1e-3 ? value.toExponential(2) : significant.format(value);
}

const percent = (value) => (value && value < 0.001 ? "< 0.1 %" : `${(100 * value).toFixed(1)} %`);
const noun = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

function bytes(value) {
  if (value < 1024) return `${count(value)} B`;
  const [unit, size] = value < 1024 ** 2 ? ["KiB", 1024] : ["MiB", 1024 ** 2];
  return `${(value / size).toFixed(value < 10 * size ? 2 : 1)} ${unit}`;
}

function tick(value) {
  return Math.abs(value) >= 1e6 ? short.format(value) : significant.format(value);
}

// Decimals that give the largest of some numbers four digits.
const decimals = (most) => Math.max(0, Math.min(6, 3 - Math.floor(Math.log10(most || 1))));

const ending = (text, letters) => (text.length > letters ? `…${text.slice(1 - letters)}` : text);

// Green fills the array; blue works below its rate; red, orange and gray hold it up.
const COLORS = {
  "multipliers": "#2e9e5b", "weight tiles": "#45b8c4", "depthwise": "#4c78c8",
  "buffer": "#d64f4f", "vector path": "#9b5fc0", "DRAM": "#f0a03c", "waiting": "#a3a3a3",
  "MXU": "#2e9e5b", "VPU": "#9b5fc0", "CPU": "#d64f4f", "only the shape changes": "#8f8f8f",
  "every bit the same": "#2e9e5b", "the same where it is computed": "#45b8c4",
  "differs": "#d62728", "not compared": "#8f8f8f",
  "activation": "#4c78c8", "weight": "#2e9e5b", "scratch": "#f0a03c",
  "read": "#1f77b4", "written": "#d62728",
  "Pareto front": "#2e9e5b", "dominated": "#8f8f8f", "exceeds a limit": "#f0a03c",
};

// Neighbors differ: every second color of a palette of ten, then the others.
const LAYERS = [
  "#4c78c8", "#f0883c", "#3fa34d", "#d64f4f", "#9b5fc0", "#8c6a5b", "#d877b8", "#5c9ea8",
  "#b5a53a", "#6d8fd9", "#e2ab6b", "#7cc488", "#e58b88", "#b99bd6", "#b39a8f", "#a8a8a8",
];

const CAUSES = {
  "multipliers": "the matrix unit computes",
  "weight tiles": "the matrix unit computes, but fewer vectors meet a tile of weights than it has rows",
  "depthwise": "the matrix unit computes at the rate of depthwise convolutions",
  "buffer": "the matrix unit stalls on a bank conflict in the unified buffer",
  "vector path": "the vector unit computes, and the matrix unit is idle",
  "DRAM": "both units are idle during a load or store",
  "waiting": "both units are idle: commands, tokens or results are on their way",
};

const LINE = "var(--text)"; // what a legend shows as a line
const colorOf = (word) => COLORS[word] ?? "#8f8f8f";
const layerColor = (number) => (number < 0 ? "#8f8f8f" : LAYERS[number % LAYERS.length]);
