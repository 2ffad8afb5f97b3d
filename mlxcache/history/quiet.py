"""Tells which series surely hold nothing for the detector, many at a time; most series of a large tree are such.

The detector's first pass looks for the segmentation with the least squared error plus a penalty for each
change. Here the same is asked of a hundred pieces at once, and only whether the answer is "no change"; every
other series goes to the detector itself. So the outcome is the detector's own, sooner.

A piece that is quiet with something to spare stays quiet when its series grows: its values are the same, and
sigma, which all of the series decides, moves a little. `Certificate` says how far it may move. With y the
clipped values, removing k changes from a segmentation costs |Qy|**2 for a projection Q, the gain; quiet means
that it is at most k * penalty. If clipping moves y by d in all, |Qy'| <= |Qy| + d, so what was at most k * p
is at most k * (sqrt(p) + d)**2: certified where that is below the new penalty.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np

from mlxcache.history.detectors import PeltDetector
from mlxcache.history.noise import REACH, FloatArray, middle_of_seven, short_term_sigma

# Pieces that are searched together: their sums and best costs fill the processor's second cache.
_BATCH: Final = 128
# Quiet at this share of the penalty is worth a certificate.
_SPARE: Final = 0.93
# A certificate holds for sigmas not below this share of its own.
_SHRINK: Final = 0.9
# Far above what rounding can do to a decision, far below any penalty.
_ROUNDING: Final = 1e-6


class Certificate(NamedTuple):
    """That a piece is quiet at `penalty` (in squared log values) when clipped with `sigma`.

    At most `clipped` of its values are touched by clipping, for sigmas down to _SHRINK of this one.
    """

    penalty: float
    sigma: float
    clipped: int

    def covers(self, penalty: float, sigma: float, clip: float) -> bool:
        """Whether the piece is quiet with these as well; see the module's head."""
        if sigma < _SHRINK * self.sigma:
            return False
        moved = clip * abs(sigma - self.sigma) * math.sqrt(self.clipped)
        return (math.sqrt(self.penalty) + moved) ** 2 <= penalty * (1.0 - _ROUNDING)


Certificates = MutableMapping[bytes, Certificate]


@dataclass(slots=True, eq=False)
class _Piece:
    series: int
    start: int
    padded: FloatArray  # its values and REACH more on both sides
    penalty: float
    sigma: float
    key: bytes  # b"" where the series' end is too near for a certificate
    scaled: FloatArray = field(default_factory=lambda: np.empty(0))  # clipped values in sigmas
    clipped: int = 0


def loud(
    xs: Sequence[FloatArray], detector: PeltDetector, certificates: Certificates
) -> dict[int, frozenset[int]]:
    """Which of the log series `xs` the detector has to look at, and in which of their pieces, by start.

    In all others it finds nothing. Certificates are used where they hold and made where they do not.
    """
    found: dict[int, set[int]] = {}
    settled: list[_Piece] = []
    last: list[_Piece] = []
    for index, x in enumerate(xs):
        if len(x) >= 2 * detector.min_size:
            for piece in _open_pieces(index, x, detector, certificates):
                (settled if piece.key else last).append(piece)
    _clip(settled, detector.clip)
    _clip(last, detector.clip)
    unsure = _not_quiet(settled, detector.min_size, _SPARE)
    last += unsure
    for piece in set(settled).difference(unsure):
        unscaled = _SPARE * piece.penalty * piece.sigma**2
        certificates[piece.key] = Certificate(unscaled, piece.sigma, piece.clipped)
    for piece in _not_quiet(last, detector.min_size, 1.0 - _ROUNDING):
        found.setdefault(piece.series, set()).add(piece.start)
    return {index: frozenset(found[index]) for index in sorted(found)}


def _not_quiet(pieces: Sequence[_Piece], min_size: int, share: float) -> list[_Piece]:
    # Pieces of about one length go together; what is shorter waits for the longest of its batch.
    ordered = sorted(pieces, key=lambda piece: len(piece.scaled))
    batches = (ordered[start : start + _BATCH] for start in range(0, len(ordered), _BATCH))
    return [
        piece
        for batch in batches
        for piece, quiet in zip(batch, _quiet(batch, min_size, share), strict=True)
        if not quiet
    ]


def _open_pieces(index: int, x: FloatArray, detector: PeltDetector, certificates: Certificates) -> list[_Piece]:
    """The series' pieces that no certificate covers."""
    n = len(x)
    sigma = short_term_sigma(x)
    penalty = detector.first_penalty * math.log(n)
    pieces = []
    for start, stop in detector.pieces(n):
        key = b""
        if stop + REACH <= n:  # else the medians at its end will change with the next value
            key = _key(x[max(0, start - REACH) : stop + REACH], start == 0, detector)
            known = certificates.get(key)
            if known is not None and known.covers(penalty * sigma**2, sigma, detector.clip):
                certificates[key] = known  # in use
                continue
        pieces.append(_Piece(index, start, _padded(x, start, stop), penalty, sigma, key))
    return pieces


def _clip(pieces: Sequence[_Piece], limit: float) -> None:
    """Give each piece its clipped values, as `noise.clip_outliers` has them, and the number near the bounds."""
    if not pieces:
        return
    # End to end; what lies across two pieces is of no use to either, and is skipped.
    values = np.concatenate([piece.padded for piece in pieces])
    lengths = np.array([len(piece.padded) for piece in pieces])
    sigma = np.repeat([piece.sigma for piece in pieces], lengths)[REACH:-REACH]
    middle = middle_of_seven(values)
    distance = (values[REACH:-REACH] - middle) / sigma
    scaled = middle / sigma + np.clip(distance, -limit, limit)
    near = np.concatenate([[0], np.cumsum(np.abs(distance) > _SHRINK * limit)])
    ends = np.cumsum(lengths)
    for piece, start, stop in zip(pieces, (ends - lengths).tolist(), (ends - 2 * REACH).tolist(), strict=True):
        piece.scaled = scaled[start:stop]
        piece.clipped = int(near[stop] - near[start])


def _padded(x: FloatArray, start: int, stop: int) -> FloatArray:
    """The values from REACH before `start` to REACH after `stop`; the edges repeat the outermost value."""
    before, after = max(0, REACH - start), max(0, stop + REACH - len(x))
    inner = x[max(0, start - REACH) : stop + REACH]
    if not before and not after:
        return inner
    return np.concatenate([np.full(before, x[0]), inner, np.full(after, x[-1])])


def _key(values: FloatArray, first: bool, detector: PeltDetector) -> bytes:
    digest = blake2b(values.tobytes(), digest_size=16)
    digest.update(f"{first} {detector.min_size} {detector.clip}".encode())
    return digest.digest()


def _quiet(pieces: Sequence[_Piece], min_size: int, share: float) -> list[bool]:
    """Whether no segmentation is better than none at `share` of each piece's penalty.

    Optimal partitioning (Jackson et al., IEEE Signal Processing Letters 12, 2005), all pieces in step. With S
    the running sums, the cost of a segment from s to t is a difference of sums of squares, which cancel out,
    less (S[t] - S[s])**2 / (t - s). `best[t]` is the least cost up to t, with one penalty for each change.
    """
    lengths = np.array([len(piece.scaled) for piece in pieces])
    longest = int(lengths.max())
    sums = np.zeros((longest + 1, len(pieces)))
    for column, piece in enumerate(pieces):
        sums[1 : len(piece.scaled) + 1, column] = (piece.scaled - piece.scaled.mean()).cumsum()
    penalty = share * np.array([piece.penalty for piece in pieces])
    best = np.full_like(sums, np.inf)
    best[0] = -penalty
    weights = (1.0 / np.arange(1, longest + 1))[:, None]
    undivided = -(sums[1:] ** 2) * weights  # from 0 to t without a change
    scratch = np.empty_like(sums)
    for t in range(min_size, longest + 1):
        m = t - min_size + 1  # a segment that ends at t starts before m
        cost = scratch[:m]
        np.subtract(sums[t], sums[:m], out=cost)
        np.multiply(cost, cost, out=cost)
        np.multiply(cost, weights[t - m : t][::-1], out=cost)
        np.subtract(best[:m], cost, out=cost)
        np.add(cost.min(axis=0), penalty, out=best[t])
    # PELT forgets a start once it is a whole penalty behind, so it must never be, not at the end alone.
    behind = undivided - best[1:]
    within = np.arange(1, longest + 1)[:, None] <= lengths
    kept = ((behind < penalty * (1.0 - _ROUNDING)) | ~within).all(axis=0)
    at_end = behind[lengths - 1, np.arange(len(pieces))] <= 1e-9
    answer: list[bool] = (kept & at_end).tolist()
    return answer
