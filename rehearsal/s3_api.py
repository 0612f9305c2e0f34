"""The part of S3 that data sets, checkpoints and traces need, over path-style requests.

Whole objects only: multipart uploads and ranges are refused by name.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from email.utils import formatdate
from xml.sax.saxutils import escape

from defusedxml import ElementTree
from starlette.requests import Request
from starlette.responses import Response

from rehearsal.errors import ServiceError
from rehearsal.objects import FileObjects, ObjectInfo

MAX_KEYS = 1000
_NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
_REFUSED_QUERIES = ("uploads", "uploadId", "partNumber")


class S3Api:
    """Routes /{bucket} and /{bucket}/{key}."""

    def __init__(self, objects: FileObjects) -> None:
        self._objects = objects

    async def bucket(self, request: Request) -> Response:
        """Create, probe, list, empty or delete a bucket."""
        name = request.path_params["bucket"]
        folder = self._objects.path(name, "")
        if request.method == "PUT":
            folder.mkdir(parents=True, exist_ok=True)
            return Response(headers={"Location": f"/{name}"})
        if not folder.is_dir():
            raise ServiceError("NoSuchBucket", f"The specified bucket does not exist: {name}", 404)
        if request.method == "DELETE":
            return self._delete_bucket(name)
        if request.method == "POST" and "delete" in request.query_params:
            return await self._delete_objects(name, request)
        if request.method == "HEAD":
            return Response()
        if "location" in request.query_params:
            return _xml(f"<LocationConstraint {_NAMESPACE}/>")
        return self._list(name, request)

    async def object(self, request: Request) -> Response:
        """Read, write, probe or delete an object."""
        bucket, key = request.path_params["bucket"], request.path_params["key"]
        uri = f"s3://{bucket}/{key}"
        _refuse_multipart(request)
        if request.method == "PUT":
            if not self._objects.path(bucket, "").is_dir():
                raise ServiceError("NoSuchBucket", f"No bucket {bucket}", 404)
            body = _payload(request, await request.body())
            self._objects.write(uri, body)
            return Response(headers={"ETag": _etag(body)})
        if request.method == "DELETE":
            self._objects.delete(uri)
            return Response(status_code=204)
        try:
            body = self._objects.read(uri)
        except FileNotFoundError:
            raise ServiceError(
                "NoSuchKey", f"The specified key does not exist: {key}", 404
            ) from None
        headers = {"ETag": _etag(body), "Last-Modified": formatdate(usegmt=True)}
        if request.method == "HEAD":
            return Response(headers={**headers, "Content-Length": str(len(body))})
        return Response(body, headers=headers, media_type="application/octet-stream")

    def _delete_bucket(self, name: str) -> Response:
        if self._objects.list(f"s3://{name}/"):
            raise ServiceError("BucketNotEmpty", f"Bucket {name} is not empty", 409)
        self._objects.path(name, "").rmdir()
        return Response(status_code=204)

    async def _delete_objects(self, bucket: str, request: Request) -> Response:
        try:
            tree = ElementTree.fromstring(_payload(request, await request.body()))
        except ElementTree.ParseError:
            raise ServiceError("MalformedXML", "the list of keys is not XML") from None
        keys = [element.text or "" for element in tree.iter() if element.tag.endswith("Key")]
        for key in keys:
            self._objects.delete(f"s3://{bucket}/{key}")
        deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        return _xml(f"<DeleteResult {_NAMESPACE}>{deleted}</DeleteResult>")

    def _list(self, bucket: str, request: Request) -> Response:
        query = request.query_params
        if query.get("delimiter"):
            raise ServiceError("NotImplemented", "listing by delimiter is not offered here", 501)
        after = query.get("continuation-token") or query.get("start-after") or ""
        size = min(int(query.get("max-keys", MAX_KEYS)), MAX_KEYS)
        found = self._objects.list(f"s3://{bucket}/{query.get('prefix', '')}")
        rest = [info for info in found if info.key > after]
        shown, more = rest[:size], len(rest) > size
        token = (
            f"<NextContinuationToken>{escape(shown[-1].key)}</NextContinuationToken>"
            if more
            else ""
        )
        return _xml(
            f"<ListBucketResult {_NAMESPACE}><Name>{escape(bucket)}</Name>"
            f"<KeyCount>{len(shown)}</KeyCount><MaxKeys>{size}</MaxKeys>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}"
            f"{''.join(map(_entry, shown))}</ListBucketResult>"
        )


def _entry(info: ObjectInfo) -> str:
    modified = datetime.fromtimestamp(info.modified, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return (
        f"<Contents><Key>{escape(info.key)}</Key><Size>{info.size}</Size>"
        f"<LastModified>{modified}</LastModified><StorageClass>STANDARD</StorageClass></Contents>"
    )


def _refuse_multipart(request: Request) -> None:
    for name in _REFUSED_QUERIES:
        if name in request.query_params:
            raise ServiceError("NotImplemented", "multipart uploads are not offered here", 501)
    if "range" in request.headers:
        raise ServiceError("NotImplemented", "ranged reads are not offered here", 501)


def _payload(request: Request, body: bytes) -> bytes:
    """The object's bytes: the body, freed of aws-chunked framing where a client uses it."""
    if "aws-chunked" not in request.headers.get("content-encoding", ""):
        return body
    content, rest = b"", body
    while rest:
        header, _, rest = rest.partition(b"\r\n")
        size = int(header.split(b";")[0], 16)
        if size == 0:
            break
        content += rest[:size]
        rest = rest[size + 2 :]
    return content


def _etag(body: bytes) -> str:
    digest = hashlib.md5(body, usedforsecurity=False).digest()
    return f'"{base64.b16encode(digest).decode().lower()}"'


def _xml(body: str) -> Response:
    return Response(f'<?xml version="1.0" encoding="UTF-8"?>{body}', media_type="application/xml")
