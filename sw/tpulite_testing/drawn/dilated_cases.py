"""Convolutions of the phases of an image, as TensorFlow writes those with gaps."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpulite_testing.drawn.movement_cases import MovementDraw

__all__ = ["dilated", "dilated_row"]


def dilated(draw: "MovementDraw") -> None:
    """Draw a convolution of the phases of an image: what is left of one with gaps."""
    block, kernel = [draw.integer(1, 3), draw.integer(2, 3)], draw.choice(1, 3)
    x = draw.input()
    _, height, width, channels = draw.model.shape(x)
    pads = []
    for extent, step in zip((height, width), block, strict=True):
        before = draw.integer(0, 3)
        least = max(0, kernel * step - extent - before)
        pads.append([before, least + -(extent + before + least) % step])
    sides = [
        (n + sum(pad)) // step for n, pad, step in zip((height, width), pads, block, strict=True)
    ]
    phases = draw.model.like(x, (block[0] * block[1], *sides, channels))
    options = {"options_type": "SpaceToBatchNDOptions"}
    inputs = [x, draw.known(block), draw.known(pads)]
    y = draw.model.operator("SPACE_TO_BATCH_ND", inputs, [phases], **options)
    y = draw.convolved(y, draw.integer(1, 40), kernel, same=draw.choice(False, False, True))
    _, *sides, channels = draw.model.shape(y)
    whole = [n * step for n, step in zip(sides, block, strict=True)]
    crops = [[draw.integer(0, min(2, (n - 1) // 2)) for _ in range(2)] for n in whole]
    shape = [n - sum(crop) for n, crop in zip(whole, crops, strict=True)]
    inputs = [y, draw.known(block), draw.known(crops)]
    options = {"options_type": "BatchToSpaceNDOptions"}
    draw.add("BATCH_TO_SPACE_ND", inputs, [(1, *shape, channels)], **options)


def dilated_row(draw: "MovementDraw") -> None:
    """Draw what Keras makes of a one-dimensional convolution with gaps."""
    step, width, channels = draw.integer(2, 4), draw.integer(6, 20), draw.choice(3, 16, 20)
    x = draw.input((1, width, 1, channels)) if draw.surrounded else 0
    model = draw.model
    if draw.surrounded:
        row = model.like(x, (1, width, channels))
        x = model.operator("SQUEEZE", [x], [row], options_type="SqueezeOptions", squeezeDims=[2])
    else:
        x = draw.input((1, width, channels))
    before = draw.integer(0, 2) * step
    after = -(width + before) % step
    length = (width + before + after) // step
    phases = model.like(x, (step, length, channels))
    inputs = [x, draw.known([step]), draw.known([[before, after]])]
    options = {"options_type": "SpaceToBatchNDOptions"}
    y = model.operator("SPACE_TO_BATCH_ND", inputs, [phases], **options)
    image = model.like(x, (step, 1, length, channels))
    options = {"options_type": "ExpandDimsOptions"}
    y = model.operator("EXPAND_DIMS", [y, draw.known(1)], [image], **options)
    y = draw.convolved(y, draw.integer(1, 40), draw.choice(1, 3))
    channels = model.shape(y)[3]
    rows = model.like(x, (step, length, channels))
    y = model.operator("SQUEEZE", [y], [rows], options_type="SqueezeOptions", squeezeDims=[1])
    inputs = [y, draw.known([step]), draw.known([[0, after]])]
    shape = (1, length * step - after, channels)
    draw.add("BATCH_TO_SPACE_ND", inputs, [shape], options_type="BatchToSpaceNDOptions")
