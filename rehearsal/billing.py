"""Billable tokens of a job.

Prefill and sample tokens count for every rollout, validation and repeated attempts included. Train
tokens are those of the training rollouts alone, read and written: in the reference run train /
(prefill + sample) is 98.8%, and 98.7% of its rollouts were training rollouts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rehearsal.rollouts import Rollout

Groups = Sequence[Sequence[Rollout]]


@dataclass(frozen=True, slots=True)
class Billing:
    """Tokens so far."""

    prefill: int = 0
    sample: int = 0
    train: int = 0

    def with_sampling(self, groups: Groups) -> Billing:
        """Add rollouts that were only sampled."""
        rollouts = [rollout for group in groups for rollout in group]
        return replace(
            self,
            prefill=self.prefill + sum(r.prefill_tokens for r in rollouts),
            sample=self.sample + sum(r.sample_tokens for r in rollouts),
        )

    def with_training(self, groups: Groups) -> Billing:
        """Add rollouts that were sampled and trained on."""
        trained = sum(
            s.prefill_tokens + s.sample_tokens
            for group in groups
            for rollout in group
            if rollout.rewards is not None
            for s in rollout.samples
        )
        return replace(self.with_sampling(groups), train=self.train + trained)

    def to_wire(self) -> dict[str, int]:
        """`ServiceOutput.BillableTokenUsage`."""
        return {
            "PrefillTokenCount": self.prefill,
            "SampleTokenCount": self.sample,
            "TrainTokenCount": self.train,
        }

    @classmethod
    def from_wire(cls, usage: Mapping[str, int]) -> Billing:
        """Read `BillableTokenUsage` back."""
        return cls(
            usage.get("PrefillTokenCount", 0),
            usage.get("SampleTokenCount", 0),
            usage.get("TrainTokenCount", 0),
        )
