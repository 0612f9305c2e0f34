"""`mtrl train`: submits a training job of a deployment, without a new deployment.

`documents` builds the job's document, `resuming` says what a resumed job may not change, `gates`
asks audit and doctor first, `submission` calls CreateJob, `command` is the verb.
"""
