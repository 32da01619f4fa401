/* Networks of `tpulite export`: C99, no allocation, no libc, nothing but integers.
 *
 * A network is constant data: an image that the chip reads (weights and commands), and the steps of
 * a run: conversions of the host, and programs of the chip. It needs a memory that chip and CPU
 * share; tensors that the chip reads or writes lie there as the chip wants them. Compilers may call
 * memcpy and memset, as they may in any program.
 */
#ifndef TPULITE_NETWORK_H
#define TPULITE_NETWORK_H

#include "tpulite.h"

/* Where the macros below place image and memory. The chip needs a multiple of 16 only; at a multiple
 * of 4,096 its bursts, and so its cycles, are those of the cycle model. */
#define TPULITE_ALIGNMENT 4096u

/* How the exported arrays are placed: redefine these for your linker script, or copy the image to
 * where the chip can read it, and leave both arrays out of the link. */
#if defined(__GNUC__) && !defined(TPULITE_IN_IMAGE)
#define TPULITE_IN_IMAGE __attribute__((aligned(TPULITE_ALIGNMENT), section(".tpulite.image")))
#endif
#if defined(__GNUC__) && !defined(TPULITE_IN_MEMORY)
#define TPULITE_IN_MEMORY __attribute__((aligned(TPULITE_ALIGNMENT), section(".bss.tpulite")))
#endif

typedef enum {
    TPULITE_FLOAT32,
    TPULITE_INT8,
    TPULITE_UINT8,
    TPULITE_INT16,
    TPULITE_INT32,
    TPULITE_INT64
} tpulite_type;

/* Where a tensor of the host lies: given by the caller, in the memory, or a constant. */
typedef enum { TPULITE_INPUT, TPULITE_OUTPUT, TPULITE_MEMORY, TPULITE_CONSTANT } tpulite_place;

/* A tensor as the host has it: rows of channels, the last axis contiguous. */
typedef struct {
    const char *name;
    tpulite_type type;
    uint32_t bytes; /* of one input; a run of a batch has so many one after the other */
    uint32_t rank;
    uint32_t shape[8];
    float scale; /* real = scale * (integer - zero_point); 0 if it has none */
    int32_t zero_point;
    tpulite_place place;
    uint32_t index;       /* among the inputs or outputs, or first byte in the memory */
    const void *constant; /* its value */
} tpulite_tensor;

/* How a tensor lies in the memory for the chip: images one after the other, each of them vectors of
 * `lanes` elements in blocks of channels, or packed rows. A vector is a pixel or a patch of them. */
typedef struct {
    uint32_t tensor;      /* which one */
    uint32_t offset;      /* first byte in the memory */
    uint32_t images;      /* of the batch */
    uint32_t image_bytes; /* from one to the next; what is not data is zero */
    uint32_t parts;       /* feature maps of an image, one after the other on the host */
    uint32_t height, width;
    uint32_t pixel_bytes; /* of the host: all channels of a pixel */
    uint32_t flip;        /* exclusive or of each byte that is read back */
    uint32_t vector_bytes; /* of a block: lanes times the size of an element */
    uint32_t block_bytes;  /* from block to block */
    struct {
        uint32_t count, size, step, pad; /* vectors, pixels of each, pixels between, before */
    } rows, columns;
    uint8_t fill;          /* of pixels that do not exist */
    uint32_t line_bytes;   /* of a packed row; 0: blocks */
    uint32_t line_pad;     /* vectors' worth of padding before its first pixel */
    uint32_t transposed;   /* whether packed rows run along the height */
} tpulite_layout;

/* A program of the chip. Offsets of windows count from the memory's begin. */
typedef struct {
    uint32_t commands, command_count;      /* first byte in the image, a multiple of 16 */
    uint32_t constants, constants_bytes;   /* the same */
    uint32_t offset[TPULITE_WINDOWS];      /* of input, output and scratch window */
    uint32_t bytes[TPULITE_WINDOWS];
    const tpulite_layout *inputs, *outputs;
    uint32_t input_count, output_count;
} tpulite_program;

/* A step of the host, which computes a tensor from another one or from two, or a program. */
typedef struct {
    void (*compute)(const void *arguments, const void *x, void *y);
    void (*combine)(const void *arguments, const void *x, const void *other, void *y);
    const void *arguments; /* of one of both functions; a program has none */
    uint32_t from, other, to;
    const tpulite_program *program;
} tpulite_step;

/* A state: a tensor of the memory that outlives a run. What `from` holds behind a run goes `to` the
 * tensor that the next one begins with. */
typedef struct {
    uint32_t from, to;
    const void *initial; /* its value before the first run */
} tpulite_state;

typedef struct {
    const char *name;
    uint32_t config_hash; /* of the chip that it is compiled for */
    uint32_t batch;       /* inputs of a run */
    uint32_t image_bytes, memory_bytes;
    const tpulite_tensor *tensors;
    const tpulite_step *steps;
    const tpulite_state *states;
    uint32_t tensor_count, step_count, state_count, input_count, output_count;
    uint32_t classes; /* the first values of the first output, or all of them */
} tpulite_network;

/* A network in memory, and the chip that runs it. Each place has a pointer of the CPU and an
 * address of the chip. With a data cache, `clean` writes back what the chip will read, and
 * `invalidate` forgets what it has written; both may be NULL. The CPU never writes to the image. */
typedef struct {
    tpulite_chip chip;
    uint64_t image_address;
    uint8_t *memory;
    uint64_t memory_address;
    uint32_t polls;    /* reads of the interrupt register before a run is given up */
    uint32_t watchdog; /* cycles without progress that are a fault; 0 never */
    void (*clean)(const void *begin, uint32_t bytes);
    void (*invalidate)(void *begin, uint32_t bytes);
} tpulite_placement;

/* What a run took, and how it ended. */
typedef struct {
    uint64_t cycles; /* of the chip, all programs */
    uint32_t step;   /* the last one that was begun */
    tpulite_outcome outcome;
} tpulite_account;

/* Check that the chip is the one that the network is compiled for, and addresses are aligned. */
tpulite_status tpulite_network_check(const tpulite_network *network,
                                     const tpulite_placement *placement);

/* Set the states of a network to their initial values, as is required before its first run. A
 * network without states needs no call. */
void tpulite_network_reset(const tpulite_network *network, const tpulite_placement *placement);

/* Run it once. Inputs and outputs are pointers to the caller's tensors, in the order and form of
 * the network's; each holds `batch` of them. After TPULITE_FAULTED the account says why, and the
 * next run may begin, unless outcome.hung; states are then as before. */
tpulite_status tpulite_network_run(const tpulite_network *network,
                                   const tpulite_placement *placement, const void *const *inputs,
                                   void *const *outputs, tpulite_account *account);

/* Which of the network's classes has the largest value in its first output, of equal ones the
 * first. `values` is that output of one input. */
uint32_t tpulite_class(const tpulite_network *network, const void *values);

/* Lay a tensor out as the chip reads it, and read one back (not from packed rows, nor from patches that
 * are not beside each other). `at` is the layout's first byte. */
void tpulite_pack(const tpulite_layout *layout, const void *x, uint8_t *at);
void tpulite_unpack(const tpulite_layout *layout, const uint8_t *at, void *y);

#endif
