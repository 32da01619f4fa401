/* Commands of convolutions. A tile is a range of output rows, or part of the columns of one row. Its
 * n-blocks are computed one after the other; each multiplies all units of its weights with regions
 * of the tile, which are what the accumulators hold. */
#include "tpulite_bind_operators.h"

/* Where a region is: rows are numbered through the batch. */
typedef struct {
    tpulite_span rows, columns;
    int64_t acc_row;
    int64_t part; /* which range of columns */
} region;

/* A layer at a shape. */
typedef struct {
    tpulite_binding *binding;
    const tpulite_conv *facts;
    const tpulite_sizes *sizes;
    const tpulite_unit *units;
    uint32_t unit_count;
    int64_t batch, height, width, out_height, out_width; /* as the machine sees them */
    int64_t largest;  /* rows of a unit */
    int resident;     /* whether all weights stay */
    int by_block;     /* whether each use of a unit loads its block of the input */
    int cut;          /* whether tiles are parts of rows */
    int together;     /* whether the accumulators hold a tile */
    int64_t lines;    /* rows of a region, else */
    int64_t across;   /* ranges of columns of a tile, if it is wider than the accumulators */
    tpulite_slabs slabs;
    tpulite_dram source, target;
    int32_t tile_ends[TPULITE_MOST_PLACES], use_ends[TPULITE_MOST_PLACES];
    int64_t uses;
} conv;

/* A tile, and what it reads. */
typedef struct {
    int64_t number;
    tpulite_span rows, in_rows, columns, in_columns;
} tile;

static tile tile_of(const conv *c, int64_t number)
{
    tile t = {number, {0, 0}, {0, 0}, {0, c->out_width}, {0, c->width}};
    int64_t unit = tpulite_column_unit(c->binding->range), panels = c->sizes->panels;
    t.rows = tpulite_slab(&c->slabs, number / panels);
    t.in_rows = tpulite_reads(&c->facts->y, t.rows, c->height,
                              tpulite_grain(c->width * c->binding->range->row_bytes));
    if (c->cut) {
        t.columns = tpulite_part(number % panels, c->out_width, panels, unit);
        t.in_columns = tpulite_reads(&c->facts->x, t.columns, c->width, unit);
    }
    return t;
}

/* The row of the place that something takes in turn. */
static int64_t slot_row(int64_t number, int64_t slots, int64_t rows)
{
    return number % slots * rows;
}

static void load_tile(conv *c, int64_t number)
{
    if (c->by_block || number >= c->slabs.repeat * c->slabs.parts * c->sizes->panels)
        return;
    tile t = tile_of(c, number);
    int64_t slots = c->sizes->in_slots;
    int32_t due = number ? (int32_t)c->binding->computes : 0;
    int32_t first = number ? due + 1 : 0;
    int32_t freed = tpulite_ends_before(c->tile_ends, number, slots);
    tpulite_word word = tpulite_transfer(
        TPULITE_OPCODE_LOAD, &c->source, 0, c->facts->blocks, t.in_rows.first * c->width,
        tpulite_length(t.in_rows) * c->width, slot_row(number, slots, c->sizes->in_slot),
        (int64_t)c->sizes->in_rows * c->sizes->in_columns);
    tpulite_say_load(c->binding, &word, due, first, freed);
}

/* Load the block of a tile's input that a unit multiplies. */
static void load_block(conv *c, const tile *t, const tpulite_unit *unit, int32_t freed)
{
    int32_t due = (int32_t)c->binding->computes;
    int64_t lines = tpulite_length(t->in_rows), columns = tpulite_length(t->in_columns);
    tpulite_box box = {c->cut ? lines : 1, c->cut ? columns : lines * c->width};
    tpulite_word word = tpulite_rectangle(
        TPULITE_OPCODE_LOAD, &c->source, unit->block,
        t->in_rows.first * c->width + (c->cut ? t->in_columns.first : 0), box,
        c->cut ? c->width : 0, slot_row(c->uses, c->sizes->in_slots, c->sizes->in_slot),
        c->cut ? c->sizes->in_columns : 0);
    tpulite_say_load(c->binding, &word, due, due, freed);
}

static void store(const conv *c, const tile *t, int64_t output, int64_t result)
{
    const tpulite_sizes *sizes = c->sizes;
    int64_t lines = tpulite_length(t->rows), columns = tpulite_length(t->columns);
    int64_t row = sizes->in_slots * (int64_t)sizes->in_slot
                  + slot_row(result, sizes->out_slots, sizes->out_slot);
    tpulite_box box = {c->cut ? lines : 1, c->cut ? columns : lines * c->out_width};
    tpulite_word word = tpulite_rectangle(
        TPULITE_OPCODE_STORE, &c->target, output,
        t->rows.first * c->out_width + (c->cut ? t->columns.first : 0), box,
        c->cut ? c->out_width : 0, row,
        c->cut ? sizes->out_columns * c->target.vector_rows : 0);
    tpulite_say_store(c->binding, &word);
}

/* Say the product of a region and a unit. */
static void say_product(conv *c, const tile *t, const region *r, const tpulite_unit *unit,
                        int64_t weight_row, int64_t result, int32_t early)
{
    const tpulite_conv *facts = c->facts;
    const tpulite_sizes *sizes = c->sizes;
    int64_t image = r->rows.first / c->out_height, shift = image * c->out_height;
    tpulite_span rows = {r->rows.first - shift, r->rows.stop - shift};
    tpulite_view y = tpulite_view_of(&facts->y, rows, unit->row, unit->rows, c->height);
    tpulite_view x = tpulite_view_of(&facts->x, r->columns, unit->column, unit->columns, c->width);
    int dense = facts->byte_step > 0;
    int64_t down = tpulite_most(y.position + image * c->height - t->in_rows.first, 0);
    int64_t left = c->cut ? t->in_columns.first : 0;
    int64_t right = dense ? unit->column : tpulite_most(x.position - left, 0);
    int64_t in_block = (int64_t)sizes->in_rows * sizes->in_columns;
    int64_t in_row = slot_row(c->by_block ? c->uses : t->number, sizes->in_slots, sizes->in_slot);
    int64_t vector_rows = c->target.vector_rows, out_pitch = sizes->out_columns * vector_rows;
    tpulite_word word = tpulite_command(TPULITE_OPCODE_CONV);
    TPULITE_PUT(&word, CONV_STRIDE_Y, facts->y.stride);
    TPULITE_PUT(&word, CONV_STRIDE_X, facts->x.stride);
    TPULITE_PUT(&word, CONV_DILATION_Y, facts->y.dilation);
    TPULITE_PUT(&word, CONV_DILATION_X, facts->x.dilation);
    TPULITE_PUT(&word, CONV_BYTE_STEP, facts->byte_step % 32); /* 32 are one vector */
    TPULITE_PUT(&word, CONV_INT4, facts->int4);
    TPULITE_PUT(&word, CONV_RECORD_FORM, facts->form);
    TPULITE_PUT(&word, CONV_PAD, facts->input_zero);
    TPULITE_PUT(&word, CONV_WEIGHT_ZERO_POINT, facts->weight_zero);
    TPULITE_PUT(&word, CONV_ROWS, tpulite_length(rows));
    TPULITE_PUT(&word, CONV_COLUMNS, tpulite_length(r->columns));
    TPULITE_PUT(&word, CONV_ACT_ROW,
                in_row + (c->by_block ? 0 : unit->block * in_block) + down * sizes->in_columns
                    + right);
    TPULITE_PUT(&word, CONV_ACT_PITCH, sizes->in_columns);
    TPULITE_PUT(&word, CONV_ACT_BLOCK_PITCH, in_block);
    TPULITE_PUT(&word, CONV_HEIGHT, y.seen);
    TPULITE_PUT(&word, CONV_WIDTH, dense ? c->width - right : x.seen);
    TPULITE_PUT(&word, CONV_PAD_TOP, y.pad);
    TPULITE_PUT(&word, CONV_PAD_LEFT, dense ? 0 : x.pad);
    TPULITE_PUT(&word, CONV_BLOCKS, unit->blocks);
    TPULITE_PUT(&word, CONV_KERNEL_ROWS, unit->rows);
    TPULITE_PUT(&word, CONV_KERNEL_COLUMNS, unit->columns);
    TPULITE_PUT(&word, CONV_WEIGHT_ROW, weight_row);
    TPULITE_PUT(&word, CONV_ACC_ROW, r->acc_row);
    TPULITE_PUT(&word, CONV_ACCUMULATE, unit->number > 0);
    TPULITE_PUT(&word, CONV_OUT_PITCH, out_pitch);
    TPULITE_PUT(&word, CONV_OUT_STEP, vector_rows);
    if (unit->final) {
        int64_t out_row = (r->rows.first - t->rows.first) * out_pitch
                          + (r->columns.first - t->columns.first) * vector_rows
                          + sizes->in_slots * (int64_t)sizes->in_slot
                          + slot_row(result, sizes->out_slots, sizes->out_slot);
        TPULITE_PUT(&word, CONV_DRAIN, facts->drain);
        TPULITE_PUT(&word, CONV_OUT_ROW, out_row);
        if (facts->requantized)
            TPULITE_PUT(&word, CONV_RECORD_ROW, weight_row + unit->weight_rows);
    }
    int waits = unit->final && result >= sizes->out_slots;
    int32_t freed = waits ? (int32_t)(result - sizes->out_slots) : -1;
    tpulite_say_product(c->binding, &word, freed, early);
}

/* Let a region begin with a row, and a range of columns. */
static void set_region(const conv *c, const tile *t, region *r, int64_t row, int64_t part)
{
    int64_t stop = tpulite_least(t->rows.stop, (row / c->out_height + 1) * c->out_height);
    if (c->lines)
        stop = tpulite_least(stop, (row / c->lines + 1) * c->lines);
    r->rows = (tpulite_span){row, stop};
    r->part = part;
    r->columns = c->across > 1 ? tpulite_part(part, c->out_width, c->across, 1) : t->columns;
}

static int is_last(const tile *t, const region *r)
{
    return r->rows.stop == t->rows.stop && r->columns.stop == t->columns.stop;
}

/* Go to the next region of a tile; 0: there is none. Regions of a tile that the accumulators hold
 * lie there one after the other. */
static int next_region(const conv *c, const tile *t, region *r)
{
    if (is_last(t, r))
        return 0;
    if (c->together)
        r->acc_row += tpulite_length(r->rows) * tpulite_length(r->columns);
    if (r->columns.stop < t->columns.stop)
        set_region(c, t, r, r->rows.first, r->part + 1);
    else
        set_region(c, t, r, r->rows.stop, 0);
    return 1;
}

/* Load what a use of a unit needs; return the rows of its weights. */
static int64_t load_use(conv *c, const tile *t, const tpulite_unit *unit, int first_use,
                        int32_t *early)
{
    const tpulite_sizes *sizes = c->sizes;
    int64_t row_bytes = c->binding->range->row_bytes, row = sizes->weights_at;
    int32_t due = (int32_t)c->binding->computes, freed = -1;
    *early = -1; /* it is there */
    if (c->resident)
        row += unit->offset / row_bytes;
    else
        row += slot_row(c->uses, sizes->weight_slots, c->largest);
    if (!c->resident || first_use) {
        if (!c->resident)
            freed = tpulite_ends_before(c->use_ends, c->uses, sizes->weight_slots);
        *early = (int32_t)c->binding->loads;
        tpulite_word word = tpulite_load_constants(unit->offset, unit->buffer_rows, row);
        tpulite_say_load(c->binding, &word, due, due, freed);
    }
    if (c->by_block)
        load_block(c, t, unit, tpulite_ends_before(c->use_ends, c->uses, sizes->in_slots));
    return row;
}

/* Say the products of a group of regions, from one on, with all units of an n-block. */
static void say_group(conv *c, const tile *t, const region *first, uint32_t begin, uint32_t end,
                      int64_t result)
{
    int first_use = !t->number && first->rows.first == t->rows.first
                    && first->columns.first == t->columns.first;
    for (uint32_t i = begin; i < end; i++, c->uses++) {
        const tpulite_unit *unit = &c->units[i];
        region r = *first;
        int32_t early;
        int64_t weight_row = load_use(c, t, unit, first_use, &early);
        do {
            if (!c->binding->computes)
                load_tile(c, 0);
            if (i + 1 == c->unit_count && is_last(t, &r))
                load_tile(c, t->number + 1);
            say_product(c, t, &r, unit, weight_row, result, early);
        } while (c->together && next_region(c, t, &r));
        c->use_ends[c->uses % TPULITE_MOST_PLACES] = (int32_t)c->binding->computes - 1;
    }
}

static void say_tile(conv *c, int64_t number)
{
    tile t = tile_of(c, number);
    uint32_t end;
    for (uint32_t begin = 0; begin < c->unit_count; begin = end) {
        int32_t output = c->units[begin].output;
        int64_t result = number * c->facts->outputs + output;
        region r = {{0, 0}, {0, 0}, 0, 0};
        for (end = begin; end < c->unit_count && c->units[end].output == output; end++)
            continue;
        set_region(c, &t, &r, t.rows.first, 0);
        do {
            say_group(c, &t, &r, begin, end, result);
        } while (!c->together && next_region(c, &t, &r));
        store(c, &t, output, result);
    }
    c->tile_ends[number % TPULITE_MOST_PLACES] = (int32_t)c->binding->computes - 1;
}

/* The extents as the machine sees them: pixels of all images in one column where no vector needs
 * another one, or columns of packed rows. */
static void find_extents(conv *c)
{
    const tpulite_layout *layout = &c->binding->bound->layouts[0];
    const tpulite_conv *facts = c->facts;
    c->batch = c->binding->shape->batch;
    c->height = layout->rows.count;
    c->width = layout->columns.count;
    c->out_height = tpulite_outputs(&facts->y, c->height);
    c->out_width = tpulite_outputs(&facts->columns, c->width);
    if (facts->flat) {
        c->height *= c->batch * c->width;
        c->out_height = c->height;
        c->batch = c->width = c->out_width = 1;
    } else if (layout->line_bytes) {
        c->width = layout->line_bytes / c->binding->range->array_size;
    }
}

static void find_regions(conv *c)
{
    const tpulite_sizes *sizes = c->sizes;
    int64_t accumulators = c->facts->accumulators;
    int64_t lines = tpulite_least(tpulite_most(accumulators / c->out_width, 1), c->facts->tallest);
    c->together = (int64_t)sizes->slab_rows * sizes->out_columns <= accumulators;
    if (c->together)
        lines = c->facts->tallest;
    c->lines = sizes->slab_rows > lines ? lines : 0;
    c->across = 1;
    if (!c->together && c->out_width > accumulators)
        c->across = tpulite_ceil_div(c->out_width, tpulite_least(accumulators, c->facts->widest));
}

void tpulite_bind_conv(tpulite_binding *binding)
{
    conv c = {0};
    c.binding = binding;
    c.facts = binding->range->facts;
    c.sizes = &binding->bound->choice.sizes;
    int32_t kind = c.sizes->kind;
    int large = kind == TPULITE_CONV_RESIDENT || kind == TPULITE_CONV_STREAMED;
    c.units = large ? c.facts->large : c.facts->small;
    c.unit_count = large ? c.facts->large_count : c.facts->small_count;
    c.resident = kind == TPULITE_CONV_RESIDENT || kind == TPULITE_CONV_FOLLOWED;
    c.by_block = !c.resident && kind != TPULITE_CONV_STREAMED;
    c.cut = kind == TPULITE_CONV_PANELS;
    for (uint32_t i = 0; i < c.unit_count; i++)
        c.largest = tpulite_most(c.largest, c.units[i].buffer_rows);
    find_extents(&c);
    find_regions(&c);
    c.source = tpulite_dram_of(binding, 0);
    c.target = tpulite_dram_of(binding, 1);
    c.slabs = tpulite_slabs_of(c.sizes, c.batch, c.out_height,
                               c.out_width * c.target.vector_bytes);
    binding->compute_engine = TPULITE_ENGINE_MXU;
    tpulite_add_constants(binding, c.facts->constants, c.facts->constants_bytes);
    int64_t tiles = c.slabs.repeat * c.slabs.parts * c.sizes->panels;
    for (int64_t number = 0; number < tiles; number++)
        say_tile(&c, number);
}
