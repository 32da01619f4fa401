/* Run programs on the simulated chip with the C driver.
 *
 *     on_simulator DRAM CONFIG_HASH JOBS
 *
 * DRAM is a file with the memory's contents, which is overwritten by those after the runs. Each line
 * of JOBS is a run: address, length and watchdog, then base, size and permission of each window. A
 * line of result is printed for each: fault, index, address, cycles. After a fault follows a reset.
 */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "tpulite.h"

enum { READ_LATENCY = 50, WRITE_RESPONSE = 8, POLLS = 1000000 };

static void die(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static uint32_t simulated_read(void *context, uint32_t offset)
{
    uint32_t value = 0;
    if (chip_read_register(context, offset, &value))
        die("a register read failed");
    return value;
}

static void simulated_write(void *context, uint32_t offset, uint32_t value)
{
    if (chip_write_register(context, offset, value))
        die("a register write failed");
}

static int read_job(FILE *file, tpulite_job *job)
{
    unsigned long long values[3 + 3 * TPULITE_WINDOWS];
    for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
        if (fscanf(file, "%llu", &values[i]) != 1)
            return 0;
    }
    job->address = values[0];
    job->length = (uint32_t)values[1];
    job->watchdog = (uint32_t)values[2];
    for (unsigned i = 0; i < TPULITE_WINDOWS; i++) {
        job->windows[i].base = values[3 + 3 * i];
        job->windows[i].size = (uint32_t)values[4 + 3 * i];
        job->windows[i].permission = (uint32_t)values[5 + 3 * i];
    }
    return 1;
}

static void run(const tpulite_chip *chip, const tpulite_job *job)
{
    tpulite_outcome outcome;
    if (tpulite_run(chip, job, POLLS, &outcome))
        die("no interrupt");
    printf("%lu %lu %llu %lu\n", (unsigned long)outcome.fault, (unsigned long)outcome.index,
           (unsigned long long)outcome.address, (unsigned long)chip->read(chip->context, TPULITE_CYCLES));
    if (outcome.fault && tpulite_soft_reset(chip))
        die("the soft reset failed");
}

int main(int argc, char **argv)
{
    if (argc != 4)
        die("usage: on_simulator DRAM CONFIG_HASH JOBS");
    FILE *dram = fopen(argv[1], "r+b");
    FILE *jobs = fopen(argv[3], "r");
    if (!dram || !jobs || fseek(dram, 0, SEEK_END))
        die("cannot open the files");
    size_t size = (size_t)ftell(dram);
    void *simulated = chip_new(size, READ_LATENCY, WRITE_RESPONSE, 0, 0.0, 0);
    rewind(dram);
    if (fread(chip_dram(simulated), 1, size, dram) != size)
        die("cannot read DRAM");

    tpulite_chip chip = {simulated_read, simulated_write, simulated};
    if (tpulite_identify(&chip, (uint32_t)strtoul(argv[2], NULL, 0)))
        die("this is another chip");
    tpulite_job job;
    while (read_job(jobs, &job))
        run(&chip, &job);

    rewind(dram);
    if (fwrite(chip_dram(simulated), 1, size, dram) != size || fclose(dram))
        die("cannot write DRAM");
    fclose(jobs);
    chip_free(simulated);
    return 0;
}
