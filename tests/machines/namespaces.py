"""The machines of `swell.namespaces`, as tests have them."""

from swell.namespaces.first_process import NamespacesMissing
from swell.namespaces.network import HOME, INTERFACE, STATE, Network, why_not
from swell.namespaces.network import NamespacedMachine as Machine

__all__ = ["HOME", "INTERFACE", "STATE", "Machine", "NamespacesMissing", "Network", "why_not"]
