"""What the service keeps: records that land whole, objects that stay in their bucket, rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from mtrl.job.document import Channel
from rehearsal.objects import FileObjects
from rehearsal.records import Records
from rehearsal.rows import RowsError, read_rows


def test_writes_of_a_broken_transaction_are_all_undone(tmp_path: Path) -> None:
    records = Records(tmp_path / "r.sqlite")
    records.put("job", "a", {"step": 1})
    with pytest.raises(RuntimeError), records.transaction():
        records.put("job", "a", {"step": 2})
        with records.transaction():
            records.put("package", "b", {})
        raise RuntimeError
    assert records.get("job", "a") == {"step": 1}
    assert records.get("package", "b") is None


def test_records_outlive_the_process_that_wrote_them(tmp_path: Path) -> None:
    first = Records(tmp_path / "r.sqlite")
    first.put("job", "a", {"name": "ä"})
    second = Records(tmp_path / "r.sqlite")
    assert second.list("job") == [{"name": "ä"}]


@pytest.mark.parametrize("key", ["../other/x", "/etc/x/../../..", "a/../../../x"])
def test_a_key_cannot_leave_its_bucket(tmp_path: Path, key: str) -> None:
    objects = FileObjects(tmp_path / "objects")
    with pytest.raises(ValueError, match="not usable"):
        objects.path("bucket", key)


def test_a_listing_shows_whole_objects_by_prefix(tmp_path: Path) -> None:
    objects = FileObjects(tmp_path)
    for name in ("a/1", "a/2", "ab/3", "b"):
        objects.write(f"s3://bucket/{name}", name.encode())
    (tmp_path / "bucket" / "a" / ".partial-x").write_bytes(b"half")
    assert [info.key for info in objects.list("s3://bucket/a/")] == ["a/1", "a/2"]
    objects.delete("s3://bucket/ab/3")
    assert not (tmp_path / "bucket" / "ab").exists()


def channel(uri: str) -> Channel:
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}}
    return Channel.model_validate({"ChannelName": "train", "DataSource": source})


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("rows.jsonl", '{"prompt": "one"}\n\n{"prompt": "two", "more": 1}\n'),
        ("rows.jsonl", '{"other": "one"}\n{"other": "two"}'),
        ("rows.json", '[{"prompt": "one"}, {"prompt": "two"}]'),
        ("rows.csv", "id,prompt\n1,one\n2,two\n"),
    ],
)
def test_rows_are_read_in_each_format(tmp_path: Path, name: str, body: str) -> None:
    objects = FileObjects(tmp_path)
    objects.write(f"s3://bucket/{name}", body.encode())
    assert read_rows(objects, channel(f"s3://bucket/{name}")).prompts == ("one", "two")


@pytest.mark.parametrize(
    ("name", "body", "named"),
    [
        ("rows.jsonl", b'{"prompt": "one"}\n{broken', "rows.jsonl: line 2 is not JSON"),
        ("rows.jsonl", b'{"prompt": 5}', "row 1: column 'prompt'"),
        ("rows.jsonl", b"[1]", "row 1 is not an object"),
        ("rows.jsonl", b"", "holds no rows"),
        ("rows.json", b'{"prompt": "one"}', "must be a JSON array"),
        ("rows.parquet", b"PAR1", "not .parquet"),
        ("rows.jsonl", b"\xff\xfe", "not UTF-8"),
    ],
)
def test_rows_that_cannot_be_read_are_named(
    tmp_path: Path, name: str, body: bytes, named: str
) -> None:
    objects = FileObjects(tmp_path)
    objects.write(f"s3://bucket/{name}", body)
    with pytest.raises(RowsError) as caught:
        read_rows(objects, channel(f"s3://bucket/{name}"))
    assert named in str(caught.value)


def test_boto3_puts_reads_lists_and_deletes_objects(cloud: Any) -> None:
    s3 = cloud.s3
    s3.create_bucket(Bucket="objects-test")
    keys = [f"folder/{i:02d} ä+&.txt" for i in range(7)]
    for key in keys:
        s3.put_object(Bucket="objects-test", Key=key, Body=key.encode())
    first = s3.list_objects_v2(Bucket="objects-test", Prefix="folder/", MaxKeys=5)
    rest = s3.list_objects_v2(
        Bucket="objects-test", Prefix="folder/", ContinuationToken=first["NextContinuationToken"]
    )
    listed = [item["Key"] for page in (first, rest) for item in page["Contents"]]
    assert listed == keys
    assert s3.get_object(Bucket="objects-test", Key=keys[0])["Body"].read() == keys[0].encode()
    assert s3.head_object(Bucket="objects-test", Key=keys[0])["ContentLength"] > 0
    with pytest.raises(ClientError, match="BucketNotEmpty"):
        s3.delete_bucket(Bucket="objects-test")
    s3.delete_objects(Bucket="objects-test", Delete={"Objects": [{"Key": key} for key in keys]})
    assert "Contents" not in s3.list_objects_v2(Bucket="objects-test")
    s3.delete_bucket(Bucket="objects-test")
    with pytest.raises(ClientError) as missing:
        s3.get_object(Bucket="objects-test", Key="x")
    assert missing.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def test_the_caller_is_of_an_account_that_nobody_has(cloud: Any) -> None:
    identity = cloud.parts.client("sts").get_caller_identity()
    assert identity["Account"] == "000000000000"
