/* Arithmetic of closed forms: whole numbers of 64 bits, quotients rounded down or up. */
#ifndef TPULITE_FORMS_H
#define TPULITE_FORMS_H

#include <stdint.h>

static inline int64_t tpulite_floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static inline int64_t tpulite_ceil_div(int64_t a, int64_t b)
{
    return -tpulite_floor_div(-a, b);
}

static inline int64_t tpulite_mod(int64_t a, int64_t b)
{
    return a - tpulite_floor_div(a, b) * b;
}

static inline int64_t tpulite_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t tpulite_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The square root, rounded down: bit by bit, from the highest that it may have. */
static inline int64_t tpulite_root(int64_t value)
{
    int64_t root = 0;
    for (int64_t bit = (int64_t)1 << 30; bit; bit >>= 1) {
        if ((root + bit) * (root + bit) <= value)
            root += bit;
    }
    return root;
}

/* Where part `i` of `parts` nearly equal parts of an extent begins, at multiples of `unit`; the
 * last one ends where the extent does. */
static inline int64_t tpulite_cut(int64_t i, int64_t extent, int64_t parts, int64_t unit)
{
    return i == parts ? extent : i * tpulite_ceil_div(extent, unit) / parts * unit;
}

/* After how many pieces of `size` bytes one begins at a beat of 16 bytes again. */
static inline int64_t tpulite_grain(int64_t size)
{
    return 16 / tpulite_least(size & -size, 16);
}

#endif
