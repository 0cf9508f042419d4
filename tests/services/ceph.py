"""A real S3 gateway, Ceph's, for a test session: one monitor, one store in memory, one gateway, on loopback.

Needs Debian's packages ceph-mon, ceph-osd, ceph-common and radosgw; `missing()` names what is not there.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.services.postgres import _become as dies_with_us
from tests.support.waiting import free_port

PROGRAMS = ("ceph-mon", "ceph-osd", "ceph-authtool", "monmaptool", "ceph", "radosgw", "radosgw-admin")
ACCESS, SECRET = "ptk-tests", "ptk-tests-only-here"
READY_WITHIN_SECONDS = 300.0
CONFIG = """
[global]
fsid = {fsid}
mon_host = [v2:127.0.0.1:{monitor}]
keyring = {directory}/keyring
run_dir = {directory}
admin_socket = {directory}/$name.asok
log_file = {directory}/$name.log
pid_file = {directory}/$name.pid
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_data = {directory}/mon
mon_data_avail_warn = 1
mon_data_avail_crit = 1
mon_max_pg_per_osd = 1000
osd_data = {directory}/osd
osd_objectstore = memstore
memstore_device_bytes = 1073741824
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
osd_class_load_list = *
osd_class_default_list = *
rgw_frontends = beast endpoint=127.0.0.1:{gateway} tcp_nodelay=1
rgw_data = {directory}/rgw
rgw_enable_usage_log = false
rgw_dynamic_resharding = false
rgw_thread_pool_size = 32
rgw_rados_pool_pg_num_min = 4
"""


@dataclass(frozen=True)
class Ceph:
    """A running gateway and the credentials of its only user."""

    endpoint: str
    access: str = ACCESS
    secret: str = SECRET


def missing() -> list[str]:
    """The programs that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def _wait(what: str, until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while not until():
        if time.monotonic() > deadline:
            raise RuntimeError(f"Ceph's {what} does not come up")
        time.sleep(0.3)


@contextmanager
def running_ceph() -> Iterator[Ceph]:
    """A new cluster in a directory of its own, gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="ptk-ceph-", dir="/tmp"))
    started: list[subprocess.Popen[bytes]] = []
    config = directory / "ceph.conf"

    def run(*command: str, given: bytes = b"", check: bool = True) -> bytes:
        done = subprocess.run(
            [command[0], "-c", str(config), *command[1:]], input=given, capture_output=True, timeout=120
        )
        if check and done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stderr.decode()[-500:]}")
        return done.stdout if done.returncode == 0 else b""

    def start(*command: str) -> None:
        with (directory / f"{command[0]}.out").open("wb") as out:
            started.append(
                subprocess.Popen(
                    [command[0], "-c", str(config), *command[1:], "-f"],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                    preexec_fn=dies_with_us(None),
                )
            )

    def gateway_answers() -> bool:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{gateway}/", timeout=5).close()
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

    try:
        for name in ("mon", "osd", "rgw"):
            (directory / name).mkdir()
        fsid, monitor, gateway = str(uuid.uuid4()), free_port(), free_port()
        config.write_text(CONFIG.format(fsid=fsid, directory=directory, monitor=monitor, gateway=gateway))
        keyring = str(directory / "keyring")
        run(
            "ceph-authtool", "--create-keyring", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"
        )
        everything = {"mon": "allow *", "osd": "allow *", "mgr": "allow *"}
        of_store = {"mon": "allow profile osd", "mgr": "allow profile osd", "osd": "allow *"}
        for name, caps in (("client.admin", everything), ("osd.0", of_store), ("client.rgw", everything)):
            allowed = [word for part, cap in caps.items() for word in ("--cap", part, cap)]
            run("ceph-authtool", keyring, "--gen-key", "-n", name, *allowed)
        monmap = str(directory / "monmap")
        run("monmaptool", "--create", "--addv", "a", f"[v2:127.0.0.1:{monitor}]", "--fsid", fsid, monmap)
        run("ceph-mon", "-i", "a", "--mkfs", "--monmap", monmap, "--keyring", keyring)
        start("ceph-mon", "-i", "a")
        _wait("monitor", lambda: bool(run("ceph", "--connect-timeout", "5", "-s", check=False)))
        disk = str(uuid.uuid4())
        secret = run("ceph-authtool", keyring, "-n", "osd.0", "-p").decode().strip()
        run("ceph", "osd", "new", disk, "-i", "-", given=json.dumps({"cephx_secret": secret}).encode())
        run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", disk)
        start("ceph-osd", "-i", "0")
        run("ceph", "auth", "add", "client.rgw", "-i", keyring)
        _wait("store", lambda: b" 1 up" in run("ceph", "osd", "stat", check=False))
        user = ("--uid=ptk", "--display-name=ptk", f"--access-key={ACCESS}", f"--secret-key={SECRET}")
        run("radosgw-admin", "user", "create", *user)
        start("radosgw", "-n", "client.rgw")
        _wait("gateway", gateway_answers)
        yield Ceph(f"http://127.0.0.1:{gateway}")
    finally:
        for server in reversed(started):
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait(30)
        shutil.rmtree(directory, ignore_errors=True)
