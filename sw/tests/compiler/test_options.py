import pytest

from tpulite.compiler.options import Options


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"optimize": "size"}, "^optimize must be one of latency, memory, not 'size'$"),
        ({"allocator": ""}, "^allocator must be one of online, longest, not ''$"),
        ({"batch": 0}, "^batch must be at least 1, not 0$"),
        ({"moves": -1}, "^moves must be at least 0, not -1$"),
        (
            {"halo_guard": True, "grouping": False},
            "^halo_guard has no meaning without grouping$",
        ),
        ({"groups": "tail"}, "^groups must be one of cost, document, not 'tail'$"),
        ({"groups": "document"}, "^groups='document' needs allocator='longest', not 'online'$"),
        (
            {"groups": "document", "allocator": "longest", "grouping": False},
            "^groups='document' has no meaning without grouping$",
        ),
        (
            {"groups": "document", "allocator": "longest", "halo_guard": True},
            "^groups='document' implies halo_guard: leave halo_guard out$",
        ),
    ],
)
def test_choices_that_do_not_exist_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Options(**fields)


def test_a_mechanism_that_is_left_out_is_its_option():
    left_out = Options(without=("block-start", "pack-patches", "grouping"))
    assert left_out == Options(block_start=False, grouping=False, without=("pack-patches",))
