/* Run the self-test of an exported network on the simulated chip.
 *
 * Compile with -DNETWORK=name -include name.h, the exported sources but main.c and the image, and
 * the chip's library:
 *
 *     selftest IMAGE.bin
 *
 * Prints status, bytes that are wrong, fault and cycles.
 */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "tpulite_network.h"

#define JOINED(a, b) a##b
#define OF(name, what) JOINED(name, what)
#define network OF(NETWORK, _network)
#define selftest OF(NETWORK, _selftest)

enum { READ_LATENCY = 50, WRITE_RESPONSE = 8, POLLS = 100000000 };

static uint32_t simulated_read(void *context, uint32_t offset)
{
    uint32_t value = 0;
    if (chip_read_register(context, offset, &value))
        exit(3);
    return value;
}

static void simulated_write(void *context, uint32_t offset, uint32_t value)
{
    if (chip_write_register(context, offset, value))
        exit(3);
}

int main(int argc, char **argv)
{
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (!file)
        return 2;
    size_t image = (network.image_bytes + TPULITE_ALIGNMENT - 1) / TPULITE_ALIGNMENT * TPULITE_ALIGNMENT;
    void *simulated =
        chip_new(image + network.memory_bytes, READ_LATENCY, WRITE_RESPONSE, 0, 0.0, 0);
    uint8_t *dram = chip_dram(simulated);
    if (fread(dram, 1, network.image_bytes, file) != network.image_bytes)
        return 2;
    fclose(file);

    tpulite_placement placement = {{simulated_read, simulated_write, simulated}, 0, dram + image,
                                   image, POLLS, 1000000, NULL, NULL};
    tpulite_account account = {0};
    uint32_t wrong = 0;
    tpulite_status status = selftest(&placement, &wrong, &account);
    printf("%d %lu %lu %llu\n", (int)status, (unsigned long)wrong,
           (unsigned long)account.outcome.fault, (unsigned long long)account.cycles);
    chip_free(simulated);
    return 0;
}
