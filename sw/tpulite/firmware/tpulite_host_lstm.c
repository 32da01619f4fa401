#include "tpulite_host.h"

void tpulite_put_rows(const void *rows, const void *x, void *y)
{
    const tpulite_rows *r = rows;
    const uint8_t *from = x;
    uint8_t *to = (uint8_t *)y + r->first;
    for (uint32_t i = 0; i < r->rows; i++, to += r->step) {
        for (uint32_t j = 0; j < r->row_bytes; j++)
            to[j] = *from++;
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

/* An int32 times multiplier * 2^(shift - 31), rounded twice. */
static int32_t scaled(int32_t value, int32_t multiplier, int32_t shift)
{
    int32_t left = (int32_t)((uint32_t)value << (shift > 0 ? shift : 0));
    int64_t high = multiply(left, multiplier);
    return (int32_t)(shift < 0 ? divide(high, (uint32_t)-shift) : high);
}

static int32_t wrapped16(int32_t value)
{
    return (int32_t)((uint32_t)(value + 0x8000) & 0xFFFF) - 0x8000;
}

static int32_t clamped(int32_t value, int32_t low, int32_t high)
{
    return value < low ? low : value > high ? high : value;
}

static int32_t saturated16(int32_t value)
{
    return clamped(value, -0x8000, 0x7FFF);
}

/* a * b / 2^15, half up, of two int16. */
static int32_t multiply16(int32_t a, int32_t b)
{
    int32_t product = a * b;
    int32_t high = (product + (product >= 0 ? 1 << 14 : 1 - (1 << 14))) / (1 << 15);
    return high < 0x7FFF ? high : 0x7FFF;
}

/* exp(x) with 15 fractional bits of an int16 that is not positive and has so many integer bits: a
 * polynomial around -1/8 of what is left of quarters, times exp(-2^k) for each bit of those. */
static int32_t exponential16(int32_t x, int32_t bits)
{
    static const int16_t powers[] = {25520, 19875, 12055, 4435, 600, 11, 0};
    const int32_t fraction = 15 - bits, quarter = 1 << (fraction - 2);
    if (x == 0)
        return 0x7FFF;
    int32_t part = wrapped16((x & (quarter - 1)) - quarter), rest = wrapped16(part - x);
    int32_t a = wrapped16(saturated16(part * (1 << bits)) + (1 << 12));
    int32_t a2 = multiply16(a, a), a3 = multiply16(a2, a), a4 = multiply16(a2, a2);
    int32_t cubes = multiply16(wrapped16((int32_t)divide(a4, 2) + a3), 10923);
    int32_t series = wrapped16(a + (int32_t)divide(wrapped16(cubes + a2), 1));
    int32_t result = saturated16(28918 + multiply16(series, 28918));
    for (int32_t k = -2; k < bits && k <= 4; k++) {
        if (rest & (1 << (fraction + k)))
            result = multiply16(result, powers[k + 2]);
    }
    return bits > 5 && x < -(1 << (fraction + 5)) ? 0 : result;
}

/* 2 / (1 + x) with 13 fractional bits, halved, of 15 fractional bits. */
static int32_t reciprocal16(int32_t x)
{
    int32_t half = (x + 0x7FFF + 1) >> 1;
    int32_t y = wrapped16(23130 + multiply16(half, -15420));
    for (int i = 0; i < 3; i++) {
        int32_t error = wrapped16((1 << 13) - multiply16(half, y));
        y = wrapped16(y + saturated16(multiply16(y, error) * 4));
    }
    return y;
}

static int32_t logistic16(int32_t x)
{
    int32_t magnitude = wrapped16(x < 0 ? x : -x);
    int32_t positive = saturated16(reciprocal16(exponential16(magnitude, 3)) * 2);
    return x == 0 ? 1 << 14 : x > 0 ? positive : 0x7FFF - positive;
}

static int32_t tanh16(int32_t x, uint32_t bits)
{
    int32_t magnitude = wrapped16(x < 0 ? x : -x);
    int32_t y = reciprocal16(exponential16(magnitude, (int32_t)bits + 1));
    y = saturated16(wrapped16(y - (1 << 13)) * 4);
    return x == 0 ? 0 : x > 0 ? y : -y;
}

void tpulite_lstm_gates(const void *sums, const void *x, const void *other, void *y)
{
    const tpulite_lstm_sums *s = sums;
    const int32_t *recurrent = other;
    int16_t *to = y;
    for (uint32_t b = 0; b < s->batch; b++) {
        const int32_t *from = (const int32_t *)x + s->first + b * s->step;
        const int32_t *bias = s->bias, *other_bias = s->other_bias;
        for (uint32_t g = 0; g < s->gates; g++) {
            for (uint32_t i = 0; i < s->cells; i++) {
                int32_t sum = (int32_t)((uint32_t)*from++ + (uint32_t)*bias++);
                int32_t gate = saturated16(scaled(sum, s->multipliers[g], s->shifts[g]));
                sum = (int32_t)((uint32_t)*recurrent++ + (uint32_t)*other_bias++);
                gate += scaled(sum, s->other_multipliers[g], s->other_shifts[g]);
                *to++ = (int16_t)saturated16(gate);
            }
        }
    }
}

/* A gate with what it sees of the cell state through peephole p. */
static int32_t looked(const tpulite_lstm_state *s, uint32_t p, uint32_t cell, int32_t gate,
                      int32_t value)
{
    if (!s->peepholes)
        return gate;
    int32_t seen = s->peepholes[p * s->cells + cell] * value;
    return saturated16(gate + scaled(seen, s->multipliers[p], s->shifts[p]));
}

void tpulite_lstm_cell(const void *state, const void *x, const void *other, void *y)
{
    const tpulite_lstm_state *s = state;
    const int16_t *gates = x, *before = other;
    int16_t *to = y;
    const uint32_t forget = s->gates - 3;
    for (uint32_t b = 0; b < s->batch; b++, gates += s->gates * s->cells) {
        for (uint32_t i = 0; i < s->cells; i++) {
            int32_t cell = *before++;
            const int16_t *gate = gates + forget * s->cells + i;
            int32_t kept = logistic16(looked(s, forget, i, *gate, cell)), entered = 0x7FFF - kept;
            if (forget)
                entered = logistic16(looked(s, 0, i, gates[i], cell));
            int32_t candidate = tanh16(gate[s->cells], 3);
            int32_t added = wrapped16((int32_t)divide(entered * candidate, 15 + s->bits));
            cell = saturated16(wrapped16((int32_t)divide(kept * cell, 15)) + added);
            *to++ = (int16_t)(s->clip ? clamped(cell, -s->clip, s->clip) : cell);
        }
    }
}

void tpulite_lstm_output(const void *state, const void *x, const void *other, void *y)
{
    const tpulite_lstm_state *s = state;
    const int16_t *gates = x, *cells = other;
    int8_t *to = y;
    for (uint32_t b = 0; b < s->batch; b++, gates += s->gates * s->cells) {
        for (uint32_t i = 0; i < s->cells; i++) {
            int32_t cell = *cells++, gate = gates[(s->gates - 1) * s->cells + i];
            int32_t shown = logistic16(looked(s, s->gates - 2, i, gate, cell));
            shown *= tanh16(cell, s->bits);
            int32_t value = scaled(shown, s->output_multiplier, s->output_shift);
            *to++ = (int8_t)clamped(value + s->output_zero_point, -128, 127);
        }
    }
}
