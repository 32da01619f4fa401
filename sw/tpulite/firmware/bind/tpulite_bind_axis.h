/* Sliding windows along an axis, and tiles of the rows of a batch of images. */
#ifndef TPULITE_BIND_AXIS_H
#define TPULITE_BIND_AXIS_H

#include "tpulite_bind_inside.h"

typedef struct {
    int32_t kernel, stride, dilation, before, after;
} tpulite_axis;

/* A range of positions: the first one, and where it ends. */
typedef struct {
    int64_t first, stop;
} tpulite_span;

/* What some outputs see of an image through some taps: padding, then positions from one on. */
typedef struct {
    int64_t pad, seen, position;
} tpulite_view;

/* How the output rows of a batch are cut: `repeat` times an `extent` of `scale` rows into parts. */
typedef struct {
    int64_t repeat, extent, parts, unit, scale;
} tpulite_slabs;

static inline int64_t tpulite_length(tpulite_span span)
{
    return span.stop - span.first;
}

static inline int64_t tpulite_extent(const tpulite_axis *axis)
{
    return (int64_t)(axis->kernel - 1) * axis->dilation + 1;
}

/* The outputs of `size` inputs. */
int64_t tpulite_outputs(const tpulite_axis *axis, int64_t size);

/* The positions of the window of an output that are inside of the image. */
tpulite_span tpulite_clip(const tpulite_axis *axis, int64_t output, int64_t size);

/* What outputs see of an image through `taps` taps, from `tap` on. */
tpulite_view tpulite_view_of(const tpulite_axis *axis, tpulite_span outputs, int64_t tap,
                             int64_t taps, int64_t size);

/* Where the next run of outputs begins whose windows have one size: clipped ones are alone. */
int64_t tpulite_next_run(const tpulite_axis *axis, int64_t output, int64_t size);

/* The positions that outputs read, numbered through the images of a batch; the first one is a
 * multiple of `unit`. */
tpulite_span tpulite_reads(const tpulite_axis *axis, tpulite_span outputs, int64_t size,
                           int64_t unit);

/* How the strategy of a layer cuts its rows; `mode` is that of its sizes. */
tpulite_slabs tpulite_slabs_of(const tpulite_sizes *sizes, int64_t batch, int64_t out_height,
                               int64_t out_bytes);

/* The output rows of a tile, counted through the batch. */
tpulite_span tpulite_slab(const tpulite_slabs *slabs, int64_t number);

/* Part `number` of an extent. */
static inline tpulite_span tpulite_part(int64_t number, int64_t extent, int64_t parts,
                                        int64_t unit)
{
    return (tpulite_span){tpulite_cut(number, extent, parts, unit),
                          tpulite_cut(number + 1, extent, parts, unit)};
}

/* Places that anything takes in turn, at most, and one. */
#define TPULITE_MOST_PLACES 4

/* The last computation of the one that had a place before, where `ends` are those of the latest; -1:
 * nothing had. */
static inline int32_t tpulite_ends_before(const int32_t *ends, int64_t number, int64_t slots)
{
    return number < slots ? -1 : ends[(number - slots) % TPULITE_MOST_PLACES];
}

/* Multiples at which parts of rows of vectors begin, so that they begin at beats. */
static inline int64_t tpulite_column_unit(const tpulite_range *range)
{
    return TPULITE_BEAT_BYTES / tpulite_least(TPULITE_BEAT_BYTES, range->row_bytes);
}

#endif
