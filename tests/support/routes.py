"""What each route of the HTTP API answers to whom."""

from __future__ import annotations

from ptkstore.domain.identity import Role

P, D, C, O, G, A = Role  # noqa: E741 - an officer


ALL = {P, D, C, O, A}


STORE, ANY = "store", "any"


OWN = "own"  # on a stream, and only by the team it belongs to or an administrator


# Who may do what, written a second time: (roles, reach).
EXPECTED: dict[tuple[str, str], tuple[set[Role], str]] = {
    ("GET", "/v1/identity"): ({*ALL, G}, ANY),
    ("POST", "/v1/device-streams/{stream}/tickets"): ({G}, ""),
    ("POST", "/v1/teams"): ({A}, STORE),
    ("GET", "/v1/teams"): ({A}, STORE),
    ("POST", "/v1/tokens"): ({A}, STORE),
    ("GET", "/v1/tokens"): ({A}, STORE),
    ("POST", "/v1/tokens/{token_id}/rotate"): ({A}, STORE),
    ("DELETE", "/v1/tokens/{token_id}"): ({A}, STORE),
    ("POST", "/v1/grants"): ({A}, STORE),
    ("GET", "/v1/grants"): ({A}, STORE),
    ("DELETE", "/v1/grants"): ({A}, STORE),
    ("GET", "/v1/audit-log"): ({O, A}, STORE),
    ("POST", "/v1/streams"): ({A}, STORE),
    ("GET", "/v1/overview"): (ALL, ANY),
    ("GET", "/v1/streams"): (ALL, ANY),
    ("GET", "/v1/streams/{stream}"): (ALL, ""),
    ("PATCH", "/v1/streams/{stream}"): ({A}, ""),
    ("POST", "/v1/streams/{stream}/ingest"): ({P}, ""),
    ("POST", "/v1/streams/{stream}/close"): ({P, A}, ""),
    ("POST", "/v1/streams/{stream}/forget"): ({P, O}, ""),
    ("GET", "/v1/streams/{stream}/queue"): ({D, O, A}, ""),
    ("GET", "/v1/streams/{stream}/queue/ended"): ({D, O, A}, ""),
    ("GET", "/v1/streams/{stream}/simulation"): ({D, O, A}, ""),
    ("GET", "/v1/streams/{stream}/exposure"): ({P, O, A}, ""),
    ("GET", "/v1/streams/{stream}/windows"): ({P, O, A}, ""),
    ("GET", "/v1/streams/{stream}/recommendation"): ({D, O, A}, ""),
    ("GET", "/v1/streams/{stream}/budget"): ({D, O, A}, ""),
    ("GET", "/v1/streams/{stream}/room"): ({D, O, A}, ""),
    ("GET", "/v1/streams/{stream}/odometers"): ({D, O, A}, ""),
    ("GET", "/v1/streams/{stream}/ledger/verification"): ({O, A}, ""),
    ("GET", "/v1/streams/{stream}/ledger/report"): ({O}, ""),
    ("GET", "/v1/ledger/key"): (ALL, ANY),
    ("GET", "/v1/ledger/person"): ({O}, ""),
    ("PUT", "/v1/bundles/{sha256}"): ({D}, ANY),
    ("POST", "/v1/streams/{stream}/admission"): ({D}, ""),
    ("POST", "/v1/streams/{stream}/exchange"): ({D}, ""),
    ("POST", "/v1/ptks"): ({D}, ""),
    ("GET", "/v1/ptks"): (ALL, ANY),
    ("GET", "/v1/ptks/{ptk_id}"): (ALL, ""),
    ("GET", "/v1/ptks/{ptk_id}/profile"): ({D, O, A}, OWN),
    ("GET", "/v1/ptks/{ptk_id}/trainings"): (ALL, OWN),
    ("PATCH", "/v1/ptks/{ptk_id}"): ({D}, OWN),
    ("DELETE", "/v1/ptks/{ptk_id}"): ({D, A}, OWN),
    ("POST", "/v1/ptks/{ptk_id}/resume"): ({D, A}, OWN),
    ("POST", "/v1/ptks/{ptk_id}/notify"): ({D}, OWN),
    ("POST", "/v1/ptks/{ptk_id}/rollback"): ({D}, OWN),
    ("POST", "/v1/ptks/{ptk_id}/materialize"): ({D, A}, OWN),
    ("GET", "/v1/ptks/{ptk_id}/versions"): ({D, C, O}, ""),
    ("GET", "/v1/ptks/{ptk_id}/evaluations"): ({D, C, O}, ""),
    ("GET", "/v1/ptks/{ptk_id}/validations"): ({D, C, O}, ""),
    ("GET", "/v1/ptks/{ptk_id}/versions/{number}/manifest"): ({D, C, O}, ""),
    ("GET", "/v1/ptks/{ptk_id}/versions/{number}/files/{name}"): ({D, C, O}, ""),
    ("GET", "/v1/streams/{stream}/windows/{window}/versions"): ({D, C, O, A}, ""),
    ("GET", "/v1/ptks/{ptk_id}/events"): ({D, C}, ""),
    ("POST", "/v1/lookups"): ({D, C}, ""),
    ("POST", "/v1/subscriptions"): ({D, C}, ""),
    ("GET", "/v1/subscriptions"): ({D, C, A}, ANY),
    ("GET", "/v1/subscriptions/{subscription_id}/deliveries"): ({D, C, A}, OWN),
    ("GET", "/v1/subscriptions/{subscription_id}/attempts"): ({D, C, A}, OWN),
    ("POST", "/v1/subscriptions/{subscription_id}/rotate"): ({D, C, A}, OWN),
    ("POST", "/v1/subscriptions/{subscription_id}/redeliver"): ({D, C, A}, OWN),
    ("POST", "/v1/subscriptions/{subscription_id}/test"): ({D, C, A}, OWN),
    ("POST", "/v1/subscriptions/{subscription_id}/disable"): ({D, C, A}, OWN),
    ("POST", "/v1/subscriptions/{subscription_id}/enable"): ({D, C, A}, OWN),
    ("DELETE", "/v1/subscriptions/{subscription_id}"): ({D, C, A}, OWN),
    ("GET", "/v1/notices"): (ALL, ANY),
}
