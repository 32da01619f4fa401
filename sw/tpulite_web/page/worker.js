// The chip in a thread of its own: runs programs, remembers copies of its memory, and shows cycles.
"use strict";

const PAGE = 4096, BLOCK = 256, SLICE = 2048, COPIES_BYTES = 1 << 27;
let chip, empty, parts = [], facts;

function bytes() {
  return new Uint8Array(chip.memory.buffer);
}

// Nothing of the system is there: output of the runtime goes to the console.
function systemCalls(module) {
  const calls = {
    fd_write(fd, vectors, count, written) {
      const view = new DataView(chip.memory.buffer);
      let total = 0, text = "";
      for (let i = 0; i < count; i++) {
        const [at, size] = [0, 4].map((o) => view.getUint32(vectors + 8 * i + o, true));
        text += new TextDecoder().decode(bytes().slice(at, at + size));
        total += size;
      }
      view.setUint32(written, total, true);
      console.warn(text);
      return 0;
    },
    proc_exit() {
      throw new Error("the simulated chip gave up");
    },
  };
  const imports = {};
  for (const { module: group, name } of WebAssembly.Module.imports(module))
    (imports[group] ??= {})[name] = calls[name] ?? (() => 0);
  return imports;
}

// A copy of all memory in use is the chip with its DRAM, as it is.
function copy() {
  return bytes().slice(0, chip.sbrk(0));
}

function restore(saved) {
  bytes().fill(0).set(saved);
}

function withMemory(size, use) {
  const at = chip.malloc(size);
  try {
    return use(at);
  } finally {
    chip.free(at);
  }
}

function layout(end, at) {
  new Uint32Array(chip.memory.buffer, at, end.words.length).set(end.words);
}

// Windows and commands lie one after the other, each at a page, as tpulite.runtime.session has them.
function place(program, start) {
  const up = (address) => Math.ceil(address / PAGE) * PAGE;
  let base = start;
  const windows = program.windows.map((size) => {
    const at = up(base);
    base = at + size;
    return at;
  });
  const commands = up(base);
  return { windows, commands, end: commands + program.commands.length };
}

function begin(part) {
  const { program, placed, dram } = part;
  bytes().set(program.commands, dram + placed.commands);
  bytes().set(program.constants, dram + placed.windows[0]);
  for (const input of program.inputs)
    withMemory(4 * input.words.length + input.data.length, (at) => {
      layout(input, at);
      const values = at + 4 * input.words.length;
      bytes().set(input.data, values);
      chip.tpulite_pack(at, values, dram + placed.windows[input.window] + input.offset);
    });
  withMemory(60, (at) => {
    const permissions = [1, 1, 2, 3];
    const words = [placed.commands, program.commands.length / 32, 1000000];
    placed.windows.forEach((base, i) => words.push(base, program.windows[i], permissions[i]));
    new Uint32Array(chip.memory.buffer, at, 15).set(words);
    chip.web_start(at);
  });
}

function outputs(part) {
  return part.program.outputs.map((output) =>
    withMemory(4 * output.words.length + output.bytes, (at) => {
      layout(output, at);
      const values = at + 4 * output.words.length;
      chip.tpulite_unpack(at, part.dram + part.placed.windows[output.window] + output.offset, values);
      return bytes().slice(values, values + output.bytes);
    }),
  );
}

function words(at, count) {
  return new Uint32Array(chip.memory.buffer, at, count).slice();
}

// Remember where the chip is; if there are many copies, every second one goes.
function remember(part) {
  const cycle = chip.web_cycle();
  if (cycle < part.nextCopy) return;
  part.copies.push({ cycle, memory: copy() });
  const most = Math.max(4, Math.min(64, COPIES_BYTES / part.copies[0].memory.length));
  if (part.copies.length > most) {
    part.copies = part.copies.filter((_, i) => i % 2 === 0);
    part.spacing *= 2;
  }
  part.nextCopy = part.copies.at(-1).cycle + part.spacing;
}

function run(programs, tell) {
  restore(empty);
  let end = 0;
  const places = programs.map((program) => {
    const placed = place(program, end);
    end = placed.end;
    return placed;
  });
  const dram = chip.web_open(Math.ceil(end / (1 << 20)) << 20);
  parts = [];
  const results = [];
  let before = 0;
  for (const [i, program] of programs.entries()) {
    const part = { program, placed: places[i], dram, copies: [], spacing: 1024, nextCopy: 0 };
    parts.push(part);
    begin(part);
    do {
      remember(part);
      tell(before + chip.web_cycle());
    } while (!chip.web_advance(Math.min(SLICE, part.nextCopy - chip.web_cycle())));
    const spans = [0, 1, 2, 3].map((e) => words(chip.web_spans(e), 3 * chip.web_span_count(e)));
    const ticks = chip.web_cycle();
    const writers = bytes().slice(chip.web_writers(), chip.web_writers() + facts.bufferRows);
    const [fault, index] = words(chip.web_finish(), 2);
    const counters = Object.fromEntries(
      Object.entries(facts.counters).map(([name, offset]) => [name, chip.web_register(offset)]),
    );
    results.push({ fault, index, counters, ticks, spans, writers, outputs: fault ? [] : outputs(part) });
    before += ticks;
    if (fault) break;
  }
  return results;
}

// Run a block of cycles again, from the last copy before it, and return all that is seen in it.
function frames(number, block) {
  const part = parts[number], start = block * BLOCK;
  const from = part.copies.filter((each) => each.cycle <= start).at(-1);
  restore(from.memory);
  if (start > from.cycle) chip.web_advance(start - from.cycle);
  const buffer = bytes().slice(chip.web_buffer(), chip.web_buffer() + facts.bufferBytes);
  const writers = bytes().slice(chip.web_writers(), chip.web_writers() + facts.bufferRows);
  chip.web_framing(1);
  chip.web_advance(BLOCK);
  const size = chip.web_frame_bytes(), count = chip.web_frame_count();
  const seen = bytes().slice(chip.web_frames(), chip.web_frames() + size * count);
  return { number, block, size, count, seen, buffer, writers };
}

onmessage = async ({ data }) => {
  try {
    if (data.op === "open") {
      facts = data.facts;
      const module = await WebAssembly.compile(data.wasm);
      chip = (await WebAssembly.instantiate(module, systemCalls(module))).exports;
      chip._initialize();
      empty = copy();
      postMessage({ id: data.id });
    } else if (data.op === "run") {
      let told = performance.now();
      const began = told;
      const tell = (cycles) => {
        if (performance.now() - told < 60) return;
        told = performance.now();
        postMessage({ id: data.id, cycles });
      };
      const results = run(data.programs, tell);
      postMessage({ id: data.id, results, seconds: (performance.now() - began) / 1000 });
    } else {
      postMessage({ id: data.id, frames: frames(data.part, data.block) });
    }
  } catch (error) {
    postMessage({ id: data.id, error: String(error.message ?? error) });
  }
};
