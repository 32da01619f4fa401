/* Runs the self-tests of exported networks and tells over the UART what came out.
 *
 * NETWORKS lists them: X(mlp) X(kws). Each one gives a line:
 *
 *     mlp: class 7, 6887 cycles, 700 to start and end, 20000 for tensors, 0 wrong bytes
 *     mlp: error 2, compiled for another version or configuration of the chip
 *
 * and the last line is "done, N errors". Cycles are those of the chip; then those that the CPU needs
 * besides, from inputs that lie ready to outputs that can be read, and for conversions and the
 * comparison; all of a second run, without the interrupt that the first one must give. */
#include <stdio.h>

#include <generated/csr.h>

#include "begin.h"
#include "tpulite_litex.h"

typedef struct {
    const char *name;
    const tpulite_network *network;
    const uint32_t *image;
    uint8_t *memory;
    void *const *outputs;
    tpulite_status (*selftest)(const tpulite_placement *, uint32_t *, tpulite_account *);
} entry;

#define X(name) \
    {#name, &name##_network, name##_image, name##_memory, name##_outputs, name##_selftest},
static const entry entries[] = {NETWORKS};
#undef X

/* Clock cycles since the system began. */
static uint32_t uptime(void)
{
    timer0_uptime_latch_write(1);
    return (uint32_t)timer0_uptime_cycles_read();
}

/* The library cleans caches before it starts the chip, and invalidates them when it has ended. */
static tpulite_placement hooks;
static uint32_t started, around;

static void clean(const void *begin, uint32_t bytes)
{
    started = uptime();
    hooks.clean(begin, bytes);
}

static void invalidate(void *begin, uint32_t bytes)
{
    hooks.invalidate(begin, bytes);
    around += uptime() - started;
    started = uptime();
}

static volatile uint32_t interrupts;

#ifdef CONFIG_CPU_HAS_INTERRUPT
enum { AWAITED = 1 };

/* The line stays high until the library clears it in the chip. */
static void interrupted(void)
{
    tpulite_ev_enable_write(0);
    interrupts++;
}

static void await_interrupts(void)
{
    irq_attach(TPULITE_INTERRUPT, interrupted);
    irq_setmask(irq_getmask() | 1u << TPULITE_INTERRUPT);
}
#else
enum { AWAITED = 0 };

static void await_interrupts(void)
{
}
#endif

/* Returns whether every bit was right. */
static int run(const entry *each)
{
    tpulite_placement placement = tpulite_litex_placement(each->image, each->memory);
    tpulite_account account;
    uint32_t wrong;
    hooks = placement;
    placement.clean = clean;
    placement.invalidate = invalidate;
    interrupts = 0;
    tpulite_ev_enable_write(1);
    tpulite_status status = each->selftest(&placement, &wrong, &account);
    tpulite_ev_enable_write(0);
    uint32_t begin = uptime();
    around = 0;
    if (status == TPULITE_OK && !wrong) /* again, with the code in the cache */
        status = each->selftest(&placement, &wrong, &account);
    uint32_t taken = uptime() - begin;
    if (status != TPULITE_OK) {
        char text[160];
        tpulite_litex_explain(text, sizeof text, status, &account.outcome);
        printf("%s: %s\n", each->name, text);
        return 0;
    }
    if (AWAITED && !interrupts) {
        printf("%s: the chip has ended, but the CPU has seen no interrupt\n", each->name);
        return 0;
    }
    printf("%s: class %lu, %lu cycles, %ld to start and end, %lu for tensors, %lu wrong bytes\n",
           each->name,
           (unsigned long)tpulite_class(each->network, each->outputs[0]),
           (unsigned long)account.cycles, (long)(int32_t)(around - (uint32_t)account.cycles),
           (unsigned long)(taken - around), (unsigned long)wrong);
    return !wrong;
}

int main(void)
{
    int errors = 0;
    tpulite_litex_begin();
    await_interrupts();
    for (unsigned i = 0; i < sizeof entries / sizeof *entries; i++)
        errors += !run(&entries[i]);
    printf("done, %d errors\n", errors);
    uart_sync();
#ifdef CSR_SIM_FINISH_FINISH_ADDR
    sim_finish_finish_write(1);
#endif
    for (;;)
        ;
}
