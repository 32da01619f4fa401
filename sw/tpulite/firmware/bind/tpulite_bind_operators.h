/* What is known of each operator before its shape is: the exported source has it as constants. */
#ifndef TPULITE_BIND_OPERATORS_H
#define TPULITE_BIND_OPERATORS_H

#include "tpulite_bind_inside.h"

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

#endif
