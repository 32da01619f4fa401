/* Commands of layers that compute each vector from the same vector of their inputs. All images of a
 * batch are one plane a channel block. */
#include "tpulite_bind_operators.h"

typedef struct {
    int64_t first_block, blocks, first_pixel, pixels;
} tile;

static tile tile_of(const tpulite_binding *binding, int32_t number)
{
    const tpulite_shape *shape = binding->shape;
    const tpulite_sizes *sizes = &binding->bound->choice.sizes;
    int64_t plane = (int64_t)shape->batch * shape->height * shape->width;
    int64_t blocks = tpulite_ceil_div(shape->channels, binding->range->array_size);
    tile t = {0, sizes->tile_blocks, 0, plane};
    if (sizes->kind == TPULITE_PLANES) {
        t.first_block = tpulite_cut(number, blocks, sizes->tiles, 1);
        t.blocks = tpulite_cut(number + 1, blocks, sizes->tiles, 1) - t.first_block;
    } else {
        int64_t grain = tpulite_grain(binding->range->row_bytes);
        int32_t part = number % sizes->parts;
        t.first_block = number / sizes->parts;
        t.first_pixel = tpulite_cut(part, plane, sizes->parts, grain);
        t.pixels = tpulite_cut(part + 1, plane, sizes->parts, grain) - t.first_pixel;
    }
    return t;
}

static void add_constants(tpulite_binding *binding, const tpulite_pointwise *facts)
{
    uint32_t channels = (uint32_t)binding->shape->channels;
    if (!facts->block_rows) {
        tpulite_add_constants(binding, facts->constants, facts->constants_bytes);
        return;
    }
    tpulite_add_constants(binding, facts->constants, channels * facts->constants_bytes);
    for (; channels % binding->range->array_size; channels++)
        tpulite_add_constants(binding, facts->spare, facts->constants_bytes);
}

static tpulite_word vector(const tpulite_pointwise *facts)
{
    tpulite_word word = tpulite_command(TPULITE_OPCODE_VECTOR);
    TPULITE_PUT(&word, VECTOR_OPERATION, facts->operation);
    TPULITE_PUT(&word, VECTOR_LOW, facts->low);
    TPULITE_PUT(&word, VECTOR_HIGH, facts->high);
    TPULITE_PUT(&word, VECTOR_WINDOW_ROWS, 1);
    TPULITE_PUT(&word, VECTOR_WINDOW_COLUMNS, 1);
    TPULITE_PUT(&word, VECTOR_A_STEP, 1);
    TPULITE_PUT(&word, VECTOR_OUT_STEP, 1);
    return word;
}

void tpulite_bind_pointwise(tpulite_binding *binding)
{
    const tpulite_pointwise *facts = binding->range->facts;
    const tpulite_sizes *sizes = &binding->bound->choice.sizes;
    uint32_t operands = facts->operands, places = facts->places;
    tpulite_dram target = tpulite_dram_of(binding, binding->range->input_count);
    int64_t record_bytes = (int64_t)facts->constants_bytes * binding->range->array_size;
    binding->compute_engine = TPULITE_ENGINE_VPU;
    binding->freed_by_store = 1;
    add_constants(binding, facts);
    for (int32_t number = 0; number < sizes->tiles; number++) {
        tile t = tile_of(binding, number);
        int32_t first = (int32_t)binding->computes;
        int32_t freed = number < (int32_t)places ? -1 : number - (int32_t)places;
        int64_t slot = facts->common_rows + number % (int32_t)places * (int64_t)sizes->slot_rows;
        int64_t row = slot + t.blocks * facts->block_rows;
        int64_t rows[2], pitches[2];
        tpulite_word word;
        if (facts->block_rows) {
            word = tpulite_load_constants(t.first_block * record_bytes,
                                          t.blocks * facts->block_rows, slot);
            tpulite_say_load(binding, &word, first, first, freed);
        } else if (!number) {
            word = tpulite_load_constants(0, facts->common_rows, 0);
            tpulite_say_load(binding, &word, 0, 0, -1);
        }
        for (uint32_t i = 0; i < operands; i++) {
            tpulite_dram source = tpulite_dram_of(binding, facts->sources[i]);
            int spread = facts->broadcast && i == 1;
            rows[i] = row;
            pitches[i] = spread ? 1 : t.pixels;
            word = tpulite_transfer(TPULITE_OPCODE_LOAD, &source, t.first_block, t.blocks,
                                    spread ? 0 : t.first_pixel, pitches[i], row, pitches[i]);
            tpulite_say_load(binding, &word, first, first, freed);
            row += t.blocks * pitches[i];
        }
        /* Each vector is computed in the place of the first input's. */
        int64_t commands = facts->block_rows ? t.blocks : 1;
        for (int64_t block = 0; block < commands; block++) {
            word = vector(facts);
            TPULITE_PUT(&word, VECTOR_COLUMNS, t.pixels);
            TPULITE_PUT(&word, VECTOR_A_ROW, rows[0] + block * t.pixels);
            TPULITE_PUT(&word, VECTOR_OUT_ROW, rows[0] + block * t.pixels);
            if (facts->block_rows) {
                TPULITE_PUT(&word, VECTOR_ROWS, 1);
                TPULITE_PUT(&word, VECTOR_PARAM_ROW, slot + block * facts->block_rows);
            } else {
                TPULITE_PUT(&word, VECTOR_ROWS, t.blocks);
                TPULITE_PUT(&word, VECTOR_A_PITCH, t.pixels);
                TPULITE_PUT(&word, VECTOR_OUT_PITCH, t.pixels);
            }
            if (operands > 1) {
                TPULITE_PUT(&word, VECTOR_B_ROW, rows[1]);
                TPULITE_PUT(&word, VECTOR_B_PITCH, pitches[1]);
                TPULITE_PUT(&word, VECTOR_B_STEP, !facts->broadcast);
            }
            tpulite_say_compute(binding, &word, -1);
        }
        word = tpulite_transfer(TPULITE_OPCODE_STORE, &target, t.first_block, t.blocks,
                                t.first_pixel, t.pixels, rows[0], t.pixels);
        tpulite_say_store(binding, &word);
    }
}
