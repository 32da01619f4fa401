/* What the parts of tpulite_bind share. */
#ifndef TPULITE_BIND_INSIDE_H
#define TPULITE_BIND_INSIDE_H

#include "tpulite_bind.h"
#include "tpulite_fields.h"
#include "tpulite_forms.h"

typedef enum { TPULITE_ON_LOAD, TPULITE_ON_STORE, TPULITE_ON_ARRAY } tpulite_engine;

typedef struct tpulite_binding tpulite_binding;

struct tpulite_range {
    const char *name;
    uint32_t config_hash, array_size, row_bytes, queue_depth;
    tpulite_shape least, most;
    uint32_t constants_most; /* bytes in the image for constants, to the next page */
    uint32_t input_count;
    const void *facts; /* of the operator, for `commands` */
    /* Offer all strategies; see tpulite_offer. */
    void (*choose)(const tpulite_shape *shape, tpulite_choice *best);
    /* Fill tensors, layouts and the bytes of windows. */
    void (*lay_out)(const tpulite_shape *shape, tpulite_bound *bound);
    /* Write constants, and say commands in order. */
    void (*commands)(tpulite_binding *binding);
};

/* A network that is being bound. Commands lie in the order in which they are said, LOADs,
 * computations and STOREs each in the order of their execution; linking puts them in order. */
struct tpulite_binding {
    const tpulite_range *range;
    const tpulite_shape *shape;
    tpulite_bound *bound;
    uint8_t *commands; /* in the image, behind the constants */
    uint32_t capacity, count;
    uint32_t compute_engine; /* the ISA's number of VPU or MXU */
    int freed_by_store;      /* LOADs wait for STOREs, not for computations */
    uint32_t loads, computes, stores;
    tpulite_bind_status status;
};

/* Whether a strategy is the best of those that were offered so far. */
int tpulite_offer(tpulite_choice *best, const char *strategy, int64_t feasible, int64_t cost);

/* A command, not yet said. */
typedef struct {
    uint64_t lanes[4];
    int illegal;
} tpulite_word;

typedef struct {
    uint8_t offset, width;
    uint8_t is_signed;
    uint8_t least, multiple;
    uint8_t more_offset, more; /* bits behind all fields, and how many */
} tpulite_field;

tpulite_word tpulite_command(uint32_t opcode);
void tpulite_put(tpulite_word *word, tpulite_field field, int64_t value);
#define TPULITE_PUT(word, field, value) tpulite_put(word, (tpulite_field)TPULITE_##field, value)

/* Say a LOAD that is due ahead of computation `due`, as which `first` is the first to need it. It
 * waits for STORE or computation `freed`, or for none: -1. */
void tpulite_say_load(tpulite_binding *binding, const tpulite_word *word, int32_t due,
                      int32_t first, int32_t freed);

/* Say a computation, which waits for STORE `freed`; -1: for none. */
void tpulite_say_compute(tpulite_binding *binding, const tpulite_word *word, int32_t freed);

/* Say a product; `early` is the LOAD of its weights, -1 if they are there. */
void tpulite_say_product(tpulite_binding *binding, const tpulite_word *word, int32_t freed,
                         int32_t early);

/* Say a STORE behind the computation before. */
void tpulite_say_store(tpulite_binding *binding, const tpulite_word *word);

/* Put all commands in order, with tokens and END. */
void tpulite_link(tpulite_binding *binding);

/* A tensor of channel blocks in DRAM. */
typedef struct {
    uint32_t window, flip;
    int64_t begin;       /* first byte in the window */
    int64_t block_bytes; /* from block to block */
    int64_t vector_bytes;
    int64_t vector_rows; /* of the buffer */
} tpulite_dram;

/* Transfer `vectors` vectors of `blocks` blocks; rows of the buffer are `pitch` apart. */
tpulite_word tpulite_transfer(uint32_t opcode, const tpulite_dram *tensor, int64_t first_block,
                              int64_t blocks, int64_t first_vector, int64_t vectors, int64_t row,
                              int64_t pitch);

/* Rows of an image, and vectors of each. */
typedef struct {
    int64_t lines, vectors;
} tpulite_box;

/* Transfer a part of the rows of an image of a block, from vector `first` on; rows are `width`
 * vectors long there, and `pitch` rows of the buffer apart. */
tpulite_word tpulite_rectangle(uint32_t opcode, const tpulite_dram *tensor, int64_t block,
                               int64_t first, tpulite_box box, int64_t width, int64_t row,
                               int64_t pitch);

tpulite_word tpulite_load_constants(int64_t offset, int64_t rows, int64_t row);

/* The tensors of a bound network: inputs by number, and the output. */
tpulite_dram tpulite_dram_of(const tpulite_binding *binding, uint32_t tensor);

/* Add bytes behind the constants that are there. */
void tpulite_add_constants(tpulite_binding *binding, const uint8_t *bytes, uint32_t count);

#endif
