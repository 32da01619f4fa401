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

/* Places that anything takes in turn, at most, and one. */
#define TPULITE_MOST_PLACES 4

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
    int32_t byte_step, form, drain, requantized;
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

#endif
