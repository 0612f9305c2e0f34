"""`mtrl watch`: follows a job to its end, says what goes wrong, and what to do about it.

`looking` reads the job and rides out what passes; `curves` and `evidence` read MLflow and the
rollouts' traces; `diagnosis` judges them; `screen` and `verdict` say it; `following` is the loop
and `command` the verb.
"""
