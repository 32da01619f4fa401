/* The network of MLPerf Tiny's device: its steps in three, with what is timed in the middle. */
#ifndef MLPERF_MODEL_H
#define MLPERF_MODEL_H

#include "tpulite_network.h"

/* Place the network, and return whether it is for this chip. */
tpulite_status mlperf_begin(void);

/* Say the results of the last run, or why there are none. */
void mlperf_results(void);

/* Bytes of an input: of the network's own, and of the tensor that the chip reads. */
uint32_t mlperf_whole_bytes(void);
uint32_t mlperf_chip_bytes(void);

/* Both of these return whether it ended well; if not they have said why. */

/* Take an input of one of these sizes, and make of it the tensor that the chip reads. */
int mlperf_take(const uint8_t *bytes, uint32_t count);

/* What is timed: from that tensor to the result of softmax, or of the chip. */
int mlperf_run(tpulite_account *account);


#endif
