#include "tpulite_litex.h"

#include <stdio.h>

#include <generated/mem.h>
#include <system.h>

/* Several chips, or one at another place: define where. */
#ifndef TPULITE_LITEX_REGISTERS
#define TPULITE_LITEX_REGISTERS TPULITE_BASE
#endif

/* Reads of the interrupt register, some ten cycles each, before a run is given up, and cycles
 * without progress before the chip gives up itself. */
enum { POLLS = 10000000, WATCHDOG = 1000000 };

static uint32_t read_register(void *context, uint32_t offset)
{
    return *(volatile uint32_t *)((uintptr_t)context + offset);
}

static void write_register(void *context, uint32_t offset, uint32_t value)
{
    *(volatile uint32_t *)((uintptr_t)context + offset) = value;
}

/* VexRiscv's cache writes through; LiteX's second cache, if there is one, does not. */
static void clean(const void *begin, uint32_t bytes)
{
    (void)begin;
    (void)bytes;
    flush_l2_cache();
}

static void invalidate(void *begin, uint32_t bytes)
{
    (void)begin;
    (void)bytes;
    flush_cpu_dcache();
    flush_l2_cache();
}

tpulite_placement tpulite_litex_placement(const uint32_t *image, uint8_t *memory)
{
    tpulite_placement placement = {0};
    placement.chip.read = read_register;
    placement.chip.write = write_register;
    placement.chip.context = (void *)(uintptr_t)TPULITE_LITEX_REGISTERS;
    placement.image_address = (uintptr_t)image;
    placement.memory = memory;
    placement.memory_address = (uintptr_t)memory;
    placement.polls = POLLS;
    placement.watchdog = WATCHDOG;
    placement.clean = clean;
    placement.invalidate = invalidate;
    return placement;
}

const char *tpulite_litex_status_text(tpulite_status status)
{
    static const char *const texts[] = {
        [TPULITE_OK] = "all is well",
        [TPULITE_NO_CHIP] = "there is no tpulite at this address",
        [TPULITE_OTHER_CHIP] = "compiled for another version or configuration of the chip",
        [TPULITE_TIMEOUT] = "no interrupt in time",
        [TPULITE_NOT_QUIESCED] = "a soft reset does not help, reset the system",
        [TPULITE_MISPLACED] = "image or memory are not at a multiple of 16 bytes",
        [TPULITE_FAULTED] = "the chip has stopped",
    };
    return status < sizeof texts / sizeof *texts ? texts[status] : "unknown status";
}

const char *tpulite_litex_fault_text(uint32_t fault)
{
    static const char *const texts[] = {
        [TPULITE_FAULT_NONE] = "no fault",
        [TPULITE_FAULT_OPCODE] = "unknown opcode",
        [TPULITE_FAULT_FIELD] = "illegal field",
        [TPULITE_FAULT_WINDOW] = "outside of its window",
        [TPULITE_FAULT_BUFFER] = "outside of the buffer",
        [TPULITE_FAULT_READ] = "error of the bus at a read",
        [TPULITE_FAULT_WRITE] = "error of the bus at a write",
        [TPULITE_FAULT_FETCH] = "error of the bus at a command",
        [TPULITE_FAULT_WATCHDOG] = "nothing moved",
        [TPULITE_FAULT_OVERRUN] = "the program has no END",
        [TPULITE_FAULT_RECORD] = "a rounding that this chip lacks",
        [TPULITE_FAULT_STOPPED] = "stopped by the host",
    };
    return fault < sizeof texts / sizeof *texts ? texts[fault] : "unknown fault";
}

void tpulite_litex_explain(char *text, size_t size, tpulite_status status,
                           const tpulite_outcome *outcome)
{
    if (status != TPULITE_FAULTED) {
        snprintf(text, size, "error %d, %s", (int)status, tpulite_litex_status_text(status));
        return;
    }
    snprintf(text, size, "error %d, %s: fault %lu, %s, command %lu, address 0x%08lx", (int)status,
             tpulite_litex_status_text(status), (unsigned long)outcome->fault,
             tpulite_litex_fault_text(outcome->fault), (unsigned long)outcome->index,
             (unsigned long)outcome->address);
}
