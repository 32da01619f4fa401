"""Bounds of networks, against figures that are counted by hand."""

import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.arch.config import Config
from tpulite.bench.bounds import START, Bound, bound_of
from tpulite.frontend.files import load_graph
from tpulite_testing.sweep.case import Net
from tpulite_testing.sweep.cases import quick_cases


def bound(tmp_path, make, shape=(1, 4, 4, 16)):
    net = Net()
    ends = make(net, net.image(shape))
    path = tmp_path / "net.tflite"
    path.write_bytes(net.build(*([ends] if isinstance(ends, int) else ends)))
    return bound_of(load_graph(path), Config())


def test_a_convolution_multiplies_what_is_inside_its_input(tmp_path):
    """Of 3x3 taps over 4x4 pixels with SAME padding, 10 by 10 are inside."""
    found = bound(tmp_path, lambda net, x: net.convolve(x, 16, (3, 3)))
    assert found.multipliers == 100
    assert found.dram == (16 * 16 + 9 * 256 + 4 * 16) // 16
    assert found.cycles == START + found.dram


def test_a_stride_larger_than_the_kernel_reads_a_part_of_the_input(tmp_path):
    found = bound(tmp_path, lambda net, x: net.convolve(x, 16, stride=(2, 2)))
    assert found == Bound(4, 0, (4 * 16 + 256 + 64) // 16)


@pytest.mark.parametrize(("kernel", "slots"), [(3, 1), (5, 2), (7, 4)])
def test_a_depthwise_convolution_takes_16_taps_in_a_cycle(tmp_path, kernel, slots):
    make = lambda net, x: net.depthwise_of(x, (kernel, kernel))  # noqa: E731
    assert bound(tmp_path, make, (1, 20, 20, 24)).multipliers == 400 * 24 // 16 * slots


def test_products_of_a_whole_file_are_added(tmp_path):
    found = bound(tmp_path, lambda net, x: net.convolve(net.convolve(x, 32), 16))
    assert found.multipliers == 16 * 2 + 16 * 2


def test_channels_that_nothing_reads_are_left_out(tmp_path):
    def half(net, x):
        y = net.convolve(x, 32)
        ends = [net.integers(0, 0, 0, 16), net.integers(1, 4, 4, 16)]
        out = net.like(y, (1, 4, 4, 16))
        return net.operator("SLICE", [y, *ends], [out], options_type="SliceOptions")

    assert bound(tmp_path, half).multipliers == 16


def test_pixels_that_a_resize_drops_are_left_out(tmp_path):
    def reduced(net, x):
        y = net.convolve(x, 32)
        options = {"options_type": "ResizeNearestNeighborOptions"}
        operands, ends = [y, net.integers(2, 2)], [net.like(y, (1, 2, 2, 32))]
        return net.operator("RESIZE_NEAREST_NEIGHBOR", operands, ends, **options)

    assert bound(tmp_path, reduced).multipliers == 4 * 2


def test_both_halves_of_a_split_need_the_whole_input(tmp_path):
    def halves(net, x):
        y = net.convolve(x, 32)
        ends = [net.like(y, (1, 4, 4, 16)) for _ in range(2)]
        options = {"options_type": "SplitOptions", "numSplits": 2}
        net.operator("SPLIT", [net.integers(3), y], ends, **options)
        return ends

    assert bound(tmp_path, halves).multipliers == 32


def test_the_vector_path_adds_activations_and_no_constants(tmp_path):
    def add(net, x):
        return net.add(x, net.image((1, 4, 4, 16)), 0.1, 1)

    def shift(net, x):
        return net.add(x, net.constant(net.weights(16), 0.05, 0), 0.1, 1)

    assert bound(tmp_path, add) == Bound(0, 16, 32)
    assert bound(tmp_path, shift) == Bound(0, 0, 16)


@pytest.mark.parametrize(("window", "reads"), [(3, 3), (5, 5), (9, 8), (13, 8)])
def test_a_maximum_is_that_of_rows_then_columns_by_halves(tmp_path, window, reads):
    """Of 9: windows of 2, 4, 8 and 9, two reads each; at the border some are outside."""
    make = lambda net, x: net.pool("MAX_POOL_2D", x, (window, window), padding="SAME")  # noqa: E731
    inside = [min(n + window // 2, 19) - max(n - window // 2, 0) + 1 for n in range(20)]
    along = sum(min(n, reads) for n in inside)
    assert bound(tmp_path, make, (1, 20, 20, 16)).vectors == 2 * 20 * along


def test_windows_that_do_not_overlap_read_each_element_once(tmp_path):
    make = lambda net, x: net.pool("MAX_POOL_2D", x, (2, 2), stride=(2, 2))  # noqa: E731
    assert bound(tmp_path, make).vectors == 16


def test_an_average_takes_16_taps_of_16_channels_in_a_cycle(tmp_path):
    make = lambda net, x: net.pool("AVERAGE_POOL_2D", x, (3, 3), padding="SAME")  # noqa: E731
    assert bound(tmp_path, make) == Bound(10 * 10 // 16, 16, 16)


def test_softmax_reads_its_rows_three_times(tmp_path):
    options = {"options_type": "SoftmaxOptions", "beta": 1.0}
    make = lambda net, x: net.unary("SOFTMAX", x, 1 / 256, -128, **options)  # noqa: E731
    assert bound(tmp_path, make).vectors == 3 * 16


def test_cases_of_the_sweep_have_bounds(tmp_path):
    path = tmp_path / "net.tflite"
    for case in quick_cases():
        path.write_bytes(case.build())
        assert bound_of(load_graph(path), Config()).cycles > START, case.key
