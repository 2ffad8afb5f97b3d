"""Tells which series surely hold nothing for the detector, many at a time; most series of a large tree are such.

The detector's first pass looks for the segmentation with the least squared error plus a penalty for each
change. Here the same is asked of a hundred pieces at once, and only whether the answer is "no change"; every
other series goes to the detector itself. So the outcome is the detector's own, sooner.

A piece that is quiet with something to spare stays quiet when its series grows: its values are the same, and
sigma, which all of the series decides, moves a little. `Certificate` says how far it may move. With y the
clipped values, removing k changes from a segmentation costs |Qy|**2 for a projection Q, the gain; quiet means
that it is at most k * penalty. If clipping moves y by d in all, |Qy'| <= |Qy| + d, so what was at most k * p
is at most k * (sqrt(p) + d)**2: certified where that is below the new penalty.

The newest piece itself grows. Of its first values it is certified that none of their prefixes is better by more
than an excess when divided. The best segmentation of a prefix that is one value longer ends in a last segment
behind a shorter prefix, so it gains at most what that one change gains, plus the excess: asking for it takes one
pass over the values, where the full search takes as many as there are values. Of clipping, k * p + e becomes at
most k * (sqrt(p) + d)**2 + e + 2 * d * sqrt(e).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from mlxcache.history.changes.detectors import PeltDetector
from mlxcache.history.statistics.noise import REACH, FloatArray, middle_of_seven, short_term_sigmas

# Pieces that are searched together: their sums and best costs fill the processor's second cache.
_BATCH: Final = 128
# Quiet at this share of the penalty is worth a certificate.
_SPARE: Final = 0.93
# A certificate holds for sigmas not below this share of its own.
_SHRINK: Final = 0.9
# Newest pieces are certified up to multiples of this length, so that the next run knows where to look.
_GRID: Final = 16
# Far above what rounding can do to a decision, far below any penalty.
_ROUNDING: Final = 1e-6


class Certificate(NamedTuple):
    """That a piece is quiet at `penalty` (in squared log values) when clipped with `sigma`.

    At most `clipped` of its values are touched by clipping, for sigmas down to _SHRINK of this one. Of the first
    values of a piece that still grows: that k changes in any of their prefixes gain at most k penalties and
    `excess` (in squared log values too).
    """

    penalty: float
    sigma: float
    clipped: int
    excess: float = 0.0

    def moved(self, sigma: float, clip: float) -> float:
        """By how much at most clipping with another sigma moves the values, as a whole."""
        return clip * abs(sigma - self.sigma) * math.sqrt(self.clipped)

    def covers(self, penalty: float, sigma: float, clip: float) -> bool:
        """Whether the piece is quiet with these as well; see the module's head."""
        if sigma < _SHRINK * self.sigma:
            return False
        return (math.sqrt(self.penalty) + self.moved(sigma, clip)) ** 2 <= penalty * (1.0 - _ROUNDING)

    def excess_at(self, sigma: float, clip: float) -> float:
        """The excess when clipped with another sigma, where `covers` holds."""
        return self.excess + 2.0 * self.moved(sigma, clip) * math.sqrt(self.excess)


class Certificates(Protocol):
    """What is known of pieces, by key: a dictionary, or what keeps it on disk."""

    def get(self, key: bytes, /) -> Certificate | None:
        """The certificate of a piece, if there is one."""

    def __setitem__(self, key: bytes, certificate: Certificate, /) -> None: ...


@dataclass(slots=True, eq=False)
class _Piece:
    series: int
    start: int
    padded: FloatArray  # its values and REACH more on both sides
    penalty: float
    sigma: float
    key: bytes  # of its first `settled` values; b"" where they are too few for a certificate
    settled: int  # how many values at its beginning are clipped as they will always be, but for sigma
    grows: bool  # whether the next value of the series changes it
    known: Certificate | None = None  # of the first `certain` values
    certain: int = 0
    scaled: FloatArray = field(default_factory=lambda: np.empty(0))  # clipped values in sigmas
    clipped: int = 0

    @property
    def limit(self) -> float:
        """The penalty in squared log values."""
        return self.penalty * self.sigma**2


def loud(
    xs: Sequence[FloatArray], detector: PeltDetector, certificates: Certificates
) -> dict[int, frozenset[int]]:
    """Which of the log series `xs` the detector has to look at, and in which of their pieces, by start.

    In all others it finds nothing. Certificates are used where they hold and made where they do not.
    """
    found: dict[int, set[int]] = {}
    pieces: list[_Piece] = []
    for index, (x, sigma) in enumerate(zip(xs, short_term_sigmas(xs), strict=True)):
        if len(x) >= 2 * detector.min_size:
            pieces += _open_pieces(index, x, sigma, detector, certificates)
    _clip(pieces, detector.clip)
    still = _still_quiet([piece for piece in pieces if piece.known is not None], detector, certificates)
    unknown = [piece for piece in pieces if piece not in still]
    unsure: list[_Piece] = []
    for piece, answer in _search(unknown, detector, _SPARE, _quiet):
        if not answer.quiet:
            unsure.append(piece)
        elif piece.key:
            excess = answer.excess * piece.sigma**2 if piece.grows else 0.0
            certificates[piece.key] = Certificate(_SPARE * piece.limit, piece.sigma, piece.clipped, excess)
    for piece, answer in _search(unsure, detector, 1.0 - _ROUNDING, _quiet):
        if not answer.quiet:
            found.setdefault(piece.series, set()).add(piece.start)
    return {index: frozenset(found[index]) for index in sorted(found)}


class _Answer(NamedTuple):
    """Whether a piece is quiet, and by how much prefixes of its settled values are not, in sigmas squared."""

    quiet: bool
    excess: float


def _search(
    pieces: Iterable[_Piece],
    detector: PeltDetector,
    share: float,
    search: Callable[[Sequence[_Piece], PeltDetector, float], list[_Answer]],
) -> Iterator[tuple[_Piece, _Answer]]:
    """Each piece with its answer, batch by batch: pieces of about one length together."""
    ordered = sorted(pieces, key=lambda piece: len(piece.scaled))
    for start in range(0, len(ordered), _BATCH):
        batch = ordered[start : start + _BATCH]
        yield from zip(batch, search(batch, detector, share), strict=True)


def _still_quiet(pieces: Sequence[_Piece], detector: PeltDetector, certificates: Certificates) -> set[_Piece]:
    """Those of the pieces whose certified beginning, and the values behind it, leave no doubt.

    Where that holds with something to spare, it is certified of all settled values.
    """
    still: set[_Piece] = set()
    for piece, answer in _search(pieces, detector, 1.0 - _ROUNDING, _growth):
        if answer.quiet:
            still.add(piece)
            if piece.known is not None and piece.certain == piece.settled:
                certificates[piece.key] = piece.known  # in use
    longer = [
        piece
        for piece in still
        if piece.certain < piece.settled
        and piece.known is not None
        and piece.known.covers(_SPARE * piece.limit, piece.sigma, detector.clip)
    ]
    for piece, answer in _search(longer, detector, _SPARE, _growth):
        if answer.quiet:
            excess = answer.excess * piece.sigma**2
            certificates[piece.key] = Certificate(_SPARE * piece.limit, piece.sigma, piece.clipped, excess)
    return still


def _growth(pieces: Sequence[_Piece], detector: PeltDetector, share: float) -> list[_Answer]:
    """Whether pieces are quiet at `share` of their penalties, given what is known of their first values.

    "Not quiet" may be wrong, and excess too large.
    """
    min_size = detector.min_size
    lengths = np.array([len(piece.scaled) for piece in pieces])
    certain = np.array([piece.certain for piece in pieces])
    settled = np.array([piece.settled for piece in pieces])
    penalty = share * np.array([piece.penalty for piece in pieces])
    known = ((piece.known, piece.sigma) for piece in pieces)
    excess = np.array([c.excess_at(sigma, detector.clip) / sigma**2 if c else math.inf for c, sigma in known])
    settled_excess = excess.copy()
    quiet = np.zeros(len(pieces), np.bool_)
    sums = _running_sums(pieces)
    weights = (1.0 / np.arange(1, len(sums)))[:, None]
    squares = np.zeros_like(sums)
    np.multiply(sums[1:] ** 2, weights, out=squares[1:])
    scratch = np.empty_like(sums)
    for t in range(int(certain.min()) + 1, len(sums)):
        m = t - min_size + 1  # a segment that ends at t starts before m
        gain = scratch[min_size:m]  # and behind one that is long enough itself
        if not len(gain):
            continue
        np.subtract(sums[t], sums[min_size:m], out=gain)
        np.multiply(gain, gain, out=gain)
        np.multiply(gain, weights[t - m : t - min_size][::-1], out=gain)
        np.add(gain, squares[min_size:m], out=gain)
        behind = gain.max(axis=0) - squares[t] - penalty + excess
        now = (t > certain) & (t <= lengths)
        excess[now] = np.maximum(excess, behind)[now]
        settled_excess[t == settled] = excess[t == settled]
        quiet[t == lengths] = (behind <= 0.0)[t == lengths]
    # What PELT forgets, as in `_quiet`.
    quiet &= excess < penalty * (1.0 - _ROUNDING)
    return list(map(_Answer, quiet.tolist(), settled_excess.tolist()))


def _open_pieces(
    index: int, x: FloatArray, sigma: float, detector: PeltDetector, certificates: Certificates
) -> list[_Piece]:
    """The series' pieces that no certificate covers."""
    n = len(x)
    penalty = detector.first_penalty * math.log(n)
    pieces = []
    for start, stop in _places(detector, n):
        key = b""
        if stop + REACH <= n:  # else the medians at its end will change with the next value
            key = _key(x[max(0, start - REACH) : stop + REACH], start == 0, detector)
            known = certificates.get(key)
            if known is not None and known.covers(penalty * sigma**2, sigma, detector.clip):
                certificates[key] = known  # in use
                continue
            pieces.append(_Piece(index, start, _padded(x, start, stop), penalty, sigma, key, stop - start, False))
            continue
        settled = (n - REACH - start) // _GRID * _GRID
        piece = _Piece(index, start, _padded(x, start, stop), penalty, sigma, b"", settled, True)
        for length in (settled, settled - _GRID):
            if length <= 0:
                break
            key = _key(x[max(0, start - REACH) : start + length + REACH], start == 0, detector, b"prefixes")
            piece.key = piece.key or key
            known = certificates.get(key)
            if known is not None and known.covers(piece.limit, sigma, detector.clip):
                piece.known, piece.certain = known, length
                break
        pieces.append(piece)
    return pieces


@lru_cache(4096)
def _places(detector: PeltDetector, n: int) -> list[tuple[int, int]]:
    return detector.pieces(n)


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


def _key(values: FloatArray, first: bool, detector: PeltDetector, kind: bytes = b"") -> bytes:
    digest = _marks(first, detector, kind).copy()
    digest.update(values)
    key: bytes = digest.digest()[:16]
    return key


@lru_cache(64)
def _marks(first: bool, detector: PeltDetector, kind: bytes) -> Any:
    """A digest of what a certificate depends on beside the values."""
    # SHA-256 has instructions of its own in today's processors, and takes half of BLAKE2's time with them.
    return sha256(b"%s %d %d %r;" % (kind, first, detector.min_size, detector.clip))


def _running_sums(pieces: Sequence[_Piece]) -> FloatArray:
    """A column a piece: the sums of its first 0, 1, ... values less their mean."""
    lengths = np.array([len(piece.scaled) for piece in pieces])
    rows = np.zeros((len(pieces), int(lengths.max()) + 1))
    for row, piece in zip(rows, pieces, strict=True):
        row[1 : len(piece.scaled) + 1] = piece.scaled
    rows[:, 1:] -= (rows.sum(axis=1) / lengths)[:, None]  # what lies beyond a piece's end is of no use
    return np.ascontiguousarray(rows.cumsum(axis=1).T)


def _quiet(pieces: Sequence[_Piece], detector: PeltDetector, share: float) -> list[_Answer]:
    """Whether no segmentation is better than none at `share` of each piece's penalty.

    Optimal partitioning (Jackson et al., IEEE Signal Processing Letters 12, 2005), all pieces in step. With S
    the running sums, the cost of a segment from s to t is a difference of sums of squares, which cancel out,
    less (S[t] - S[s])**2 / (t - s). `best[t]` is the least cost up to t, with one penalty for each change.
    """
    min_size = detector.min_size
    lengths = np.array([len(piece.scaled) for piece in pieces])
    sums = _running_sums(pieces)
    longest = len(sums) - 1
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
    length = np.arange(1, longest + 1)[:, None]
    kept = ((behind < penalty * (1.0 - _ROUNDING)) | (length > lengths)).all(axis=0)
    at_end = behind[lengths - 1, np.arange(len(pieces))] <= 1e-9
    settled = np.array([piece.settled for piece in pieces])
    excess = np.maximum(np.where(length <= settled, behind, 0.0).max(axis=0), 0.0)
    return list(map(_Answer, (kept & at_end).tolist(), excess.tolist()))
