#include "mlperf_text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <libbase/uart.h>

/* printf of the C library ends lines otherwise. */
void mlperf_say(const char *format, ...)
{
    char text[MLPERF_MESSAGE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (const char *at = text; *at; at++)
        uart_write(*at);
}

/* As "%0.3f": the nearest thousandth, the even one of two. */
void mlperf_say_value(float value, const char *behind)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t exponent = bits >> 23 & 0xFF;
    uint64_t thousandths = (bits & 0x7FFFFF) * 1000ull + (exponent ? 1000ull << 23 : 0);
    int shift = 150 - (int)(exponent ? exponent : 1);
    if (shift < -29) { /* above 2^53, and NaN */
        mlperf_say("e-[Result is too large]\r\n");
        return;
    }
    if (shift <= 0)
        thousandths <<= -shift;
    else if (shift > 40)
        thousandths = 0;
    else {
        uint64_t rest = thousandths & ((1ull << shift) - 1), half = 1ull << (shift - 1);
        thousandths >>= shift;
        thousandths += rest > half || (rest == half && (thousandths & 1));
    }
    mlperf_say("%s%lu.%03lu%s", bits >> 31 ? "-" : "", (unsigned long)(thousandths / 1000),
        (unsigned long)(thousandths % 1000), behind);
}
