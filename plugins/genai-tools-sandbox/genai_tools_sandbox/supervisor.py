"""The parent of one sandboxed Node: confines it, monitors it, and ends it with the host.

It runs as a script without site packages, so it starts in about 20 ms. Its argument is JSON:
`command`, `readable` (paths), `memory` (bytes of the whole process) and `cpu` (seconds). Its
standard input and output are passed to Node, as descriptors 0 and 3. SIGTERM ends Node and then the
supervisor.

On Linux there are three barriers: a filter of system calls (seccomp(2)) without sockets, other
programs and signals to other processes; Landlock (landlock(7)), which allows reading `readable`
only and no writing; and a network namespace without connections. The first one is mandatory.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import resource
import select
import signal
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TOO_MUCH_MEMORY = 77
NO_SEAL = 78

_BETWEEN = 50  # milliseconds between checks of the memory
_SPARE = 2**30  # bytes of address space beyond `memory`, reserved but not used

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_FILTER = 2
_NEW_USER, _NEW_NET = 0x1000_0000, 0x4000_0000
_THREAD = 0x0001_0000  # of clone(2): CLONE_THREAD

ARCHITECTURES: Mapping[str, tuple[int, int]] = {  # AUDIT_ARCH_*, and the column below
    "x86_64": (0xC000_003E, 0),
    "aarch64": (0xC000_00B7, 1),
}
# system call numbers from <asm/unistd_64.h> and <asm-generic/unistd.h>
_REFUSED: Mapping[str, tuple[int, int | None]] = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "io_uring_setup": (425, 425),
    "fork": (57, None),
    "vfork": (58, None),
    "execveat": (322, 281),
    "kill": (62, 129),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "chroot": (161, 51),
    "pivot_root": (155, 41),
    "open_by_handle_at": (304, 265),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    # file operations that Landlock does not restrict, such as attributes
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "inotify_add_watch": (254, 27),
    # shared or persistent memory and queues
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "syslog": (103, 116),
    # leaves the process group that is killed
    "setsid": (112, 157),
    "setpgid": (109, 154),
}
_PRCTL, _FCNTL = (157, 167), (72, 25)
_OWNERS = (8, 10, 15)  # of fcntl(2): F_SETOWN, F_SETSIG, F_SETOWN_EX, which can cause signals
_CLONE, _CLONE3, _EXECVE, _TGKILL, _PRLIMIT = (
    (56, 220),
    (435, 435),
    (59, 221),
    (234, 131),
    (302, 261),
)

_ALLOW, _KILL, _EPERM, _ENOSYS = 0x7FFF_0000, 0x8000_0000, 0x0005_0001, 0x0005_0026
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in seccomp_data
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

_SYSTEM = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/etc/ld.so.cache",
    "/dev/null",
    "/dev/urandom",
)
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3


def main() -> None:
    given: dict[str, Any] = json.loads(sys.argv[1])
    parent = os.getpid()
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: signals.append(number))
    child = os.fork()
    if child == 0:
        try:
            _become(given, parent)
        finally:
            os._exit(NO_SEAL)
    os.close(1)
    os._exit(_watch(child, given["memory"], signals))


def _watch(child: int, memory: int, signals: Sequence[int]) -> int:
    """Wait for the child, and kill it at a limit or after a signal; return the exit status."""
    host = select.poll()
    host.register(0, 0)  # no event mask: reports only that the writer has closed
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        gone = bool(host.poll(_BETWEEN) or signals)
        if gone or _resident(child) > memory:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return 0 if gone else TOO_MUCH_MEMORY


def _resident(child: int) -> int:
    """Return the resident memory of a process in bytes; 0 if unknown."""
    try:
        with open(f"/proc/{child}/statm") as stream:
            return int(stream.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def _become(given: Mapping[str, Any], parent: int) -> None:
    """Turn this process into the sandboxed one."""
    libc = ctypes.CDLL(None, use_errno=True)
    os.dup2(1, 3)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    os.closerange(4, 256)
    _bound(given["memory"], given["cpu"])
    command = [os.fsencode(each) for each in given["command"]]
    path = ctypes.create_string_buffer(command[0])
    arguments = (ctypes.c_char_p * (len(command) + 1))(*command, None)
    environment = (ctypes.c_char_p * 1)(None)
    _kill_first()
    libc.unshare(_NEW_USER | _NEW_NET)  # without permission, the filter still blocks sockets
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # reset by a change of the user
    if os.getppid() != parent:
        return
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return
    _shut_files(libc, (*given["readable"], command[0], *_SYSTEM))
    if _filter(libc, ctypes.addressof(path)):
        libc.execve(path, arguments, environment)


def _bound(memory: int, cpu: int) -> None:
    limits = {
        "RLIMIT_CORE": 0,
        "RLIMIT_DATA": memory + _SPARE,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_NOFILE": 64,
    }
    for name, most in limits.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):  # a lower limit stays
            resource.setrlimit(getattr(resource, name), (most, most))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))  # the first signal can be reported


def _kill_first() -> None:
    """Make the kernel kill this process first when memory runs out, instead of the host."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as stream:
        stream.write("1000")


def _shut_files(libc: Any, readable: Iterable[str | bytes]) -> bool:
    """Restrict file access to reading some paths, if Linux supports it."""
    version = libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    # newer versions restrict more: moving, truncating, devices
    files = (1 << (13 + sum(version >= each for each in (2, 3, 5)))) - 1
    network = 3 if version >= 4 else 0
    scoped = 3 if version >= 6 else 0
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = libc.syscall(
        _LANDLOCK_CREATE, struct.pack("QQQ", files, network, scoped), ctypes.c_size_t(size), 0
    )
    if rules < 0:
        return False
    for path in readable:
        with contextlib.suppress(OSError):
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = _EXECUTE | _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)
            libc.syscall(_LANDLOCK_ADD, rules, 1, struct.pack("=Qi", allowed, opened), 0)
            os.close(opened)
    held = libc.syscall(_LANDLOCK_RESTRICT, rules, 0) == 0
    os.close(rules)
    return bool(held)


def _filter(libc: Any, program: int) -> bool:
    """Install the filter; `program` is the address of the path of the only allowed program."""
    machine = platform.machine()
    if machine not in ARCHITECTURES or struct.calcsize("P") != 8:
        return False
    code = b"".join(_instructions(machine, program, os.getpid()))
    buffer = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    return bool(libc.prctl(_PR_SET_SECCOMP, _FILTER, described, 0, 0) == 0)


def _instructions(machine: str, program: int, own: int) -> Sequence[bytes]:
    """Return the filter as classic BPF."""
    arch, column = ARCHITECTURES[machine]
    made = [
        _step(_LOAD, _ARCH),
        _step(_EQUAL, arch, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":  # x32 has other numbers
        made += [_step(_AT_LEAST, 0x4000_0000, 0, 1), _step(_RETURN, _EPERM)]
    for numbers in _REFUSED.values():
        number = numbers[column]
        if number is not None:
            made += [_step(_EQUAL, number, 0, 1), _step(_RETURN, _EPERM)]
    made += [_step(_EQUAL, _CLONE3[column], 0, 1), _step(_RETURN, _ENOSYS)]  # clone follows
    low, high = program & 0xFFFF_FFFF, program >> 32
    made += _only(_CLONE[column], [_step(_LOAD, _FIRST), _step(_ANY_BIT, _THREAD, 1, 0)])
    made += _only(_TGKILL[column], [_step(_LOAD, _FIRST), _step(_EQUAL, own, 1, 0)])
    made += _only(_PRLIMIT[column], [_step(_LOAD, _FIRST), _step(_EQUAL, 0, 1, 0)])
    made += _all_but(_PRCTL[column], _FIRST, (_PR_SET_PDEATHSIG,))  # it ends with its parent
    made += _all_but(_FCNTL[column], _SECOND, _OWNERS)
    made += _only(
        _EXECVE[column],
        [
            _step(_LOAD, _FIRST),
            _step(_EQUAL, low, 0, 2),
            _step(_LOAD, _FIRST + 4),
            _step(_EQUAL, high, 1, 0),
        ],
    )
    return [*made, _step(_RETURN, _ALLOW)]


def _only(number: int, check: Sequence[bytes]) -> Sequence[bytes]:
    """Return steps that allow a call if the last step of the check skips the next one."""
    return [
        _step(_EQUAL, number, 0, len(check) + 2),
        *check,
        _step(_RETURN, _EPERM),
        _step(_RETURN, _ALLOW),
    ]


def _all_but(number: int, at: int, refused: Sequence[int]) -> Sequence[bytes]:
    """Return the steps for a call that is allowed unless an argument has one of some values."""
    count = len(refused)
    return [
        _step(_EQUAL, number, 0, count + 3),
        _step(_LOAD, at),
        *(_step(_EQUAL, each, count - index, 0) for index, each in enumerate(refused)),
        _step(_RETURN, _ALLOW),
        _step(_RETURN, _EPERM),
    ]


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


if __name__ == "__main__":
    main()
