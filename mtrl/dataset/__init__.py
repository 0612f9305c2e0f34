"""Datasets of a task: build them, and check them before a service is paid to find out.

`files` reads rows with their line numbers, `check` judges them, `build` runs a dataset's own
builder, `cli` is `mtrl dataset`.
"""
