"""The proof's own arithmetic: what counts as named, and that what it plants fits the code as it is now."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tools import proof
from tools.proof import SIZES, Made, Plant, judged, kinds, make_history, make_pulls, passed, report
from tools.proof_counts import PIECES, Piece, missed, planted

ROOT = Path(__file__).resolve().parents[1]


def line(*planted: str) -> list[Made]:
    """Commits by what was planted, "" for quiet ones."""
    return [Made(f"{i:040x}", name) for i, name in enumerate(planted)]


def change(index: int, **given: Any) -> dict[str, Any]:
    """A change that starts at the commit of that number."""
    return {"direction": "regression", "after": f"{index:040x}", "confirmed": False, **given}


def facts(made: list[Made], changes: list[dict[str, Any]], **pulls: str) -> dict[str, Any]:
    """The facts of a run; pulls by what was planted and the verdict."""
    found = [{"planted": k.replace("_", " "), "verdict": v, "change": 0.1} for k, v in pulls.items()]
    return {**judged(made, changes), "pulls": found, "step_us": 450.0, "minutes": 1.0}


def test_a_plant_is_found_within_two_commits() -> None:
    """Exactly there and near are told apart; improvements name nothing."""
    made = line("", "", "wait 20%", "", "", "", "wait 5%", "", "", "")
    found = facts(made, [change(2), change(8, confirmed=True), change(5, direction="improvement")])
    assert [(hit["found"], hit["exact"], hit["confirmed"]) for hit in found["history"]] == [
        (True, True, False),
        (True, False, True),
    ]
    assert found["false"] == []
    assert found["quiet"] == 8


def test_a_quiet_commit_that_is_named_is_counted() -> None:
    """As a candidate or as confirmed; the report and the status say so."""
    made = line("", "", "wait 20%", "", "", "", "", "")
    found = facts(made, [change(2, confirmed=True), change(6)])
    assert (len(found["false"]), found["false_confirmed"]) == (1, 0)
    assert passed(found) == []
    assert "Quiet commits that were named: 1 of 7 as candidates, 0 of them confirmed." in report(found)
    # the plant is the third commit; the sixth, seventh and eighth are further than two from it
    assert "3 of them lie further than 2 commits from every plant" in report(found)
    assert "0.8% to 90.6% (95 % bounds)" in report(found)
    assert "1 (2.5% to 100.0%)" in report(found)
    assert passed(facts(made, [change(2, confirmed=True), change(6, confirmed=True)])) == [
        "1 quiet commits are confirmed regressions"
    ]


def test_what_must_be_reached_is_named_where_it_was_not() -> None:
    """A step of 20 % and its rerun, a held slice, and no alarm for nothing."""
    made = line("", "wait 20%", "", "")
    wrong = passed(facts(made, [], held_slice="no regression", quiet="regression"))
    assert len(wrong) == 3
    named = [change(1, confirmed=True)]
    assert passed(facts(made, named, held_slice="regression", quiet="inconclusive")) == []
    assert passed(facts(made, [change(1)])) == [
        "the rerun does not confirm 0000000000 with wait 20%, which stands"
    ]


def test_all_sizes_plant_what_there_is() -> None:
    """The large one has what docs/proof.md promises: 20 waits of 5 %, 200 quiet commits."""
    known = set(kinds(1e5, 0.0, 1e5)) | {"quiet"}
    for size in SIZES.values():
        assert set(size.history) | set(size.pulls) <= known
    large = SIZES["large"]
    assert large.history.count("wait 5%") == large.pulls.count("wait 5%") == 20
    assert (2 * len(large.history)) * large.quiet_run >= 200


@pytest.mark.parametrize("plant", kinds(4e5, 0.0, 1e5).values(), ids=lambda plant: plant.name)
def test_what_is_planted_fits_the_code(plant: Plant) -> None:
    """It parses, and wraps what the module has."""
    text = (ROOT / "mlxcache" / f"{plant.module}.py").read_text(encoding="utf-8")
    names = {node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert {"sequence": "MLXSequenceCache", "positions": "host_positions", "pool": "Pool"}[
        Path(plant.module).name
    ] in names
    ast.parse(text + plant.code)


def test_the_line_of_commits_is_as_planned(tmp_path: Path) -> None:
    """Each plant but the last is taken back, the tree ends with the last one alone, pulls branch off the start."""
    clone = tmp_path / "clone"
    for name in ("kv/sequence.py", "kv/positions.py", "kv/storage/pool.py", "../docs/a.md", "../tests/t.py"):
        path = (clone / "mlxcache" / name).resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# start\n")
    proof.git(clone, "init", "-q", "-b", "main-line")
    proof.commit(clone, "start")
    size = proof.Size(("wait 5%", "memory only", "wait 20%"), 2, ("held slice", "quiet"), 4, ())
    plants = kinds(4e5, 0.0, 1e5)
    made = make_history(clone, size, plants)
    assert [each.planted or (each.taken_back and "back") for each in made if each.planted or each.taken_back] == [
        "wait 5%", "back", "memory only", "back", "wait 20%"
    ]  # fmt: skip
    text = (clone / "mlxcache" / "kv" / "sequence.py").read_text()
    assert plants["wait 20%"].code in text
    assert plants["wait 5%"].code not in text
    pulls = make_pulls(clone, made[0].commit, size, plants)
    assert [name for name, _ in pulls] == ["held slice", "quiet"]
    assert proof.git(clone, "rev-parse", f"{pulls[0][1]}^") == made[0].commit
    assert proof.git(clone, "rev-parse", "main-line") == made[-1].commit


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece.name)
def test_a_piece_of_a_per_cent_fits_the_code_as_it_is(piece: Piece) -> None:
    """Its function is there, and the module is still Python with it inside."""
    text = (ROOT / "mlxcache" / f"{piece.module}.py").read_text(encoding="utf-8")
    changed = planted(text, piece, 3)
    ast.parse(changed)
    assert len(changed.splitlines()) > len(text.splitlines())


def test_what_counts_missed_is_said() -> None:
    """A plant that is not named at its very commit, a quiet one that is, counts too far apart, wrong verdicts."""
    part = judged(line("", "", "a slice", "", "", "", ""), [change(3), change(6)])
    part |= {"apart": [0.001, 0.004], "rises": [0.01]}
    pulls = [{"planted": "a slice", "verdict": "no regression"}, {"planted": "", "verdict": "regression"}]
    assert len(missed({"history": part, "pulls": pulls, "seconds": None})) == 5
    assert missed({"history": None, "pulls": None, "seconds": None}) == []
