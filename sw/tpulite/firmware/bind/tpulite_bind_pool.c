/* Commands of pooling layers: a tile is a range of output rows of some channel blocks, or part of the
 * columns of one row. Within it, a command has windows of one size. */
#include "tpulite_bind_operators.h"

#define MOST_SIDES 256 /* the largest window is one less */

/* A layer at a shape, and the tile that is at hand. */
typedef struct {
    tpulite_binding *binding;
    const tpulite_pool *facts;
    const tpulite_sizes *sizes;
    int64_t height, width, out_height, columns;
    tpulite_slabs slabs;
    int cut;   /* whether tiles are parts of rows */
    int whole; /* whether the rows of a command are the blocks of a tile */
    uint16_t records[TPULITE_MOST_RECORDS]; /* by size of window, the row of its record */
    int64_t tile, first_block;
    tpulite_span rows, in_rows, across, in_across;
    int64_t in_row, out_row, in_block, out_block;
} pool;

/* The rows after `row`, to `stop` at most, whose windows have one size. */
static int64_t next_row(const pool *p, int64_t row, int64_t stop)
{
    int64_t next = tpulite_next_run(&p->facts->y, row % p->out_height, p->height);
    return tpulite_least(row / p->out_height * p->out_height + next, stop);
}

static int64_t next_column(const pool *p, int64_t column, int64_t stop)
{
    return tpulite_least(tpulite_next_run(&p->facts->x, column, p->width), stop);
}

/* Whether no command has two rows. */
static int is_whole(const pool *p)
{
    for (int64_t slab = 0; slab < p->slabs.repeat * p->slabs.parts; slab++) {
        tpulite_span rows = tpulite_slab(&p->slabs, slab);
        for (int64_t row = rows.first; row < rows.stop;) {
            int64_t next = next_row(p, row, rows.stop);
            if (next - row > 1)
                return 0;
            row = next;
        }
    }
    return 1;
}

static void mark_sizes(const tpulite_axis *axis, int64_t size, uint8_t *sides)
{
    int64_t count = tpulite_outputs(axis, size);
    for (int64_t output = 0; output < count;
         output = tpulite_next_run(axis, output, size)) {
        tpulite_span span = tpulite_clip(axis, output, size);
        sides[tpulite_length(span)] = 1;
    }
}

/* Write the records of all sizes of windows, the smallest first, and where each is. */
static void add_records(pool *p)
{
    const tpulite_pool *facts = p->facts;
    uint8_t high[MOST_SIDES] = {0}, wide[MOST_SIDES] = {0};
    mark_sizes(&facts->y, p->height, high);
    mark_sizes(&facts->x, p->width, wide);
    uint32_t rows = 0;
    for (uint32_t i = 0; i < facts->record_count; i++) {
        uint32_t size = facts->window_sizes ? facts->window_sizes[i] : 0;
        int used = !facts->window_sizes;
        for (uint32_t side = 1; side < MOST_SIDES && !used; side++)
            used = high[side] && size % side == 0 && size / side < MOST_SIDES && wide[size / side];
        p->records[i] = (uint16_t)rows;
        if (!used)
            continue;
        tpulite_add_constants(p->binding, facts->records + i * facts->record_bytes,
                              facts->record_bytes);
        rows += facts->record_bytes / p->binding->range->row_bytes;
    }
    if (rows) {
        tpulite_word word = tpulite_load_constants(0, rows, 0);
        tpulite_say_load(p->binding, &word, 0, 0, -1);
    }
}

static uint16_t record_of(const pool *p, int64_t size)
{
    uint32_t i = 0;
    if (!p->facts->window_sizes)
        return 0;
    while (p->facts->window_sizes[i] != size)
        i++;
    return p->records[i];
}

static tpulite_word transfer(const pool *p, uint32_t opcode, const tpulite_dram *tensor,
                             tpulite_span rows, tpulite_span across, int64_t width, int64_t row)
{
    int load = opcode == TPULITE_OPCODE_LOAD;
    if (p->cut)
        return tpulite_rectangle(opcode, tensor, p->first_block,
                                 rows.first * width + across.first,
                                 (tpulite_box){tpulite_length(rows), tpulite_length(across)}, width, row,
                                 load ? p->sizes->in_columns : p->sizes->out_columns);
    return tpulite_transfer(opcode, tensor, p->first_block, p->sizes->tile_blocks,
                            rows.first * width, tpulite_length(rows) * width, row,
                            load ? p->in_block : p->out_block);
}

/* Say the commands of some rows and columns, all with windows of one size. */
static void say_windows(const pool *p, tpulite_span rows, tpulite_span columns, int32_t freed)
{
    const tpulite_pool *facts = p->facts;
    int64_t in_pitch = p->sizes->in_columns, out_pitch = p->sizes->out_columns;
    int64_t image = rows.first / p->out_height;
    tpulite_span high = tpulite_clip(&facts->y, rows.first % p->out_height, p->height);
    tpulite_span wide = tpulite_clip(&facts->x, columns.first, p->width);
    int64_t down = image * p->height + high.first - p->in_rows.first;
    int64_t a_row = p->in_row + down * in_pitch + wide.first - p->in_across.first;
    int64_t out_row = p->out_row + (rows.first - p->rows.first) * out_pitch + columns.first
                      - p->across.first;
    int64_t blocks = p->whole ? 1 : p->sizes->tile_blocks;
    for (int64_t block = 0; block < blocks; block++) {
        tpulite_word word = tpulite_command(TPULITE_OPCODE_VECTOR);
        TPULITE_PUT(&word, VECTOR_OPERATION, facts->operation);
        TPULITE_PUT(&word, VECTOR_LOW, facts->low);
        TPULITE_PUT(&word, VECTOR_HIGH, facts->high);
        TPULITE_PUT(&word, VECTOR_ROWS, p->whole ? p->sizes->tile_blocks : tpulite_length(rows));
        TPULITE_PUT(&word, VECTOR_COLUMNS, tpulite_length(columns));
        TPULITE_PUT(&word, VECTOR_A_ROW, a_row + block * p->in_block);
        TPULITE_PUT(&word, VECTOR_A_PITCH, p->whole ? p->in_block : in_pitch * facts->y.stride);
        TPULITE_PUT(&word, VECTOR_A_STEP, facts->x.stride);
        TPULITE_PUT(&word, VECTOR_WINDOW_ROWS, tpulite_length(high));
        TPULITE_PUT(&word, VECTOR_WINDOW_COLUMNS, tpulite_length(wide));
        TPULITE_PUT(&word, VECTOR_WINDOW_PITCH, in_pitch);
        TPULITE_PUT(&word, VECTOR_OUT_ROW, out_row + block * p->out_block);
        TPULITE_PUT(&word, VECTOR_OUT_PITCH, p->whole ? p->out_block : out_pitch);
        TPULITE_PUT(&word, VECTOR_OUT_STEP, 1);
        TPULITE_PUT(&word, VECTOR_PARAM_ROW, record_of(p, tpulite_length(high) * tpulite_length(wide)));
        tpulite_say_compute(p->binding, &word, freed);
    }
}

/* Say the LOAD, the computations and the STORE of a tile. `tile_ends` are the last computations of
 * the latest tiles. */
static void say_tile(pool *p, const tpulite_dram *source, const tpulite_dram *target,
                     int32_t *tile_ends)
{
    int64_t slots = p->sizes->slots, slot = p->tile % slots;
    int32_t first = (int32_t)p->binding->computes;
    int32_t freed = p->tile < slots ? -1 : (int32_t)(p->tile - slots);
    int32_t read = tpulite_ends_before(tile_ends, p->tile, slots);
    p->in_row = p->facts->record_rows + slot * p->sizes->in_slot;
    p->out_row = p->facts->record_rows + slots * p->sizes->in_slot + slot * p->sizes->out_slot;
    tpulite_word word = transfer(p, TPULITE_OPCODE_LOAD, source, p->in_rows, p->in_across,
                                 p->width, p->in_row);
    tpulite_say_load(p->binding, &word, first, first, read);
    for (int64_t row = p->rows.first; row < p->rows.stop;) {
        tpulite_span rows = {row, next_row(p, row, p->rows.stop)};
        for (int64_t column = p->across.first; column < p->across.stop;) {
            tpulite_span columns = {column, next_column(p, column, p->across.stop)};
            say_windows(p, rows, columns, freed);
            column = columns.stop;
        }
        row = rows.stop;
    }
    tile_ends[p->tile % TPULITE_MOST_PLACES] = (int32_t)p->binding->computes - 1;
    word = transfer(p, TPULITE_OPCODE_STORE, target, p->rows, p->across, p->columns, p->out_row);
    tpulite_say_store(p->binding, &word);
}

void tpulite_bind_pool(tpulite_binding *binding)
{
    const tpulite_shape *shape = binding->shape;
    pool p = {0};
    p.binding = binding;
    p.facts = binding->range->facts;
    p.sizes = &binding->bound->choice.sizes;
    p.height = shape->height;
    p.width = shape->width;
    p.out_height = tpulite_outputs(&p.facts->y, p.height);
    p.columns = tpulite_outputs(&p.facts->x, p.width);
    p.cut = p.sizes->kind == TPULITE_POOL_PANELS;
    p.in_block = (int64_t)p.sizes->in_rows * p.sizes->in_columns;
    p.out_block = (int64_t)p.sizes->slab_rows * p.sizes->out_columns;
    int64_t row_bytes = binding->range->row_bytes, unit = tpulite_column_unit(binding->range);
    p.slabs = tpulite_slabs_of(p.sizes, shape->batch, p.out_height, p.columns * row_bytes);
    p.whole = is_whole(&p);
    binding->compute_engine = TPULITE_ENGINE_VPU;
    add_records(&p);
    tpulite_dram source = tpulite_dram_of(binding, 0), target = tpulite_dram_of(binding, 1);
    int32_t tile_ends[TPULITE_MOST_PLACES];
    for (int64_t slab = 0; slab < p.slabs.repeat * p.slabs.parts; slab++) {
        p.rows = tpulite_slab(&p.slabs, slab);
        p.in_rows = tpulite_reads(&p.facts->y, p.rows, p.height, tpulite_grain(p.width * row_bytes));
        for (int64_t panel = 0; panel < p.sizes->panels; panel++) {
            p.across = tpulite_part(panel, p.columns, p.sizes->panels, unit);
            p.in_across = tpulite_reads(&p.facts->x, p.across, p.width, unit);
            for (int64_t group = 0; group < p.sizes->groups; group++, p.tile++) {
                p.first_block = group * p.sizes->tile_blocks;
                say_tile(&p, &source, &target, tile_ends);
            }
        }
    }
}
