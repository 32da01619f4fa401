#include "tpulite_network.h"

tpulite_status tpulite_network_check(const tpulite_network *network,
                                     const tpulite_placement *placement)
{
    if (placement->image_address % TPULITE_BEAT_BYTES)
        return TPULITE_MISPLACED;
    if (placement->memory_address % TPULITE_BEAT_BYTES)
        return TPULITE_MISPLACED;
    return tpulite_identify(&placement->chip, network->config_hash);
}

/* Where the host reads or writes a tensor. Outputs and the memory may be written. */
static const void *read_from(const tpulite_tensor *tensor, const tpulite_placement *placement,
                             const void *const *inputs, void *const *outputs)
{
    switch (tensor->place) {
    case TPULITE_INPUT:
        return inputs[tensor->index];
    case TPULITE_OUTPUT:
        return outputs[tensor->index];
    case TPULITE_CONSTANT:
        return tensor->constant;
    default:
        return placement->memory + tensor->index;
    }
}

static void *write_to(const tpulite_tensor *tensor, const tpulite_placement *placement,
                      void *const *outputs)
{
    if (tensor->place == TPULITE_OUTPUT)
        return outputs[tensor->index];
    return placement->memory + tensor->index;
}

static void copy(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = from[i];
}

void tpulite_network_reset(const tpulite_network *network, const tpulite_placement *placement)
{
    for (uint32_t i = 0; i < network->state_count; i++) {
        const tpulite_tensor *to = &network->tensors[network->states[i].to];
        copy(placement->memory + to->index, network->states[i].initial, to->bytes);
    }
}

static void bind(tpulite_window *window, uint64_t base, uint32_t size, uint32_t permission)
{
    window->base = base;
    window->size = size;
    window->permission = size ? permission : 0;
}

static tpulite_status run_program(const tpulite_program *program,
                                  const tpulite_placement *placement, tpulite_account *account)
{
    static const uint32_t permissions[TPULITE_WINDOWS] = {
        TPULITE_PERMISSION_READ, TPULITE_PERMISSION_READ, TPULITE_PERMISSION_WRITE,
        TPULITE_PERMISSION_READ | TPULITE_PERMISSION_WRITE};
    tpulite_job job;
    job.address = placement->image_address + program->commands;
    job.length = program->command_count;
    job.watchdog = placement->watchdog;
    bind(&job.windows[0], placement->image_address + program->constants, program->constants_bytes,
         permissions[0]);
    for (uint32_t i = 1; i < TPULITE_WINDOWS; i++)
        bind(&job.windows[i], placement->memory_address + program->offset[i], program->bytes[i],
             permissions[i]);
    tpulite_status status =
        tpulite_run(&placement->chip, &job, placement->polls, &account->outcome);
    if (status != TPULITE_OK)
        return status;
    account->cycles += placement->chip.read(placement->chip.context, TPULITE_CYCLES);
    if (account->outcome.fault == TPULITE_FAULT_NONE)
        return TPULITE_OK;
    if (!account->outcome.hung)
        tpulite_soft_reset(&placement->chip);
    return TPULITE_FAULTED;
}

tpulite_status tpulite_network_run(const tpulite_network *network,
                                   const tpulite_placement *placement, const void *const *inputs,
                                   void *const *outputs, tpulite_account *account)
{
    account->cycles = 0;
    for (uint32_t i = 0; i < network->step_count; i++) {
        const tpulite_step *step = &network->steps[i];
        const tpulite_program *program = step->program;
        account->step = i;
        if (!program) {
            const tpulite_tensor *from = &network->tensors[step->from];
            const tpulite_tensor *other = &network->tensors[step->other];
            const tpulite_tensor *to = &network->tensors[step->to];
            const uint8_t *x = read_from(from, placement, inputs, outputs);
            const uint8_t *x2 = read_from(other, placement, inputs, outputs);
            uint8_t *y = write_to(to, placement, outputs);
            for (uint32_t n = 0; n < network->batch; n++) {
                if (step->combine)
                    step->combine(step->arguments, x + n * from->bytes, x2 + n * other->bytes,
                                  y + n * to->bytes);
                else
                    step->compute(step->arguments, x + n * from->bytes, y + n * to->bytes);
            }
            continue;
        }
        for (uint32_t j = 0; j < program->input_count; j++) {
            const tpulite_layout *layout = &program->inputs[j];
            uint8_t *at = placement->memory + layout->offset;
            tpulite_pack(layout, read_from(&network->tensors[layout->tensor], placement, inputs, outputs),
                         at);
            if (placement->clean)
                placement->clean(at, layout->images * layout->image_bytes);
        }
        tpulite_status status = run_program(program, placement, account);
        if (status != TPULITE_OK)
            return status;
        for (uint32_t j = 0; j < program->output_count; j++) {
            const tpulite_layout *layout = &program->outputs[j];
            uint8_t *at = placement->memory + layout->offset;
            if (placement->invalidate)
                placement->invalidate(at, layout->images * layout->image_bytes);
            tpulite_unpack(layout, at, write_to(&network->tensors[layout->tensor], placement, outputs));
        }
    }
    for (uint32_t i = 0; i < network->state_count; i++) {
        const tpulite_tensor *from = &network->tensors[network->states[i].from];
        const tpulite_tensor *to = &network->tensors[network->states[i].to];
        copy(placement->memory + to->index, read_from(from, placement, inputs, outputs), to->bytes);
    }
    return TPULITE_OK;
}

/* An element as an integer in the same order; of 64 bits the low word, as such values are small. */
static int32_t element(tpulite_type type, const void *values, uint32_t i)
{
    switch (type) {
    case TPULITE_INT8:
        return ((const int8_t *)values)[i];
    case TPULITE_UINT8:
        return ((const uint8_t *)values)[i];
    case TPULITE_INT16:
        return ((const int16_t *)values)[i];
    case TPULITE_FLOAT32: {
        int32_t bits = ((const int32_t *)values)[i];
        return bits < 0 ? -(bits & 0x7FFFFFFF) : bits;
    }
    default:
        return ((const int32_t *)values)[i];
    }
}

uint32_t tpulite_class(const tpulite_network *network, const void *values)
{
    const tpulite_tensor *tensor = network->tensors;
    while (tensor->place != TPULITE_OUTPUT || tensor->index)
        tensor++;
    uint32_t step = tensor->type == TPULITE_INT64 ? 2 : 1;
    uint32_t best = 0;
    for (uint32_t i = 1; i < network->classes; i++) {
        if (element(tensor->type, values, step * i) > element(tensor->type, values, step * best))
            best = i;
    }
    return best;
}
