/* Tensors in the memory, as the chip wants them. */
#include "tpulite_network.h"

enum { WORD = 4, BYTE_BITS = 8, WORD_BITS = 32 };

static const uint32_t EACH_BYTE = 0x01010101;

/* Where a cache writes through, a byte costs the memory as much as a word. So bytes that come one
 * after the other are gathered, and go as words through the blocks of a vector, or a packed row: all
 * of these begin and end at a multiple of four. */
typedef struct {
    uint8_t *at;          /* the next word */
    uint32_t word, bits;  /* bytes that wait for it, the first one lowest; how many bits they are */
    uint32_t left;        /* of the block, in bytes, without those that are written */
    uint32_t block, step; /* bytes of the next ones, 0: there is none; from begin to begin */
} stream;

static void store(uint8_t *at, uint32_t word)
{
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    __builtin_memcpy(__builtin_assume_aligned(at, WORD), &word, WORD);
#else
    for (uint32_t i = 0; i < WORD; i++, word >>= BYTE_BITS)
        at[i] = (uint8_t)word;
#endif
}

static uint32_t fetch(const uint8_t *from)
{
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint32_t word;
    if (!((uintptr_t)from % WORD)) {
        __builtin_memcpy(&word, __builtin_assume_aligned(from, WORD), WORD);
        return word;
    }
#endif
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static void clear(uint8_t *at, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i += WORD)
        store(at + i, 0);
}

/* Write bytes that are adjacent on the host, or a value if `from` is NULL. What goes beyond a packed
 * row is cut off. */
static void put(stream *to, const uint8_t *from, uint8_t value, uint32_t bytes)
{
    stream s = *to; /* in registers: bytes could point to *to */
    while (bytes && s.left) {
        if (!s.bits && bytes >= WORD) {
            s.word = from ? fetch(from) : EACH_BYTE * value;
            s.bits = WORD_BITS;
            from = from ? from + WORD : from;
            bytes -= WORD;
        } else {
            s.word |= (uint32_t)(from ? *from++ : value) << s.bits;
            s.bits += BYTE_BITS;
            bytes--;
        }
        if (s.bits < WORD_BITS)
            continue;
        store(s.at, s.word);
        s.word = s.bits = 0;
        s.at += WORD;
        s.left -= WORD;
        if (!s.left && s.block) {
            s.at += s.step - s.block;
            s.left = s.block;
        }
    }
    *to = s;
}

/* Fill the block. */
static void end(stream *to, uint8_t value)
{
    if (to->bits || to->left != to->block)
        put(to, 0, value, to->left - to->bits / BYTE_BITS);
}

/* Write one vector of feature map `x`: a pixel, or the rows of a patch, each of which is adjacent on
 * the host but for pixels that do not exist. */
static void put_vector(const tpulite_layout *layout, const uint8_t *x, uint32_t row,
                       uint32_t column, stream *to)
{
    const uint32_t pixel = layout->pixel_bytes, size = layout->columns.size;
    uint32_t left = column * layout->columns.step, begin = 0, stop = size;
    if (left < layout->columns.pad) {
        begin = layout->columns.pad - left;
        begin = begin < size ? begin : size;
    }
    left += begin - layout->columns.pad; /* of the first pixel that may exist */
    if (left + size - begin > layout->width)
        stop = left < layout->width ? begin + layout->width - left : begin;
    for (uint32_t i = 0; i < layout->rows.size; i++) {
        /* Rows above the first one wrap around, and are too large. */
        uint32_t y = row * layout->rows.step + i - layout->rows.pad;
        if (y >= layout->height) {
            put(to, 0, layout->fill, size * pixel);
            continue;
        }
        if (begin)
            put(to, 0, layout->fill, begin * pixel);
        put(to, x + (y * layout->width + left) * pixel, 0, (stop - begin) * pixel);
        if (stop < size)
            put(to, 0, layout->fill, (size - stop) * pixel);
    }
}

/* Packed rows, one after the other; return their bytes. */
static uint32_t pack_rows(const tpulite_layout *layout, const uint8_t *x, uint8_t *at)
{
    const uint32_t depth = layout->rows.size * layout->columns.size * layout->pixel_bytes;
    const int turned = layout->transposed != 0;
    uint32_t lines = turned ? layout->columns.count : layout->rows.count;
    uint32_t places = turned ? layout->rows.count : layout->columns.count;
    for (uint32_t line = 0; line < lines; line++, at += layout->line_bytes) {
        stream to = {at, 0, 0, layout->line_bytes, 0, 0};
        put(&to, 0, layout->fill, layout->line_pad * depth);
        for (uint32_t place = 0; place < places; place++)
            put_vector(layout, x, turned ? place : line, turned ? line : place, &to);
        end(&to, layout->fill);
    }
    return lines * layout->line_bytes;
}

/* Vectors in blocks of channels; return the bytes of each block that they take. */
static uint32_t pack_vectors(const tpulite_layout *layout, const uint8_t *x, uint8_t *at)
{
    uint8_t *first = at;
    for (uint32_t row = 0; row < layout->rows.count; row++) {
        for (uint32_t column = 0; column < layout->columns.count; column++) {
            stream to = {at, 0, 0, layout->vector_bytes, layout->vector_bytes, layout->block_bytes};
            put_vector(layout, x, row, column, &to);
            end(&to, 0);
            at += layout->vector_bytes;
        }
    }
    return (uint32_t)(at - first);
}

static void pack_image(const tpulite_layout *layout, const uint8_t *x, uint8_t *at)
{
    uint32_t taken = 0, block = layout->line_bytes ? layout->image_bytes : layout->block_bytes;
    for (uint32_t part = 0; part < layout->parts; part++) {
        taken += (layout->line_bytes ? pack_rows : pack_vectors)(layout, x, at + taken);
        x += layout->height * layout->width * layout->pixel_bytes;
    }
    for (uint32_t first = 0; first < layout->image_bytes; first += block)
        clear(at + first + taken, block - taken);
}

void tpulite_pack(const tpulite_layout *layout, const void *x, uint8_t *at)
{
    const uint8_t *image = x;
    uint32_t bytes = layout->parts * layout->height * layout->width * layout->pixel_bytes;
    for (uint32_t i = 0; i < layout->images; i++, image += bytes, at += layout->image_bytes)
        pack_image(layout, image, at);
}

/* Read adjacent bytes back. */
static void get(uint8_t *to, const uint8_t *from, uint32_t flip, uint32_t bytes)
{
    if (!((uintptr_t)to % WORD) && !((uintptr_t)from % WORD)) {
        for (; bytes >= WORD; bytes -= WORD, to += WORD, from += WORD)
            store(to, fetch(from) ^ EACH_BYTE * flip);
    }
    while (bytes--)
        *to++ = (uint8_t)(*from++ ^ flip);
}

void tpulite_unpack(const tpulite_layout *layout, const uint8_t *at, void *y)
{
    const uint32_t vectors = layout->parts * layout->rows.count * layout->columns.count;
    uint8_t *to = y;
    for (uint32_t i = 0; i < layout->images; i++, at += layout->image_bytes) {
        for (uint32_t vector = 0; vector < vectors; vector++) {
            const uint8_t *from = at + vector * layout->vector_bytes;
            uint32_t left = layout->pixel_bytes;
            for (; left; from += layout->block_bytes) {
                uint32_t count = left < layout->vector_bytes ? left : layout->vector_bytes;
                get(to, from, layout->flip, count);
                to += count;
                left -= count;
            }
        }
    }
}
