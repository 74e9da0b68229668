"""What cannot be made elastic safely, said with the line of the user's script."""

import os
import traceback

_OWN = os.path.dirname(os.path.abspath(__file__))


class Refused(Exception):
    """The script does something whose result would depend on who trains."""


def users_line():
    """`file:line` of the innermost frame that is neither ours nor of a library."""
    for frame in reversed(traceback.extract_stack()):
        path = os.path.abspath(frame.filename)
        if path.startswith(_OWN) or "/dist-packages/" in path or "/site-packages/" in path or "/lib/python" in path:
            continue
        if frame.filename.startswith("<"):
            continue
        return "%s:%d" % (frame.filename, frame.lineno)
    return "?"


def refuse(what):
    raise Refused("%s: %s" % (users_line(), what))
