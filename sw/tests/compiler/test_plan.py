from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.compiler.plan.alone import Surroundings
from tpulite.compiler.plan.choices import LayerChoices
from tpulite.compiler.plan.conv import ConvExtents
from tpulite.compiler.plan.conv_facts import CHUNK_STYLES, MOST_BLOCKS, chunks


@pytest.mark.parametrize("style", CHUNK_STYLES)
@given(blocks=st.integers(1, 3 * MOST_BLOCKS))
def test_chunks_cover_k_and_fit_a_command(style, blocks):
    sizes = chunks(blocks, style)
    assert sum(sizes) == blocks
    assert all(1 <= size <= MOST_BLOCKS for size in sizes)


@st.composite
def sites(draw):
    rows, width, grain = (
        draw(st.integers(1, 200)),
        draw(st.integers(1, 12)),
        draw(st.integers(1, 4)),
    )
    extents = ConvExtents(
        rows=rows,
        width=width,
        source_rows=rows,
        source_width=width,
        stride=1,
        reach=draw(st.integers(1, 3)),
        taps=draw(st.sampled_from([1, 3, 9])),
        blocks=draw(st.integers(1, 40)),
        n_blocks=draw(st.integers(1, 20)),
        grain=grain,
    )
    around = Surroundings(
        free_rows=draw(st.integers(200, 16384)),
        input_in_dram=draw(st.booleans()),
        output_in_dram=draw(st.booleans()),
        loaded=True,
        stored=draw(st.booleans()),
        weights_in_dram=draw(st.booleans()),
        vector_rows=1,
        record_rows=16,
    )
    return LayerChoices(extents, around, Config(acc_rows=256))


@given(site=sites(), seed=st.integers(0, 99))
@settings(max_examples=25)
def test_plans_cover_the_product_exactly_once_whatever_is_varied(site, seed):
    random, extents = Random(seed), site.extents
    for start in site.ranked()[:4]:
        choice = start
        for _ in range(4):
            choice = site.drawn(choice, random)
            plan = site.plan(choice)
            assert [row for part in plan.parts for row in part] == list(range(extents.rows))
            assert all(part.start % extents.grain == 0 for part in plan.parts)
            assert [n for group in plan.groups(extents) for n in group] == [
                *range(extents.n_blocks)
            ]
            assert sum(plan.head) == sum(plan.body) == extents.blocks
            assert max(plan.head + plan.body) <= MOST_BLOCKS
            assert sum(plan.tail) == len(plan.parts[-1])
            assert plan.whole_k or plan.head == plan.body
            most = max(map(len, plan.parts)) * extents.width
            assert min(plan.group, extents.n_blocks) * most <= 256
            assert site.cycles(choice) >= site.bound(choice)
