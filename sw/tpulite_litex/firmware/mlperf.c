/* MLPerf Tiny's device: one network behind the benchmark's serial commands.
 *
 * A host sends commands that end with '%', and waits for "m-ready":
 *
 *     name%, profile%, timestamp%       what this is, and microseconds since the system began
 *     db load 500%, db 00ff12...%       bytes of an input, as hexadecimal digits
 *     infer 10 1%                       10 inferences that are timed, after 1 that is not
 *     results%                          what the last one gave
 *
 * An input has the type of the network's input, or of the tensor that the chip reads; with PIXELS
 * such bytes are without a sign, as MLPerf Tiny's pictures. What is timed goes from that tensor to
 * the result of softmax, or of the chip; floats are made integers before, and integers floats
 * behind, as in the benchmark's reference. With RECONSTRUCTS the result is the mean squared
 * difference of output and input. Beside its messages a run says the cycles of the chip alone. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <generated/csr.h>

#include "begin.h"
#include "tpulite_host.h"
#include "tpulite_litex.h"

#ifndef PIXELS
#define PIXELS 0
#endif
#ifndef RECONSTRUCTS
#define RECONSTRUCTS 0
#endif

#define JOINED(a, b) a##b
#define OF(network, what) JOINED(network, what)
#define NET OF(NETWORK, _network)

enum { COMMAND = 80, MESSAGE = 160, SIGN = 0x80 };

static tpulite_network before, timed, behind; /* the network's steps, in three */
static tpulite_placement placement;
static uint8_t loaded[INPUT_BYTES], input[INPUT_BYTES] __attribute__((aligned(8)));
static uint8_t output[OUTPUT_BYTES] __attribute__((aligned(8)));
static const void *const inputs[] = {input};
static void *const outputs[] = {output};
static uint32_t expected, count;

/* printf of the C library ends lines otherwise. */
static void say(const char *format, ...)
{
    char text[MESSAGE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (const char *at = text; *at; at++)
        uart_write(*at);
}

static void split(void)
{
    uint32_t first = 0, end = NET.step_count;
    while (NET.steps[first].compute)
        first++;
    while (NET.steps[end - 1].compute == tpulite_dequantize ||
           NET.steps[end - 1].compute == tpulite_copy)
        end--;
    before = timed = behind = NET;
    before.step_count = first;
    timed.steps += first;
    timed.step_count = end - first;
    behind.steps += end;
    behind.step_count -= end;
}

/* The tensor that the chip reads. */
static const tpulite_tensor *chip_tensor(void)
{
    return &NET.tensors[timed.steps[0].program->inputs[0].tensor];
}

static const tpulite_tensor *end_tensor(tpulite_place place)
{
    const tpulite_tensor *tensor = NET.tensors;
    while (tensor->place != place)
        tensor++;
    return tensor;
}

/* Returns whether it ended well. */
static int run(const tpulite_network *part, tpulite_account *account)
{
    char text[MESSAGE - 8];
    tpulite_status status = tpulite_network_run(part, &placement, inputs, outputs, account);
    if (status == TPULITE_OK)
        return 1;
    tpulite_litex_explain(text, sizeof text, status, &account->outcome);
    say("e-[%s]\r\n", text);
    return 0;
}

static int load_tensor(void)
{
    const tpulite_tensor *tensor = chip_tensor();
    tpulite_account account;
    uint8_t *at = tensor->place == TPULITE_INPUT ? input : placement.memory + tensor->index;
    if (!count || count != expected) {
        say("e-[Input has %lu bytes, expected %lu]\r\n", (unsigned long)count,
            (unsigned long)expected);
        return 0;
    }
    if (count == tensor->bytes) {
        for (uint32_t i = 0; i < count; i++)
            at[i] = loaded[i] ^ (PIXELS ? SIGN : 0);
        return 1;
    }
    memcpy(input, loaded, count);
    return run(&before, &account);
}

static float output_value(const tpulite_tensor *tensor, uint32_t i)
{
    float value;
    int32_t number = 0;
    switch (tensor->type) {
    case TPULITE_FLOAT32:
        memcpy(&value, output + 4 * i, 4);
        return value;
    case TPULITE_INT8:
        number = (int8_t)output[i];
        break;
    case TPULITE_UINT8:
        number = output[i];
        break;
    default:
        memcpy(&number, output + 4 * i, 4);
    }
    return tensor->scale ? tensor->scale * (float)(number - tensor->zero_point) : (float)number;
}

/* As "%0.3f": the nearest thousandth, the even one of two. */
static void say_value(float value, const char *behind_it)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t exponent = bits >> 23 & 0xFF;
    uint64_t thousandths = (bits & 0x7FFFFF) * 1000ull + (exponent ? 1000ull << 23 : 0);
    int shift = 150 - (int)(exponent ? exponent : 1);
    if (shift < -29) { /* above 2^53, and what is no number */
        say("e-[Result is too large]\r\n");
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
    say("%s%lu.%03lu%s", bits >> 31 ? "-" : "", (unsigned long)(thousandths / 1000),
        (unsigned long)(thousandths % 1000), behind_it);
}

static void results(void)
{
    static const uint8_t bytes[] = {4, 1, 1, 2, 4, 8};
    const tpulite_tensor *tensor = end_tensor(TPULITE_OUTPUT);
    uint32_t values = tensor->bytes / bytes[tensor->type];
    tpulite_account account;
    if (!run(&behind, &account))
        return;
    say("m-results-[");
    if (RECONSTRUCTS) {
        float sum = 0, x;
        for (uint32_t i = 0; i < values && 4 * i < sizeof input; i++) {
            memcpy(&x, input + 4 * i, 4);
            sum += (output_value(tensor, i) - x) * (output_value(tensor, i) - x);
        }
        say_value(sum / (float)values, "");
    } else {
        for (uint32_t i = 0; i < values; i++)
            say_value(output_value(tensor, i), i + 1 < values ? "," : "");
    }
    say("]\r\n");
}

static void timestamp(void)
{
    timer0_uptime_latch_write(1);
    uint64_t cycles = timer0_uptime_cycles_read();
    say("m-lap-us-%lu\r\n", (unsigned long)(cycles * 1000000u / CONFIG_CLOCK_FREQUENCY));
}

static void infer(const char *repetitions, const char *warmups)
{
    int n = repetitions ? atoi(repetitions) : 1, w = warmups ? atoi(warmups) : 10;
    tpulite_account account;
    if (n <= 0 || w < 0) {
        say("e-[%s]\r\n", n <= 0 ? "Inference iterations must be >0" : "Inference warmup must be >=0");
        return;
    }
    if (!load_tensor())
        return;
    say("m-warmup-start-%d\r\n", w);
    while (w--) {
        if (!run(&timed, &account))
            return;
    }
    say("m-warmup-done\r\nm-infer-start-%d\r\n", n);
    timestamp();
    while (n--) {
        if (!run(&timed, &account))
            return;
    }
    timestamp();
    say("m-infer-done\r\nm-chip-cycles-%lu\r\n", (unsigned long)account.cycles);
    results();
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
        say("e-[Insufficent number of hex digits]\r\n"); /* spelled as in the reference */
        return;
    }
    for (; *digits && count < expected; digits += 2) {
        int high = digit(digits[0]), low = digit(digits[1]);
        if (high < 0 || low < 0) {
            say("e-[Invalid hex digit '%c%c']\r\n", digits[0], digits[1]);
            return;
        }
        loaded[count++] = (uint8_t)(high << 4 | low);
        if (count == expected)
            say("m-load-done\r\n");
    }
}

static void buffer(const char *what)
{
    uint32_t whole = end_tensor(TPULITE_INPUT)->bytes, part = chip_tensor()->bytes;
    if (!what) {
        say("e-[Command 'db' requires a subcommand]\r\n");
    } else if (!strcmp(what, "load")) {
        const char *bytes = strtok(NULL, " ");
        uint32_t asked = bytes ? (uint32_t)atoi(bytes) : 0;
        if (asked != whole && asked != part) {
            say("e-[Input has %lu or %lu bytes, not %lu]\r\n", (unsigned long)whole,
                (unsigned long)part, (unsigned long)asked);
            return;
        }
        expected = asked;
        count = 0;
        say("m-[Expecting %lu bytes]\r\n", (unsigned long)expected);
    } else if (!strcmp(what, "print")) {
        for (uint32_t i = 0; i < count; i++)
            say("%s%02x%s", i % 8 ? "-" : "m-buffer-", loaded[i],
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
        say("m-name-dut-[tpulite]\r\n");
    } else if (!strcmp(word, "profile")) {
        say("m-profile-[ULPMark for tinyML Firmware V0.0.1]\r\nm-model-[" MODEL "]\r\n");
    } else if (!strcmp(word, "timestamp")) {
        timestamp();
    } else if (!strcmp(word, "db")) {
        buffer(strtok(NULL, " "));
    } else if (!strcmp(word, "infer")) {
        const char *repetitions = strtok(NULL, " ");
        infer(repetitions, strtok(NULL, " "));
    } else if (!strcmp(word, "results")) {
        results();
    } else if (!strcmp(word, "help")) {
        say("name profile timestamp db results help infer N [W=10]\r\n");
        say("db load N, db HH[HH]*, db print\r\n");
    } else {
        say("e-[Unknown command: %s]\r\n", word);
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
    split();
    placement = tpulite_litex_placement(OF(NETWORK, _image), OF(NETWORK, _memory));
    say("m-timestamp-mode-performance\r\n");
    timestamp();
    tpulite_status status = tpulite_network_check(&NET, &placement);
    if (status != TPULITE_OK)
        say("e-[error %d, %s]\r\n", (int)status, tpulite_litex_status_text(status));
    say("m-init-done\r\n");
    for (;;) {
        say("m-ready\r\n");
        obey(listen());
    }
}
