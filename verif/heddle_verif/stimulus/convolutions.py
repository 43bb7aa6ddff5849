"""Random geometries of convolutions."""

from heddle_sim.compiled import LAYOUTS, Geometry, ImageLayout

__all__ = ["random_geometry", "random_layers"]


def random_layers(rng, count, most):
    """``count`` pairs of any layout and a geometry of its axes."""
    for _ in range(count):
        layout = ImageLayout(str(rng.choice(LAYOUTS)))
        yield layout, random_geometry(rng, layout.spatial, most)


def random_geometry(rng, spatial, most=None):
    """Small sizes with everything: images, groups, strides, dilations, uneven padding. ``most``: elements of a filter."""
    while True:
        group = int(rng.choice([1, 1, 2, 3]))
        try:
            shape = Geometry(
                int(rng.integers(1, 4)), tuple(map(int, rng.integers(1, 9, spatial))), group * int(rng.choice([1, 2, 3, 4, 5, 8])),
                group * int(rng.choice([1, 2, 5, 8, 9, 17])), tuple(map(int, rng.integers(1, 4, spatial))),
                tuple((int(a), int(b)) for a, b in rng.integers(0, 3, (spatial, 2))), tuple(map(int, rng.integers(1, 4, spatial))),
                tuple(map(int, rng.integers(1, 3, spatial))), group)
        except ValueError:          # the filter does not fit
            continue
        if most is None or shape.group_channels * shape.positions <= most:
            return shape
