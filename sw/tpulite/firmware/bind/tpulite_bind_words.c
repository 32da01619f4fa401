/* Commands as words, and transfers. */
#include "tpulite_bind_inside.h"

tpulite_word tpulite_command(uint32_t opcode)
{
    tpulite_word word = {{opcode, 0, 0, 0}, 0};
    return word;
}

static void put_bits(tpulite_word *word, uint32_t offset, uint32_t width, uint64_t bits)
{
    bits &= ((uint64_t)1 << width) - 1;
    word->lanes[offset / 64] |= bits << offset % 64;
    if (offset % 64 + width > 64)
        word->lanes[offset / 64 + 1] |= bits >> (64 - offset % 64);
}

void tpulite_put(tpulite_word *word, tpulite_field field, int64_t value)
{
    int64_t half = field.is_signed ? (int64_t)1 << (field.width - 1) : 0;
    int64_t least = field.is_signed ? -half : field.least;
    int64_t end = ((int64_t)1 << (field.width + field.more)) - half;
    if (value < least || value >= end || value & (field.multiple - 1))
        word->illegal = 1;
    put_bits(word, field.offset, field.width, (uint64_t)value);
    if (field.more)
        put_bits(word, field.more_offset, field.more, (uint64_t)value >> field.width);
}

static void say(tpulite_binding *binding, const tpulite_word *word, tpulite_bind_item item)
{
    if (word->illegal && !binding->status)
        binding->status = TPULITE_UNBOUND;
    uint32_t n = binding->count++;
    if (n >= binding->capacity)
        return;
    uint8_t *at = binding->commands + n * TPULITE_COMMAND_BYTES;
    for (uint32_t i = 0; i < TPULITE_COMMAND_BYTES; i++)
        at[i] = (uint8_t)(word->lanes[i / 8] >> i % 8 * 8);
    binding->bound->work[n] = item;
}

void tpulite_say_load(tpulite_binding *binding, const tpulite_word *word, int32_t due,
                      int32_t first, int32_t freed)
{
    binding->loads++;
    say(binding, word, (tpulite_bind_item){TPULITE_ON_LOAD, due, first, freed, 0, 0});
}

void tpulite_say_product(tpulite_binding *binding, const tpulite_word *word, int32_t freed,
                         int32_t early)
{
    binding->computes++;
    say(binding, word, (tpulite_bind_item){TPULITE_ON_ARRAY, early, -1, freed, 0, 0});
}

void tpulite_say_compute(tpulite_binding *binding, const tpulite_word *word, int32_t freed)
{
    tpulite_say_product(binding, word, freed, -1);
}

void tpulite_say_store(tpulite_binding *binding, const tpulite_word *word)
{
    int32_t after = (int32_t)binding->computes - 1;
    binding->stores++;
    say(binding, word, (tpulite_bind_item){TPULITE_ON_STORE, after, 0, -1, 0, 0});
}

tpulite_dram tpulite_dram_of(const tpulite_binding *binding, uint32_t tensor)
{
    const tpulite_layout *layout = &binding->bound->layouts[tensor];
    int output = tensor == binding->range->input_count;
    uint32_t window = output ? TPULITE_WINDOW_OUTPUT : TPULITE_WINDOW_INPUT;
    uint32_t flip = binding->bound->tensors[tensor].type == TPULITE_UINT8;
    int64_t bytes = layout->vector_bytes;
    int64_t begin = layout->offset - binding->bound->program.offset[window];
    return (tpulite_dram){window,
                          flip,
                          begin,
                          layout->line_bytes ? layout->image_bytes : layout->block_bytes,
                          bytes,
                          bytes / binding->range->row_bytes};
}

tpulite_word tpulite_transfer(uint32_t opcode, const tpulite_dram *tensor, int64_t first_block,
                              int64_t blocks, int64_t first_vector, int64_t vectors, int64_t row,
                              int64_t pitch)
{
    int whole = vectors * tensor->vector_bytes == tensor->block_bytes; /* blocks without a gap */
    int64_t lines = whole ? 1 : blocks;
    int64_t length = whole ? blocks * vectors : vectors;
    tpulite_word word = tpulite_command(opcode);
    TPULITE_PUT(&word, LOAD_WINDOW, tensor->window);
    TPULITE_PUT(&word, LOAD_FLIP, tensor->flip);
    TPULITE_PUT(&word, LOAD_OFFSET,
                tensor->begin + first_block * tensor->block_bytes
                    + first_vector * tensor->vector_bytes);
    TPULITE_PUT(&word, LOAD_STRIDE, lines == 1 ? 0 : tensor->block_bytes);
    TPULITE_PUT(&word, LOAD_LINES, lines);
    TPULITE_PUT(&word, LOAD_ROWS, length * tensor->vector_rows);
    TPULITE_PUT(&word, LOAD_ROW, row);
    TPULITE_PUT(&word, LOAD_PITCH, lines == 1 ? 0 : pitch);
    return word;
}

tpulite_word tpulite_rectangle(uint32_t opcode, const tpulite_dram *tensor, int64_t block,
                               int64_t first, tpulite_box box, int64_t width, int64_t row,
                               int64_t pitch)
{
    tpulite_word word = tpulite_command(opcode);
    TPULITE_PUT(&word, LOAD_WINDOW, tensor->window);
    TPULITE_PUT(&word, LOAD_FLIP, tensor->flip);
    TPULITE_PUT(&word, LOAD_OFFSET,
                tensor->begin + block * tensor->block_bytes + first * tensor->vector_bytes);
    TPULITE_PUT(&word, LOAD_STRIDE, width * tensor->vector_bytes);
    TPULITE_PUT(&word, LOAD_LINES, box.lines);
    TPULITE_PUT(&word, LOAD_ROWS, box.vectors * tensor->vector_rows);
    TPULITE_PUT(&word, LOAD_ROW, row);
    TPULITE_PUT(&word, LOAD_PITCH, pitch);
    return word;
}

tpulite_word tpulite_load_constants(int64_t offset, int64_t rows, int64_t row)
{
    tpulite_word word = tpulite_command(TPULITE_OPCODE_LOAD);
    TPULITE_PUT(&word, LOAD_WINDOW, TPULITE_WINDOW_CONSTANTS);
    TPULITE_PUT(&word, LOAD_OFFSET, offset);
    TPULITE_PUT(&word, LOAD_LINES, 1);
    TPULITE_PUT(&word, LOAD_ROWS, rows);
    TPULITE_PUT(&word, LOAD_ROW, row);
    return word;
}

void tpulite_add_constants(tpulite_binding *binding, const uint8_t *bytes, uint32_t count)
{
    uint8_t *at = binding->bound->image + binding->bound->program.constants_bytes;
    for (uint32_t i = 0; i < count; i++)
        at[i] = bytes[i];
    binding->bound->program.constants_bytes += count;
}
