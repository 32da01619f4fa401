/* Leaves chip and memory to the host. */
#include <stdio.h>

#include "begin.h"

int main(void)
{
    tpulite_litex_begin();
    printf("ready for the host\n");
    for (;;)
        ;
}
