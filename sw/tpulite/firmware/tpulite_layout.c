/* Tensors in the memory, as the chip wants them. */
#include "tpulite_network.h"

static void copy(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = from[i];
}

static void fill(uint8_t *to, uint8_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = value;
}

/* Vectors of an image, packed rows not counted. */
static uint32_t vectors_of(const tpulite_layout *layout)
{
    return layout->parts * layout->rows.count * layout->columns.count;
}

/* Bytes of a vector on the host. */
static uint32_t depth_of(const tpulite_layout *layout)
{
    return layout->rows.size * layout->columns.size * layout->pixel_bytes;
}

/* Write a pixel, or the fill value if it is NULL, into blocks: it begins at byte `first` of its
 * vector. */
static void put_in_blocks(const tpulite_layout *layout, uint8_t *vector, uint32_t first,
                          const uint8_t *pixel)
{
    uint32_t left = layout->pixel_bytes, in_block = first;
    for (; in_block >= layout->vector_bytes; in_block -= layout->vector_bytes)
        vector += layout->block_bytes;
    while (left) {
        uint32_t room = layout->vector_bytes - in_block, count = left < room ? left : room;
        if (pixel) {
            copy(vector + in_block, pixel, count);
            pixel += count;
        } else {
            fill(vector + in_block, layout->fill, count);
        }
        left -= count;
        in_block = 0;
        vector += layout->block_bytes;
    }
}

/* The same in a packed row, whose end may cut it off. */
static void put_in_line(const tpulite_layout *layout, uint8_t *line, uint32_t first,
                        const uint8_t *pixel)
{
    if (!pixel || first >= layout->line_bytes)
        return; /* the line holds the fill value already */
    uint32_t room = layout->line_bytes - first;
    copy(line + first, pixel, layout->pixel_bytes < room ? layout->pixel_bytes : room);
}

/* Write one vector: pixels of feature map `x` from row `top` and column `left` on. */
static void put_vector(const tpulite_layout *layout, const uint8_t *x, uint32_t row,
                       uint32_t column, uint8_t *at, uint32_t first)
{
    uint32_t row_bytes = layout->width * layout->pixel_bytes;
    for (uint32_t i = 0; i < layout->rows.size; i++) {
        /* Pixels before the first one wrap around, and are too large. */
        uint32_t y_of = row * layout->rows.step + i - layout->rows.pad;
        for (uint32_t j = 0; j < layout->columns.size; j++, first += layout->pixel_bytes) {
            uint32_t x_of = column * layout->columns.step + j - layout->columns.pad;
            const uint8_t *pixel = 0;
            if (y_of < layout->height && x_of < layout->width)
                pixel = x + y_of * row_bytes + x_of * layout->pixel_bytes;
            if (layout->line_bytes)
                put_in_line(layout, at, first, pixel);
            else
                put_in_blocks(layout, at, first, pixel);
        }
    }
}

static void pack_image(const tpulite_layout *layout, const uint8_t *x, uint8_t *at)
{
    uint32_t depth = depth_of(layout), vector = 0;
    uint32_t lines = layout->transposed ? layout->columns.count : layout->parts * layout->rows.count;
    uint32_t filled = lines * layout->line_bytes;
    fill(at, layout->fill, filled);
    fill(at + filled, 0, layout->image_bytes - filled);
    for (uint32_t part = 0; part < layout->parts; part++) {
        for (uint32_t row = 0; row < layout->rows.count; row++) {
            for (uint32_t column = 0; column < layout->columns.count; column++, vector++) {
                uint32_t line = part * layout->rows.count + row, place = column;
                if (layout->transposed) {
                    line = column;
                    place = row;
                }
                if (layout->line_bytes)
                    put_vector(layout, x, row, column, at + line * layout->line_bytes,
                               (layout->line_pad + place) * depth);
                else
                    put_vector(layout, x, row, column, at + vector * layout->vector_bytes, 0);
            }
        }
        x += layout->height * layout->width * layout->pixel_bytes;
    }
}

void tpulite_pack(const tpulite_layout *layout, const void *x, uint8_t *at)
{
    const uint8_t *image = x;
    uint32_t bytes = layout->parts * layout->height * layout->width * layout->pixel_bytes;
    for (uint32_t i = 0; i < layout->images; i++, image += bytes, at += layout->image_bytes)
        pack_image(layout, image, at);
}

void tpulite_unpack(const tpulite_layout *layout, const uint8_t *at, void *y)
{
    uint8_t *to = y;
    for (uint32_t i = 0; i < layout->images; i++, at += layout->image_bytes) {
        for (uint32_t vector = 0; vector < vectors_of(layout); vector++) {
            const uint8_t *from = at + vector * layout->vector_bytes;
            uint32_t left = layout->pixel_bytes;
            for (; left; from += layout->block_bytes) {
                uint32_t count = left < layout->vector_bytes ? left : layout->vector_bytes;
                for (uint32_t j = 0; j < count; j++)
                    *to++ = (uint8_t)(from[j] ^ layout->flip);
                left -= count;
            }
        }
    }
}
