"""One process, one port: the service's parts wired together behind their wire protocols."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from xml.sax.saxutils import escape

import boto3
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mtrl.job.identity import EVALUATION_CATEGORY, TRAINING_CATEGORY
from rehearsal.agent_client import AgentClient
from rehearsal.agent_keys import PATH as CREDENTIALS_PATH
from rehearsal.agent_keys import TOKEN_VARIABLE, AgentKeysApi, KeyRing
from rehearsal.auth import Verifier
from rehearsal.engine import Engine, Parts
from rehearsal.errors import ServiceError
from rehearsal.evaluation import evaluate
from rehearsal.hub import publish_recipes
from rehearsal.identity_api import IdentityApi
from rehearsal.job_runtime_api import JobRuntimeApi
from rehearsal.jobs import Jobs
from rehearsal.mlflow_log import MlflowLog
from rehearsal.objects import FileObjects, S3Objects
from rehearsal.packages import Packages, Place
from rehearsal.policies.registry import PolicyRegistry, PolicySettings
from rehearsal.records import Records
from rehearsal.s3_api import S3Api
from rehearsal.sagemaker_api import SageMakerApi
from rehearsal.settings import ServiceSettings
from rehearsal.training import train
from rehearsal.trajectories import Trajectories

LOOPBACK_HOSTS = ["127.0.0.1", "localhost", "[::1]"]
"""Host headers that are answered; any other could come from a page that rebinds its name."""
Handler = Callable[[Request], Awaitable[Response]]


class Service:
    """The parts of one running service."""

    def __init__(self, settings: ServiceSettings, clock: Callable[[], float] = time.time) -> None:
        """
        Args:
            clock: Unix seconds, by which the keys of agents live and die.
        """
        settings.state.mkdir(parents=True, exist_ok=True)
        self.settings = settings
        self.port = settings.port
        place = Place(settings.region, settings.account)
        records = Records(settings.state / "records.sqlite")
        self.files = FileObjects(settings.state / "objects")
        publish_recipes(self.files)
        self.parts = Parts(
            settings=settings,
            place=place,
            jobs=Jobs(records, place, max_evaluations=settings.max_evaluations),
            packages=Packages(records, place),
            objects=_objects(settings, self.files),
            trajectories=Trajectories(),
            agent=AgentClient(settings.agent_urls, settings.concurrency),
            policies=PolicyRegistry(
                PolicySettings(
                    settings.policy, settings.task, settings.upstream_url, settings.upstream_model
                )
            ),
            mlflow=MlflowLog(settings.state),
            endpoint=lambda: f"http://127.0.0.1:{self.port}",
        )
        self.engine = Engine(self.parts, {TRAINING_CATEGORY: train, EVALUATION_CATEGORY: evaluate})
        fixed = _secrets()
        self.keys = KeyRing(fixed, clock)
        known = bool(fixed) or settings.agent_keys_s is not None
        self.verifier = Verifier(self.keys, verify_signatures=known and settings.verify_signatures)

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Resume unfinished jobs; on the way out leave the running ones for the next process."""
        self.engine.resume_all()
        yield
        await self.engine.shutdown()
        await self.parts.agent.close()
        self.parts.mlflow.close()
        self.parts.jobs.records.close()


def build_app(service: Service) -> Starlette:
    """The ASGI application of a service."""
    runtime = JobRuntimeApi(service.parts.trajectories)
    sagemaker = SageMakerApi(service.parts, service.engine)
    identity = IdentityApi(service.settings)
    s3 = S3Api(service.files)
    keys = AgentKeysApi(
        service.keys, service.settings.agent_keys_s, os.environ.get(TOKEN_VARIABLE, "")
    )

    def guarded(handler: Handler, on_error: Callable[[ServiceError], Response]) -> Handler:
        async def endpoint(request: Request) -> Response:
            try:
                service.verifier.check(request.headers.get("authorization"))
                return await handler(request)
            except ServiceError as error:
                return on_error(error)

        return endpoint

    async def root(request: Request) -> Response:
        if "x-amz-target" in request.headers:
            return await sagemaker.handle(request)
        return await identity.handle(request)

    async def ping(request: Request) -> Response:
        return JSONResponse({"status": "Healthy"})

    async def credentials(request: Request) -> Response:
        try:
            return await keys.get(request)
        except ServiceError as error:
            return _aws_error(error)

    async def s3_bucket(request: Request) -> Response:
        return await _path_checked(s3.bucket, request)

    async def s3_object(request: Request) -> Response:
        return await _path_checked(s3.object, request)

    def post(path: str, handler: Handler, on_error: Callable[[ServiceError], Response]) -> Route:
        return Route(path, guarded(handler, on_error), methods=["POST"])

    verbs = ["GET", "PUT", "POST", "DELETE", "HEAD"]
    routes = [
        post("/v1/chat/completions", runtime.chat, _openai_error),
        post("/complete-rollout", runtime.complete_rollout, _aws_error),
        post("/update-reward", runtime.update_reward, _aws_error),
        post("/", root, _aws_error),
        post("/sample", runtime.sample, _aws_error),
        post("/sample-with-response-stream", runtime.sample_stream, _aws_error),
        Route("/v1/models", guarded(runtime.models, _openai_error), methods=["GET"]),
        Route("/ping", ping, methods=["GET"]),
        Route(CREDENTIALS_PATH, credentials, methods=["GET"]),
        Route("/{bucket}", guarded(s3_bucket, _s3_error), methods=verbs),
        Route("/{bucket}/", guarded(s3_bucket, _s3_error), methods=verbs),
        Route("/{bucket}/{key:path}", guarded(s3_object, _s3_error), methods=verbs),
    ]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=LOOPBACK_HOSTS)
    return Starlette(routes=routes, middleware=[hosts], lifespan=service.lifespan)


async def _path_checked(handler: Handler, request: Request) -> Response:
    try:
        return await handler(request)
    except ValueError as error:
        raise ServiceError("InvalidRequest", str(error)) from None


def _aws_error(error: ServiceError) -> Response:
    body = {"__type": error.code, "message": error.message, "Message": error.message}
    return JSONResponse(body, error.status, headers={"x-amzn-ErrorType": error.code})


def _openai_error(error: ServiceError) -> Response:
    body = {"error": {"message": error.message, "type": error.code, "code": error.code}}
    return JSONResponse(body, error.status)


def _s3_error(error: ServiceError) -> Response:
    body = f"<Error><Code>{error.code}</Code><Message>{escape(error.message)}</Message></Error>"
    return Response(body, error.status, media_type="application/xml")


def _objects(settings: ServiceSettings, files: FileObjects) -> FileObjects | S3Objects:
    if settings.s3_endpoint is None:
        return files
    client = boto3.client("s3", endpoint_url=settings.s3_endpoint, region_name=settings.region)
    return S3Objects(client)


def _secrets() -> dict[str, str]:
    """The environment's own key, whose tokens are verified; without one any key is let in."""
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    return {key: secret} if key and secret else {}
