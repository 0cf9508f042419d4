"""The public addresses: a stricter table than the registry's, for calls whose target a stranger names."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Final

from ssrfguard import DEFAULT_DENIED, AddressTable, Block, Reach

_ISATAP: Final = frozenset({0x0000_5EFE, 0x0200_5EFE})  # RFC 5214: the upper half of the interface identifier


def _refused(network: str, name: str) -> Block:
    return Block(ip_network(network), name, "policy", Reach.DENIED)


NOWHERE: Final = AddressTable(  # denies all that no allowed network permits
    (_refused("0.0.0.0/0", "No allowed network"), _refused("::/0", "No allowed network"))
)

PUBLIC: Final = AddressTable(
    (
        # Blocks that the registry calls reachable are anycast services of the nearest router, sinks and identifiers.
        *(
            replace(block, reach=Reach.DENIED) if block.reach is Reach.PERMITTED else block
            for block in DEFAULT_DENIED.blocks
        ),
        # Of IPv6 only what IANA allocates as global unicast is public: RFC 4291, section 2.4, as amended. What lies
        # outside and leads to IPv4 all the same, ::ffff:0:0:0/96 (RFC 2765) among it, is refused with the rest.
        _refused("::/0", "Outside of global unicast"),
        Block(ip_network("2000::/3"), "Global unicast", "RFC 4291", Reach.PERMITTED),
        # Azure serves every virtual machine its platform (DNS, health, agent) at this address of a public range.
        _refused("168.63.129.16/32", "Azure's platform"),
    )
)


def isatap_target(address: IPv4Address | IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address inside an ISATAP address, whose prefix may be any; None for all other addresses."""
    if not isinstance(address, IPv6Address) or (int(address) >> 32) & 0xFFFF_FFFF not in _ISATAP:
        return None
    return IPv4Address(int(address) & 0xFFFF_FFFF)
