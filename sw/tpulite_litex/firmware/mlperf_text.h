/* Messages of MLPerf Tiny's device over the UART. */
#ifndef MLPERF_TEXT_H
#define MLPERF_TEXT_H

enum { MLPERF_MESSAGE = 160 /* characters of one, at most */ };

/* As printf. */
void mlperf_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A value with three decimals, and what comes behind it. */
void mlperf_say_value(float value, const char *behind);

#endif
