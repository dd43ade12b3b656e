"""Which tile computes which product: measured for the released shapes, a rule elsewhere.

Keys are (N, K, gated) of the products in the released shapes. Those for 64 rows were measured on one H100, in a CUDA
graph over as many copies of the weights as the L2 cache cannot hold (``benchmarks/kernel_tiles.py`` of commit 6c4cd87);
the others on one H200, as the tile with which a captured graph of the talker, or of four passes through the code
predictor, is shortest (issue 18). Every program reads all inputs of its rows, which for 32 rows and few columns is
several times as much as its weights; two programs that share the rows read half of it each. 24 columns of gate and up
give 132 multiprocessors two programs each, 32 leave a third of them idle for a while.
"""

from __future__ import annotations

from dataclasses import replace

from reference_impl.engine.cuda.linear import Tile

Products = dict[tuple[int, int, bool], Tile]


def tile_for(n: int, k: int, rows: int, gated: bool) -> Tile:
    """The tile for weights [n, k] (``gated``: [2n, k]) and ``rows`` rows of input."""
    if rows == 1:
        return MEASURED[1].get((n, k, gated)) or _fit(Tile(8, 1, 1024, 4, dot=False), k)
    most = min(size for size in MEASURED if size >= rows)
    return MEASURED[most].get((n, k, gated)) or _fit(Tile(8, 8, 64 if rows <= 32 else 32, 8), k)


def _fit(tile: Tile, k: int) -> Tile:
    """Not more of K at a time than there is."""
    chunk = tile.chunk
    while chunk > 32 and tile.groups * chunk // 2 >= k:
        chunk //= 2
    return replace(tile, chunk=chunk)


MEASURED: dict[int, Products] = {
    1: {
        (4096, 2048, False): Tile(32, 8, 64, 8, ahead=2, held=True),
        (2048, 2048, False): Tile(16, 8, 128, 8, ahead=2, held=True),
        (6144, 2048, True): Tile(8, 4, 32, 4, ahead=2, blocks=3, held=True),
        (2048, 6144, False): Tile(8, 8, 64, 8, ahead=2, held=True),
        (4096, 1024, False): Tile(16, 8, 64, 8, ahead=2, held=True),
        (1024, 2048, False): Tile(8, 8, 128, 8, ahead=2, held=True),
        (3072, 1024, True): Tile(4, 1, 1024, 4, dot=False),
        (1024, 3072, False): Tile(4, 1, 1024, 4, dot=False),
        (2048, 1024, False): Tile(4, 1, 1024, 4, dot=False),
    },
    16: {
        (4096, 2048, False): Tile(16, 8, 128, 8, turn=True),
        (2048, 2048, False): Tile(16, 8, 128, 8, ahead=2, held=True),
        (6144, 2048, True): Tile(8, 4, 32, 4, ahead=2, blocks=3, held=True),
        (2048, 6144, False): Tile(16, 8, 128, 8, ahead=2, turn=True, held=True),
        (4096, 1024, False): Tile(16, 8, 64, 8, ahead=2, held=True),
        (1024, 2048, False): Tile(8, 8, 128, 8, ahead=2, held=True),
        (3072, 1024, True): Tile(8, 8, 64, 8),
        (1024, 3072, False): Tile(16, 8, 128, 8, ahead=2),
        (2048, 1024, False): Tile(8, 8, 64, 8, turn=True),
    },
    32: {
        (4096, 2048, False): Tile(32, 8, 32, 8, ahead=2, held=True),
        (2048, 2048, False): Tile(32, 4, 64, 4, ahead=2, rows=16, held=True),
        (6144, 2048, True): Tile(8, 4, 32, 4, ahead=2, rows=16, blocks=3, held=True),
        (2048, 6144, False): Tile(32, 8, 64, 8, ahead=2, turn=True, rows=16),
        (4096, 1024, False): Tile(32, 4, 64, 4, ahead=2, rows=16, held=True),
        (1024, 2048, False): Tile(16, 8, 64, 8, ahead=2, rows=16, held=True),
        (3072, 1024, True): Tile(16, 4, 32, 4, ahead=2, rows=16, held=True),
        (1024, 3072, False): Tile(16, 8, 128, 8, rows=16, held=True),
        (2048, 1024, False): Tile(32, 4, 64, 4, ahead=2, rows=16, held=True),
    },
    64: {
        (4096, 1024, False): Tile(32, 8, 32, 8, ahead=2, turn=True),
        (1024, 2048, False): Tile(8, 16, 32, 16, turn=True),
        (3072, 1024, True): Tile(32, 8, 32, 8, ahead=2, turn=True),
        (1024, 3072, False): Tile(8, 16, 32, 16, ahead=2, turn=True),
        (2048, 1024, False): Tile(16, 8, 32, 8, ahead=2, turn=True),
    },
}
