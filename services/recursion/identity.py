"""Who may ask what: a Turn's calls carry its token, and nobody below the Root starts children."""

from __future__ import annotations

from services.common.errors import FleetError
from services.common.request_context import Principal
from services.recursion.budget.ledger import CHILD_DEPTH, Ledger, not_found

SESSION_SERVICE = "service:session"
"""The subject of the session service's own tokens."""


def check_opener(caller: Principal) -> None:
    """Let only a service that acts for itself open a ledger, never the bearer of a Turn's token.

    Raises:
        FleetError: PERMISSION_DENIED.
    """
    if caller.turn is not None or caller.depth != 0:
        raise _denied("A Turn's own token can't do this; it needs a service's token.")


def check_turn(caller: Principal, turn: str) -> None:
    """Let only the bearer of this Turn's token ask.

    Raises:
        FleetError: PERMISSION_DENIED.
    """
    if caller.turn != turn:
        raise _denied("The call needs the token of the Turn that it is about.")


def check_root(caller: Principal, turn: str) -> None:
    """Let only the Turn's Root ask, not one of its children.

    Raises:
        FleetError: PERMISSION_DENIED.
    """
    check_turn(caller, turn)
    if caller.depth != 0:
        raise _denied("A child's token can't do this.")


def check_aborter(caller: Principal, turn: str) -> None:
    """Let the Turn's Root ask, or a service that took the Session over and has no token of the Turn.

    Raises:
        FleetError: PERMISSION_DENIED.
    """
    if caller.turn is None:
        check_opener(caller)
    else:
        check_root(caller, turn)


def check_depth(caller: Principal, turn: str) -> None:
    """Let only a Root start children: depth comes first, whoever asks.

    Raises:
        FleetError: DEPTH_LIMIT or PERMISSION_DENIED.
    """
    if caller.depth >= CHILD_DEPTH:
        message = "Children are one level deep: a child can't start children."
        raise FleetError("DEPTH_LIMIT", message, {"depth": str(caller.depth), "limit": str(CHILD_DEPTH)})
    check_turn(caller, turn)


def check_workspace(caller: Principal, ledger: Ledger) -> Ledger:
    """Hide another workspace's ledger.

    Raises:
        FleetError: LEDGER_NOT_FOUND.
    """
    if caller.workspace != ledger.workspace:
        raise not_found(ledger.turn)
    return ledger


def _denied(message: str) -> FleetError:
    return FleetError("PERMISSION_DENIED", message)
