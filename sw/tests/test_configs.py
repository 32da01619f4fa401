import pytest

from tpulite.configs import CONFIGS, named_config


def test_names_say_the_array_size():
    for size in (4, 8, 16, 32):
        assert named_config(f"{size}x{size}").array_size == size


def test_configurations_differ():
    assert len({config.hash for config in CONFIGS.values()}) == len(CONFIGS)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"^Configuration must be one of 4x4, .*ecp5, not '5x5'$"):
        named_config("5x5")
