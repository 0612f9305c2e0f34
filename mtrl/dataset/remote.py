"""Brings a data set that lies in S3 onto this machine, to be read as any other file."""

from __future__ import annotations

from pathlib import Path

from botocore.exceptions import ClientError

from mtrl.aws import Cloud, is_missing
from mtrl.dataset.files import read_records
from mtrl.errors import InputError


def download(cloud: Cloud, uri: str, folder: Path) -> list[Path]:
    """Copy all objects under an S3 URI into `folder`, as the service's S3Prefix means it.

    Raises:
        InputError: there is no such object.
        ClientError: not permitted, or another refusal of S3.
    """
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    s3 = cloud.client("s3")
    try:
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
    except ClientError as error:
        if not is_missing(error):
            raise
        raise InputError("no-dataset", f"{uri}: there is no bucket {bucket}.") from None
    keys = [key for key in keys if not key.endswith("/")]
    if not keys:
        raise InputError("no-dataset", f"{uri}: there is no object under it.")
    files = []
    for number, key in enumerate(keys):
        file = folder / str(number) / Path(key).name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
        files.append(file)
    return files


def count_rows(files: list[Path]) -> int:
    """Rows of the files, those that cannot be used not counted."""
    return sum(record.prompt is not None for file in files for record in read_records(file))
