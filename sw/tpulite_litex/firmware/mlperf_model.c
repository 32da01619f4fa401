/* What is timed goes from the tensor that the chip reads to the result of softmax, or of the chip;
 * floats are made integers before, and integers floats behind, as in the benchmark's reference.
 *
 * With PIXELS an input in bytes is without a sign, as MLPerf Tiny's pictures. With RECONSTRUCTS the
 * result is the mean squared difference of output and input. */
#include "mlperf_model.h"

#include <string.h>

#include "mlperf_text.h"
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

enum { SIGN = 0x80 };

static tpulite_network before, timed, behind;
static tpulite_placement placement;
static uint8_t input[INPUT_BYTES] __attribute__((aligned(8)));
static uint8_t output[OUTPUT_BYTES] __attribute__((aligned(8)));
static const void *const inputs[] = {input};
static void *const outputs[] = {output};

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

tpulite_status mlperf_begin(void)
{
    split();
    placement = tpulite_litex_placement(OF(NETWORK, _image), OF(NETWORK, _memory));
    return tpulite_network_check(&NET, &placement);
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

uint32_t mlperf_whole_bytes(void)
{
    return end_tensor(TPULITE_INPUT)->bytes;
}

uint32_t mlperf_chip_bytes(void)
{
    return chip_tensor()->bytes;
}

static int run(const tpulite_network *part, tpulite_account *account)
{
    char text[MLPERF_MESSAGE - 8];
    tpulite_status status = tpulite_network_run(part, &placement, inputs, outputs, account);
    if (status == TPULITE_OK)
        return 1;
    tpulite_litex_explain(text, sizeof text, status, &account->outcome);
    mlperf_say("e-[%s]\r\n", text);
    return 0;
}

int mlperf_run(tpulite_account *account)
{
    return run(&timed, account);
}

int mlperf_take(const uint8_t *bytes, uint32_t count)
{
    const tpulite_tensor *tensor = chip_tensor();
    tpulite_account account;
    uint8_t *at = tensor->place == TPULITE_INPUT ? input : placement.memory + tensor->index;
    if (count == tensor->bytes) {
        for (uint32_t i = 0; i < count; i++)
            at[i] = bytes[i] ^ (PIXELS ? SIGN : 0);
        return 1;
    }
    memcpy(input, bytes, count);
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

void mlperf_results(void)
{
    static const uint8_t bytes[] = {4, 1, 1, 2, 4, 8};
    const tpulite_tensor *tensor = end_tensor(TPULITE_OUTPUT);
    uint32_t values = tensor->bytes / bytes[tensor->type];
    tpulite_account account;
    if (!run(&behind, &account))
        return;
    mlperf_say("m-results-[");
    if (RECONSTRUCTS) {
        float sum = 0, x;
        for (uint32_t i = 0; i < values && 4 * i < sizeof input; i++) {
            memcpy(&x, input + 4 * i, 4);
            sum += (output_value(tensor, i) - x) * (output_value(tensor, i) - x);
        }
        mlperf_say_value(sum / (float)values, "");
    } else {
        for (uint32_t i = 0; i < values; i++)
            mlperf_say_value(output_value(tensor, i), i + 1 < values ? "," : "");
    }
    mlperf_say("]\r\n");
}
