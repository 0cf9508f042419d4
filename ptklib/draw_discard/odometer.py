"""The losses of a device so far, in a file that is written before anything is sent."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

from ptklib.draw_discard.limits import Limits
from ptklib.draw_discard.record import Record, Report
from ptklib.draw_discard.refusals import LimitReached, NotAllowed, OdometerError, UntrustedAnswer
from ptklib.exceptions import InvalidParameterError

REPORTS_MAX = 10_000
"""Reports of one device: each is a line of the file, which is written anew for every report."""

ASKED_PER_WINDOW, ASKED_IN_ALL = 1, 8
"""Reports that are asked for at most where nothing was allowed before: limits of the whole device, not of a stream."""

_FILE_BYTES_MAX = 2**24
_NAMED = 10
_MARK = re.compile(r"([1-9][0-9]{0,11}) ([0-9a-f]{64})\n")


class Odometer:
    """The losses of one device, in a folder.

    Parameters
    ----------
    home : str or Path
        A folder of its own, which is made when something is written. It contains ``odometer.json``, for
        people to read, and ``odometer.mark``, a line for each time that the former was written.

    Notes
    -----
    A file that is missing, damaged or older than its mark is refused, not begun anew. A device whose two
    files were removed, or replaced by an old copy of both, begins an odometer that knows less. So keep the
    folder out of backups that are restored.
    """

    def __init__(self, home: str | os.PathLike[str]) -> None:
        self._home = Path(home).expanduser()

    @property
    def _mark(self) -> Path:
        return self._home / "odometer.mark"

    @property
    def path(self) -> Path:
        """The file that people can read."""
        return self._home / "odometer.json"

    def read(self) -> Record:
        """Return what the file says.

        Raises
        ------
        OdometerError
            When it cannot be trusted.
        """
        if not self.path.exists() and not self._mark.exists():
            return Record()
        with self._locked() as mark:
            return self._read(mark)

    def allow(self, limits: Limits) -> None:
        """Keep what the person allows from now on, more or less than before.

        Raises
        ------
        OdometerError
            When the file cannot be trusted, or written.
        """
        with self._locked() as mark:
            self._write(mark, replace(self._read(mark), limits=limits))

    def widen(self, report: Report, columns: Sequence[str]) -> None:
        """Allow what a report of columns needs beyond the limits that are kept now, and no more.

        Raises
        ------
        OdometerError
            When the file cannot be trusted, or written.
        """
        with self._locked() as mark:
            record = self._read(mark)
            self._write(mark, replace(record, limits=widened(record.limits, report, columns)))

    def begin(self, limits: Limits) -> None:
        """Do as `allow`, where nobody was asked yet; limits that are kept stay."""
        with self._locked() as mark:
            record = self._read(mark)
            if record.limits is None:
                self._write(mark, replace(record, limits=limits))

    def check(self, report: Report, columns: Sequence[str]) -> None:
        """Raise what `spend` would raise; nothing is written."""
        refuse_beyond(self.read(), report, columns)

    def spend(self, report: Report, columns: Sequence[str]) -> None:
        """Count a report that columns went into; on return that is durable, and the report may be sent.

        Raises
        ------
        LimitReached, NotAllowed, UntrustedAnswer
            As `refuse_beyond`; nothing has changed then.
        OdometerError
            When the file cannot be trusted, or written. Do not send.
        """
        with self._locked() as mark:
            record = self._read(mark)
            refuse_beyond(record, report, columns)
            self._write(mark, replace(record, reports=(*record.reports, report)))

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the mark, and keep other processes and threads from it."""
        try:
            from fcntl import LOCK_EX, flock
        except ImportError:
            raise OdometerError("an odometer needs the file locks of POSIX") from None
        try:
            _make(self._home)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._mark, flags, 0o600)
        except OSError as error:
            raise OdometerError(f"the folder of the odometer cannot be used: {error.strerror}") from None
        try:
            flock(descriptor, LOCK_EX)
            yield descriptor
        except OSError as error:
            raise OdometerError(f"the odometer cannot be read or written: {error.strerror}") from None
        finally:
            os.close(descriptor)

    def _read(self, mark: int) -> Record:
        number, digest, _ = _last(mark)
        try:
            with self.path.open("rb") as file:
                octets = file.read(_FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            if number:
                raise OdometerError("odometer.json is missing: restore it, or losses are forgotten") from None
            return Record()
        try:
            if len(octets) > _FILE_BYTES_MAX:
                raise InvalidParameterError("the file is too long")
            record = Record.of_text(octets)
        except InvalidParameterError as error:
            raise OdometerError(f"odometer.json is damaged: {error}") from None
        marked = (record.number, _digest(octets)) == (number, digest)
        # written, and the process ended before it was marked: nothing was sent
        ahead = (record.number, record.previous) == (number + 1, digest)
        if not marked and not ahead:
            raise OdometerError("odometer.json is not the one that was written last")
        return record

    def _write(self, mark: int, record: Record) -> None:
        """Replace the file, and then mark it."""
        before = self.path.read_bytes() if record.number else b""
        number, _, size = _last(mark)
        if before and number < record.number:
            size = _append(mark, size, f"{record.number} {_digest(before)}\n")
        written = replace(record, number=record.number + 1, previous=_digest(before) if before else "")
        octets = written.text.encode()
        if len(octets) > _FILE_BYTES_MAX:
            raise OdometerError("odometer.json would become too long")
        _replace(self.path, octets)
        _append(mark, size, f"{written.number} {_digest(octets)}\n")


def refuse_beyond(record: Record, report: Report, columns: Sequence[str]) -> None:
    """Raise unless a device may send one more report.

    Parameters
    ----------
    record : Record
    report : Report
        The report that would be sent.
    columns : sequence of str
        The model that would get it.

    Raises
    ------
    NotAllowed
        When the person has allowed nothing yet, less loss than the report's, or not all columns.
    UntrustedAnswer
        When the stream told other limits before, promised less loss than the report's, or its windows go back or change
        their ends.
    LimitReached
        When the stream or the person takes no more reports in this window, or at all; and when the window before has
        not ended by this device's clock.
    """
    limits, told = record.limits, report.limits
    asked = widened(limits, report, columns)
    if limits is None:
        raise NotAllowed("nothing is allowed yet on this device", asked)
    if report.epsilon > limits.report_epsilon or report.delta > limits.report_delta:
        loss = f"epsilon {report.epsilon:.6g} and delta {report.delta:.3g}"
        raise NotAllowed(f"a report would lose {loss}, more than is allowed", asked)
    if new := sorted(set(columns) - set(limits.columns)):
        some = ", ".join(new[:_NAMED]) + (f" and {len(new) - _NAMED} more" if len(new) > _NAMED else "")
        raise NotAllowed(f"the specification names columns that are not allowed: {some}", asked)
    if report.epsilon > told.report_epsilon:
        raise UntrustedAnswer("the specification loses more than the stream says that a report loses")
    own = [one for one in record.reports if (one.server, one.stream) == (report.server, report.stream)]
    if any(one.limits != told for one in own):
        raise UntrustedAnswer("the stream has told other limits before")
    last = max(own, key=lambda one: one.window, default=None)
    if last is not None:
        _refuse_jump(last, report)
    if len(record.reports) >= min(limits.reports_in_all, REPORTS_MAX):
        raise LimitReached("all reports that this device allows are used up", for_good=True)
    if len(own) >= told.reports_in_all:
        raise LimitReached("all reports that the stream takes from a device are used up", for_good=True)
    in_window = sum(one.window == report.window for one in own)
    since = report.at - timedelta(seconds=limits.window_seconds)
    lately = sum(one.at > since for one in record.reports)  # also those that a clock ahead has dated later
    if (
        in_window >= min(told.reports_per_window, limits.reports_per_window)
        or lately >= limits.reports_per_window
    ):
        raise LimitReached("all reports of this window are used up", for_good=False)


def _refuse_jump(last: Report, report: Report) -> None:
    if report.window < last.window:
        raise UntrustedAnswer("the windows of the stream went back")
    if report.window == last.window and report.window_ends != last.window_ends:
        raise UntrustedAnswer("a window of the stream has another end than before")
    if report.window > last.window and report.at < last.window_ends:
        raise LimitReached("the window before has not ended by this device's clock", for_good=False)


def widened(limits: Limits | None, report: Report, columns: Sequence[str]) -> Limits:
    """Return the least limits, above those given, that a report of these columns is within.

    If none are given, numbers of reports are the stream's, and few: a server may say any.
    """
    if limits is None:
        limits = Limits(
            report_epsilon=report.epsilon,
            reports_per_window=min(report.limits.reports_per_window, ASKED_PER_WINDOW),
            reports_in_all=min(report.limits.reports_in_all, ASKED_IN_ALL),
            columns=(),
        )
    return replace(
        limits,
        report_epsilon=max(limits.report_epsilon, report.epsilon),
        report_delta=max(limits.report_delta, report.delta),
        columns=(*limits.columns, *columns),
    )


def _digest(octets: bytes) -> str:
    return sha256(octets).hexdigest()


def _last(mark: int) -> tuple[int, str, int]:
    """Return number and digest of the last whole line of the mark, and the size up to its end."""
    size = os.fstat(mark).st_size
    start = max(0, size - 2**10)
    tail = os.pread(mark, size - start, start)
    whole = tail[: tail.rfind(b"\n") + 1]
    if not whole:
        if size > len(tail):
            raise OdometerError("odometer.mark is damaged")
        return 0, "", 0
    line = whole[whole.rfind(b"\n", 0, -1) + 1 :].decode("ascii", errors="replace")
    found = _MARK.fullmatch(line)
    if found is None:
        raise OdometerError("odometer.mark is damaged")
    return int(found[1]), found[2], start + len(whole)


def _append(mark: int, size: int, line: str) -> int:
    os.ftruncate(mark, size)  # a line that a crash cut short
    octets = line.encode()
    if os.pwrite(mark, octets, size) < len(octets):
        raise OdometerError("odometer.mark cannot be written")
    os.fsync(mark)
    return size + len(octets)


def _replace(path: Path, octets: bytes) -> None:
    temporary = path.with_name(f".{path.name}")  # one name: who holds the lock is alone
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    with os.fdopen(descriptor, "wb") as file:
        file.write(octets)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync(path.parent)


def _make(folder: Path) -> None:
    """Make a folder, so that it is there after a power cut."""
    if folder.is_dir():
        return
    _make(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    _sync(folder.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
