"""Stores with one bug each in live items, like `planted` for claims and commits."""

from __future__ import annotations

from tests.stores.planted import Around

from graphrt.stores.filters import FollowerFilter


class NobodyFollows(Around):
    """Does not notify drivers of followers."""

    killer = "live.a_follower_is_told_to_the_driver"

    def select(self, wanted, **page):
        return [] if isinstance(wanted, FollowerFilter) else super().select(wanted, **page)


class InterestForEver(Around):
    """Keeps the interest of followers that have left."""

    killer = "live.interest_ends_by_itself"

    def follow_live(self, threads, *, for_s):
        return self.inner.follow_live(threads, for_s=60.0)


class NewestBatchesFirst(Around):
    """Reads batches in the wrong order."""

    killer = "live.batches_are_read_in_order"

    def relayed(self, thread, *, after, limit):
        return self.inner.relayed(thread, after=after, limit=limit)[::-1]


class FollowersBeginAtTheOldest(Around):
    """Sends a new follower items from before it connected."""

    killer = "live.a_follower_begins_after_the_newest_batch"

    def follow_live(self, threads, *, for_s):
        return dict.fromkeys(self.inner.follow_live(threads, for_s=for_s), 0)


class NewsOfEntriesAlone(Around):
    """Misses batches."""

    killer = "live.news_is_found"

    def news(self, known):
        return self.inner.news({thread: (seq, 2**63 - 1) for thread, (seq, _) in known.items()})


class BatchesStay(Around):
    """Keeps batches that the driver has released."""

    killer = "live.batches_are_forgotten"

    def relay(self, batches):
        return self.inner.relay([one._replace(forget=0) for one in batches])


class PlacesInAnotherOrder(Around):
    """Returns the places of batches that were stored together in another order."""

    killer = "live.batches_of_several_threads_are_kept_together"

    def relay(self, batches):
        return self.inner.relay(batches)[::-1]
