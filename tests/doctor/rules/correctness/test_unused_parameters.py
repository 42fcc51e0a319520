"""What is said of parameters that nothing trains: one finding a module, as loud as it is large."""

import pytest

from cordwood.doctor.evidence.evidence import ParameterUse
from cordwood.doctor.evidence.findings import Abstain, CodeLine, Finding
from cordwood.doctor.rules.correctness.unused_parameters import UnusedParameters
from tests.doctor.support.evidences import make_evidence

AUX = CodeLine("net.py", 7, "Net.__init__", "self.aux = ...")
EXPERTS = CodeLine("net.py", 9, "Net.__init__", "self.experts = ...")


def judged(use: ParameterUse) -> list[Finding]:
    evidence = make_evidence()
    evidence.parameters = use
    return UnusedParameters().judge(evidence)


def test_one_finding_for_all_parameters_of_a_module() -> None:
    names = ["aux.0.weight", "aux.0.bias", "aux.1.weight"]
    sizes = {"aux.0.weight": 100, "aux.0.bias": 10, "aux.1.weight": 40}
    [finding] = judged(ParameterUse(10, names, names, sizes, 1000, dict.fromkeys(names, AUX)))
    assert (finding.level, finding.place, finding.saves_ms) == ("medium", AUX, None)
    assert finding.message == (
        "`aux` was never called in 10 steps: the optimizer holds 3 parameters with 150 elements (15.0% of all) that "
        "nothing trained"
    )
    assert "model.aux.requires_grad_(False)" in finding.fix


def test_a_part_of_a_list_is_named_by_its_place() -> None:
    names = ["blocks.3.weight"]
    [finding] = judged(ParameterUse(10, names, names, {"blocks.3.weight": 500}, 1000))
    assert "\nmodel.blocks[3].requires_grad_(False)\n" in finding.fix


def test_modules_that_have_only_the_model_in_common_are_named_one_by_one() -> None:
    names = ["first.weight", "first.bias", "second.weight", "scale"]
    [finding] = judged(ParameterUse(10, names, names, dict.fromkeys(names, 100), 1000, dict.fromkeys(names, AUX)))
    assert finding.message.startswith("`first` and `scale` and `second` were never called in 10 steps: ")
    for part in ("first", "scale", "second"):
        assert f"\nmodel.{part}.requires_grad_(False)\n" in finding.fix
    assert "p.requires_grad]" in finding.fix.splitlines()[-1]


def test_a_parameter_of_the_model_itself_is_not_called_but_used() -> None:
    [finding] = judged(ParameterUse(10, ["scale"], ["scale"], {"scale": 500}, 1000))
    assert finding.message.startswith("`scale` was never used in 10 steps: ")


def test_a_small_one_is_information() -> None:
    [finding] = judged(ParameterUse(10, ["aux.bias"], ["aux.bias"], {"aux.bias": 9}, 1000))
    assert (finding.level, finding.place) == ("info", None)


def test_one_of_many_that_may_be_chosen_later_is_information() -> None:
    names = ["experts.1.weight", "experts.2.weight"]
    use = ParameterUse(10, names, names, dict.fromkeys(names, 300), 1000, dict.fromkeys(names, EXPERTS), names)
    [finding] = judged(use)
    assert finding.level == "info"
    assert "parts of `experts`, such as `experts.1`, were never called" in finding.message
    assert "requires_grad_" not in finding.fix  # the others of the list are trained
    assert "experts.1, experts.2" in finding.fix


def test_the_loud_ones_come_first() -> None:
    names = ["aux.bias", "experts.1.weight"]
    sizes = {"aux.bias": 5, "experts.1.weight": 300}
    use = ParameterUse(10, names, names, sizes, 1000, {"aux.bias": AUX, "experts.1.weight": EXPERTS})
    assert [finding.level for finding in judged(use)] == ["medium", "info"]


def test_modules_that_are_called_are_no_finding() -> None:
    assert judged(ParameterUse(10, ["aux.bias"], [], {"aux.bias": 500}, 1000)) == []


def test_without_a_look_it_abstains() -> None:
    with pytest.raises(Abstain):
        UnusedParameters().judge(make_evidence())
