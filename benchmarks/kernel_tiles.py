"""Which tile is the fastest for each matrix product of a decode step: the source of ``engine/cuda/tiles.py``.

    python benchmarks/kernel_tiles.py --out tiles.json

Each product of the released shapes runs in a CUDA graph over as many copies of its weights as
do not fit into the L2 cache, once for each candidate tile; the median over replays counts.
Candidates are compiled beforehand in parallel processes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch
import triton

from reference_impl.engine.cuda.few_rows import few_rows_kernel
from reference_impl.engine.cuda.linear import Tile, linear, linear_kernel

# (n, k, gated, norm, residual) of every product of the 0.6B and 1.7B shapes
PRODUCTS = {
    "talker qkv": (4096, 2048, False, True, False),
    "talker o": (2048, 2048, False, False, True),
    "talker gate_up": (6144, 2048, True, True, False),
    "talker down": (2048, 6144, False, False, True),
    "qkv": (4096, 1024, False, True, False),
    "o": (1024, 2048, False, False, True),
    "gate_up": (3072, 1024, True, True, False),
    "down": (1024, 3072, False, False, True),
    "head": (2048, 1024, False, True, False),
}
COLD_BYTES = 240e6
EPS = 1e-6
REPLAYS = 7
MULTIPROCESSORS = 132


def candidates(n: int, k: int, gated: bool, rows: int) -> list[Tile]:
    """Tiles worth trying: at least half the multiprocessors busy, not more of K at a time than there is."""
    plain = [
        Tile(columns, 1, chunk, warps, dot=False)
        for columns, chunk, warps in [
            (4, 1024, 4), (8, 512, 4), (8, 1024, 4), (16, 256, 4),
            (16, 512, 4), (16, 512, 8), (16, 1024, 8), (32, 256, 8),
        ]
    ]  # fmt: skip
    padded = max(16, triton.next_power_of_2(rows))
    dots = [
        Tile(columns, groups, chunk, groups, rows=each)
        for each in ((padded, padded // 2) if padded > 16 else (64,))  # of each program
        for columns in (8, 16, 32)
        for groups in (4, 8, 16)
        for chunk in ((64, 128) if min(padded, each) <= 16 else (64,) if each <= 32 else (32,))
        if groups < 16 or columns == 8
    ]
    dots = [
        replace(tile, ahead=ahead, turn=turn)
        for tile in dots
        for ahead, turn in ([(1, False)] if rows == 1 else itertools.product((1, 2), (False, True)))
        if ahead * tile.groups * tile.chunk < k and not (turn and k % (tile.groups * tile.chunk))
    ]
    tiles = (plain if rows == 1 else []) + dots
    return [
        tile
        for tile in tiles
        if n // tile.columns * tile.shares(padded) >= MULTIPROCESSORS // 2 - 2
        and tile.groups * tile.chunk <= k
        and tile.groups * tile.chunk * tile.columns * (2 if gated else 1) <= 65536
    ]


def compile_one(job: tuple) -> str | None:
    """Compile a candidate into the cache on disk; the error instead of an exception."""
    (n, k, gated, norm, residual), rows, tile, pdl = job
    try:
        block = max(16, triton.next_power_of_2(rows)) if tile.dot else 1
        shares = tile.shares(block)
        block //= shares
        kernel, more = few_rows_kernel, {"AHEAD": tile.ahead, "TURN": tile.turn, "SHARES": shares}
        if not tile.dot:
            kernel, more = linear_kernel, {"DOT": False}
        kernel.warmup(
            *[torch.bfloat16] * 6, rows, k, n, EPS, N=n, K=k, NORM=norm, GATED=gated, BIAS=False, RESIDUAL=residual,
            ROWS=block, COLUMNS=tile.columns, GROUPS=tile.groups, CHUNK=tile.chunk, PDL=pdl, num_warps=tile.warps,
            launch_pdl=pdl, grid=(1,), **more,
        )  # fmt: skip
    except Exception as error:  # a tile that does not fit the card is no candidate
        return f"{type(error).__name__}: {error}"[:200]
    return None


def measure(product: tuple, rows: int, tile: Tile, weights: list[torch.Tensor], pdl: bool) -> float:
    """Microseconds a product."""
    n, k, gated, norm, residual = product
    x, gain = torch.randn(rows, k, device="cuda").bfloat16(), torch.ones(k, device="cuda").bfloat16()
    out, old = torch.empty(rows, n, device="cuda").bfloat16(), torch.zeros(rows, n, device="cuda").bfloat16()

    def chain() -> None:
        for weight in weights:
            linear(
                x, weight, out, rows, tile, gain=gain if norm else None, eps=EPS, gated=gated,
                residual=old if residual else None, pdl=pdl,
            )  # fmt: skip

    chain()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chain()
    return median(replay_ms(graph) for _ in range(REPLAYS)) * 1e3 / len(weights)


def replay_ms(graph: torch.cuda.CUDAGraph) -> float:
    """One replay's time on the device."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def main() -> None:
    """Print and store the times."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 16, 32, 64])
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="that compile")
    parser.add_argument("--no-pdl", action="store_true")
    args = parser.parse_args()
    pdl = not args.no_pdl
    jobs = [
        (product, rows, tile, pdl)
        for product in PRODUCTS.values()
        for rows in args.rows
        if rows <= 32 or product[1] in (1024, 3072) or product[0] == 1024
        for tile in candidates(product[0], product[1], product[2], rows)
    ]
    with multiprocessing.get_context("spawn").Pool(args.processes) as pool:
        errors = pool.map(compile_one, jobs, chunksize=1)
    failed = {job: error for job, error in zip(jobs, errors, strict=True) if error}
    results = []
    for name, product in PRODUCTS.items():
        n, k, gated, _, _ = product
        shape = (2 * n if gated else n, k)
        copies = max(2, int(COLD_BYTES / (2 * shape[0] * shape[1])))
        weights = [torch.randn(shape, device="cuda").bfloat16() for _ in range(copies)]
        for rows in args.rows:
            for job in jobs:
                if job[0] != product or job[1] != rows:
                    continue
                row = {"product": name, "n": n, "k": k, "gated": gated, "rows": rows, "tile": vars(job[2])}
                if job in failed:
                    row["error"] = failed[job]
                else:
                    row["us"] = measure(product, rows, job[2], weights, pdl)
                    row["gb_per_s"] = 2e-3 * shape[0] * shape[1] / row["us"]
                results.append(row)
            done = [r for r in results if r["product"] == name and r["rows"] == rows and "us" in r]
            for r in sorted(done, key=lambda r: r["us"])[:3]:
                print(f"{name:16} rows {rows:2}  {r['us']:7.2f} us  {r['gb_per_s']:6.0f} GB/s  {r['tile']}", flush=True)
    args.out.write_text(json.dumps({"device": torch.cuda.get_device_name(), "pdl": pdl, "results": results}, indent=1))


if __name__ == "__main__":
    main()
