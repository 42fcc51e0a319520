"""``whole-batches``: tensors in memory that are split into samples, and stacked again for every batch."""

from cordwood.common.numbers import milliseconds
from cordwood.doctor.evidence.evidence import LEAST_WAITING, Evidence
from cordwood.doctor.evidence.findings import HIGH_SHARE, Abstain, Finding, Rule
from cordwood.doctor.measure.per_step import pace_of
from cordwood.doctor.measure.stand_in_step import training_device
from cordwood.doctor.trials.loader import check_is_alone
from cordwood.doctor.trials.whole_batches import stacks_samples, try_whole_batches
from cordwood.doctor.trials.whole_batches_change import whole_batches

_FEWEST_STEPS = 20


class WholeBatches(Rule):
    """Tries the loader of a TensorDataset with whole batches."""

    id = "whole-batches"
    title = "batches stacked sample by sample, though all is in memory"
    measures = (
        "Where a step waits for data for 5% of its time or more, and the dataset is a `TensorDataset` (or a `Subset` "
        "of one) whose samples torch's own function stacks, the script's own DataLoader is tried as it is and with "
        "whole batches, in turns; the loop that takes the batches works as training does in between. A few batches are "
        "made both ways first, and are the same bit for bit, in the same form. It speaks of a gain of at least a tenth "
        "of a step and of three spreads: to stack samples is what everybody does, and a little of it does no harm."
    )
    costs = (
        "A DataLoader asks for one sample after the other: some Python and a small tensor for each, and then all of "
        "them are copied into a batch. A tensor that is indexed by a list of numbers gives the batch in one go."
    )
    wrong = (
        "A dataset with a `__getitem__` of its own, or a `collate_fn`, is left alone. Batches, their order, "
        "`drop_last`, `pin_memory` and generators stay what they are, but `loader.batch_size` is None afterwards, and "
        "`loader.sampler` gives lists. Where several ranks share the cores the rule abstains, and where the call that "
        "makes the loader cannot be found or does not show its sampler."
    )
    cure = (
        "Let the sampler give the lists of indices, and the loader make no batches of its own:\n\n"
        "```py\nfrom torch.utils.data import BatchSampler, DataLoader, RandomSampler\n\n"
        "order = BatchSampler(RandomSampler(dataset), batch_size=64, drop_last=False)\n"
        "loader = DataLoader(dataset, sampler=order, batch_size=None)\n```"
    )

    def judge(self, evidence: Evidence) -> list[Finding]:
        steps = evidence.need_steps(_FEWEST_STEPS)
        if steps.phase_share("wait") < LEAST_WAITING:
            return []
        seen = evidence.training_loader()
        if not stacks_samples(seen.loader):
            return []
        if seen.begins_for_every_batch:
            raise Abstain("a new iterator is begun for every batch: a trial shows nothing before that is mended")
        seconds = evidence.need_seconds()
        check_is_alone()
        pace = pace_of(evidence, steps)
        trial = try_whole_batches(
            seen.loader,
            busy_ms=pace.busy_ms,
            step_ms=pace.batch_ms,
            seconds=seconds,
            device=training_device(evidence),
        )
        gain = trial.gain
        # Without workers nothing competes with training now, so no more than the waiting can be saved.
        most = pace.usual_ms * (1.0 if seen.loader.num_workers else steps.phase_share("wait"))
        saves, spread = pace.saved(gain, most)
        if not pace.is_worth(saves, spread, HIGH_SHARE):
            return []
        alone = ", without workers," if seen.loader.num_workers and not trial.setting.num_workers else ""
        return [
            Finding(
                rule=self.id,
                message=(
                    f"a batch is stacked sample by sample, though all samples are in memory. Indexed as a whole{alone} "
                    f"the same batch, bit for bit, and the work with it take {milliseconds(gain.after_ms)}, not "
                    f"{milliseconds(gain.before_ms)}: tried with your own loader, {gain.pairs} times in turns"
                ),
                fix=whole_batches(seen, trial.setting),
                place=seen.made_at or seen.place,
                saves_ms=saves,
                spread_ms=spread,
                verified="trial",
            )
        ]
