// From a drawing to the pixels that the digits of the data set have: 8 x 8 counts of a 32 x 32 bitmap
// whose ink fills it, enlarged to 16 x 16, from 0 to 127.

const CLASSES = 10, FINE = 32, COARSE = 8, PIXELS = 16, INK = 127;

// Copy the ink of the pad into a bitmap of 32 x 32, as large as it fits, in the middle.
function bitmap(pad) {
  const { width, height } = pad;
  const data = pad.getContext("2d").getImageData(0, 0, width, height).data;
  let [left, top, right, bottom] = [width, height, -1, -1];
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      if (data[4 * (y * width + x) + 3] > 127) {
        [left, right] = [Math.min(left, x), Math.max(right, x)];
        [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
      }
  if (right < 0) return null;
  const [w, h] = [right - left + 1, bottom - top + 1];
  const scale = FINE / Math.max(w, h);
  const canvas = new OffscreenCanvas(FINE, FINE);
  const context = canvas.getContext("2d");
  context.drawImage(pad, left, top, w, h, (FINE - w * scale) / 2, (FINE - h * scale) / 2, w * scale, h * scale);
  const fine = context.getImageData(0, 0, FINE, FINE).data;
  return Array.from({ length: FINE * FINE }, (_, i) => (fine[4 * i + 3] > 127 ? 1 : 0));
}

function pixels(pad) {
  const fine = bitmap(pad);
  const result = new Int8Array(PIXELS * PIXELS);
  if (!fine) return result;
  const step = FINE / COARSE;
  const coarse = new Float64Array(COARSE * COARSE);
  fine.forEach((ink, i) => {
    coarse[Math.floor(i / FINE / step) * COARSE + Math.floor((i % FINE) / step)] += ink / step ** 2;
  });
  // Bilinear, between the centers of pixels: `enlarge` of scripts/train_mlp.py.
  const at = (i) => Math.min(Math.max((i - 0.5) / 2, 0), COARSE - 1);
  for (let y = 0; y < PIXELS; y++)
    for (let x = 0; x < PIXELS; x++) {
      const [fy, fx] = [at(y), at(x)];
      const [y0, x0] = [Math.floor(fy), Math.floor(fx)];
      let value = 0;
      for (const [yy, wy] of [[y0, 1 - (fy - y0)], [y0 + 1, fy - y0]])
        for (const [xx, wx] of [[x0, 1 - (fx - x0)], [x0 + 1, fx - x0]])
          if (wy * wx) value += wy * wx * coarse[yy * COARSE + xx];
      result[y * PIXELS + x] = Math.round(value * INK);
    }
  return result;
}

function showPixels(canvas, values) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(PIXELS, PIXELS);
  values.forEach((value, i) => image.data.set([value * 2, value * 2, value * 2, 255], 4 * i));
  context.putImageData(image, 0, 0);
}

// Let the user draw; `done` is called behind every stroke.
function drawable(pad, done) {
  const context = pad.getContext("2d", { willReadFrequently: true });
  let last = null;
  const place = (event) => {
    const box = pad.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * pad.width, ((event.clientY - box.top) / box.height) * pad.height];
  };
  const stroke = (to) => {
    Object.assign(context, { lineWidth: 26, lineCap: "round", lineJoin: "round", strokeStyle: "#fff" });
    context.beginPath();
    context.moveTo(...last);
    context.lineTo(...to);
    context.stroke();
    last = to;
  };
  pad.addEventListener("pointerdown", (event) => {
    pad.setPointerCapture(event.pointerId);
    if (pad.dataset.sample) context.clearRect(0, 0, pad.width, pad.height);
    delete pad.dataset.sample;
    last = place(event);
    stroke(last);
  });
  pad.addEventListener("pointermove", (event) => last && stroke(place(event)));
  for (const name of ["pointerup", "pointercancel"])
    pad.addEventListener(name, () => {
      if (last) done();
      last = null;
    });
}
