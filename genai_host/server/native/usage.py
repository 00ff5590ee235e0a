"""What calls of models came to, and what may be spent on them: users see what is theirs."""

from __future__ import annotations

from datetime import timezone

from genai_host.api import RouteReply, RouteRequest, json_reply
from genai_host.errors import Forbidden
from genai_host.host import Host
from genai_host.rows.usage import budget_row, day_in, groups_in, usage_row


def stats(request: RouteRequest, host: Host) -> RouteReply:
    """`by` names what rows are told apart by, with commas between; `since` and `until` are days,
    or as `7d`; `user` one of the users, for whoever runs the server."""
    asked, now = request.query, host.clock.now().astimezone(timezone.utc)
    rows = host.kept().usage(
        by=groups_in(asked.get("by", "")),
        since=day_in(asked.get("since", ""), now, "?since"),
        until=day_in(asked.get("until", ""), now, "?until"),
        user=_user_in(request),
    )
    return json_reply({"data": [usage_row(row) for row in rows]})


def budgets(request: RouteRequest, host: Host) -> RouteReply:
    if not host.config.budgets.are_kept:
        return json_reply({"data": []})
    found = host.budgets.state(request.user) if request.user else host.budgets.states()
    return json_reply({"data": [budget_row(budget) for budget in found]})


def _user_in(request: RouteRequest) -> str | None:
    """Whose: that of whoever has no name may be anybody's."""
    wanted = request.query.get("user")
    if not request.user:
        return wanted
    if wanted not in (None, request.user):
        raise Forbidden("what others use is theirs to see", hint="leave out user")
    return request.user
