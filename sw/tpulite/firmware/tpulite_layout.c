/* Tensors in the memory, as the chip wants them. */
#include "tpulite_network.h"

enum { WORD = 4, BYTE_BITS = 8, WORD_BITS = 32 };

static const uint32_t EACH_BYTE = 0x01010101;

#if defined(__GNUC__)
#define INLINED static inline __attribute__((always_inline))
#else
#define INLINED static inline
#endif

INLINED void store(uint8_t *at, uint32_t word)
{
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    __builtin_memcpy(__builtin_assume_aligned(at, WORD), &word, WORD);
#else
    for (uint32_t i = 0; i < WORD; i++, word >>= BYTE_BITS)
        at[i] = (uint8_t)word;
#endif
}

INLINED uint32_t fetch(const uint8_t *from)
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

/* Where bytes go that come one after the other: through the blocks of channels of a vector, or through
 * a packed row, behind which they are cut off. All of these begin and end at a multiple of four.
 *
 * Where a cache writes through, a store takes some ten cycles, of a byte or a word, to the stack or to
 * the chip's memory. So bytes are gathered to words, and a stream lives in registers. */
typedef struct {
    uint8_t *at, *stop;  /* the next word, and the end of the block */
    uint32_t word, bits; /* bytes that wait, the first one lowest; how many bits they are */
    uint32_t block, gap; /* bytes of a block, and from its end to the next one; both 0 in a packed row */
} stream;

INLINED stream put_word(stream s)
{
    if (s.at == s.stop) {
        s.at += s.gap;
        s.stop = s.at + s.block;
    }
    if (s.at != s.stop) {
        store(s.at, s.word);
        s.at += WORD;
    }
    s.word = s.bits = 0;
    return s;
}

/* Write bytes of a row of the host, those before `end`. What is not before `limit` is `blank`. */
INLINED stream put(stream s, const uint8_t *row, uint32_t begin, uint32_t end, uint32_t limit,
                   uint32_t blank)
{
    for (uint32_t i = begin; i != end;) {
        if (!s.bits && end - i >= WORD && i < limit && limit - i >= WORD) {
            s.word = fetch(row + i);
            s.bits = WORD_BITS;
            i += WORD;
        } else {
            s.word |= (i < limit ? row[i] : blank) << s.bits;
            s.bits += BYTE_BITS;
            i++;
        }
        if (s.bits == WORD_BITS)
            s = put_word(s);
    }
    return s;
}

/* Fill the rest of a block with a byte. */
INLINED void finish(stream s, uint32_t blank)
{
    uint32_t word = EACH_BYTE * blank;
    if (s.bits) {
        s.word |= word << s.bits;
        s = put_word(s);
    }
    for (; s.at != s.stop; s.at += WORD)
        store(s.at, word);
}

/* Write one vector of feature map `x`: a pixel, or the rows of a patch, each of which is adjacent on
 * the host but for pixels that do not exist. */
INLINED stream put_vector(stream s, const tpulite_layout *layout, const uint8_t *x, uint32_t row,
                          uint32_t column)
{
    /* Pixels before the first one, and padding if `x` is NULL, wrap around, and are too far. */
    const uint32_t pixel = layout->pixel_bytes, width = layout->width * pixel;
    uint32_t left = (column * layout->columns.step - layout->columns.pad) * pixel;
    uint32_t y = row * layout->rows.step - layout->rows.pad;
    for (uint32_t end = y + layout->rows.size; y != end; y++)
        s = put(s, x + y * width, left, left + layout->columns.size * pixel,
                x && y < layout->height ? width : 0, layout->fill);
    return s;
}

/* Write packed rows of a feature map; return where they end. */
static uint8_t *pack_rows(const tpulite_layout *layout, const uint8_t *x, uint8_t *at)
{
    const int turned = layout->transposed != 0;
    const uint32_t lines = turned ? layout->columns.count : layout->rows.count;
    const uint32_t places = turned ? layout->rows.count : layout->columns.count;
    for (uint32_t line = 0; line < lines; line++) {
        stream s = {at, at + layout->line_bytes, 0, 0, 0, 0};
        for (uint32_t i = 0; i < layout->line_pad + places; i++) {
            uint32_t place = i - layout->line_pad;
            s = put_vector(s, layout, i < layout->line_pad ? 0 : x, turned ? place : line,
                           turned ? line : place);
        }
        finish(s, layout->fill);
        at += layout->line_bytes;
    }
    return at;
}

/* Write the vectors of a feature map; return where they end in their first block of channels. */
static uint8_t *pack_vectors(const tpulite_layout *layout, const uint8_t *x, uint8_t *at)
{
    const uint32_t block = layout->vector_bytes, gap = layout->block_bytes - block;
    for (uint32_t row = 0; row < layout->rows.count; row++) {
        for (uint32_t column = 0; column < layout->columns.count; column++, at += block) {
            stream s = {at, at + block, 0, 0, block, gap};
            finish(put_vector(s, layout, x, row, column), 0);
        }
    }
    return at;
}

static void pack_image(const tpulite_layout *layout, const uint8_t *x, uint8_t *at)
{
    uint8_t *end = at, *stop = at + layout->image_bytes;
    for (uint32_t part = 0; part < layout->parts; part++) {
        end = (layout->line_bytes ? pack_rows : pack_vectors)(layout, x, end);
        x += layout->height * layout->width * layout->pixel_bytes;
    }
    /* Zeros behind each block of channels, or behind all packed rows. */
    uint32_t block = layout->line_bytes ? layout->image_bytes : layout->block_bytes;
    for (; at != stop; at += block, end += block) {
        for (uint8_t *zero = end; zero != at + block; zero += WORD)
            store(zero, 0);
    }
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

/* Read bytes of a vector from its byte `begin` on, through the blocks of channels. */
static void get_bytes(const tpulite_layout *layout, const uint8_t *vector, uint32_t begin, uint8_t *to,
                      uint32_t bytes)
{
    const uint32_t size = layout->vector_bytes;
    vector += begin / size * layout->block_bytes;
    for (begin %= size; bytes; begin = 0, vector += layout->block_bytes) {
        uint32_t count = size - begin < bytes ? size - begin : bytes;
        get(to, vector + begin, layout->flip, count);
        to += count;
        bytes -= count;
    }
}

/* Read a vector back into feature map `y`: a pixel, or the rows of a patch, of which the last ones
 * may have pixels that do not exist. */
static void get_vector(const tpulite_layout *layout, const uint8_t *vector, uint8_t *y, uint32_t row,
                       uint32_t column)
{
    const uint32_t pixel = layout->pixel_bytes, width = layout->width * pixel;
    const uint32_t left = column * layout->columns.size * pixel, line = layout->columns.size * pixel;
    const uint32_t kept = width - left < line ? width - left : line;
    const uint32_t top = row * layout->rows.size;
    for (uint32_t i = 0; i < layout->rows.size && top + i < layout->height; i++)
        get_bytes(layout, vector, i * line, y + (top + i) * width + left, kept);
}

void tpulite_unpack(const tpulite_layout *layout, const uint8_t *at, void *y)
{
    uint8_t *to = y;
    for (uint32_t i = 0; i < layout->images; i++, at += layout->image_bytes) {
        const uint8_t *vector = at;
        for (uint32_t part = 0; part < layout->parts; part++) {
            for (uint32_t row = 0; row < layout->rows.count; row++)
                for (uint32_t column = 0; column < layout->columns.count; column++) {
                    get_vector(layout, vector, to, row, column);
                    vector += layout->vector_bytes;
                }
            to += layout->height * layout->width * layout->pixel_bytes;
        }
    }
}
