/* Tensors in the memory, as the chip wants them. */
#include "tpulite_network.h"

static void copy(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = from[i];
}

static void fill(uint8_t *to, uint8_t value, uint32_t bytes)
{
#if defined(__GNUC__)
    __builtin_memset(to, value, bytes); /* which writes whole words */
#else
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = value;
#endif
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

/* Write bytes that are adjacent on the host, or the fill value if `from` is NULL, into blocks of
 * channels: they begin at byte `first` of their vector. */
static void put_in_blocks(const tpulite_layout *layout, uint8_t *vector, uint32_t first,
                          const uint8_t *from, uint32_t bytes)
{
    for (; first >= layout->vector_bytes; first -= layout->vector_bytes)
        vector += layout->block_bytes;
    while (bytes) {
        uint32_t room = layout->vector_bytes - first, count = bytes < room ? bytes : room;
        if (from) {
            copy(vector + first, from, count);
            from += count;
        } else {
            fill(vector + first, layout->fill, count);
        }
        bytes -= count;
        first = 0;
        vector += layout->block_bytes;
    }
}

/* The same in a packed row, whose end may cut them off, and which holds the fill value already. */
static void put_in_line(const tpulite_layout *layout, uint8_t *line, uint32_t first,
                        const uint8_t *from, uint32_t bytes)
{
    if (!from || first >= layout->line_bytes)
        return;
    uint32_t room = layout->line_bytes - first;
    copy(line + first, from, bytes < room ? bytes : room);
}

static void put(const tpulite_layout *layout, uint8_t *at, uint32_t first, const uint8_t *from,
                uint32_t bytes)
{
    if (layout->line_bytes)
        put_in_line(layout, at, first, from, bytes);
    else
        put_in_blocks(layout, at, first, from, bytes);
}

/* Write one vector of feature map `x`: a pixel, or the rows of a patch, each of which is adjacent on
 * the host but for pixels that do not exist. */
static void put_vector(const tpulite_layout *layout, const uint8_t *x, uint32_t row,
                       uint32_t column, uint8_t *at, uint32_t first)
{
    const uint32_t pixel = layout->pixel_bytes, size = layout->columns.size;
    uint32_t left = column * layout->columns.step, begin = 0, end = size;
    if (left < layout->columns.pad) {
        begin = layout->columns.pad - left;
        begin = begin < size ? begin : size;
    }
    left += begin - layout->columns.pad; /* of the first pixel that may exist */
    if (left + size - begin > layout->width)
        end = left < layout->width ? begin + layout->width - left : begin;
    for (uint32_t i = 0; i < layout->rows.size; i++, first += size * pixel) {
        /* Rows above the first one wrap around, and are too large. */
        uint32_t y = row * layout->rows.step + i - layout->rows.pad;
        if (y >= layout->height) {
            put(layout, at, first, 0, size * pixel);
            continue;
        }
        const uint8_t *from = x + (y * layout->width + left) * pixel;
        put(layout, at, first, 0, begin * pixel);
        put(layout, at, first + begin * pixel, from, (end - begin) * pixel);
        put(layout, at, first + end * pixel, 0, (size - end) * pixel);
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
