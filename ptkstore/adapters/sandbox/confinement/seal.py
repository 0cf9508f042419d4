"""The rights that a process gives up before it runs team code: its user, most system calls, room to grow."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ptkstore.adapters.sandbox.confinement.rights import capabilities
from ptkstore.adapters.sandbox.processes.hardening import keep_secrets

MIB: Final = 2**20
_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_CLONE_THREAD = 0x00010000
_EPERM, _ENOSYS = 1, 38

# Where things stand in the data that a filter reads, and the instructions it is made of (linux/bpf_common.h).
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_X32 = 0x40000000

_MACHINES: Final = {"x86_64": (0xC000003E, 0, 317), "aarch64": (0xC00000B7, 1, 277)}
"""Machine to its audit number, its place in `_DENIED`, and the number of the call `seccomp` itself."""

_DENIED: Final[dict[str, tuple[int | None, int | None]]] = {
    # other processes and programs
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "setsid": (112, 157),  # whoever kills the group kills it
    "setpgid": (109, 154),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    # the network, also that of other processes here
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    # namespaces, file systems, the machine
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_adjtime": (305, 266),
    "syslog": (103, 116),
    "personality": (135, 92),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    # large or often broken parts of the kernel
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "vmsplice": (278, 75),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # memory that no limit of a process counts
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
    "io_setup": (206, 0),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
}
"""Calls that fail with EPERM: their numbers on x86_64 and on the machines of the kernel's generic table."""

_FCNTL: Final = (72, 25)
_LOCKING: Final = (6, 7, 37, 38)
"""Commands of fcntl that lock a range of bytes: a file can have any number of them, each in the kernel's memory."""

_CLONE: Final = (56, 220)
_CLONE3: Final = (435, 435)


@dataclass(frozen=True, slots=True)
class Seal:
    """The rights that a sealed process keeps.

    `uid` is taken if the process is root's. Memory is address space; it is counted from the interpreter on.
    """

    uid: int
    memory_bytes: int
    cpu_seconds: int
    file_bytes: int = 64 * MIB
    open_files: int = 64
    threads: int = 64

    @property
    def limits(self) -> tuple[tuple[int, int], ...]:
        """Resource limits, soft and hard alike."""
        return (
            (resource.RLIMIT_AS, self.memory_bytes),
            (resource.RLIMIT_CPU, self.cpu_seconds),
            (resource.RLIMIT_FSIZE, self.file_bytes),
            (resource.RLIMIT_NOFILE, self.open_files),
            (resource.RLIMIT_NPROC, self.threads),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_MEMLOCK, 0),
            (resource.RLIMIT_MSGQUEUE, 0),
            (resource.RLIMIT_SIGPENDING, self.threads),  # timers count, too
        )


def seal(wanted: Seal) -> None:
    """Seal this process with all its threads, for good; it exits where that is not possible."""
    for kind, most in wanted.limits:
        _, hard = resource.getrlimit(kind)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (allowed, allowed))
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(wanted.uid, wanted.uid, wanted.uid)
        os.setresuid(wanted.uid, wanted.uid, wanted.uid)  # takes all capabilities away
    if 0 in (*os.getresuid(), *os.getresgid(), *os.getgroups()):
        sys.exit("it would run as root")
    libc = ctypes.CDLL(None, use_errno=True)
    if any(capabilities()):
        sys.exit("it would have rights")
    keep_secrets()
    _filter_calls(libc)


def _filter_calls(libc: ctypes.CDLL) -> None:
    machine = platform.machine()
    if machine not in _MACHINES or sys.byteorder != "little" or sys.maxsize < 2**32:
        sys.exit("there is no filter of system calls for this machine")
    program = b"".join(_instructions(machine))
    count = len(program) // 8
    buffer = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HP", count, ctypes.addressof(buffer))
    call = _MACHINES[machine][2]
    if libc.syscall(call, _SET_MODE_FILTER, _ALL_THREADS, described) != 0:
        sys.exit("seccomp was refused")


def _instructions(machine: str) -> Iterator[bytes]:
    """Yield a program for the kernel's filter: jumps are counted from the next instruction."""
    audit, place, _ = _MACHINES[machine]
    yield _instruction(_LOAD, _ARCHITECTURE)
    yield _instruction(_EQUAL, audit, 1, 0)
    yield _instruction(_RETURN, _KILL)
    yield _instruction(_LOAD, _NUMBER)
    if machine == "x86_64":  # a second table of calls hides behind a bit
        yield _instruction(_AT_LEAST, _X32, 0, 1)
        yield _instruction(_RETURN, _KILL)
    for numbers in _DENIED.values():
        if (number := numbers[place]) is not None:
            yield _instruction(_EQUAL, number, 0, 1)
            yield _instruction(_RETURN, _ERRNO | _EPERM)
    yield _instruction(_EQUAL, _FCNTL[place], 0, 2 * len(_LOCKING) + 2)
    yield _instruction(_LOAD, _SECOND_ARGUMENT)
    for command in _LOCKING:
        yield _instruction(_EQUAL, command, 0, 1)
        yield _instruction(_RETURN, _ERRNO | _EPERM)
    yield _instruction(_RETURN, _ALLOW)
    yield _instruction(_EQUAL, _CLONE3[place], 0, 1)  # its flags lie in memory, where no filter can look
    yield _instruction(_RETURN, _ERRNO | _ENOSYS)
    yield _instruction(_EQUAL, _CLONE[place], 0, 3)  # threads, but no processes
    yield _instruction(_LOAD, _FIRST_ARGUMENT)
    yield _instruction(_ANY_BIT, _CLONE_THREAD, 1, 0)
    yield _instruction(_RETURN, _ERRNO | _EPERM)
    yield _instruction(_RETURN, _ALLOW)


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)
