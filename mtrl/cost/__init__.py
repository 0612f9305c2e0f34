"""What a job will cost, what it has cost, and what any counts of tokens cost."""
