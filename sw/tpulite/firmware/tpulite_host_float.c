#include "tpulite_host.h"

/* Volatile: each result is rounded to single precision, and no product is fused with a sum. */

/* What becomes of the exponentials of one softmax: how much a byte lies below the largest. */
typedef struct {
    const float *exps;
    uint32_t end, step; /* elements are 0, step, ... below the end */
    uint8_t top, most;  /* inverts what orders signed bytes last; the largest */
} row;

static float exponential(const row *r, uint8_t byte)
{
    return r->exps[r->most - (byte ^ r->top)];
}

static float total_of(row *r, const uint8_t *from)
{
    volatile float total = 0.0f;
    for (uint32_t k = 0; k < r->end; k += r->step)
        r->most = (from[k] ^ r->top) > r->most ? (uint8_t)(from[k] ^ r->top) : r->most;
    for (uint32_t k = 0; k < r->end; k += r->step)
        total = total + exponential(r, from[k]);
    return total;
}

void tpulite_softmax_float(const void *floats, const void *x, void *y)
{
    const tpulite_softmax_floats *s = floats;
    for (uint32_t i = 0; i < s->outer * s->inner; i++) {
        row r = {s->exps, s->count * s->inner, s->inner, s->is_signed ? 0x80 : 0, 0};
        uint32_t first = i / s->inner * r.end + i % s->inner;
        const uint8_t *from = (const uint8_t *)x + first;
        uint8_t *to = (uint8_t *)y + first;
        volatile float scale = total_of(&r, from), share;
        scale = scale * (1.0f / 256);
        scale = 1.0f / scale;
        for (uint32_t k = 0; k < r.end; k += r.step) {
            share = exponential(&r, from[k]) * scale;
            share = share + 0.5f;
            uint32_t rounded = (uint32_t)share;
            to[k] = (uint8_t)((rounded < 255 ? rounded : 255) ^ r.top);
        }
    }
}

void tpulite_softmax_quotient(const void *quotients, const void *x, void *y)
{
    const tpulite_softmax_quotients *s = quotients;
    const float whole = 8388608.0f; /* 2^23: floats from here on are integers */
    for (uint32_t i = 0; i < s->outer * s->inner; i++) {
        row r = {s->exps, s->count * s->inner, s->inner, s->is_signed ? 0x80 : 0, 0};
        uint32_t first = i / s->inner * r.end + i % s->inner;
        const uint8_t *from = (const uint8_t *)x + first;
        uint8_t *to = (uint8_t *)y + first;
        volatile float total = total_of(&r, from), share;
        for (uint32_t k = 0; k < r.end; k += r.step) {
            share = exponential(&r, from[k]) * s->unit;
            share = share / total;
            share = share + whole;
            share = share - whole;
            int32_t value = (int32_t)share + s->zero_point, limit = s->is_signed ? 127 : 255;
            to[k] = (uint8_t)(value < limit ? value : limit);
        }
    }
}

static float element(const float *values, const void *x, uint32_t i)
{
    return values ? values[((const uint8_t *)x)[i]] : ((const float *)x)[i];
}

static void put(const int32_t *thresholds, uint8_t least, float value, void *y, uint32_t i)
{
    if (thresholds)
        ((uint8_t *)y)[i] = tpulite_quantized(thresholds, least, value);
    else
        ((float *)y)[i] = value;
}

void tpulite_pool(const void *sums, const void *x, void *y)
{
    const tpulite_window_sums *s = sums;
    uint32_t outer = s->by_columns ? s->column_taps : s->row_taps;
    uint32_t inner = s->by_columns ? s->row_taps : s->column_taps;
    for (uint32_t at = 0; at < s->images * s->rows * s->columns * s->channels; at++) {
        uint32_t channel = at % s->channels, pixel = at / s->channels;
        uint32_t column = pixel % s->columns, row = pixel / s->columns % s->rows;
        uint32_t image = pixel / s->columns / s->rows;
        volatile float total = 0.0f, part = 0.0f, term;
        for (uint32_t i = 0; i < outer * inner; i++) {
            uint32_t r = row * s->row_taps + (s->by_columns ? i % inner : i / inner);
            uint32_t c = column * s->column_taps + (s->by_columns ? i / inner : i % inner);
            uint32_t from = (image * s->height + s->row_places[r]) * s->width + s->column_places[c];
            term = s->column_weights[c] * s->row_weights[r];
            term = term * element(s->values, x, from * s->channels + channel);
            part = part + term;
            if (!s->by_columns || i % inner == inner - 1) {
                total = total + part;
                part = 0.0f;
            }
        }
        term = s->row_sizes[row] * s->column_sizes[column];
        total = total / term;
        put(s->thresholds, s->least, total, y, at);
    }
}

static float in_groups(const tpulite_axis_sums *s, const void *x, uint32_t from)
{
    volatile float total = 0.0f, part;
    for (uint32_t i = 0, size = s->group ? s->group : 1; i < s->count; i += size) {
        while (size > s->count - i)
            size /= 2;
        part = element(s->values, x, from + i * s->inner);
        for (uint32_t j = 1; j < size; j++)
            part = part + element(s->values, x, from + (i + j) * s->inner);
        total = i ? total + part : part;
    }
    return total;
}

/* Two sums of four lanes each, from the first element on whose address is a multiple of 16 where
 * the library has row after row; then these two, the four lanes that are left, the lanes of the sum,
 * and what lies before and behind. */
static float in_lanes(const tpulite_axis_sums *s, const void *x, uint32_t from, uint32_t row)
{
    uint32_t start = (0u - row * s->count) & 3u, lanes, step = s->inner;
    start = start < s->count ? start : s->count;
    lanes = (s->count - start) / 4 * 4;
    if (!lanes)
        return in_groups(s, x, from);
    volatile float sum[4], second, total;
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t i = from + (start + k) * step;
        sum[k] = element(s->values, x, i);
        if (lanes > 4) {
            second = element(s->values, x, i + 4 * step);
            for (uint32_t j = 8; j + 8 <= lanes; j += 8) {
                sum[k] = sum[k] + element(s->values, x, i + j * step);
                second = second + element(s->values, x, i + (j + 4) * step);
            }
            sum[k] = sum[k] + second;
            if (lanes & 4)
                sum[k] = sum[k] + element(s->values, x, i + (lanes - 4) * step);
        }
    }
    sum[0] = sum[0] + sum[2];
    sum[1] = sum[1] + sum[3];
    total = sum[0] + sum[1];
    for (uint32_t i = 0; i < s->count; i++) {
        if (i < start || i >= start + lanes)
            total = total + element(s->values, x, from + i * step);
    }
    return total;
}

void tpulite_sum(const void *sums, const void *x, void *y)
{
    const tpulite_axis_sums *s = sums;
    for (uint32_t i = 0; i < s->outer * s->inner; i++) {
        uint32_t from = i / s->inner * s->count * s->inner + i % s->inner;
        volatile float total = s->group ? in_groups(s, x, from) : in_lanes(s, x, from, i);
        total = total / s->divisor;
        put(s->thresholds, s->least, total, y, i);
    }
}
