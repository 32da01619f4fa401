/* Run the self-test of an exported network on a chip below Linux, from user space.
 *
 * The chip's registers are the first map of a UIO device, and memory that it shares with the CPU is a
 * device of u-dma-buf (https://github.com/ikwzm/udmabuf), opened without the CPU's cache. Compile with
 * -DNETWORK=name -include name.h, and the exported sources but main.c and the image:
 *
 *     selftest /dev/uio0 /dev/udmabuf0 $(cat /sys/class/u-dma-buf/udmabuf0/phys_addr) IMAGE.bin
 *
 * It waits by reading a register of the chip; UIO's interrupt is not needed. The exit code is 0 if
 * every bit is right, 1 if not, 2 if something is missing. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tpulite_network.h"

#define JOINED(a, b) a##b
#define OF(name, what) JOINED(name, what)
#define network OF(NETWORK, _network)
#define selftest OF(NETWORK, _selftest)

enum { REGISTER_BYTES = 4096, POLLS = 100000000, WATCHDOG = 1000000 };

static uint32_t read_register(void *context, uint32_t offset)
{
    return *(volatile uint32_t *)((uintptr_t)context + offset);
}

static void write_register(void *context, uint32_t offset, uint32_t value)
{
    __sync_synchronize(); /* what lies in memory comes before a start */
    *(volatile uint32_t *)((uintptr_t)context + offset) = value;
}

/* Map a device, without the CPU's cache, or end. */
static void *mapped(const char *path, size_t bytes)
{
    int file = open(path, O_RDWR | O_SYNC);
    void *at = file < 0 ? MAP_FAILED
                        : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) {
        perror(path);
        exit(2);
    }
    close(file);
    return at;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: %s UIO MEMORY ADDRESS IMAGE.bin\n", argv[0]);
        return 2;
    }
    const size_t image = (network.image_bytes + TPULITE_ALIGNMENT - 1) / TPULITE_ALIGNMENT * TPULITE_ALIGNMENT;
    uint8_t *shared = mapped(argv[2], image + network.memory_bytes);
    FILE *file = fopen(argv[4], "rb");
    if (!file || fread(shared, 1, network.image_bytes, file) != network.image_bytes) {
        fprintf(stderr, "%s: no image of %lu bytes\n", argv[4], (unsigned long)network.image_bytes);
        return 2;
    }
    fclose(file);

    tpulite_placement placement = {0};
    placement.chip.read = read_register;
    placement.chip.write = write_register;
    placement.chip.context = mapped(argv[1], REGISTER_BYTES);
    placement.image_address = strtoull(argv[3], NULL, 0);
    placement.memory = shared + image;
    placement.memory_address = placement.image_address + image;
    placement.polls = POLLS;
    placement.watchdog = WATCHDOG;

    tpulite_account account = {0};
    uint32_t wrong = 0;
    tpulite_status status = selftest(&placement, &wrong, &account);
    if (status != TPULITE_OK) {
        printf("error %d, fault %lu\n", (int)status, (unsigned long)account.outcome.fault);
        return 1;
    }
    printf("%llu cycles, %lu wrong bytes\n", (unsigned long long)account.cycles,
           (unsigned long)wrong);
    return wrong != 0;
}
