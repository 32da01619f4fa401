/* What the Verilated chip offers to Python (rtl_device.py) and to C. */
#ifndef TPULITE_HARNESS_H
#define TPULITE_HARNESS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A chip with its DRAM, after a reset. Latencies in edges, at least 2; `stall` is the fraction of
 * the cycles in which each AXI channel pauses. */
void *chip_new(size_t dram_bytes, int read_latency, int write_response, int jitter, double stall,
               uint64_t seed);
void chip_free(void *chip);

/* The data path of its DRAM, which is never busy by default: edges for a beat, edges between two
 * bursts, and whether reads and writes take turns; see tpulite.arch.memory.MemoryTiming. */
void chip_set_data_path(void *chip, int beat_cycles, int burst_cycles, int shared);

/* Addresses, `count` pairs of start and stop, that lie in a second memory, which is only read, and
 * its timing; see tpulite.arch.memory.MemoryPair. */
void chip_set_constants(void *chip, int read_latency, int beat_cycles, int burst_cycles,
                        const uint64_t *ranges, size_t count);

uint8_t *chip_dram(void *chip);

/* Full reset; DRAM stays. */
void chip_reset(void *chip);

/* Addresses that answer with an error: `count` pairs of start and stop. */
void chip_set_errors(void *chip, int write, const uint64_t *ranges, size_t count);

/* Reads, and likewise writes, that are answered from the last full reset on; below 0 all. */
void chip_set_mute_after(void *chip, int64_t bursts);

/* AXI4-Lite accesses: the response (0 is OKAY), or -1 if the chip does not answer. */
int chip_write_register(void *chip, uint32_t offset, uint32_t value);
int chip_read_register(void *chip, uint32_t offset, uint32_t *value);

/* Let clock cycles pass. */
void chip_step(void *chip, int64_t cycles);

/* Run until the interrupt line is high, at most `limit` cycles; returns the line. */
int chip_wait_interrupt(void *chip, int64_t limit);

/* Clock cycles so far. */
int64_t chip_cycles(void *chip);

/* Forget the trace, and record one from now on, or not. */
void chip_trace(void *chip, int on);

/* Commands that `engine` has worked on: 1 + the largest index. */
size_t chip_trace_size(void *chip, int engine);

/* For each of these commands: first cycle, last cycle + 1, then cycles in each state but IDLE. */
const int64_t *chip_trace_rows(void *chip, int engine);

/* The `tpulite::Watch` of a build with TPULITE_WATCH, which sees every cycle before its edge. */
void *chip_watch(void *chip);

/* Registers and memories that may be changed from outside: those that the Verilog declares public.
 * Each has a name, `MODULE NAME`, and words of bits; a register is one word. */
size_t chip_state_size(void *chip);
const char *chip_state_name(void *chip, size_t variable);
void chip_state_shape(void *chip, size_t variable, int *words, int *bits);

/* Flip a bit between two clock cycles. */
void chip_flip(void *chip, size_t variable, int word, int bit);

/* Write what all chips of this process that are freed have reached, as `coverage.dat` of Verilator;
 * nothing if the model was built without coverage. What this chip has reached is forgotten. */
void chip_write_coverage(void *chip, const char *path);

#ifdef __cplusplus
}
#endif
#endif
