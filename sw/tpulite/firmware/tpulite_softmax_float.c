#include "tpulite_host.h"

/* Volatile: each result is rounded to single precision, and no product is fused with a sum. */
void tpulite_softmax_float(const void *floats, const void *x, void *y)
{
    const tpulite_softmax_floats *s = floats;
    const uint8_t top = s->is_signed ? 0x80 : 0;
    for (uint32_t i = 0; i < s->outer; i++) {
        for (uint32_t j = 0; j < s->inner; j++) {
            const uint8_t *from = (const uint8_t *)x + i * s->count * s->inner + j;
            uint8_t *to = (uint8_t *)y + i * s->count * s->inner + j;
            uint32_t n = s->count * s->inner;
            uint8_t most = 0;
            for (uint32_t k = 0; k < n; k += s->inner)
                most = (from[k] ^ top) > most ? (uint8_t)(from[k] ^ top) : most;
            volatile float total = 0.0f, scale, share;
            for (uint32_t k = 0; k < n; k += s->inner)
                total = total + s->exps[most - (from[k] ^ top)];
            scale = total * (1.0f / 256);
            scale = 1.0f / scale;
            for (uint32_t k = 0; k < n; k += s->inner) {
                share = s->exps[most - (from[k] ^ top)] * scale;
                share = share + 0.5f;
                uint32_t rounded = (uint32_t)share;
                to[k] = (uint8_t)((rounded < 255 ? rounded : 255) ^ top);
            }
        }
    }
}
