/* Networks for ranges of shapes, of `tpulite export --shapes`: C99, no allocation, no libc.
 *
 * To bind one to a shape is to choose the cheapest strategy that fits, in closed form, and to write
 * the commands and constants for that shape. The result is a network like any other, for
 * tpulite_network_run. Extents and sizes are of 32 bits, products of them of 64.
 */
#ifndef TPULITE_BIND_H
#define TPULITE_BIND_H

#include "tpulite_network.h"

typedef struct {
    int32_t batch, height, width, channels; /* of the first input */
} tpulite_shape;

typedef enum {
    TPULITE_BOUND = 0,
    TPULITE_BATCH_OUTSIDE, /* of the range; likewise the others */
    TPULITE_HEIGHT_OUTSIDE,
    TPULITE_WIDTH_OUTSIDE,
    TPULITE_CHANNELS_OUTSIDE,
    TPULITE_UNBOUND,       /* no strategy fits, or a command cannot say what it should */
    TPULITE_IMAGE_SMALL,   /* the buffers are smaller than the header says */
    TPULITE_WORK_SMALL,
} tpulite_bind_status;

/* Numbers and sizes of tiles; of those that a strategy has not, 0. `mode` says how images are cut:
 * into parts of one, several at a time, or through from one to the next. Places are those that tiles
 * take in turn. */
enum { TPULITE_IMAGE, TPULITE_IMAGES, TPULITE_THROUGH }; /* modes */

typedef struct {
    int32_t tiles, slabs, parts, panels, groups, mode;
    int32_t tile_blocks, tile_pixels, slab_rows, in_rows, in_columns, out_columns;
    int32_t slots, in_slots, out_slots, weight_slots; /* places */
    int32_t slot_rows, in_slot, out_slot;             /* rows of each */
    int32_t weights_at, weight_rows, tile_rows, needed_rows;
    int32_t kind, pattern; /* of the strategy, as the operator counts them */
} tpulite_sizes;

/* A strategy, and what it costs. */
typedef struct {
    const char *strategy;
    int64_t cost;            /* what it was chosen by: cycles, and traffic between equals */
    int64_t cycles, traffic; /* by the closed form; rows between DRAM and the buffer */
    tpulite_sizes sizes;
} tpulite_choice;

/* A command while its place in the program is not known yet. */
typedef struct {
    int32_t engine;
    int32_t due, first, freed;
    int32_t place, index;
} tpulite_bind_item;

#define TPULITE_BIND_TENSORS 3

typedef struct {
    /* By the caller. The image begins at a multiple of TPULITE_BEAT_BYTES; the chip reads it. */
    uint8_t *image;
    uint32_t image_bytes;
    tpulite_bind_item *work;
    uint32_t work_items;
    /* By tpulite_bind: what was chosen, and the network, which points into this structure. */
    tpulite_choice choice;
    tpulite_network network;
    tpulite_program program; /* where commands, constants and windows are, and how many */
    tpulite_step step;
    tpulite_tensor tensors[TPULITE_BIND_TENSORS];  /* inputs, then the output */
    tpulite_layout layouts[TPULITE_BIND_TENSORS];
} tpulite_bound;

/* A network of a range of shapes, as the exported source has it. */
typedef struct tpulite_range tpulite_range;

/* Bind it to a shape. The commands are bound->image + bound->program.commands, little-endian. */
tpulite_bind_status tpulite_bind(const tpulite_range *range, const tpulite_shape *shape,
                                 tpulite_bound *bound);

/* The CRC-32 of some bytes, as of zlib: to compare what was bound. */
uint32_t tpulite_crc32(const uint8_t *bytes, uint32_t count);

#endif
