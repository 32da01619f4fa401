#include "tpulite_bind_axis.h"

int64_t tpulite_outputs(const tpulite_axis *axis, int64_t size)
{
    int64_t room = size + axis->before + axis->after - tpulite_extent(axis);
    return tpulite_floor_div(room, axis->stride) + 1;
}

tpulite_span tpulite_clip(const tpulite_axis *axis, int64_t output, int64_t size)
{
    int64_t first = output * axis->stride - axis->before;
    return (tpulite_span){tpulite_most(first, 0),
                          tpulite_least(first + tpulite_extent(axis), size)};
}

tpulite_view tpulite_view_of(const tpulite_axis *axis, tpulite_span outputs, int64_t tap,
                             int64_t taps, int64_t size)
{
    int64_t origin = outputs.first * axis->stride + tap * axis->dilation - axis->before;
    int64_t reach =
        (tpulite_length(outputs) - 1) * axis->stride + (taps - 1) * axis->dilation + 1;
    int64_t begin = tpulite_most(origin, 0);
    int64_t inside = tpulite_least(origin + reach, size) - begin;
    if (inside <= 0) /* padding alone: an image of one position, beyond all that is read */
        return (tpulite_view){reach, 1, 0};
    return (tpulite_view){begin - origin, inside, begin};
}

int64_t tpulite_next_run(const tpulite_axis *axis, int64_t output, int64_t size)
{
    int64_t count = tpulite_outputs(axis, size);
    int64_t first = tpulite_least(tpulite_ceil_div(axis->before, axis->stride), count);
    int64_t room = size + axis->before - tpulite_extent(axis);
    int64_t stop = tpulite_floor_div(room, axis->stride) + 1;
    stop = tpulite_least(tpulite_most(stop, first), count);
    return output >= first && output < stop ? stop : output + 1;
}

tpulite_span tpulite_reads(const tpulite_axis *axis, tpulite_span outputs, int64_t size,
                           int64_t unit)
{
    int64_t count = tpulite_outputs(axis, size), last = outputs.stop - 1;
    int64_t first = outputs.first % count * axis->stride - axis->before;
    int64_t stop = last % count * axis->stride - axis->before + tpulite_extent(axis);
    first = tpulite_least(tpulite_most(first, 0), size - 1) + outputs.first / count * size;
    stop = tpulite_least(tpulite_most(stop, 1), size) + last / count * size;
    return (tpulite_span){first / unit * unit, stop};
}

tpulite_slabs tpulite_slabs_of(const tpulite_sizes *sizes, int64_t batch, int64_t out_height,
                               int64_t out_bytes)
{
    int64_t grain = tpulite_grain(out_bytes);
    switch (sizes->mode) {
    case TPULITE_IMAGE:
        return (tpulite_slabs){batch, out_height, sizes->parts, grain, 1};
    case TPULITE_IMAGES:
        grain = tpulite_grain(out_height * out_bytes);
        return (tpulite_slabs){1, batch, sizes->parts, grain, out_height};
    default:
        return (tpulite_slabs){1, batch * out_height, sizes->parts, grain, 1};
    }
}

tpulite_span tpulite_slab(const tpulite_slabs *slabs, int64_t number)
{
    int64_t shift = number / slabs->parts * slabs->extent;
    tpulite_span part =
        tpulite_part(number % slabs->parts, slabs->extent, slabs->parts, slabs->unit);
    return (tpulite_span){(part.first + shift) * slabs->scale, (part.stop + shift) * slabs->scale};
}
