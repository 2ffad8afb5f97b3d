"""A cache that is slow and obviously right: one dict of cells a layer, NumPy, loops."""

from __future__ import annotations

import numpy as np

from mlxcache import CacheConfig


class OracleCache:
    """What `MLXSequenceCache` must do, without pools, plans or slots."""

    def __init__(self, config: CacheConfig) -> None:
        self.config = config
        self.length = 0
        self.layers: list[dict[int, tuple[np.ndarray, np.ndarray]]] = [{} for _ in range(config.n_layers)]
        # Per ring layer the textbook ring: the position that each of window + max_write - 1 cells holds.
        self.rings: list[dict[int, int] | None] = [
            {} if config.layer(i).policy.kind == "ring" else None for i in range(config.n_layers)
        ]

    def kept(self, layer: int) -> int:
        """Cells of the textbook ring."""
        window = self.config.layer(layer).policy.window
        assert window is not None
        return window + (self.config.max_write or window) - 1

    def window_start(self, layer: int, position: int) -> int:
        """The oldest position that a query at `position` sees."""
        window = self.config.layer(layer).policy.window
        return 0 if window is None else max(0, position - window + 1)

    def holds(self, position: int) -> bool:
        """Whether every ring still holds the window before `position`."""
        for layer, ring in enumerate(self.rings):
            if ring is None:
                continue
            for needed in range(self.window_start(layer, position), position):
                if ring.get(needed % self.kept(layer)) != needed:
                    return False
        return True

    def accepts(self, start: int, count: int) -> bool:
        """Whether a step of `count` tokens from `start` is allowed."""
        return (
            0 <= start <= self.length
            and count >= 1
            and start + count <= self.config.capacity
            and all(
                ring is None or count <= (self.config.max_write or self.config.layer(i).policy.window or 0)
                for i, ring in enumerate(self.rings)
            )
            and self.holds(start)
        )

    def update(self, layer: int, start: int, k: np.ndarray, v: np.ndarray) -> None:
        """Store `[H, T, D]` from `start`."""
        for i in range(k.shape[1]):
            self.layers[layer][start + i] = (k[:, i], v[:, i])
            ring = self.rings[layer]
            if ring is not None:
                ring[(start + i) % self.kept(layer)] = start + i

    def finish(self, stop: int) -> None:
        """All layers have stored a step that ends before `stop`."""
        self.length = max(self.length, stop)

    def read(self, layer: int, start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The keys and values of a step, `[H, S, D]`, oldest first."""
        cells = self.layers[layer]
        wanted = range(self.window_start(layer, start), start + count)
        keys = np.stack([cells[p][0] for p in wanted], axis=1)
        values = np.stack([cells[p][1] for p in wanted], axis=1)
        return keys, values

    def sees(self, layer: int, start: int, count: int) -> np.ndarray:
        """Bool `[T, S]`: which of the keys that `read` gives each query sees."""
        oldest = self.window_start(layer, start)
        rows = []
        for query in range(start, start + count):
            first = self.window_start(layer, query)
            rows.append([first <= key <= query for key in range(oldest, start + count)])
        return np.array(rows)

    def rewind(self, length: int) -> bool:
        """Drop what is at `length` or later, if the rings allow it."""
        if not 0 <= length <= self.length or not self.holds(length):
            return False
        self.length = length
        if length == 0:
            self.clear()
        return True

    def clear(self) -> None:
        """Drop everything."""
        self.length = 0
        for ring in self.rings:
            if ring is not None:
                ring.clear()


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, sees: np.ndarray, scale: float) -> np.ndarray:
    """Attention by its definition: `q` `[H_q, T, D]`, `k` and `v` `[H, S, D]`, in float64."""
    out = np.zeros(q.shape, np.float64)
    for head in range(q.shape[0]):
        kv = head // (q.shape[0] // k.shape[0])
        for i in range(q.shape[1]):
            scores = (k[kv].astype(np.float64) @ q[head, i].astype(np.float64)) * scale
            scores = np.where(sees[i], scores, -np.inf)
            weights = np.exp(scores - scores.max())
            out[head, i] = (weights / weights.sum()) @ v[kv].astype(np.float64)
    return out
