"""What a job has spent so far, by its own billable tokens."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from mtrl.job.identity import MAX_COST_TAG
from mtrl.jobs.reading import Job
from mtrl.pricing import PriceList, TokenPrices, token_cost_usd


def job_prices(job: Job, prices: PriceList) -> TokenPrices | None:
    """Prices of the job's model where it runs, or None when no source states them."""
    return prices.tokens.get((job.model or "", job.region))


def spent_usd(job: Job, prices: PriceList) -> Decimal | None:
    """US dollars of the tokens so far, or None when the price is not known."""
    found = job_prices(job, prices)
    return token_cost_usd(job.view.tokens, found) if found else None


def budget_usd(job: Job) -> Decimal | None:
    """The limit that the job carries, if it does."""
    try:
        return Decimal(job.tags[MAX_COST_TAG])
    except (KeyError, InvalidOperation):
        return None
