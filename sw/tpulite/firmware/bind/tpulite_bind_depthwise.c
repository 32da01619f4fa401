/* Commands of depthwise convolutions. A tile is a range of output rows of one channel block, computed
 * region by region with all parts of the kernel. */
#include "tpulite_bind_operators.h"

/* A layer at a shape. */
typedef struct {
    tpulite_binding *binding;
    const tpulite_depthwise *facts;
    const tpulite_sizes *sizes;
    const tpulite_pattern *pattern;
    int64_t height, width, out_height, out_width;
    int64_t pitch;  /* rows of the buffer from image row to image row */
    int64_t across; /* ranges of columns */
    int64_t lines;  /* most rows of a region */
    int64_t low, high; /* fewest and most outputs that tiles of weights are loaded for */
    tpulite_slabs slabs;
    tpulite_dram source, target;
    int32_t tile_ends[TPULITE_MOST_PLACES];
} depthwise;

/* A tile, what it reads, and where it is. */
typedef struct {
    int64_t number, block;
    tpulite_span rows, in_rows;
    int64_t in_row, out_row, weights;
    int32_t early; /* the LOAD of its records; -1: they are there */
} tile;

typedef struct {
    tpulite_span rows, columns;
} region;

/* Into how many nearly equal parts outputs along the inner axis are cut. */
static int64_t even_parts(const tpulite_pattern *pattern, int64_t outputs, int64_t limit)
{
    int64_t parts = tpulite_ceil_div(outputs, tpulite_least(limit, pattern->most));
    if (outputs / parts < pattern->many && tpulite_ceil_div(outputs, parts) > pattern->few)
        return tpulite_ceil_div(outputs, pattern->few);
    return parts;
}

/* Outputs of a region along the inner axis, as far as they have tiles of weights of their own. */
static int64_t inner_of(const depthwise *d, const region *r)
{
    tpulite_span span = d->pattern->along_rows ? r->rows : r->columns;
    return tpulite_least(tpulite_length(span), d->pattern->numbers);
}

/* Go to the next region of a tile, or to the first one if `r` has no rows; 0: there is none. */
static int next_region(const depthwise *d, tpulite_span slab, region *r)
{
    int64_t row = r->rows.first, column = r->columns.stop;
    if (column == d->out_width) {
        row = r->rows.stop;
        column = 0;
    }
    if (row == slab.stop)
        return 0;
    /* The rows of the tile in this image, and the part of them that the row begins. */
    int64_t image = row / d->out_height * d->out_height;
    tpulite_span all = {tpulite_most(slab.first, image),
                        tpulite_least(slab.stop, image + d->out_height)};
    int64_t count = tpulite_length(all);
    int64_t parts = d->pattern->along_rows ? even_parts(d->pattern, count, d->lines)
                                           : tpulite_ceil_div(count, d->lines);
    int64_t part = tpulite_ceil_div((row - all.first) * parts, count);
    r->rows = tpulite_part(part, count, parts, 1);
    r->rows.first += all.first;
    r->rows.stop += all.first;
    part = tpulite_ceil_div(column * d->across, d->out_width);
    r->columns = tpulite_part(part, d->out_width, d->across, 1);
    return 1;
}

static region no_region(const depthwise *d, tpulite_span slab)
{
    return (region){{slab.first, slab.first}, {d->out_width, d->out_width}};
}

/* Find for how many outputs along the inner axis tiles of weights are needed. */
static void find_numbers(depthwise *d)
{
    d->low = d->pattern->numbers;
    d->high = 1;
    for (int64_t slab = 0; slab < d->slabs.repeat * d->slabs.parts; slab++) {
        tpulite_span rows = tpulite_slab(&d->slabs, slab);
        region r = no_region(d, rows);
        while (next_region(d, rows, &r)) {
            d->low = tpulite_least(d->low, inner_of(d, &r));
            d->high = tpulite_most(d->high, inner_of(d, &r));
        }
    }
}

static int64_t number_rows(const depthwise *d)
{
    return (int64_t)d->pattern->tap_count * d->binding->range->array_size;
}

/* Load weights and records of a tile, and its part of the input. */
static void load(depthwise *d, tile *t)
{
    const tpulite_depthwise *facts = d->facts;
    const tpulite_range *range = d->binding->range;
    int32_t due = (int32_t)d->binding->computes;
    int32_t freed = tpulite_ends_before(d->tile_ends, t->number, d->sizes->slots);
    int stays = d->sizes->kind == TPULITE_DEPTHWISE_RESIDENT;
    tpulite_word word;
    t->early = -1;
    if (!stays || t->number < facts->blocks) {
        int64_t first = t->block * d->pattern->numbers + d->low - 1;
        word = tpulite_load_constants(
            d->pattern->offset + first * number_rows(d) * range->row_bytes,
            (d->high - d->low + 1) * number_rows(d), t->weights + facts->record_rows);
        tpulite_say_load(d->binding, &word, due, due, stays ? -1 : freed);
        t->early = (int32_t)d->binding->loads;
        word = tpulite_load_constants(t->block * facts->record_rows * range->row_bytes,
                                      facts->record_rows, t->weights);
        tpulite_say_load(d->binding, &word, due, due, stays ? -1 : freed);
    }
    int64_t lines = tpulite_length(t->in_rows);
    int apart = d->pitch != d->width;
    tpulite_box box = {apart ? lines : 1, apart ? d->width : lines * d->width};
    word = tpulite_rectangle(TPULITE_OPCODE_LOAD, &d->source, t->block,
                             t->in_rows.first * d->width, box, apart ? d->width : 0, t->in_row,
                             apart ? d->pitch : 0);
    tpulite_say_load(d->binding, &word, due, due, freed);
    if (!facts->at_once && !t->number) {
        word = tpulite_load_constants(facts->zeros, range->array_size,
                                      d->sizes->tile_rows - (int64_t)range->array_size);
        tpulite_say_load(d->binding, &word, 0, 0, -1);
    }
}

/* Say the product of a region and a part of the kernel. Behind the last part there may be a product
 * of anything and zeros, which drains the sums. */
static void say_product(depthwise *d, const tile *t, const region *r, int32_t part)
{
    const tpulite_depthwise *facts = d->facts;
    int32_t parts = d->pattern->tap_count;
    int draining = part == parts, final = part == parts - (facts->at_once ? 1 : 0);
    const tpulite_taps *taps = &d->pattern->taps[draining ? parts - 1 : part];
    int64_t image = r->rows.first / d->out_height, shift = image * d->out_height;
    tpulite_span rows = {r->rows.first - shift, r->rows.stop - shift};
    int32_t step = d->pattern->step;
    tpulite_view y = tpulite_view_of(&facts->y, rows, taps->row, (taps->rows - 1) * step + 1,
                                     d->height);
    tpulite_view x = tpulite_view_of(&facts->x, r->columns, taps->column,
                                     (taps->columns - 1) * step + 1, d->width);
    int64_t down = tpulite_most(y.position + image * d->height - t->in_rows.first, 0);
    int64_t number = d->pattern->numbers > 1 ? inner_of(d, r) - d->low : 0;
    int64_t weight_row = t->weights + facts->record_rows + number * number_rows(d)
                         + part * (int64_t)d->binding->range->array_size;
    if (draining)
        weight_row = d->sizes->tile_rows - (int64_t)d->binding->range->array_size;
    tpulite_word word = tpulite_command(TPULITE_OPCODE_CONV);
    TPULITE_PUT(&word, CONV_STRIDE_Y, draining ? 1 : facts->y.stride / step);
    TPULITE_PUT(&word, CONV_STRIDE_X, draining ? 1 : facts->x.stride / step);
    TPULITE_PUT(&word, CONV_ROWS, tpulite_length(rows));
    TPULITE_PUT(&word, CONV_COLUMNS, tpulite_length(r->columns));
    TPULITE_PUT(&word, CONV_ACT_ROW, t->in_row + down * d->pitch + x.position);
    TPULITE_PUT(&word, CONV_ACT_PITCH, d->pitch);
    TPULITE_PUT(&word, CONV_HEIGHT, draining ? 1 : y.seen);
    TPULITE_PUT(&word, CONV_WIDTH, draining ? 1 : x.seen);
    TPULITE_PUT(&word, CONV_PAD_TOP, draining ? 0 : y.pad);
    TPULITE_PUT(&word, CONV_PAD_LEFT, draining ? 0 : x.pad);
    TPULITE_PUT(&word, CONV_KERNEL_ROWS, draining ? 1 : taps->rows);
    TPULITE_PUT(&word, CONV_KERNEL_COLUMNS, draining ? 1 : taps->columns);
    TPULITE_PUT(&word, CONV_WEIGHT_ROW, weight_row);
    TPULITE_PUT(&word, CONV_DEPTHWISE, !draining);
    TPULITE_PUT(&word, CONV_ACCUMULATE, part > 0);
    TPULITE_PUT(&word, CONV_DRAIN, final ? facts->drain : 0);
    TPULITE_PUT(&word, CONV_PAD, facts->input_zero);
    TPULITE_PUT(&word, CONV_WEIGHT_ZERO_POINT, facts->weight_zero);
    TPULITE_PUT(&word, CONV_DILATION_Y, draining ? 1 : step);
    TPULITE_PUT(&word, CONV_DILATION_X, draining ? 1 : step);
    TPULITE_PUT(&word, CONV_RECORD_FORM, facts->form);
    TPULITE_PUT(&word, CONV_INNER, d->pattern->inner);
    TPULITE_PUT(&word, CONV_BLOCKS, 1);
    TPULITE_PUT(&word, CONV_RECORD_ROW, t->weights);
    TPULITE_PUT(&word, CONV_OUT_ROW,
                t->out_row + (r->rows.first - t->rows.first) * d->out_width + r->columns.first);
    TPULITE_PUT(&word, CONV_OUT_PITCH, d->out_width);
    TPULITE_PUT(&word, CONV_OUT_STEP, 1);
    int64_t slots = d->sizes->slots;
    int32_t freed = t->number < slots ? -1 : (int32_t)(t->number - slots);
    tpulite_say_product(d->binding, &word, freed, t->early);
}

static void say_tile(depthwise *d, tile *t)
{
    const tpulite_sizes *sizes = d->sizes;
    int64_t slots = sizes->slots, slot = t->number % slots;
    int stays = sizes->kind == TPULITE_DEPTHWISE_RESIDENT;
    int64_t numbers = d->pattern->numbers;
    if (!d->pattern->along_rows) /* columns are cut evenly */
        numbers = tpulite_least(numbers, 2);
    int64_t block_rows = numbers * number_rows(d) + d->facts->record_rows;
    int64_t held = stays ? t->block : t->number % sizes->weight_slots;
    t->in_row = slot * sizes->in_slot;
    t->out_row = slots * sizes->in_slot + slot * sizes->out_slot;
    t->weights = slots * ((int64_t)sizes->in_slot + sizes->out_slot) + held * block_rows;
    load(d, t);
    int32_t parts = d->pattern->tap_count + (d->facts->at_once ? 0 : 1);
    region r = no_region(d, t->rows);
    while (next_region(d, t->rows, &r)) {
        for (int32_t part = 0; part < parts; part++)
            say_product(d, t, &r, part);
    }
    d->tile_ends[t->number % TPULITE_MOST_PLACES] = (int32_t)d->binding->computes - 1;
    tpulite_word word = tpulite_transfer(
        TPULITE_OPCODE_STORE, &d->target, t->block, 1, t->rows.first * d->out_width,
        tpulite_length(t->rows) * d->out_width, t->out_row, 0);
    tpulite_say_store(d->binding, &word);
}

/* Cut tiles into what one command computes. */
static void find_regions(depthwise *d)
{
    const tpulite_depthwise *facts = d->facts;
    int64_t accumulators = facts->accumulators;
    int64_t reach = facts->widest - tpulite_extent(&facts->x);
    int64_t widest =
        tpulite_least(tpulite_floor_div(reach, facts->x.stride) + 1, accumulators);
    d->across = d->pattern->along_rows ? tpulite_ceil_div(d->out_width, widest)
                                       : even_parts(d->pattern, d->out_width, widest);
    d->lines = tpulite_most(accumulators / tpulite_ceil_div(d->out_width, d->across), 1);
}

void tpulite_bind_depthwise(tpulite_binding *binding)
{
    depthwise d = {0};
    d.binding = binding;
    d.facts = binding->range->facts;
    d.sizes = &binding->bound->choice.sizes;
    d.pattern = &d.facts->patterns[d.sizes->pattern];
    d.height = binding->shape->height;
    d.width = binding->shape->width;
    d.out_height = tpulite_outputs(&d.facts->y, d.height);
    d.out_width = tpulite_outputs(&d.facts->x, d.width);
    d.pitch = d.width + (d.width % d.facts->banks == 0); /* columns lie in all banks */
    d.source = tpulite_dram_of(binding, 0);
    d.target = tpulite_dram_of(binding, 1);
    int64_t row_bytes = binding->range->row_bytes;
    d.slabs = tpulite_slabs_of(d.sizes, binding->shape->batch, d.out_height,
                               d.out_width * row_bytes);
    find_regions(&d);
    find_numbers(&d);
    binding->compute_engine = TPULITE_ENGINE_MXU;
    tpulite_add_constants(binding, d.facts->constants, d.facts->constants_bytes);
    tile t = {0};
    for (int64_t slab = 0; slab < d.slabs.repeat * d.slabs.parts; slab++) {
        t.rows = tpulite_slab(&d.slabs, slab);
        t.in_rows =
            tpulite_reads(&d.facts->y, t.rows, d.height, tpulite_grain(d.width * row_bytes));
        for (t.block = 0; t.block < d.facts->blocks; t.block++, t.number++)
            say_tile(&d, &t);
    }
}
