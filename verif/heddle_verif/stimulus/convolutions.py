"""Random geometries of convolutions."""

from math import prod

from heddle_sim.compiled import LAYOUTS, Geometry, ImageLayout

__all__ = ["CHANNELS", "MORE_CHANNELS", "random_geometry", "random_layers", "wide_geometry"]


CHANNELS = (1, 2, 3, 4, 5, 8)           # of a group
MORE_CHANNELS = (*CHANNELS, 16, 24, 40)


def random_layers(rng, count, most, channels=CHANNELS, most_bytes=None):
    """``count`` pairs of any layout and a geometry of its axes; ``most_bytes``: of an image."""
    left = count
    while left:
        layout = ImageLayout(str(rng.choice(LAYOUTS)))
        shape = random_geometry(rng, layout.spatial, most, channels)
        if most_bytes is None or shape.channels * prod(shape.size) <= most_bytes:
            left -= 1
            yield layout, shape


def wide_geometry(rng, row_bytes):
    """An image of two axes whose rows have up to about ``row_bytes`` bytes for all rows of a filter; rows of x and of the result begin at
    multiples of 16 bytes in all layouts."""
    while True:
        filters, channels, stride = tuple(map(int, rng.integers(1, 4, 2))), int(rng.choice([8, 16])), tuple(map(int, rng.integers(1, 3, 2)))
        width = max(1, row_bytes // (32 * channels * filters[0])) * 32
        padding = tuple((int(a), int(b)) for a, b in rng.integers(0, 3, (2, 2)))
        shape = Geometry(1, (int(rng.integers(4, 8)), width), channels, int(rng.choice([3, 8, 17])), filters, padding, stride, (1, 1))
        if shape.result[1] % 16 == 0:
            return shape


def random_geometry(rng, spatial, most=None, channels=CHANNELS):
    """Small sizes with everything: images, groups, strides, dilations, uneven padding. ``most``: elements of a filter; ``channels``: of a
    group, one of these."""
    while True:
        group = int(rng.choice([1, 1, 2, 3]))
        try:
            shape = Geometry(
                int(rng.integers(1, 4)), tuple(map(int, rng.integers(1, 9, spatial))), group * int(rng.choice(channels)),
                group * int(rng.choice([1, 2, 5, 8, 9, 17])), tuple(map(int, rng.integers(1, 4, spatial))),
                tuple((int(a), int(b)) for a, b in rng.integers(0, 3, (spatial, 2))), tuple(map(int, rng.integers(1, 4, spatial))),
                tuple(map(int, rng.integers(1, 3, spatial))), group)
        except ValueError:          # the filter does not fit
            continue
        if most is None or shape.group_channels * shape.positions <= most:
            return shape
