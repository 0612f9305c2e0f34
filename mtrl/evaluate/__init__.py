"""`mtrl evaluate`: policies on held-out rows, over a matrix of conditions, with their uncertainty.

`plan` is what to play, `rows` the data set of each condition, `site` where a job runs, `jobs` the
life of one job, `folder` what is kept between two runs of the command, `figures` and `compare` the
numbers, `command` the verb.
"""
