/* MLPerf Tiny's device: one network behind the benchmark's serial commands.
 *
 * A host sends commands that end with '%', and waits for "m-ready":
 *
 *     name%, profile%, timestamp%       what this is, and microseconds since the system began
 *     db load 500%, db 00ff12...%       bytes of an input, as hexadecimal digits
 *     infer 10 1%                       10 inferences that are timed, after 1 that is not
 *     results%                          what the last one gave
 *
 * An input has the type of the network's input, or of the tensor that the chip reads. Beside its
 * messages a run says the cycles of the chip alone. */
#include <stdlib.h>
#include <string.h>

#include <generated/csr.h>

#include "begin.h"
#include "mlperf_model.h"
#include "mlperf_text.h"
#include "tpulite_litex.h"

enum { COMMAND = 80 };

static uint8_t loaded[INPUT_BYTES];
static uint32_t expected, count;

static void timestamp(void)
{
    timer0_uptime_latch_write(1);
    uint64_t cycles = timer0_uptime_cycles_read();
    mlperf_say("m-lap-us-%lu\r\n", (unsigned long)(cycles * 1000000u / CONFIG_CLOCK_FREQUENCY));
}

static void infer(const char *repetitions, const char *warmups)
{
    int n = repetitions ? atoi(repetitions) : 1, w = warmups ? atoi(warmups) : 10;
    tpulite_account account;
    if (n <= 0 || w < 0) {
        mlperf_say("e-[%s]\r\n",
                   n <= 0 ? "Inference iterations must be >0" : "Inference warmup must be >=0");
        return;
    }
    if (!count || count != expected) {
        mlperf_say("e-[Input has %lu bytes, expected %lu]\r\n", (unsigned long)count,
                   (unsigned long)expected);
        return;
    }
    if (!mlperf_take(loaded, count))
        return;
    mlperf_say("m-warmup-start-%d\r\n", w);
    while (w--) {
        if (!mlperf_run(&account))
            return;
    }
    mlperf_say("m-warmup-done\r\nm-infer-start-%d\r\n", n);
    timestamp();
    while (n--) {
        if (!mlperf_run(&account))
            return;
    }
    timestamp();
    mlperf_say("m-infer-done\r\nm-chip-cycles-%lu\r\n", (unsigned long)account.cycles);
    mlperf_results();
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 'a' ^ 'A';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void load(const char *digits)
{
    if (strlen(digits) % 2) {
        mlperf_say("e-[Insufficent number of hex digits]\r\n"); /* spelled as in the reference */
        return;
    }
    for (; *digits && count < expected; digits += 2) {
        int high = digit(digits[0]), low = digit(digits[1]);
        if (high < 0 || low < 0) {
            mlperf_say("e-[Invalid hex digit '%c%c']\r\n", digits[0], digits[1]);
            return;
        }
        loaded[count++] = (uint8_t)(high << 4 | low);
        if (count == expected)
            mlperf_say("m-load-done\r\n");
    }
}

static void buffer(const char *what)
{
    uint32_t whole = mlperf_whole_bytes(), part = mlperf_chip_bytes();
    if (!what) {
        mlperf_say("e-[Command 'db' requires a subcommand]\r\n");
    } else if (!strcmp(what, "load")) {
        const char *bytes = strtok(NULL, " ");
        uint32_t asked = bytes ? (uint32_t)atoi(bytes) : 0;
        if (asked != whole && asked != part) {
            mlperf_say("e-[Input has %lu or %lu bytes, not %lu]\r\n", (unsigned long)whole,
                (unsigned long)part, (unsigned long)asked);
            return;
        }
        expected = asked;
        count = 0;
        mlperf_say("m-[Expecting %lu bytes]\r\n", (unsigned long)expected);
    } else if (!strcmp(what, "print")) {
        for (uint32_t i = 0; i < count; i++)
            mlperf_say("%s%02x%s", i % 8 ? "-" : "m-buffer-", loaded[i],
                i % 8 == 7 || i + 1 == count ? "\r\n" : "");
    } else {
        load(what);
    }
}

static void obey(char *command)
{
    const char *word = strtok(command, " ");
    if (!word)
        word = "";
    if (!strcmp(word, "name")) {
        mlperf_say("m-name-dut-[tpulite]\r\n");
    } else if (!strcmp(word, "profile")) {
        mlperf_say("m-profile-[ULPMark for tinyML Firmware V0.0.1]\r\nm-model-[" MODEL "]\r\n");
    } else if (!strcmp(word, "timestamp")) {
        timestamp();
    } else if (!strcmp(word, "db")) {
        buffer(strtok(NULL, " "));
    } else if (!strcmp(word, "infer")) {
        const char *repetitions = strtok(NULL, " ");
        infer(repetitions, strtok(NULL, " "));
    } else if (!strcmp(word, "results")) {
        mlperf_results();
    } else if (!strcmp(word, "help")) {
        mlperf_say("name profile timestamp db results help infer N [W=10]\r\n");
        mlperf_say("db load N, db HH[HH]*, db print\r\n");
    } else {
        mlperf_say("e-[Unknown command: %s]\r\n", word);
    }
}

static char *listen(void)
{
    static char command[COMMAND + 1];
    uint32_t length = 0;
    for (;;) {
        char c = uart_read();
        if (c == '%')
            break;
        if (c != '\r' && c != '\n' && length < COMMAND)
            command[length++] = c;
    }
    command[length] = 0;
    return command;
}

int main(void)
{
    tpulite_litex_begin();
    mlperf_say("m-timestamp-mode-performance\r\n");
    timestamp();
    tpulite_status status = mlperf_begin();
    if (status != TPULITE_OK)
        mlperf_say("e-[error %d, %s]\r\n", (int)status, tpulite_litex_status_text(status));
    mlperf_say("m-init-done\r\n");
    for (;;) {
        mlperf_say("m-ready\r\n");
        obey(listen());
    }
}
