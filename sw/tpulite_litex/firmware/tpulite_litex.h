/* The chip in a LiteX system: what networks of `tpulite export` need of it. */
#ifndef TPULITE_LITEX_H
#define TPULITE_LITEX_H

#include <stddef.h>

#include "tpulite_network.h"

/* Place a network: `image` and `memory` are its exported arrays, in main memory. The registers are
 * where LiteX has mapped them, and DRAM is at the same addresses for chip and CPU. */
tpulite_placement tpulite_litex_placement(const uint32_t *image, uint8_t *memory);

/* What a status, or the fault of an outcome, means: a few words. */
const char *tpulite_litex_status_text(tpulite_status status);
const char *tpulite_litex_fault_text(uint32_t fault);

/* One line that says how a run ended: "error 3, no interrupt in time". The outcome, which counts only
 * after TPULITE_FAULTED, is that of the account. */
void tpulite_litex_explain(char *text, size_t size, tpulite_status status,
                           const tpulite_outcome *outcome);

#endif
