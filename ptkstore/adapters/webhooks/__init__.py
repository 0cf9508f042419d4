"""Webhooks as Standard Webhooks describe them: signed, thin, sent only to addresses that policy allows."""

from ptkstore.adapters.webhooks.courier import HttpCourier
from ptkstore.adapters.webhooks.manifests import ApiManifests
from ptkstore.adapters.webhooks.messenger import HttpMessenger
from ptkstore.adapters.webhooks.receiver import WebhookReceiver
from ptkstore.adapters.webhooks.signing import new_secret

__all__ = ["ApiManifests", "HttpCourier", "HttpMessenger", "WebhookReceiver", "new_secret"]
