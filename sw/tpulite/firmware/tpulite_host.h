/* Operators of a network that run on the CPU, bit-exact with the library whose numerics the
 * network was exported with. Only the last four use floating-point operations.
 *
 * Each function computes one input; `x` and `y` are as the types of the tensors say.
 */
#ifndef TPULITE_HOST_H
#define TPULITE_HOST_H

#include <stdint.h>

/* Floats to 8-bit integers. Integers count from the least: thresholds[i] is the least float of
 * integer i + 1, as an integer of the same order: its bits, and for negative floats their
 * magnitude's bits negated. NaN becomes the least integer. The last elements may have other
 * thresholds. */
typedef struct {
    uint32_t count, rest; /* elements, and how many of them are of the other thresholds */
    uint8_t least; /* the least integer's byte */
    int32_t thresholds[255];
    const int32_t *rest_thresholds;
} tpulite_quantization;
void tpulite_quantize(const void *quantization, const void *x, void *y);
uint8_t tpulite_quantized(const int32_t thresholds[255], uint8_t least, float value);

/* 8-bit integers to floats: the float of each byte. The last elements may have another table. */
typedef struct {
    uint32_t count, rest; /* elements, and how many of them are of the second table */
    float values[256];
    const float *rest_values;
} tpulite_dequantization;
void tpulite_dequantize(const void *dequantization, const void *x, void *y);

/* 8-bit integers to others: the byte of each byte. */
typedef struct {
    uint32_t count;
    uint8_t values[256];
} tpulite_table;
void tpulite_look_up(const void *table, const void *x, void *y);

/* Pairs of 8-bit integers to others: offset + (a + b) / 2^shift, or offset + a * b / 2^shift, to the
 * nearest integer, of two the even one, for the terms or factors of both bytes. The second operand
 * repeats. Pairs that become something else are listed in order: byte of `x`, of `other`, and of
 * the result, from bit 16 on. */
typedef struct {
    uint32_t count, period, inner; /* elements, those of `other`, and how often each in a row */
    uint32_t is_product, shift;
    int32_t offset, low, high; /* the result is clamped */
    uint32_t exception_count;
    const uint32_t *exceptions;
    int32_t a[256], b[256];
} tpulite_pair_tables;
void tpulite_pair(const void *tables, const void *x, const void *other, void *y);

/* The average of each channel: thresholds[i] is the least sum of bytes whose result is the least
 * integer and i + 1; `flip` makes bytes count from the least one. */
typedef struct {
    uint32_t channels, pixels;
    uint8_t flip, least;
    int32_t thresholds[255];
} tpulite_average_sums;
void tpulite_average(const void *sums, const void *x, void *y);

/* Elements in another order of axes, or some of them: extents of the result, and the first element
 * and steps in bytes of `x`. */
typedef struct {
    uint32_t rank, element_bytes, first;
    uint32_t extents[8];
    int32_t steps[8];
} tpulite_transposition;
void tpulite_transpose(const void *transposition, const void *x, void *y);

/* The same elements in another shape. */
void tpulite_copy(const void *bytes, const void *x, void *y); /* bytes: const uint32_t * */

/* Rows of a tensor as rows of a larger one: at byte `first`, and from there on `step` bytes apart. */
typedef struct {
    uint32_t rows, row_bytes, first, step;
} tpulite_rows;
void tpulite_put_rows(const void *rows, const void *x, void *y);

/* A step of an LSTM after its products, as TensorFlow Lite's integer kernel computes it. Gates are
 * input (none if there are 3), forget, candidate and output, each of all cells of a sequence. */

/* Gates, int16 with 12 fractional bits, of int32 sums: `x` has those of the inputs of all steps, the
 * first ones of this step at `first` and those of the next sequence `step` later; `other` has those
 * of the outputs before. Biases, of all gates, hold the zero points of what is multiplied, too. */
typedef struct {
    uint32_t batch, gates, cells, first, step;
    const int32_t *bias, *other_bias;
    int32_t multipliers[4], shifts[4], other_multipliers[4], other_shifts[4];
} tpulite_lstm_sums;
void tpulite_lstm_gates(const void *sums, const void *x, const void *other, void *y);

/* The cell state, int16 with `bits` integer bits, of gates and the one before: clipped, unless `clip`
 * is 0. Then the output, int8, of gates and that cell state. Peepholes are weights of input (if there
 * is one), forget and output gate, or NULL. */
typedef struct {
    uint32_t batch, gates, cells, bits;
    int32_t clip;                                      /* of the cell state */
    int32_t output_multiplier, output_shift, output_zero_point;
    const int16_t *peepholes;
    int32_t multipliers[3], shifts[3];
} tpulite_lstm_state;
void tpulite_lstm_cell(const void *state, const void *x, const void *other, void *y);
void tpulite_lstm_output(const void *state, const void *x, const void *other, void *y);

/* The place of the largest along an axis, the first of equal ones. */
typedef struct {
    uint32_t outer, count, inner; /* extents before the axis, of it, and behind it */
    uint32_t is_signed, result_bytes;
} tpulite_argmax_axis;
void tpulite_argmax(const void *axis, const void *x, void *y);

/* Softmax of TensorFlow Lite's reference kernel and of TFLite Micro, of integers alone. exps[d] is
 * exp(-d * scale * beta) with 31 fractional bits, or 0 if that is too little to count. */
typedef struct {
    uint32_t outer, count, inner;
    uint32_t is_signed;
    int32_t exps[256];
} tpulite_softmax_integers;
void tpulite_softmax(const void *integers, const void *x, void *y);

/* Softmax of TensorFlow Lite's optimized kernels: single-precision sums. */
typedef struct {
    uint32_t outer, count, inner;
    uint32_t is_signed;
    float exps[256];
} tpulite_softmax_floats;
void tpulite_softmax_float(const void *floats, const void *x, void *y);

/* Softmax of ONNX Runtime: quotients of exponentials, in the result's units, and their sum. */
typedef struct {
    uint32_t outer, count, inner;
    uint32_t is_signed;
    int32_t zero_point;
    float unit;
    float exps[256];
} tpulite_softmax_quotients;
void tpulite_softmax_quotient(const void *quotients, const void *x, void *y);

/* Sums of windows divided by their sizes, in single precision: average pooling, and interpolation.
 * An element of the sum is weighted by its row and column. The sum goes row by row, or it is that
 * of the sums of columns. `values` are those of bytes, or NULL if `x` is float; `thresholds` and
 * `least` as for tpulite_quantize, or NULL if `y` is float. */
typedef struct {
    const float *values;
    const int32_t *thresholds;
    uint8_t least;
    uint32_t images, height, width, channels; /* of x */
    uint32_t rows, columns;                   /* of y */
    uint32_t row_taps, column_taps, by_columns;
    const uint32_t *row_places, *column_places; /* of the taps of each row or column */
    const float *row_weights, *column_weights;
    const float *row_sizes, *column_sizes;
} tpulite_window_sums;
void tpulite_pool(const void *sums, const void *x, void *y);

/* Sums along an axis divided by a number, in single precision: sums of groups are added, the last
 * ones smaller by powers of two; or lanes of the last axis, if `group` is 0. */
typedef struct {
    const float *values;
    const int32_t *thresholds;
    uint8_t least;
    uint32_t outer, count, inner, group;
    float divisor;
} tpulite_axis_sums;
void tpulite_sum(const void *sums, const void *x, void *y);

#endif
