"""A cell cache that is slow and obviously right: every sequence apart, and a table of cells kept with loops."""

from __future__ import annotations

import numpy as np

from mlxcache import CacheConfig

Token = tuple[np.ndarray, np.ndarray]  # k and v, [H, D]


class CellOracle:
    """What `MLXCellCache` must do: per sequence and layer, the tokens by position."""

    def __init__(self, config: CacheConfig) -> None:
        self.config = config
        self.clear()

    def clear(self) -> None:
        """Drop everything."""
        self.tokens: list[list[dict[int, Token]]] = [[{} for _ in range(self.config.n_layers)] for _ in range(64)]
        self.positions: list[dict[int, int]] = [{} for _ in range(64)]  # sequence -> position -> cell
        self.cells: list[set[int]] = [set() for _ in range(self.config.capacity)]  # owners

    @property
    def free(self) -> int:
        """Cells without an owner."""
        return sum(not owners for owners in self.cells)

    def newest(self, seq: int) -> int:
        """The highest position of a sequence, -1 without one."""
        return max(self.positions[seq], default=-1)

    def place(self, seq_ids: list[int], positions: list[int]) -> None:
        """Give each token the lowest free cell."""
        for seq, position in zip(seq_ids, positions, strict=True):
            cell = next(i for i, owners in enumerate(self.cells) if not owners)
            self.cells[cell] = {seq}
            self.positions[seq][position] = cell

    def store(self, layer: int, seq_ids: list[int], positions: list[int], k: np.ndarray, v: np.ndarray) -> None:
        """Store `[H, T, D]`."""
        for i, (seq, position) in enumerate(zip(seq_ids, positions, strict=True)):
            self.tokens[seq][layer][position] = (k[:, i], v[:, i])

    def attended(self, layer: int, seq: int, position: int) -> tuple[np.ndarray, np.ndarray]:
        """The keys and values that one query sees, `[H, S, D]`, in order of position."""
        window = self.config.layer(layer).policy.window
        seen = sorted(
            p for p in self.positions[seq] if p <= position and (window is None or p > position - window)
        )
        chosen = [self.tokens[seq][layer][p] for p in seen]
        return np.stack([k for k, _ in chosen], axis=1), np.stack([v for _, v in chosen], axis=1)

    def copy(self, src: int, dst: int, upto: int | None) -> bool:
        """Fork, if it is allowed."""
        shared = [p for p in self.positions[src] if upto is None or p < upto]
        if src == dst or self.positions[dst] or not shared:
            return False
        for p in shared:
            self.positions[dst][p] = self.positions[src][p]
            self.cells[self.positions[src][p]].add(dst)
            for layer in range(self.config.n_layers):
                self.tokens[dst][layer][p] = self.tokens[src][layer][p]
        return True

    def remove(self, seq: int, start: int, stop: int | None) -> int | None:
        """Remove, if there is something to; the cells freed."""
        gone = [p for p in self.positions[seq] if p >= start and (stop is None or p < stop)]
        if not gone:
            return None
        freed = 0
        for p in gone:
            owners = self.cells[self.positions[seq].pop(p)]
            owners.remove(seq)
            freed += not owners
        return freed
