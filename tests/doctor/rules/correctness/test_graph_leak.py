"""What is said of kept graphs, how loud, and with which line in place of the user's."""

import pytest

from cordwood.doctor.evidence.evidence import MemorySeen, RetainedTensors
from cordwood.doctor.evidence.findings import Abstain, CodeLine
from cordwood.doctor.rules.correctness.graph_leak import GraphLeak
from tests.doctor.support.evidences import make_evidence


def place(source: str) -> CodeLine:
    return CodeLine("train.py", 12, "train", source)


def judged(*leaks: RetainedTensors, alive: int = 0, peak: int | None = None) -> list:  # type: ignore[type-arg]
    evidence = make_evidence()
    evidence.memory = MemorySeen(20, list(leaks), [("output", None, alive)], None, peak)
    return GraphLeak().judge(evidence)


def test_bytes_tell_how_loud_to_be() -> None:
    small = RetainedTensors("losses", place("losses.append(loss)"), 1.0, 5_000.0, 10.0)
    large = RetainedTensors("outputs", place("outputs.append(out)"), 1.0, 200_000.0, 10.0)
    assert [finding.level for finding in judged(small, large)] == ["medium", "high"]
    assert "`losses` holds 1 more tensor with a graph after each step: about 50.0 MB in 10,000 steps" in (
        judged(small)[0].message
    )
    assert judged(large)[0].saves_ms is None


def test_a_sum_is_told_by_its_nodes() -> None:
    [finding] = judged(RetainedTensors("total", place("total += loss"), 0.0, 4_000.0, 10.0))
    assert "`total` holds a graph that is 10 nodes longer after each step" in finding.message


def test_now_and_then() -> None:
    [finding] = judged(RetainedTensors("losses", None, 0.1, 4_000.0, 1.0))
    assert "another tensor with its graph after every 10 steps" in finding.message
    assert finding.place is None


@pytest.mark.parametrize(
    ("source", "mended"),
    [
        ("losses.append(loss)", "losses.append(loss.item())"),
        ("history['loss'].append(out.loss)", "history['loss'].append(out.loss.item())"),
        ("kept.insert(0, loss / 2)", "kept.insert(0, float(loss / 2))"),
        ("total += loss", "total += loss.item()"),
        ("self.sum += value * count", "self.sum += float(value * count)"),
        ("total = total + loss", "total = total + loss.item()"),
        ("hidden = model(x, hidden)", "# give `name` a number in place of the tensor"),
        ("for x in (", "# give `name` a number in place of the tensor"),
    ],
)
def test_the_cure_is_the_users_own_line(source: str, mended: str) -> None:
    [finding] = judged(RetainedTensors("name", place(source), 1.0, 1.0, 1.0))
    assert finding.fix.startswith(mended)


def test_of_several_elements_no_number_can_be_made() -> None:
    [finding] = judged(RetainedTensors("preds", place("preds.append(out)"), 1.0, 1.0, 1.0, elements=640))
    assert finding.fix == "preds.append(out.detach())    # in place of: preds.append(out)"
    [finding] = judged(RetainedTensors("preds", place("preds += a + b"), 1.0, 1.0, 1.0, elements=640))
    assert finding.fix == "preds += (a + b).detach()    # in place of: preds += a + b"
    [finding] = judged(RetainedTensors("preds", None, 1.0, 1.0, 1.0, elements=640))
    assert finding.fix == "# give `preds` the values without their graph: .detach()"


def test_what_is_emptied_does_not_grow_for_ever() -> None:
    small = RetainedTensors("losses", place("losses.append(loss)"), 1.0, 5_000.0, 10.0, was_emptied=True)
    large = RetainedTensors("outputs", place("outputs.append(out)"), 1.0, 200_000.0, 10.0, was_emptied=True)
    assert [finding.level for finding in judged(small, large)] == ["info", "medium"]
    assert judged(small)[0].message.endswith("after each step: about 5.0 kB more a step, until it is emptied")


def test_what_outlives_a_step_is_told_only_if_it_is_much() -> None:
    assert judged(alive=200, peak=1000) == []
    assert judged(alive=200, peak=None) == []
    [finding] = judged(alive=300, peak=1000)
    assert (finding.level, finding.fix) == ("info", "del output    # at the end of the step")


def test_without_looks_it_abstains() -> None:
    evidence = make_evidence()
    evidence.missing["memory"] = "too short"
    with pytest.raises(Abstain, match="too short"):
        GraphLeak().judge(evidence)
