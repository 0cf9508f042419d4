"""All pages in one thing, for the application to route to."""

from __future__ import annotations

from ptkstore.console.pages.catalog import Catalog
from ptkstore.console.pages.deliveries import Deliveries
from ptkstore.console.pages.lookups import LookUp
from ptkstore.console.pages.officers import Officers
from ptkstore.console.pages.oversight.access import AccessPage
from ptkstore.console.pages.oversight.trail import TrailPage
from ptkstore.console.pages.overview import OverviewPage
from ptkstore.console.pages.ptks import PtkPage
from ptkstore.console.pages.queues import Queues
from ptkstore.console.pages.streams.page import StreamPage


class Pages(
    OverviewPage, StreamPage, Queues, Catalog, PtkPage, LookUp, Deliveries, Officers, AccessPage, TrailPage
):
    """The contents of every page, for one principal."""
