"""`mtrl doctor`: looks for what would fail a job before the job is paid for.

A check looks at one thing and says what it found; each knows why its failure would fail a job and
which command mends it. `machine`, `account`, `permissions` and `deployed` hold the checks,
`examination` runs them, `command` is the verb.
"""
