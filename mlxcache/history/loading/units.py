"""What a unit says of its own: whether more of it is better, worse, or unknown.

A unit is read as people write it: "tokens/s", "queries per minute", "GFLOP s^-1", "kHz", "ns/day", "accuracy (%)".
What is counted (before the first "/" or "per") and what it is spent for (behind it) decide:

    work for time, cycles, energy or money   more is better: tokens/s, events/min, frames/J, 1/ms, bytes/cycle
    harm for anything                        less is better: errors/s, cache misses per hour
    time, energy, memory, money for work     less is better: ns/op, bytes per token, $/Mtoken
    simulated time for real time             more is better: ns/day
    a rate by its name                       more is better: QPS, TPS, kHz, MLUPS, GFLOPS, IOPS, rpm
    a gain by its name                       more is better: accuracy, hit rate, speed-up
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHORT: Final = _words("fs femtosecond ps psec picosecond ns nsec nanosecond us usec microsecond")
_LONG: Final = _words("h hr hour d day w wk week month y yr year")
_TIME: Final = _SHORT | _LONG | _words("s sec second ms msec millisecond min minute")
_CYCLES: Final = _words("cycle clock clk tick")
_ENERGY: Final = _words("j kj mj uj nj joule kilojoule millijoule w mw kw watt kilowatt wh kwh watthour cal kcal")
_MONEY: Final = _words("$ € £ usd eur gbp dollar euro cent")
_MEMORY: Final = re.compile(r"([kmgtpe]i?|kilo|mega|giga|tera|kibi|mebi|gibi|tebi)?(b|o|byte|octet|bit)")
_COUNTS: Final = _words(
    "instruction insn alloc allocation syscall call copy launch object refcount branch depth page collection cpi"
)
_HARM: Final = _words(
    "error err fail failed failure fault miss missed drop dropped loss lost timeout crash stall retry"
    " retries eviction evicted rejection rejected exception leak conflict abort aborted collision overflow"
    " preemption violation defect warning outage stale wer cer perplexity mse rmse mae mape divergence"
    " regret latency overhead jitter lag delay downtime idle waste wasted contention slowdown penalty"
)
_GAIN: Final = _words(
    "throughput bandwidth goodput speed speedup velocity accuracy recall precision score efficiency hit"
    " hitrate auc auroc f1 iou bleu rouge psnr ssim snr r2 success uptime availability mfu ipc"
)
# "kHz", "GFLOPS" and also "gflopss", "TPS", "KIOPS": the "per second" (minute, hour, day) is in the name.
_RATE: Final = re.compile(
    r"(?:[kmgtpe]|kilo|mega|giga|tera)?(?:hz|hertz|flop(?:s|ss|ps)?|i?ops|i?o?bps|lups?|cups|teps|baud|[qtrpifeuc]ps)"
    r"|[kmgt]i?(?:b|bit|byte)ps|(?:rec|msg|req|tok)ps|[a-z]ps|[a-oq-z]pm|[a-z]p[hd]|mips|sypd"
)
# What work is spread over rather than spent for: a rate a core is a rate.
_PLACES: Final = _words(
    "core cpu gpu thread node device chip socket user worker process rank host instance machine server"
    " client stream"
)
# Units that say nothing of what is measured.
_PURE: Final = _words(
    "unit ratio share fraction percent percentage pct x factor times number value count point none na"
)

_SAID: Final = re.compile(
    r"(?P<up>↑|\b(?:higher|bigger|more|larger)\s+is\s+better)|↓|\b(?:lower|smaller|less)\s+is\s+better", re.I
)
_SUPERSCRIPTS: Final = str.maketrans({"⁻": "-", "−": "-", "¹": "1", "µ": "u", "μ": "u", "_": " ", "·": " "})  # noqa: RUF001
_INVERSE: Final = re.compile(r"\b([a-z]+)\s*(?:\^|\*\*)?\s*[({]?-\s*1\b[)}]?")
_PER: Final = re.compile(r"/|\bper\b|\ban?\b(?=\s+(?:second|minute|hour|day|week|month|year)\b)")
_WORD: Final = re.compile(r"[a-z]+[0-9]?(?![a-z0-9])|[a-z]+|[$€£]")


@lru_cache(maxsize=65_536)
def unit_says(unit: str) -> bool | None:
    """Whether more of it is better; None where the unit does not tell."""
    if said := _SAID.search(unit):
        return said["up"] is not None
    text = re.sub(r"speed[ -]up", "speedup", unit.translate(_SUPERSCRIPTS).lower())
    above, *below = _PER.split(re.sub(r"(?<![a-z])-(?!\s*1\b)", " ", _INVERSE.sub(r"/\1", text)))
    counted, spent = _singular(above), {word for part in below for word in _singular(part)}
    if counted & _HARM:
        return False
    cost = bool(counted & (_TIME | _ENERGY | _MONEY))
    if spent & (_TIME | _CYCLES):
        if cost and counted & (_SHORT | {"year"}) and spent & _LONG:
            return True  # simulated time
        if cost or counted & _CYCLES:
            return False if spent & _CYCLES or not counted & _TIME else None
        return True
    if cost:
        return False
    if spent & (_ENERGY | _MONEY):
        return True
    if counted & _GAIN:
        return True
    if any(map(_RATE.fullmatch, counted)):
        # So many operations for a token are a cost; so many operations (a second) on a core are not.
        return not spent or bool(spent & _PLACES)
    if counted & (_COUNTS | _CYCLES) or any(map(_MEMORY.fullmatch, counted)):
        return False
    return None


def is_telling(unit: str) -> bool:
    """Whether the unit names a thing of its own, unlike "%", "unit", "ratio" and none at all."""
    return bool(_singular(unit.lower()) - _PURE)


def name_says(name: str) -> bool | None:
    """Whether a benchmark's name speaks of a gain (True) or a harm (False); None for neither."""
    words = _singular(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").lower())
    if words & _HARM:
        return False
    return True if words & _GAIN else None


def _singular(text: str) -> set[str]:
    """The words, without the s of a plural where one of ours stands behind it."""
    found = set()
    for word in _WORD.findall(text):
        for known in (word, word[:-1], word[:-2]):
            # "Gbps" is no plural of pounds.
            if known in _KNOWN and (known == word or (known != "gbp" and word in (f"{known}s", f"{known}es"))):
                word = known
                break
        else:
            if word.endswith("s") and _MEMORY.fullmatch(word[:-1]) and not _RATE.fullmatch(word):
                word = word[:-1]
        found.add(word)
    return found


_KNOWN: Final = _TIME | _CYCLES | _ENERGY | _MONEY | _COUNTS | _HARM | _GAIN | _PLACES | _PURE
