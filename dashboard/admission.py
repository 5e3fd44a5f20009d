"""Who may look: anyone on this machine, unless tokens are in use or other machines can reach the dashboard."""

import streamlit as st

from collector.home import Home
from collector.tokens import Scope, TokenStore
from models.address import Address
from models.errors import NotAuthorised, TachographError

KEPT = "token"


def admitted(home: Home, address: str | None) -> bool:
    """Whether the visitor may see the pages; else asks for a token. A revoked token lets nobody in again."""
    tokens = TokenStore(home.tokens)
    local = address is not None and Address(address, 0).loopback
    if local and not tokens.configured():
        return True
    given = st.session_state.get(KEPT)
    if given and _is_good(tokens, given):
        return True
    _ask(tokens, refused=bool(given))
    return False


def _is_good(tokens: TokenStore, text: str) -> bool:
    try:
        tokens.check(f"Bearer {text}", Scope.READ)
    except (NotAuthorised, TachographError):
        return False
    return True


def _ask(tokens: TokenStore, *, refused: bool) -> None:
    st.title("Tachograph", anchor=False)
    if not tokens.configured():
        st.warning("Other machines can reach this dashboard, so it needs a token, and none exists yet. Make one:")
        st.code("tachograph token create --scope read", language="bash")
    with st.form("admission", width=480):
        given = st.text_input("Token with the scope read", type="password", autocomplete="current-password")
        if st.form_submit_button("Open", type="primary"):
            st.session_state[KEPT] = (given or "").strip()
            st.rerun()
    if refused:
        st.error("This token is not valid, has ended, or lacks the scope read.")
