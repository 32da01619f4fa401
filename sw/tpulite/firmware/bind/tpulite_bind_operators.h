/* What is known of each operator before its shape is: the exported source has it as constants. */
#ifndef TPULITE_BIND_OPERATORS_H
#define TPULITE_BIND_OPERATORS_H

#include "tpulite_bind_axis.h"

/* BatchNorm, elementwise arithmetic, tables: each vector from the same vector of the inputs. */
typedef struct {
    uint32_t operation;
    uint32_t places; /* of tiles */
    int32_t low, high;
    int32_t block_rows, common_rows; /* of the parameters of a channel block, or of all */
    uint32_t operands, sources[2]; /* how many, and which inputs they are */
    int32_t broadcast;             /* whether the second one has one vector a block */
    const uint8_t *constants;
    uint32_t constants_bytes; /* of all blocks; of a channel, if each has parameters */
    const uint8_t *spare;     /* those of a channel that is none */
} tpulite_pointwise;

enum { TPULITE_PLANES, TPULITE_SLABS }; /* kinds of its strategies */

void tpulite_bind_pointwise(tpulite_binding *binding);

/* Pooling. */
typedef struct {
    uint32_t operation;
    int32_t low, high;
    tpulite_axis y, x;
    int32_t record_rows; /* of the buffer, kept for records */
    const uint8_t *records;
    uint32_t record_count, record_bytes;
    const uint16_t *window_sizes; /* whose record each is, ascending; NULL: of all windows */
} tpulite_pool;

#define TPULITE_MOST_RECORDS 1024

enum { TPULITE_POOL_ROWS, TPULITE_POOL_PANELS };

void tpulite_bind_pool(tpulite_binding *binding);

/* A unit of the weights of a convolution: what one command multiplies. */
typedef struct {
    int32_t output, number, final; /* its n-block, its number there, whether it is the last */
    int32_t block, blocks, row, rows, column, columns;
    int32_t offset; /* in the constants */
    int32_t weight_rows, buffer_rows;
} tpulite_unit;

/* Convolutions. */
typedef struct {
    tpulite_axis y, x;
    tpulite_axis columns; /* along the width in pixels, or patches */
    int32_t flat;         /* whether no vector needs another one */
    int32_t byte_step, int4, form, drain, requantized;
    int32_t input_zero, weight_zero;
    int32_t blocks, outputs; /* channel blocks */
    int32_t accumulators, tallest, widest;
    const tpulite_unit *small, *large;
    uint32_t small_count, large_count;
    const uint8_t *constants;
    uint32_t constants_bytes;
} tpulite_conv;

enum {
    TPULITE_CONV_RESIDENT,
    TPULITE_CONV_FOLLOWED,
    TPULITE_CONV_STREAMED,
    TPULITE_CONV_TILES,
    TPULITE_CONV_PANELS
};

void tpulite_bind_conv(tpulite_binding *binding);

/* A part of the kernel of a depthwise convolution: what one command multiplies. */
typedef struct {
    int32_t row, rows, column, columns;
} tpulite_taps;

/* A way to use the array: rows, or columns, of the input are interleaved. Outputs along that axis
 * are cut into parts of at most `most`: at most `few` each, or at least `many`. */
typedef struct {
    int32_t inner, along_rows; /* the axis, as commands name it; whether rows are along it */
    int32_t most, few, many;
    int32_t numbers; /* for how many numbers of outputs there are tiles of weights */
    int32_t offset;  /* of the tiles in the constants */
    const tpulite_taps *taps;
    int32_t tap_count;
    int32_t step; /* positions from a tap of a part to the next */
} tpulite_pattern;

/* Depthwise convolutions. */
typedef struct {
    tpulite_axis y, x;
    const tpulite_pattern *patterns;
    int32_t at_once; /* whether the last product drains sums, and no command after it */
    int32_t form, drain;
    int32_t input_zero, weight_zero;
    int32_t blocks, accumulators, widest, banks;
    int32_t record_rows; /* of a block */
    int32_t zeros;       /* offset of a tile of zeros */
    const uint8_t *constants;
    uint32_t constants_bytes;
} tpulite_depthwise;

enum { TPULITE_DEPTHWISE_RESIDENT, TPULITE_DEPTHWISE_STREAMED };

void tpulite_bind_depthwise(tpulite_binding *binding);

#endif
