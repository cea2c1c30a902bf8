"""A child process that is spoken to in lines, with a bound on everything: time, length of a line, what is kept.

One loop moves all three pipes, so neither side can wait for the other for ever. The child leads a process group of its
own, which is killed as a whole. POSIX only. Knows nothing of models and of what the lines say.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

MAX_LINE = 16 << 20  # bytes of one line of standard output
CHUNK = 1 << 16  # bytes at a time
TAIL = 8192  # bytes of standard error that are kept
SHOWN_LINES, SHOWN = 10, 1500  # of these, what is told: lines, characters
POLL = 0.2  # seconds between two looks at whether it is still there


class ChildFault(Exception):
    """What a child did wrong, with the end of its standard error; the child has been stopped."""


class Child:
    """A running program.

    Args:
        argv: the program and its arguments, no shell.

    Raises:
        OSError: it can't be started.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - what the user asked for
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},  # a line that stays in a buffer looks like a hang
        )
        self._in, self._out, self._err = (
            stream.fileno()
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr)
            if stream is not None
        )
        self._selector = selectors.DefaultSelector()
        for fd in (self._out, self._err):
            self._selector.register(fd, selectors.EVENT_READ)
        for fd in (self._in, self._out, self._err):
            os.set_blocking(fd, False)
        self._to_send = bytearray()
        self._received = bytearray()
        self._looked_at = 0  # bytes of `_received` that hold no end of a line
        self._tail = bytearray()
        self._said_all = False  # its standard output has ended

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def send(self, line: bytes) -> None:
        """Have a line written, when it is read; `line` without its end."""
        if not self._to_send:
            self._selector.register(self._in, selectors.EVENT_WRITE)
        self._to_send += line + b"\n"

    def line(self, timeout: float) -> bytes:
        """The next line of its standard output, without its end.

        Args:
            timeout: seconds to wait for it.

        Raises:
            ChildFault: it ended, is silent for too long, or its line is longer than MAX_LINE.
        """
        until = time.monotonic() + timeout
        while (found := self._take_line()) is None:
            if len(self._received) > MAX_LINE:
                raise self.fault(f"wrote a line of more than {MAX_LINE:,} bytes on standard output")
            left = until - time.monotonic()
            if left <= 0:
                raise self.fault(f"was silent for {timeout:g} seconds (does it flush what it writes?)")
            over = self._said_all or not self.alive  # asked first: all that it said is then in the pipe
            if not self._move(min(left, POLL)) and over:
                raise self.fault(self._ended())
        return found

    def fault(self, what: str) -> ChildFault:
        """Stop it; what it did as an exception to raise, with the end of its standard error."""
        self.stop()
        lines = [line for line in self._tail.decode("utf-8", "replace").splitlines() if line.strip()]
        said = "\n".join(lines[-SHOWN_LINES:])[-SHOWN:]
        return ChildFault(f"the program {what}" + (f"; the end of its standard error:\n{said}" if said else ""))

    def stop(self, grace: float = 0.0) -> None:
        """End it and all that it started: its standard input ends, and after `grace` seconds it is killed."""
        if self._process.stdin is None or self._process.stdin.closed:
            return
        self._selector.close()
        self._process.stdin.close()
        if grace:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
        with suppress(ProcessLookupError, PermissionError):  # nobody is left; macOS says so of zombies
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for _ in range(64):  # not for ever: one that left the group may go on writing
            if not self._read_tail():
                break
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _ended(self) -> str:
        """How it ended; one that only closed its standard output is given a moment to end."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.poll()
        if code is None:
            return "closed its standard output"
        return f"ended with exit code {code}" if code >= 0 else f"was ended by {_name(-code)}"

    def _take_line(self) -> bytes | None:
        at = self._received.find(b"\n", self._looked_at)
        if at < 0:
            self._looked_at = len(self._received)
            return None
        line = bytes(self._received[:at])
        del self._received[: at + 1]
        self._looked_at = 0
        return line

    def _move(self, wait: float) -> bool:
        """Move what can be moved through the pipes; whether anything came on standard output."""
        heard = False
        for key, _ in self._selector.select(wait):
            if key.fd == self._in:
                self._write()
            elif key.fd == self._out:
                heard = self._read_out()
            elif not self._read_tail():
                self._selector.unregister(self._err)
        return heard

    def _write(self) -> None:
        try:
            del self._to_send[: os.write(self._in, self._to_send[:CHUNK])]
        except BrokenPipeError:  # whoever doesn't read any more will not answer either: that is noticed
            self._to_send.clear()
        if not self._to_send:
            self._selector.unregister(self._in)

    def _read_out(self) -> bool:
        data = os.read(self._out, CHUNK)
        self._received += data
        if not data:
            self._said_all = True
            self._selector.unregister(self._out)
        return bool(data)

    def _read_tail(self) -> bool:
        """Take from standard error what is there; False when there is nothing more."""
        try:
            data = os.read(self._err, CHUNK)
        except BlockingIOError:
            return False
        self._tail += data
        del self._tail[:-TAIL]
        return bool(data)


def _name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
