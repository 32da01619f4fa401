#include "tpulite_bind_inside.h"

static const uint32_t POLYNOMIAL = 0xEDB88320u;

uint32_t tpulite_crc32(const uint8_t *bytes, uint32_t count)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (uint32_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
    }
    return ~crc;
}

int tpulite_offer(tpulite_choice *best, const char *strategy, int64_t feasible, int64_t cost)
{
    if (!feasible || (best->strategy && cost >= best->cost))
        return 0;
    best->strategy = strategy;
    best->cost = cost;
    return 1;
}

static uint32_t to_page(uint32_t bytes)
{
    return (bytes + TPULITE_ALIGNMENT - 1) / TPULITE_ALIGNMENT * TPULITE_ALIGNMENT;
}

static int outside(int32_t value, int32_t least, int32_t most)
{
    return value < least || value > most;
}

static tpulite_bind_status check(const tpulite_range *range, const tpulite_shape *shape)
{
    if (outside(shape->batch, range->least.batch, range->most.batch))
        return TPULITE_BATCH_OUTSIDE;
    if (outside(shape->height, range->least.height, range->most.height))
        return TPULITE_HEIGHT_OUTSIDE;
    if (outside(shape->width, range->least.width, range->most.width))
        return TPULITE_WIDTH_OUTSIDE;
    if (outside(shape->channels, range->least.channels, range->most.channels))
        return TPULITE_CHANNELS_OUTSIDE;
    return TPULITE_BOUND;
}

static int is_empty(const tpulite_shape *shape)
{
    return !shape->batch || !shape->height || !shape->width || !shape->channels;
}

/* Tensors of an empty shape: nothing is laid out. */
static void lay_out_nothing(const tpulite_range *range, tpulite_bound *bound)
{
    static const tpulite_layout nothing = {0};
    for (uint32_t i = 0; i <= range->input_count; i++) {
        tpulite_tensor *tensor = &bound->tensors[i];
        tensor->bytes = 0;
        bound->layouts[i] = nothing;
        bound->layouts[i].tensor = i;
        for (uint32_t axis = 0; axis < tensor->rank; axis++) {
            if (tensor->shape[axis] > INT32_MAX) /* a window on less than it needs */
                tensor->shape[axis] = 0;
        }
    }
    bound->program.bytes[TPULITE_WINDOW_INPUT] = 0;
    bound->program.bytes[TPULITE_WINDOW_OUTPUT] = 0;
}

/* Tensors, windows, and the network of one step. */
static void describe(const tpulite_range *range, const tpulite_shape *shape, tpulite_bound *bound)
{
    uint32_t inputs = range->input_count, *bytes = bound->program.bytes;
    range->lay_out(shape, bound);
    if (is_empty(shape))
        lay_out_nothing(range, bound);
    bound->program.offset[TPULITE_WINDOW_OUTPUT] = to_page(bytes[TPULITE_WINDOW_INPUT]);
    bound->layouts[inputs].offset += bound->program.offset[TPULITE_WINDOW_OUTPUT];
    bound->program.commands = to_page(range->constants_most);
    bound->program.inputs = bound->layouts;
    bound->program.outputs = bound->layouts + inputs;
    bound->program.input_count = inputs;
    bound->program.output_count = 1;
    bound->step.program = &bound->program;
    bound->network.name = range->name;
    bound->network.config_hash = range->config_hash;
    bound->network.batch = 1;
    bound->network.memory_bytes =
        bound->program.offset[TPULITE_WINDOW_OUTPUT] + to_page(bytes[TPULITE_WINDOW_OUTPUT]);
    bound->network.tensors = bound->tensors;
    bound->network.steps = &bound->step;
    bound->network.tensor_count = inputs + 1;
    bound->network.step_count = 1;
    bound->network.input_count = inputs;
    bound->network.output_count = 1;
}

tpulite_bind_status tpulite_bind(const tpulite_range *range, const tpulite_shape *shape,
                                 tpulite_bound *bound)
{
    tpulite_bound given = {0};
    given.image = bound->image;
    given.image_bytes = bound->image_bytes;
    given.work = bound->work;
    given.work_items = bound->work_items;
    *bound = given;
    tpulite_bind_status status = check(range, shape);
    if (status)
        return status;
    if (is_empty(shape))
        bound->choice.strategy = "empty";
    else
        range->choose(shape, &bound->choice);
    if (!bound->choice.strategy)
        return TPULITE_UNBOUND;
    describe(range, shape, bound);
    uint32_t commands = bound->program.commands;
    if (bound->image_bytes < commands + TPULITE_COMMAND_BYTES)
        return TPULITE_IMAGE_SMALL;
    tpulite_binding binding = {0};
    binding.range = range;
    binding.shape = shape;
    binding.bound = bound;
    binding.commands = bound->image + commands;
    uint32_t room = (bound->image_bytes - commands) / TPULITE_COMMAND_BYTES - 1; /* and END */
    binding.capacity = room < bound->work_items ? room : bound->work_items;
    if (!is_empty(shape))
        range->commands(&binding);
    if (binding.status)
        return binding.status;
    if (binding.count > binding.capacity)
        return room < bound->work_items ? TPULITE_IMAGE_SMALL : TPULITE_WORK_SMALL;
    tpulite_link(&binding);
    bound->network.image_bytes = commands + bound->program.command_count * TPULITE_COMMAND_BYTES;
    return TPULITE_BOUND;
}
