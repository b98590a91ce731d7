"""What users do meanwhile: each is a reason to resize."""

from __future__ import annotations

from collections.abc import Callable

from tests.chaos.machines.strikes import Campaign

from swell.api.errors import ApiError
from swell.model.errors import UnknownNode
from swell.model.view import JobView

Change = Callable[[Campaign], None]


def submit(campaign: Campaign) -> None:
    campaign.work.submit_course()


def submit_short_ones(campaign: Campaign) -> None:
    """Others shrink for them, and grow again soon."""
    for _ in range(campaign.chance.randint(1, 3)):
        campaign.work.submit_short_course()


def ask_for_another_deadline(campaign: Campaign) -> None:
    if (view := _open_job(campaign)) is not None:
        with campaign.fleet.head.client() as client:
            client.promise(view.id, deadline=f"now+{campaign.chance.randint(30, 300)}s")


def cancel(campaign: Campaign) -> None:
    if (view := _open_job(campaign)) is not None:
        with campaign.fleet.head.client() as client:
            client.cancel(view.id)
        campaign.work.every[view.id].is_cancelled = True


def drain(campaign: Campaign) -> None:
    """A node that is there; the one that was drained before gets work again."""
    with campaign.fleet.head.client() as client:
        nodes = client.cluster().nodes
        for node in nodes:
            if node.leaving is not None:
                client.undrain_node(node.name)
        if nodes:
            client.drain_node(campaign.chance.choice(nodes).name)


def clear(campaign: Campaign) -> None:
    """All drained nodes get work again."""
    with campaign.fleet.head.client() as client:
        for node in client.cluster().nodes:
            if node.leaving is not None:
                client.undrain_node(node.name)


CHANGES: tuple[Change, ...] = (
    *(submit_short_ones,) * 5,
    submit,
    *(ask_for_another_deadline,) * 2,
    *(cancel,) * 2,
    drain,
    clear,
)


def change(campaign: Campaign) -> str:
    """One of them at random; what it was."""
    chosen = campaign.chance.choice(CHANGES)
    try:
        chosen(campaign)
    except (ApiError, UnknownNode) as error:
        return f"{chosen.__name__}, refused: {error}"  # what it was about has ended meanwhile
    return chosen.__name__


def _open_job(campaign: Campaign) -> JobView | None:
    """An elastic one."""
    known = campaign.work.every
    found = [
        view for view in campaign.fleet.head.views() if not view.phase.is_end and known[view.id].num_epochs
    ]
    return campaign.chance.choice(found) if found else None
