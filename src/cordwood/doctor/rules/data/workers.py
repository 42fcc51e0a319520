"""``workers``: a DataLoader that would be faster with other settings, as a trial of them shows."""

from dataclasses import replace

from cordwood.doctor.evidence.evidence import LEAST_WAITING, Evidence, LoaderSeen, StepTimes
from cordwood.doctor.evidence.findings import MEDIUM_SHARE, Abstain, Detail, Finding, Rule
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.measure.stand_in_step import training_device
from cordwood.doctor.trials.loader import (
    Setting,
    SettingsTrial,
    check_can_try,
    check_is_alone,
    setting_of,
    try_persistent,
    try_settings,
)

_FEWEST_STEPS = 20
_UNLIKE = 1.6  # times as long, or as short, as in the run: the trial does not show what training does
_LEAST_SPREAD = 0.01  # of a step: few turns may agree by chance


class Workers(Rule):
    """Tries the training loader with other numbers of workers."""

    id = "workers"
    title = "the loader has better settings"
    measures = (
        "Where a step waits for data for 5% of its time or more, the script's own DataLoader is tried after the run "
        "with other values of `num_workers` and `prefetch_factor`, up to the number of cores that the process may use; "
        "the loop that takes its batches works as training does in between. The best setting and the current one then "
        "take turns. Where workers are started anew for each epoch and that takes more than 3% of the time, the same "
        "is done for `persistent_workers`. It speaks of a gain of at least 3% of a step and of three spreads."
    )
    costs = (
        "Without workers training stops while a batch is made. With too few it waits for them; with too many they take "
        "the cores that training works on, and memory. Workers that end with each epoch are started for the next one."
    )
    wrong = (
        "More workers are not better as such, so nothing is said that was not measured on this machine. Data that is "
        "read a second time comes from memory: if the trial is much faster than the run was, the rule abstains. It "
        "also abstains for an IterableDataset, which may give every worker the same samples, and where several ranks "
        "share the cores."
    )
    cure = "Give the DataLoader the measured settings: `DataLoader(..., num_workers=2, persistent_workers=True)`."

    def judge(self, evidence: Evidence) -> list[Finding]:
        steps = evidence.need_steps(_FEWEST_STEPS)
        if steps.phase_share("wait") < LEAST_WAITING and not _starting_costs(evidence, steps):
            return []
        seen = evidence.training_loader()
        if seen.begins_for_every_batch:
            raise Abstain("a new iterator is begun for every batch: other settings show nothing before that is mended")
        check_can_try(seen.loader)
        evidence.need_seconds()
        check_is_alone()
        # Workers that start anew also make the steps after the first batch wait: that comes before other settings.
        findings = _living_workers(evidence, seen, steps)
        if findings or steps.phase_share("wait") < LEAST_WAITING:
            return findings
        return _better_settings(evidence, seen, steps)


# ---- settings --------------------------------------------------------------------------------------------------------


def _better_settings(evidence: Evidence, seen: LoaderSeen, steps: StepTimes) -> list[Finding]:
    batches = max(evidence.micro_batches, 1.0)  # a step takes several where gradients are accumulated
    step_ms = steps.mean_ms / batches
    trial = try_settings(
        seen.loader,
        busy_ms=step_ms - steps.phase_ms("wait") / batches,
        step_ms=step_ms,
        seconds=evidence.seconds_to_spend,
        device=training_device(evidence),
    )
    gain = trial.gain
    if len(trial.tried) + len(trial.failed) == 1:
        raise Abstain("a trial took longer than the time there is for it: is the machine busy with something else?")
    if gain is None or gain.saves_ms <= 0:  # a first look may like a setting that is no faster when it takes turns
        numbers = ", ".join(str(number) for number in sorted({setting.num_workers for setting in trial.tried}))
        evidence.notes.append(f"workers: tried num_workers {numbers}: the best is what you have")
        return []
    if not step_ms / _UNLIKE < gain.before_ms < step_ms * _UNLIKE:
        faster = gain.before_ms < step_ms
        why = "what is read once more may come from memory" if faster else "the machine may be busier now"
        raise Abstain(
            f"a batch and the work with it took {step_ms:.1f} ms in the run, but {gain.before_ms:.1f} ms in the trial "
            f"of the same settings: {why}, so the trial shows nothing"
        )
    gain = replace(gain, spread_ms=max(gain.spread_ms, _LEAST_SPREAD * gain.before_ms))
    if not trial.current.num_workers:  # nothing competes with training now, so no more than the waiting can be saved
        gain = replace(gain, saves_ms=min(gain.saves_ms, steps.phase_ms("wait") / batches))
    if not gain.is_sure or gain.saves_ms < MEDIUM_SHARE * step_ms:
        evidence.notes.append(f"workers: {_unsure(trial, gain)}")
        return []
    return [_finding(seen, trial, gain, batches, living=seen.epochs > 1)]


def _unsure(trial: SettingsTrial, gain: Gain) -> str:
    """What is told of a setting that may be faster, and is not advised."""
    by = f"{gain.saves_ms:.1f}"
    if trial.turns_disagree:  # the spread then stands for the doubt, and is no measurement
        return (
            f"{trial.best.code()} is {by} ms faster than {gain.before_ms:.1f} ms in the middle of a trial's turns, but "
            f"slower in some of them: too unsure to advise it"
        )
    told = f"{trial.best.code()} is {by} ± {gain.spread_ms:.1f} ms faster than {gain.before_ms:.1f} ms in a trial"
    return f"{told}: too little, or too unsure, to advise it"


def _finding(seen: LoaderSeen, trial: SettingsTrial, gain: Gain, batches: float, living: bool) -> Finding:
    usual = trial.current.prefetch_factor or 2
    changed = trial.best.code(usual)
    if living and trial.best.num_workers and not seen.loader.persistent_workers:
        changed += ", persistent_workers=True"
    # A first look finds the best setting, and may be off by what the machine does just then; turns are the proof.
    turns = {trial.current: gain.before_ms, trial.best: gain.after_ms}
    rows = [
        (setting.code(None), f"{ms:.1f} ms", f"{turns[setting]:.1f} ms" if setting in turns else "")
        for setting, ms in sorted(trial.tried.items(), key=lambda item: item[0][0])
    ]
    rows += [(setting.code(None), why, "") for setting, why in trial.failed.items()]
    return Finding(
        rule=Workers.id,
        message=(
            f"with {trial.best.code(usual)} in place of {trial.current.code(usual)} a batch and the work with it take "
            f"{gain.after_ms:.1f} ms, not {gain.before_ms:.1f}: tried with your own loader, {gain.pairs} times in turns"
        ),
        fix=f"DataLoader(..., {changed}){_left_out(seen, trial.best)}",
        place=seen.made_at or seen.place,
        saves_ms=gain.saves_ms * batches,
        spread_ms=gain.spread_ms * batches,
        verified="trial",
        details=(
            Detail(
                "your loader with other settings, a batch and the work with it",
                ("setting", "a first look", f"in {gain.pairs} turns"),
                tuple(rows),
            ),
        ),
    )


def _left_out(seen: LoaderSeen, best: Setting) -> str:
    """What a DataLoader refuses to take where it has no workers."""
    if best.num_workers:
        return ""
    names = ["persistent_workers"] if seen.loader.persistent_workers else []
    names += ["prefetch_factor"] if seen.loader.prefetch_factor not in (None, 2) else []
    return f"    # without workers, and so without {' and '.join(names)}" if names else ""


# ---- workers that live on --------------------------------------------------------------------------------------------


def _steps_an_epoch(evidence: Evidence, seen: LoaderSeen) -> float:
    return seen.batches / seen.epochs / max(evidence.micro_batches, 1.0)


def _starting_costs(evidence: Evidence, steps: StepTimes) -> bool:
    """Whether starting workers for each epoch takes a share of all time that is worth a trial."""
    return _start_ms(evidence, steps) > 0.0


def _start_ms(evidence: Evidence, steps: StepTimes) -> float:
    """What the first batch of an epoch is waited for longer than others; 0 where that is not worth a trial."""
    seen = next((each for each in evidence.loaders if each.is_training), None)
    workers = getattr(seen.loader, "num_workers", 0) if seen is not None else 0
    if seen is None or seen.epochs < 2 or not workers or getattr(seen.loader, "persistent_workers", True):
        return 0.0
    # The first epoch starts from nothing; the later ones tell what starting an epoch costs.
    later = steps.first_waits[1:]
    beyond = float(later.mean()) - steps.phase_ms("wait") if len(later) else 0.0
    return beyond if beyond > MEDIUM_SHARE * steps.mean_ms * _steps_an_epoch(evidence, seen) else 0.0


def _living_workers(evidence: Evidence, seen: LoaderSeen, steps: StepTimes) -> list[Finding]:
    start_ms = _start_ms(evidence, steps)
    if not start_ms:
        return []
    busy_ms = (steps.mean_ms - steps.phase_ms("wait")) / max(evidence.micro_batches, 1.0)
    gain = try_persistent(
        seen.loader,
        busy_ms=busy_ms,
        batches=round(seen.batches / seen.epochs),
        seconds=evidence.seconds_to_spend / 2,
        device=training_device(evidence),
    )
    long = _steps_an_epoch(evidence, seen)
    # More than all waiting of an epoch in the run cannot be saved, whatever a busier machine makes of the trial.
    saves_ms = min(gain.saves_ms, start_ms + long * steps.phase_ms("wait"))
    if not gain.is_sure or saves_ms < MEDIUM_SHARE * steps.mean_ms * long:
        return []
    setting = setting_of(seen.loader)
    return [
        Finding(
            rule=Workers.id,
            message=(
                f"workers are started anew for each epoch of {long:.0f} steps, which costs {saves_ms:.0f} ms: "
                f"tried with your own loader, {gain.pairs} times in turns"
            ),
            fix=f"DataLoader(..., {setting.code(setting.prefetch_factor)}, persistent_workers=True)",
            place=seen.made_at or seen.place,
            saves_ms=saves_ms / long,
            spread_ms=gain.spread_ms / long,
            verified="trial",
        )
    ]
