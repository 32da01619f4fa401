/* What all programs begin with. */
#ifndef TPULITE_LITEX_BEGIN_H
#define TPULITE_LITEX_BEGIN_H

#include <generated/soc.h>
#include <irq.h>
#include <libbase/uart.h>

/* Some CPUs have no interrupts: SERV. */
static inline void tpulite_litex_begin(void)
{
#ifdef CONFIG_CPU_HAS_INTERRUPT
    irq_setmask(0);
    irq_setie(1);
#endif
    uart_init();
}

#endif
