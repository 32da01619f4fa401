/* What LiteX has around firmware/mlperf.c, on a workstation: a UART that is the console, a clock of
 * the simulated chip's cycles, and that chip. IMAGE.bin is the first argument, and the second one
 * perhaps what is wrong: there is no chip, it or its memory does not answer, and so on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "board.h"
#include "harness.h"
#include "tpulite_litex.h"

enum { READ_LATENCY = 50, WRITE_RESPONSE = 8, POLLS = 100000000, WATCHDOG = 5000 };

static void *chip;
static uint8_t *dram;
static uint32_t image;
static const char *wrong = "";

int firmware(void);

void uart_write(char c)
{
    putchar(c);
    if (c == '\n')
        fflush(stdout);
}

char uart_read(void)
{
    int c = getchar();
    if (c == EOF)
        exit(0);
    return (char)c;
}

uint64_t timer0_uptime_cycles_read(void)
{
    return (uint64_t)chip_cycles(chip);
}

static uint32_t simulated_read(void *context, uint32_t offset)
{
    uint32_t value = 0;
    if (!strcmp(wrong, "absent"))
        return 0;
    if (chip_read_register(context, offset, &value))
        exit(3);
    return value;
}

static void simulated_write(void *context, uint32_t offset, uint32_t value)
{
    if (chip_write_register(context, offset, value))
        exit(3);
}

tpulite_placement tpulite_litex_placement(const uint32_t *unused, uint8_t *memory)
{
    (void)unused;
    (void)memory;
    tpulite_placement placement = {{simulated_read, simulated_write, chip}, 0, dram + image, image,
                                   POLLS, WATCHDOG, NULL, NULL};
    if (!strcmp(wrong, "impatient"))
        placement.polls = 3;
    if (!strcmp(wrong, "askew"))
        placement.memory_address += 8;
    return placement;
}

int main(int argc, char **argv)
{
    FILE *file = argc >= 2 ? fopen(argv[1], "rb") : NULL;
    if (!file)
        return 2;
    if (argc > 2)
        wrong = argv[2];
    image = (network.image_bytes + TPULITE_ALIGNMENT - 1) / TPULITE_ALIGNMENT * TPULITE_ALIGNMENT;
    chip = chip_new(image + network.memory_bytes, READ_LATENCY, WRITE_RESPONSE, 0, 0.0, 0);
    dram = chip_dram(chip);
    if (fread(dram, 1, network.image_bytes, file) != network.image_bytes)
        return 2;
    fclose(file);
    const uint64_t everything[] = {0, ~0ull};
    for (int write = 0; write < 2; write++) {
        if (!strcmp(wrong, write ? "unwritten" : "unread"))
            chip_set_errors(chip, write, everything, 1);
    }
    if (!strcmp(wrong, "mute"))
        chip_set_mute_after(chip, 3);
    return firmware();
}
