"""A real S3 server (SeaweedFS) for a while, on free ports of this machine, with its data in a directory of its own."""

import json
import socket
import subprocess
import sysconfig
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from pyarrow import fs

KEY, SECRET = "test-key", "test-secret"
READY_SECONDS = 60
PROGRAM = Path(sysconfig.get_path("scripts")) / "weed"


class ObjectStore:
    """``environment`` is what clients need; ``bucket`` is empty at the beginning."""

    bucket = "lake"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = ExitStack()
        self.environment: dict[str, str] = {}

    def __enter__(self) -> Self:
        identity = {"name": "test", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
        who = self._directory / "s3.json"
        who.write_text(json.dumps({"identities": [identity]}))
        data = self._directory / "data"
        data.mkdir()
        parts = ("s3", "master", "volume", "filer")
        named = dict(
            zip((f"{part}.port{kind}" for part in parts for kind in ("", ".grpc")), _free_ports(8), strict=True)
        )
        log = self._stack.enter_context((self._directory / "log").open("wb"))
        command = [
            *(str(PROGRAM), "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"),
            *("-s3", f"-s3.config={who}", "-s3.port.iceberg=0", "-s3.port.lance=0"),
            *("-volume.max=20", "-master.volumeSizeLimitMB=16"),
            *(f"-{name}={port}" for name, port in named.items()),
        ]
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._directory)
        self._stack.callback(server.wait)
        self._stack.callback(server.kill)  # told to stop, it takes half a minute; nobody needs its data
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{named['s3.port']}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }
        self._wait(server)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    @property
    def filesystem(self) -> fs.S3FileSystem:
        return fs.S3FileSystem(
            endpoint_override=self.environment["AWS_ENDPOINT_URL"],
            access_key=KEY,
            secret_key=SECRET,
            region="us-east-1",
            allow_bucket_creation=True,
        )

    def _wait(self, server: "subprocess.Popen[bytes]") -> None:
        """Until it answers at all, and then until it takes a bucket: its parts find each other one by one."""
        end = time.monotonic() + READY_SECONDS
        while not self._answers() or not self._has_bucket():
            words = (self._directory / "log").read_text()[-3000:]
            assert server.poll() is None, words
            assert time.monotonic() < end, f"not ready after {READY_SECONDS} s: {words}"
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(self.environment["AWS_ENDPOINT_URL"], timeout=5).close()
        except urllib.error.HTTPError:
            return True  # it wants to know who asks
        except OSError:
            return False
        return True

    def _has_bucket(self) -> bool:
        with suppress(OSError):
            self.filesystem.create_dir(self.bucket)
            return True
        return False


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in held]
