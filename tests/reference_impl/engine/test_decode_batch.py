"""Who stands where after several requests left at once."""

from __future__ import annotations

import itertools

from reference_impl.engine.decode_batch import DecodeBatch


class Names(DecodeBatch):
    """The rows of a batch as a list of names."""

    def __init__(self, count: int):
        self.count, self.names = count, list(range(count))

    def free_slot(self, row: int) -> int | None:
        last = self.names.pop()
        self.count -= 1
        if row == self.count:
            return None
        self.names[row] = last
        return self.count


def test_every_set_of_five_rows() -> None:
    for size in range(1, 6):
        for rows in itertools.combinations(range(5), size):
            batch = Names(5)
            moved = batch.free_slots(list(rows))
            now = list(range(5))
            for row, before in moved.items():
                now[row] = before
            assert now[: batch.count] == batch.names
            assert sorted(batch.names) == sorted(set(range(5)) - set(rows))
            assert len(moved) == sum(row < batch.count for row in rows), "no more moves than needed"
