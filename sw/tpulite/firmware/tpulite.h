/* A small driver for tpulite: C99, no allocation, no libc.
 *
 * It needs two functions that read and write the registers of a chip; on most systems they are one
 * volatile access each. The steps are those of tpulite.runtime.driver.
 */
#ifndef TPULITE_H
#define TPULITE_H

#include <stdint.h>

#include "tpulite_regs.h"

/* How to reach the registers of one chip. */
typedef struct {
    uint32_t (*read)(void *context, uint32_t offset);
    void (*write)(void *context, uint32_t offset, uint32_t value);
    void *context; /* passed to both */
} tpulite_chip;

/* Where a DRAM window lies and who may use it. A size of 0 closes it. */
typedef struct {
    uint64_t base;       /* a multiple of TPULITE_BEAT_BYTES, as the size */
    uint32_t size;       /* bytes */
    uint32_t permission; /* TPULITE_PERMISSION_READ, TPULITE_PERMISSION_WRITE */
} tpulite_window;

/* A program in DRAM and the windows that it may use. */
typedef struct {
    uint64_t address; /* of its first command, a multiple of TPULITE_BEAT_BYTES */
    uint32_t length;  /* commands */
    uint32_t watchdog; /* cycles without progress that are a fault; 0 never */
    tpulite_window windows[TPULITE_WINDOWS];
} tpulite_job;

/* How a run ended: fault is TPULITE_FAULT_NONE if the program reached its END. */
typedef struct {
    uint32_t fault;
    uint32_t index;   /* of the command at fault */
    uint64_t address; /* what TPULITE_FAULT_* says */
    int hung;         /* the memory does not answer: only a full reset helps */
} tpulite_outcome;

typedef enum {
    TPULITE_OK = 0,
    TPULITE_NO_CHIP,      /* there is no tpulite at this address */
    TPULITE_OTHER_CHIP,   /* of another version or configuration */
    TPULITE_TIMEOUT,      /* no interrupt */
    TPULITE_NOT_QUIESCED, /* a soft reset cannot help */
    TPULITE_MISPLACED,    /* an address is not a multiple of TPULITE_BEAT_BYTES */
    TPULITE_FAULTED,      /* the chip stopped at a fault, which the outcome holds */
} tpulite_status;

/* Check that the chip is one, and the one that programs with this hash were compiled for. */
tpulite_status tpulite_identify(const tpulite_chip *chip, uint32_t config_hash);

/* Load the registers and start the program. */
void tpulite_start(const tpulite_chip *chip, const tpulite_job *job);

/* Wait for the interrupt by reading its register at most `polls` times. With an interrupt handler,
 * call tpulite_finish from there instead. */
tpulite_status tpulite_wait(const tpulite_chip *chip, uint32_t polls);

/* Read how the run ended, and clear the interrupt. Counters keep their values until the next start;
 * read them with the chip's own read function. */
void tpulite_finish(const tpulite_chip *chip, tpulite_outcome *outcome);

/* Start, wait, finish. */
tpulite_status tpulite_run(const tpulite_chip *chip, const tpulite_job *job, uint32_t polls,
                           tpulite_outcome *outcome);

/* After a fault: get ready for the next program. */
tpulite_status tpulite_soft_reset(const tpulite_chip *chip);

#endif
