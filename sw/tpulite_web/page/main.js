// The page: which chip and network, what they answer, and the player of cycles.
"use strict";

const $ = (id) => document.getElementById(id);
const facts = JSON.parse($("facts").textContent);
const text = (number) => number.toLocaleString("en");
const FRAMES = 256, KEPT_BLOCKS = 64, WINDOW = 96;

const state = { chip: null, network: null, given: null, digit: null, results: null, part: 0, cycle: null, playing: false };
const chips = {}, networks = {}, blocks = new Map();
let waiting = new Map(), requests = 0, buffer = null, shownBlock = null, shownCycle = -1, toCycle = [null, null];

function decoded(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

// A worker for each chip: it simulates while the page stays awake.
async function openChip(name) {
  if (chips[name]) return chips[name];
  const source = URL.createObjectURL(new Blob([$("worker").textContent], { type: "text/javascript" }));
  const worker = new Worker(source);
  worker.onmessage = ({ data }) => {
    const request = waiting.get(data.id);
    if (!request) return;
    if (data.cycles !== undefined) return request.tell?.(data.cycles);
    waiting.delete(data.id);
    if (data.error) request.reject(new Error(`The simulator stopped: ${data.error}.`));
    else request.resolve(data);
  };
  const about = facts.chips[name];
  chips[name] = {
    ask: (message, tell) =>
      new Promise((resolve, reject) => {
        waiting.set(++requests, { resolve, reject, tell });
        worker.postMessage({ ...message, id: requests });
      }),
  };
  const wasm = await decompressed(decoded(about.wasm), "gzip");
  const { ub_rows: rows, array_size: n } = about.config;
  await chips[name].ask({ op: "open", wasm, facts: { counters: facts.counters, bufferRows: rows, bufferBytes: rows * n } });
  return chips[name];
}

function say(error) {
  $("message").hidden = !error;
  $("message").textContent = error ? error.message : "";
}

// Run the network on what is given: pixels, or the input that travels in the file.
let running = null, again = false;
async function run() {
  if (running) return void (again = true);
  running = true;
  const { network, given } = state;
  try {
    $("answer").classList.add("working");
    const chip = await openChip(network.chip);
    const programs = network.programs.map((program) => ({
      ...program,
      inputs: given ? program.inputs.map((input) => ({ ...input, data: new Uint8Array(given.pixels.buffer) })) : program.inputs,
    }));
    const total = network.cycles ? ` of about ${text(sum(network.cycles))}` : "";
    const { results, seconds } = await chip.ask({ op: "run", programs }, (cycles) => {
      $("verdict").textContent = `simulating: ${text(cycles)}${total} cycles`;
    });
    if (state.network !== network) return;
    Object.assign(state, { results, part: Math.min(state.part, results.length - 1) });
    blocks.clear();
    shownBlock = null;
    showAnswer(network, given, results, seconds);
    // The first time, begin where the array is at work.
    choosePart(state.part, state.cycle ?? Math.floor(results[state.part].ticks / 4));
    document.body.dataset.runs = Number(document.body.dataset.runs || 0) + 1;
  } catch (error) {
    say(error);
  } finally {
    running = null;
    if (again) {
      again = false;
      run();
    }
  }
}

const sum = (numbers) => numbers.reduce((a, b) => a + b);

// Of a network that comes with the page: what the cycle model says, and how far it is off.
function predicted(model, rtl) {
  const off = `${rtl > model ? "−" : "+"}${((Math.abs(model - rtl) / rtl) * 100).toFixed(2)} %`;
  return `${text(model)} (${rtl === model ? "equal" : off})`;
}

function showAnswer(network, given, results, seconds) {
  const fault = results.find((result) => result.fault);
  const rtl = sum(results.map((result) => result.counters.cycles));
  const busy = sum(results.map((result) => result.counters.mxu_busy));
  const rows = [
    ["RTL", `${text(rtl)} cycles`],
    ...(network.cycles ? [["cycle model", predicted(sum(network.cycles), rtl)]] : []),
    ["array busy", `${((100 * busy) / rtl).toFixed(1)} %`],
    ["simulated", `${text(Math.round(rtl / seconds))} cycles/s`],
  ];
  $("name").textContent = `${network.name} on ${network.chip.replace("x", " × ")}`;
  $("figures").innerHTML = rows.map(([name, value]) => `<dt>${name}</dt><dd>${value}</dd>`).join("");
  document.body.dataset.cycles = rtl;
  $("digit").hidden = $("digit").style.display = "none";
  $("checked").hidden = true;
  if (fault) return verdict(false, `The chip stopped at fault ${fault.fault} of command ${fault.index}.`);
  if (network.digits) showDigit(results[0].outputs[0]);
  const expected = results.flatMap((result, i) =>
    result.outputs.map((got, k) => {
      const output = network.programs[i].outputs[k];
      const data = given ? given.expected : output.data;
      return { name: output.name, item: output.item, got, data };
    }),
  );
  compare(expected.filter((each) => each.data), Boolean(given));
}

function showDigit(output) {
  const logits = [...new Int8Array(output.buffer, output.byteOffset, CLASSES)];
  const best = logits.indexOf(Math.max(...logits));
  $("digit").style.display = "";
  $("digit").hidden = false;
  $("class").textContent = best;
  document.body.dataset.class = best;
  $("bars").innerHTML = logits
    .map((value, i) => `<div class="${i === best ? "best" : ""}"><span>${i}</span><u><i style="width:${Math.abs(value) / 2.56}%;${value < 0 ? "right" : "left"}:50%"></i></u>${value}</div>`)
    .join("");
}

function verdict(good, sentence) {
  $("verdict").className = good === null ? "" : good ? "good" : "bad";
  $("verdict").textContent = sentence;
}

// Compare every byte with what the golden model gave, and say which differ.
function compare(outputs, given) {
  if (!outputs.length) return verdict(null, "");
  const split = state.network.split ? " Parts of the network run on the CPU: their tensors come from the file." : "";
  let bytes = 0;
  const wrong = [], cells = [];
  for (const { name, got, data } of outputs)
    got.forEach((value, i) => {
      bytes++;
      const same = value === data[i];
      if (!same) wrong.push(`byte ${i} of ${name} is ${value}, expected ${data[i]}`);
      if (cells.length < 4096) cells.push(`<i class="${same ? "" : "bad"}" title="${escaped(name)}[${i}]: ${value}, expected ${data[i]}"></i>`);
    });
  $("checked").hidden = given;
  $("checked").innerHTML = cells.join("");
  document.body.dataset.wrong = wrong.length;
  if (!wrong.length) return verdict(true, `All ${text(bytes)} output bytes are equal to the expected ones.${split}`);
  const more = wrong.length > 3 ? `, and ${text(wrong.length - 3)} more` : "";
  verdict(false, `${text(wrong.length)} of ${text(bytes)} output bytes differ: ${wrong.slice(0, 3).join("; ")}${more}.${split}`);
}

function escaped(name) {
  return name.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

// ---- The player

function choosePart(part, cycle) {
  state.part = part;
  const { results } = state;
  $("part").hidden = results.length < 2;
  $("part").innerHTML = results.map((_, i) => `<option value="${i}">program ${i + 1} of ${results.length}</option>`).join("");
  $("part").value = part;
  $("slider").max = results[part].ticks - 1;
  go(Math.min(cycle, results[part].ticks - 1));
}

function go(cycle) {
  if (!state.results) return;
  state.cycle = Math.max(0, Math.min(state.results[state.part].ticks - 1, cycle));
  $("slider").value = state.cycle;
  show();
}

async function show() {
  const { results, part, cycle } = state;
  const { spans, ticks } = results[part];
  const drawn = { spans, layers: (results[part].layers ??= layerSpans(spans, state.network.programs[part].layers)) };
  toCycle[0] = drawTimeline($("timeline"), drawn, 0, ticks, cycle, [cycle - WINDOW / 2, cycle + WINDOW / 2]);
  const first = Math.max(0, Math.min(cycle - WINDOW / 2, ticks - WINDOW));
  toCycle[1] = drawTimeline($("zoom"), drawn, first, first + WINDOW, cycle, null);
  $("cycle").textContent = `cycle ${text(cycle)} of ${text(ticks)}`;
  const block = await wanted(part, Math.floor(cycle / FRAMES));
  if (!block || results !== state.results || part !== state.part || cycle !== state.cycle) return;
  const chip = facts.chips[state.network.chip].config;
  const frame = readFrame(block.seen, block.size, cycle % FRAMES, chip.array_size);
  if (buffer?.results !== results) {
    buffer = Object.assign(new BufferView($("buffer"), results.at(-1).writers, chip.array_size), { results });
    $("used").textContent = `The ${text(buffer.rows.length)} of ${text(chip.ub_rows)} rows that this run writes`;
  }
  if (shownBlock !== block || shownCycle > cycle) {
    buffer.start(block.buffer, block.writers);
    [shownBlock, shownCycle] = [block, block.block * FRAMES];
  }
  for (; shownCycle < cycle; shownCycle++)
    buffer.write(readFrame(block.seen, block.size, shownCycle % FRAMES, chip.array_size));
  buffer.draw(frame);
  drawArray($("array"), frame, chip.array_size);
  showEngines(frame);
  $("ports").innerHTML = portLines(frame)
    .map(([name, value, color]) => `<div><span style="color:${color}">${name}</span><span>${value}</span></div>`)
    .join("");
  document.body.dataset.shown = cycle;
}

function showEngines(frame) {
  const program = state.network.programs[state.part];
  const layer = (index) => program.layers.find((each) => each.commands.includes(index) || each.others.includes(index));
  const card = ({ name, color }, works, doing, where, detail) =>
    `<div class="engine ${works ? "works" : ""}" style="--own:${color}"><b>${name}</b>
      <span class="state">${doing}</span><div>${where}</div><div class="text" title="${detail}">${detail}</div></div>`;
  const cards = ENGINES.map((engine, e) => {
    const active = frame.state[e];
    const command = active ? disassemble(program.commands, frame.index[e], facts.isa) : "";
    const where = active ? `#${frame.index[e]} ${escaped(layer(frame.index[e])?.name ?? "")}` : engine.does;
    return card(engine, active === 1, STATES[active], where, command);
  });
  // Behind the array: the drain, which belongs to the commands of the matrix unit.
  const row = frame.writes[0], drains = row !== NO_ROW;
  const sums = drains ? `row ${row} ← ${frame.data[0].join(" ")}` : "";
  cards.splice(3, 0, card(DRAIN, drains, drains ? "writes" : "idle", DRAIN.does, sums));
  $("engines").innerHTML = cards.join("");
}

// Return the frames of a block of cycles; the worker runs them again from a copy of the chip.
async function wanted(part, number) {
  const key = `${part}/${number}`;
  if (!blocks.has(key)) {
    if (blocks.size >= KEPT_BLOCKS) blocks.delete(blocks.keys().next().value);
    const asked = chips[state.network.chip].ask({ op: "frames", part, block: number });
    blocks.set(key, asked.then((answer) => answer.frames, (error) => void say(error)));
  }
  return blocks.get(key);
}

let before = 0, due = 0;
function play(on) {
  state.playing = on;
  $("play").textContent = on ? "Pause" : "Play";
  before = performance.now();
  due = 0;
  if (on) requestAnimationFrame(turn);
}

function turn(now) {
  if (!state.playing) return;
  due += ((now - before) / 1000) * Number($("speed").value);
  before = now;
  const steps = Math.floor(due);
  due -= steps;
  if (steps && Number(document.body.dataset.shown) === state.cycle) {
    if (state.cycle + 1 >= state.results[state.part].ticks) return play(false);
    go(state.cycle + steps);
  }
  requestAnimationFrame(turn);
}

// ---- What the user chooses

function pressed(group, name) {
  for (const button of $(group).children) if (button.dataset?.name) button.setAttribute("aria-pressed", button.dataset.name === name);
}

function use(network, given) {
  Object.assign(state, { chip: network.chip, network, given, part: 0, cycle: null });
  play(false);
  pressed("chips", network.chip);
  pressed("networks", network.digits ?? "");
  $("digit-panel").hidden = !network.digits;
  $("command").textContent = `tpulite compile net.tflite --config ${network.chip} -o net.tpulite`;
  return run();
}

async function useDigits(chip, key) {
  const name = `${chip}/${key}`;
  networks[name] ??= await readNetwork(decoded(facts.chips[chip].networks[key]), `${key}.tpulite`, facts);
  const network = Object.assign(networks[name], { digits: key });
  return use(network, state.digit && { ...state.digit, expected: state.digit.outputs?.[key] });
}

async function useFile(file) {
  say(null);
  try {
    await use(await readNetwork(new Uint8Array(await file.arrayBuffer()), file.name, facts), null);
  } catch (error) {
    say(error);
  }
  document.body.dataset.files = Number(document.body.dataset.files || 0) + 1;
}

function givePixels(values, outputs) {
  const key = state.network.digits ?? Object.keys(facts.networks)[0];
  showPixels($("seen"), values);
  state.digit = { pixels: values, outputs };
  state.given = { ...state.digit, expected: outputs?.[key] };
  say(null);
  return run();
}

let turnOfSample = 0;
function sample() {
  const { image, outputs } = facts.samples[turnOfSample++ % facts.samples.length];
  const values = new Int8Array(decoded(image).buffer);
  const pad = $("pad"), context = pad.getContext("2d");
  context.clearRect(0, 0, pad.width, pad.height);
  pad.dataset.sample = "1";
  const small = new OffscreenCanvas(PIXELS, PIXELS);
  showPixels(small, values);
  context.drawImage(small, 0, 0, pad.width, pad.height);
  const bytes = Object.fromEntries(Object.entries(outputs).map(([key, value]) => [key, decoded(value)]));
  return givePixels(values, bytes);
}

function choices(group, names, choose) {
  for (const [name, label] of names) {
    const button = document.createElement("button");
    Object.assign(button, { textContent: label, onclick: () => choose(name) });
    button.dataset.name = name;
    $(group).append(button);
  }
}

function legend(id, entries) {
  $(id).innerHTML = entries.map(([color, name]) => `<span><i style="background:${color}"></i>${name}</span>`).join("");
}

const digits = () => state.network?.digits ?? Object.keys(facts.networks)[0];
choices("chips", Object.keys(facts.chips).map((name) => [name, name.replace("x", " × ")]), (name) => useDigits(name, digits()));
choices("networks", Object.entries(facts.networks), (key) => useDigits(state.chip, key));
legend("states", [...ENGINES.map((e) => [e.color, `${e.name} busy`]), ...STATES.slice(2).map((name, i) => [STATE_COLORS[i + 2], name])]);
legend("writers", WRITE_PORTS.map((name, i) => [WRITE_COLORS[i], `written by ${name}`]).concat([["#121921", "never written"]]));
drawable($("pad"), () => givePixels(pixels($("pad"))));
$("clear").onclick = () => {
  $("pad").getContext("2d").clearRect(0, 0, $("pad").width, $("pad").height);
  showPixels($("seen"), new Int8Array(PIXELS * PIXELS));
};
$("sample").onclick = sample;
$("file").onchange = (event) => event.target.files.length && useFile(event.target.files[0]);
$("play").onclick = () => play(!state.playing);
$("slider").oninput = (event) => go(Number(event.target.value));
$("part").onchange = (event) => choosePart(Number(event.target.value), 0);
for (const button of document.querySelectorAll("[data-step]"))
  button.onclick = () => step(button.dataset.step);
function step(how) {
  play(false);
  go(how === "start" ? 0 : how === "end" ? Infinity : state.cycle + Number(how));
}
addEventListener("keydown", (event) => {
  if (["INPUT", "SELECT"].includes(event.target.tagName)) return;
  const how = { ArrowLeft: "-1", ArrowRight: "1", Home: "start", End: "end" }[event.key];
  if (how) step(how);
  else if (event.key === " " && event.target.tagName !== "BUTTON") play(!state.playing);
  else return;
  event.preventDefault();
});
["timeline", "zoom"].forEach((id, i) => {
  $(id).onpointerdown = $(id).onpointermove = (event) => {
    if (event.type === "pointermove" && !event.buttons) return;
    play(false);
    go(toCycle[i]?.(event.offsetX) ?? 0);
  };
});
for (const kind of ["dragover", "drop", "dragleave"])
  addEventListener(kind, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dropping", kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files.length) useFile(event.dataTransfer.files[0]);
  });
$("buffer").onpointermove = (event) => {
  $("buffer").title = buffer?.at(event.offsetX, event.offsetY) ?? "";
};
addEventListener("resize", () => state.results && show());

useDigits(Object.keys(facts.chips)[0], digits()).then(sample);
