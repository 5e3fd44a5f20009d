"""Where servers listen, and the rule that nothing but this machine may reach a server without tokens."""

import socket

from models.address import Address
from models.errors import UsageError


def require_tokens_beyond_loopback(address: Address, *, tokens: bool) -> None:
    """Refuse to open an address that others can reach while anyone could use it."""
    if not address.loopback and not tokens:
        raise UsageError(
            f"{address} can be reached from other machines, and no token is set",
            next_step="make one with `tachograph token create --scope ingest`, or listen on 127.0.0.1",
        )


def bind(address: Address) -> socket.socket:
    """A listening socket, or a clear word on who has the port."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address.host, address.port))
    except OSError as problem:
        listener.close()
        raise in_use(address, problem) from None
    listener.listen(2048)
    return listener


def in_use(address: Address, problem: Exception) -> UsageError:
    """The error for an address that cannot be opened."""
    return UsageError(
        f"cannot listen on {address}: {problem}", next_step="choose another address, or stop what is using it"
    )
