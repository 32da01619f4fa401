// A compiled network: its programs, and the example that tells what they must give.

const ITEM_BYTES = { int8: 1, uint8: 1, int32: 4 };
const NUMPY_TYPES = { int8: "i1", uint8: "u1", int32: "i4" };

// The fields of a `tpulite_layout`, in their order: as tpulite.export.network makes them.
function layoutWords(spec, n, flip) {
  const item = ITEM_BYTES[spec.dtype];
  const image = spec.image || [spec.m, 1];
  const [height, width] = image.slice(-2);
  const { patches, strings } = spec;
  const depth = spec.channels * (patches ? patches.size[0] * patches.size[1] : 1);
  const beats = (bytes) => Math.ceil(bytes / 16) * 16;
  const vectors = spec.m * (spec.stacked ? spec.batch : 1);
  const blockBytes = beats(vectors * n * item);
  const imageBytes = strings ? beats(spec.m * strings.vectors * n) : Math.ceil(depth / n) * blockBytes;
  const axis = (index, count) =>
    patches
      ? ["count", "size", "step", "pad"].map((name) => patches[name][index])
      : [count, 1, 1, 0];
  return [
    ...[0, spec.offset, spec.stacked ? 1 : spec.batch, imageBytes],
    (image.length === 3 ? image[0] : 1) * (spec.stacked ? spec.batch : 1),
    ...[height, width, spec.channels * item, flip ? 0x80 : 0, n * item, blockBytes],
    ...axis(0, height),
    ...axis(1, width),
    (patches || strings || { fill: 0 }).fill & 255,
    strings ? strings.vectors * n : 0,
    strings ? strings.pad : 0,
    strings && strings.transposed ? 1 : 0,
  ];
}

function hostBytes(spec) {
  const pixels = spec.image ? spec.image.reduce((a, b) => a * b) : spec.m;
  return pixels * spec.channels * ITEM_BYTES[spec.dtype];
}

// Read a .tpulite file; every Error is a sentence for the user.
async function readNetwork(bytes, name, facts) {
  const read = openArchive(bytes, name);
  const json = async (from, member) => JSON.parse(new TextDecoder().decode(await from(member)));
  if (read.has("program.json"))
    throw new Error(`${name} is a single program, which carries no expected outputs: drop a network that "tpulite compile" wrote.`);
  if (!read.has("model.json")) throw new Error(`${name} is not a .tpulite file: it holds no model.json.`);
  const about = await json(read, "model.json");
  if (about.version !== facts.fileVersion)
    throw new Error(`${name} has version ${about.version} of the file format and this page reads ${facts.fileVersion}: compile it again.`);
  if (!about.programs) throw new Error(`${name} has no program: all of it runs on the CPU.`);
  if (!about.example)
    throw new Error(`${name} carries no expected outputs: compile it again where its numerics can be computed.`);
  const size = `${about.config.array_size}x${about.config.array_size}`;
  const chip = Object.keys(facts.chips).find((key) => sameMachine(facts.chips[key].config, about.config));
  if (!chip)
    throw new Error(
      facts.chips[size]
        ? `${name} is compiled for another ${size} machine than the one here: compile it with --config ${size} and nothing behind it.`
        : `${name} is compiled for a ${size} array and this page has ${Object.keys(facts.chips).join(" and ")}: compile it with --config ${Object.keys(facts.chips)[0]}.`,
    );
  const values = new Map();
  for (const field of ["inputs", "outputs", "states", "borders"])
    for (const [index, tensor] of about.example[field].entries())
      if (!values.has(tensor)) values.set(tensor, readArray(await read(`example/${field}/${index}.npy`)));
  const programs = [];
  for (let i = 0; i < about.programs; i++)
    programs.push(await readProgram(await read(`programs/${i}.tpl`), `program ${i} of ${name}`, values));
  return { name: about.graph.name, chip, programs, cycles: about.example.cycles, split: about.example.borders.length > 0 };

  async function readProgram(data, title, tensors) {
    const part = openArchive(data, title);
    const program = await json(part, "program.json");
    const end = (spec, isOutput) => {
      const found = tensors.get(spec.name);
      const flip = found && spec.dtype !== "int32" && found.type !== NUMPY_TYPES[spec.dtype];
      const data = found && found.data.length === hostBytes(spec) ? found.data : null;
      if (!data && !isOutput) throw new Error(`${name} carries no value for ${spec.name}: compile it again.`);
      return {
        name: spec.name, window: spec.window, offset: spec.offset,
        words: layoutWords(spec, about.config.array_size, flip),
        bytes: hostBytes(spec) * spec.batch, item: ITEM_BYTES[spec.dtype],
        data: data && repeated(data, spec.batch),
      };
    };
    return {
      commands: await part("commands.bin"),
      constants: await part("constants.bin"),
      windows: program.window_bytes,
      inputs: program.inputs.map((spec) => end(spec, false)),
      outputs: program.outputs.map((spec) => end(spec, true)),
      layers: program.layers,
    };
  }
}

function sameMachine(a, b) {
  const text = (x) => JSON.stringify(Object.keys(x).sort().map((key) => [key, x[key]]));
  return text(a) === text(b);
}

function repeated(data, times) {
  const all = new Uint8Array(data.length * times);
  for (let i = 0; i < times; i++) all.set(data, i * data.length);
  return all;
}

// The text of a command, as tpulite.arch.isa.disassemble writes it.
function disassemble(bytes, index, isa) {
  let word = 0n;
  for (let i = 31; i >= 0; i--) word = (word << 8n) | BigInt(bytes[32 * index + i] ?? 0);
  const bits = (offset, width) => Number((word >> BigInt(offset)) & ((1n << BigInt(width)) - 1n));
  const opcode = isa.opcodes[bits(0, 4)];
  if (!opcode) return "";
  const words = [];
  for (const field of opcode.fields) {
    const low = field.width - field.behind;
    let value = bits(field.offset, low) + (field.behind ? bits(field.grown, field.behind) * 2 ** low : 0);
    if (field.signed && value >= 2 ** (field.width - 1)) value -= 2 ** field.width;
    if (!value) continue;
    const masks = field.name === "wait" || field.name === "signal";
    const shown = masks
      ? isa.engines.filter((_, e) => (value >> e) & 1).join("|")
      : field.names ? field.names[value] : value;
    words.push(`${field.name}=${shown}`);
  }
  return `${opcode.name} ${words.join(" ")}`.trim();
}
