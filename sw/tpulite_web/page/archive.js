// ZIP archives and .npy arrays, as Python writes them.

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) crc = CRC_TABLE[(crc ^ byte) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

async function decompressed(bytes, format) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream(format));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Return a function that reads a member of an archive by name, or throw an Error with a sentence.
function openArchive(bytes, name) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let end = bytes.length - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end--;
  if (end < 0) throw new Error(`${name} is not a .tpulite file: it is no ZIP archive.`);
  const entries = new Map();
  try {
    let at = view.getUint32(end + 16, true);
    for (let left = view.getUint16(end + 10, true); left; left--) {
      const [nameBytes, extra, comment] = [28, 30, 32].map((o) => view.getUint16(at + o, true));
      const member = new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + nameBytes));
      entries.set(member, {
        packed: view.getUint16(at + 10, true) !== 0,
        crc: view.getUint32(at + 16, true),
        size: view.getUint32(at + 20, true),
        start: view.getUint32(at + 42, true),
      });
      at += 46 + nameBytes + extra + comment;
    }
  } catch {
    throw new Error(`${name} is damaged: its directory is cut off.`);
  }
  const read = async (member) => {
    const entry = entries.get(member);
    if (!entry) throw new Error(`${name} is damaged: it lacks ${member}.`);
    let data;
    try {
      const from = entry.start + 30;
      const skip = view.getUint16(from - 4, true) + view.getUint16(from - 2, true);
      data = bytes.subarray(from + skip, from + skip + entry.size);
      if (entry.packed) data = await decompressed(data, "deflate-raw");
    } catch {
      data = null;
    }
    if (!data || crc32(data) !== entry.crc)
      throw new Error(`${name} is damaged: ${member} does not have its checksum.`);
    return data;
  };
  read.has = (member) => entries.has(member);
  return read;
}

// Return the type, as "i1", and the bytes of a .npy array; they are little-endian and in C order.
function readArray(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const start = bytes[6] === 1 ? 10 : 12;
  const size = bytes[6] === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
  const header = new TextDecoder().decode(bytes.subarray(start, start + size));
  return { type: header.match(/'descr': '[<|](\w+)'/)[1], data: bytes.slice(start + size) };
}
