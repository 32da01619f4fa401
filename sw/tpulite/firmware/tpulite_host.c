#include "tpulite_host.h"

static int32_t ordered(float value)
{
    union {
        float value;
        uint32_t bits;
    } word;
    word.value = value;
    int32_t magnitude = (int32_t)(word.bits & 0x7FFFFFFFu);
    return word.bits >> 31 ? -magnitude : magnitude;
}

uint8_t tpulite_quantized(const int32_t thresholds[255], uint8_t least, float value)
{
    const int32_t infinity = 0x7F800000;
    int32_t key = ordered(value);
    uint32_t level = 0;
    if (key <= infinity && key >= -infinity) {
        for (uint32_t step = 128; step; step >>= 1) {
            if (key >= thresholds[level + step - 1])
                level += step;
        }
    }
    return (uint8_t)(level + least);
}

void tpulite_quantize(const void *quantization, const void *x, void *y)
{
    const tpulite_quantization *q = quantization;
    const float *from = x;
    uint8_t *to = y;
    uint32_t whole = q->count - q->rest;
    for (uint32_t i = 0; i < q->count; i++)
        to[i] = tpulite_quantized(i < whole ? q->thresholds : q->rest_thresholds, q->least, from[i]);
}

void tpulite_dequantize(const void *dequantization, const void *x, void *y)
{
    const tpulite_dequantization *q = dequantization;
    const uint8_t *from = x;
    float *to = y;
    uint32_t whole = q->count - q->rest;
    for (uint32_t i = 0; i < q->count; i++)
        to[i] = i < whole ? q->values[from[i]] : q->rest_values[from[i]];
}

void tpulite_look_up(const void *table, const void *x, void *y)
{
    const tpulite_table *t = table;
    const uint8_t *from = x;
    uint8_t *to = y;
    for (uint32_t i = 0; i < t->count; i++)
        to[i] = t->values[from[i]];
}

/* value / 2^shift, the nearest, of two the even one. */
static int64_t half_even(int64_t value, uint32_t shift)
{
    int64_t unit = (int64_t)1 << shift, quotient = value >> shift, rest = 2 * (value & (unit - 1));
    return quotient + (rest > unit || (rest == unit && (quotient & 1)));
}

void tpulite_pair(const void *tables, const void *x, const void *other, void *y)
{
    const tpulite_pair_tables *t = tables;
    const uint8_t *from = x, *second = other;
    uint8_t *to = y;
    for (uint32_t i = 0, j = 0, row = 0; i < t->count; i++) {
        int64_t a = t->a[from[i]], b = t->b[second[j]];
        int64_t value = t->is_product ? a * b : a + b;
        value = half_even(value + t->offset * ((int64_t)1 << t->shift), t->shift);
        value = value < t->low ? t->low : value > t->high ? t->high : value;
        uint32_t key = (uint32_t)from[i] << 16 | (uint32_t)second[j] << 8, low = 0;
        for (uint32_t n = t->exception_count; n; n >>= 1) {
            uint32_t middle = low + n / 2;
            if (t->exceptions[middle] >> 8 < key >> 8) {
                low = middle + 1;
                n--;
            }
        }
        if (low < t->exception_count && t->exceptions[low] >> 8 == key >> 8)
            value = t->exceptions[low] & 0xFF;
        to[i] = (uint8_t)value;
        if (++row == t->inner) {
            row = 0;
            j = j + 1 < t->period ? j + 1 : 0;
        }
    }
}

void tpulite_average(const void *sums, const void *x, void *y)
{
    const tpulite_average_sums *s = sums;
    uint8_t *to = y;
    for (uint32_t channel = 0; channel < s->channels; channel++) {
        const uint8_t *from = (const uint8_t *)x + channel;
        int32_t sum = 0;
        for (uint32_t i = 0; i < s->pixels; i++)
            sum += from[i * s->channels] ^ s->flip;
        uint32_t level = 0;
        for (uint32_t step = 128; step; step >>= 1) {
            if (sum >= s->thresholds[level + step - 1])
                level += step;
        }
        to[channel] = (uint8_t)(level + s->least);
    }
}

void tpulite_transpose(const void *transposition, const void *x, void *y)
{
    const tpulite_transposition *t = transposition;
    const uint8_t *from = (const uint8_t *)x + t->first;
    uint8_t *to = y;
    uint32_t place[8] = {0};
    for (;;) {
        for (uint32_t i = 0; i < t->element_bytes; i++)
            *to++ = from[i];
        uint32_t axis = t->rank;
        for (;;) {
            if (!axis)
                return;
            axis--;
            from += t->steps[axis];
            if (++place[axis] < t->extents[axis])
                break;
            from -= (int32_t)place[axis] * t->steps[axis];
            place[axis] = 0;
        }
    }
}

void tpulite_copy(const void *bytes, const void *x, void *y)
{
    const uint8_t *from = x;
    uint8_t *to = y;
    for (uint32_t i = 0; i < *(const uint32_t *)bytes; i++)
        to[i] = from[i];
}

void tpulite_argmax(const void *axis, const void *x, void *y)
{
    const tpulite_argmax_axis *a = axis;
    const uint8_t *from = x;
    uint8_t *to = y, top = a->is_signed ? 0x80 : 0; /* inverts what orders signed bytes last */
    for (uint32_t i = 0; i < a->outer; i++, from += a->count * a->inner) {
        for (uint32_t j = 0; j < a->inner; j++) {
            uint32_t best = 0;
            for (uint32_t k = 1; k < a->count; k++) {
                if ((from[k * a->inner + j] ^ top) > (from[best * a->inner + j] ^ top))
                    best = k;
            }
            for (uint32_t b = 0; b < a->result_bytes; b++, best = b < 4 ? best >> 8 : 0)
                *to++ = (uint8_t)best;
        }
    }
}

/* a * b / 2^31, half up; a / 2^power, half away from zero. */
static int64_t multiply(int64_t a, int64_t b)
{
    return (a * b + (1 << 30)) >> 31;
}

static int64_t divide(int64_t a, uint32_t power)
{
    return (a + ((int64_t)1 << (power - 1)) - (a < 0)) >> power;
}

/* 1 / total with 31 fractional bits, shifted left as far as `leading` says: three steps of Newton
 * and Raphson from 48/17 - 32/17 x, with 29 fractional bits. */
static int64_t reciprocal(int64_t total, uint32_t *leading)
{
    *leading = 32;
    for (int64_t rest = total; rest; rest >>= 1)
        --*leading;
    int64_t half = (total << *leading) >> 1;
    int64_t x = 1515870810 + multiply(half, -1010580540);
    for (int i = 0; i < 3; i++)
        x += multiply(x, (1 << 29) - multiply(half, x)) * 4;
    return x << 1 < 0x7FFFFFFF ? x << 1 : 0x7FFFFFFF;
}

void tpulite_softmax(const void *integers, const void *x, void *y)
{
    const tpulite_softmax_integers *s = integers;
    const uint8_t top = s->is_signed ? 0x80 : 0;
    for (uint32_t i = 0; i < s->outer; i++) {
        for (uint32_t j = 0; j < s->inner; j++) {
            const uint8_t *from = (const uint8_t *)x + i * s->count * s->inner + j;
            uint8_t *to = (uint8_t *)y + i * s->count * s->inner + j;
            uint32_t n = s->count * s->inner, leading;
            uint8_t most = 0;
            for (uint32_t k = 0; k < n; k += s->inner)
                most = (from[k] ^ top) > most ? (uint8_t)(from[k] ^ top) : most;
            int64_t total = 0;
            for (uint32_t k = 0; k < n; k += s->inner)
                total += divide(s->exps[most - (from[k] ^ top)], 12);
            int64_t scale = reciprocal(total, &leading);
            for (uint32_t k = 0; k < n; k += s->inner) {
                int64_t exp = s->exps[most - (from[k] ^ top)];
                int64_t share = divide(multiply(scale, exp), 35 - leading);
                to[k] = (uint8_t)((share < 255 ? share : 255) ^ top);
            }
        }
    }
}
