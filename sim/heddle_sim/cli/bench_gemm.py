"""Matrix products of random integers on a device, compared with numpy."""

import time

import numpy as np

from .common import CommandFailed, print_rows

__all__ = ["SHAPES", "gemm_row", "print_gemm"]

SHAPES = (
    (1, 1, 1),
    (32, 32, 32),
    (64, 64, 64),
    (128, 128, 128),
    (256, 256, 256),
    (64, 64, 1024),
    (32, 512, 512),
    (100, 75, 50),
)


def gemm_row(device, m, n, k, dtype, seed, check, b_layout="nk"):
    """Runs one product; a benchmark row. Raises ``CommandFailed`` when the result differs from numpy's."""
    generator = np.random.default_rng(seed)
    limits = np.iinfo(dtype)
    a, b = (generator.integers(limits.min, limits.max, shape, dtype, endpoint=True) for shape in ((m, k), (k, n)))
    start = time.perf_counter()
    c, stats = device.matmul(a, b, b_layout=b_layout)
    seconds = time.perf_counter() - start
    if check:
        expected = a.astype(np.int32) @ b.astype(np.int32)          # wraps, as the device does
        if not np.array_equal(c, expected):
            row, column = np.argwhere(c != expected)[0]
            raise CommandFailed(
                f"result must equal numpy's: C[{row}, {column}] is {c[row, column]}, not {expected[row, column]} "
                f"(m={m} n={n} k={k} seed={seed}); please report it"
            )
    parameters = {
        "m": m,
        "n": n,
        "k": k,
        "dtype": dtype,
        "b_layout": b_layout,
        "resident": False,
        "seed": seed,
        "simulator": device.simulator,
    }
    return parameters | stats.as_row() | {"seconds": seconds, "checked": bool(check)}


def print_gemm(options, bench, cfg, rows):
    print_rows(
        options,
        bench,
        cfg.name,
        rows,
        {
            "m": None,
            "n": None,
            "k": None,
            "dtype": None,
            "cycles": None,
            "macs": None,
            "utilization": None,
            "checked": None,
        },
    )
    if not options.json and len(rows) == 1 and rows[0]["cycles"]:
        for name, cycles in rows[0]["breakdown"].items():
            print(f"  {name:<12} {cycles:>12,} cycles  {100 * cycles / rows[0]['cycles']:5.1f} %")
