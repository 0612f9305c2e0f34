"""The Lambda sources: boto3 and the standard-library part of `mtrl.job`, nothing else."""
