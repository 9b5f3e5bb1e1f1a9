"""Stores with one bug each in the memory across threads, like `planted` for claims and commits."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from tests.stores.planted import Around, Changed

from graphrt.errors import GraphrtError
from graphrt.stores.filters import MemoryFilter, NamespaceFilter


class MemoryOfCommitsLost(Changed):
    """Loses the writes of a commit to the memory."""

    killer = "memory.a_commit_writes_to_the_memory"

    def change(self, claim, commit):
        return commit._replace(memory=())


class RememberedBeforeTheCommit(Around):
    """Writes to the memory in a separate call, which stays if the commit is refused."""

    killer = "memory.writers_of_one_item_do_not_stop_each_other"

    def commit(self, claim, commit):
        for write in commit.memory:
            with contextlib.suppress(GraphrtError):
                self.inner.write_memory([write._replace(body=write.body and write.key.encode())], at=commit.at)
        self.inner.commit(claim, commit._replace(memory=()))


class Lists(Around):
    """A store that changes the listed items of the memory."""

    def select(self, wanted, *, after, limit):
        if isinstance(wanted, MemoryFilter | NamespaceFilter):
            return self.listed(wanted, after=after, limit=limit)
        return super().select(wanted, after=after, limit=limit)


class ExpiredIsListed(Lists):
    killer = "memory.an_expired_item_is_not_listed"

    def listed(self, wanted, **page):
        return self.inner.query(replace(wanted, now=0.0), **page)


class NamespacesByTheirBeginning(Lists):
    """Takes `a-b` and `ab` for parts of `a`."""

    killer = "memory.a_namespace_contains_those_below_it"

    def listed(self, wanted, **page):
        found = self.inner.query(replace(wanted, namespace=""), **page)
        return [row for row in found if getattr(row, "namespace", row).startswith(wanted.namespace)]


class EachWordWeighsTheSame(Lists):
    killer = "memory.items_are_found_by_their_words"

    def listed(self, wanted, **page):
        found = self.inner.query(wanted, **page)
        return [row._replace(score=0.5) if getattr(row, "score", 1.0) < 1 else row for row in found]


class RanksByWordsAlone(Lists):
    killer = "memory.items_are_found_by_their_meaning"

    def listed(self, wanted, **page):
        return self.inner.query(replace(wanted, vector=None) if wanted.words else wanted, **page)


class KeepsTheVectorOfBefore(Around):
    """Leaves the vector of an item unchanged when the item is overwritten."""

    killer = "memory.vectors_of_another_length_are_refused"

    def write_memory(self, writes, *, at):
        known = {(item.namespace, item.key): item.vector for item in self.inner.query(MemoryFilter(now=0.0))}
        kept = [write._replace(vector=known.get((write.namespace, write.key), write.vector)) for write in writes]
        self.inner.write_memory(kept, at=at)


class PurgesWhatLives(Around):
    killer = "memory.expired_items_are_purged"

    def purge_memory(self, *, expired_by, namespace=""):
        return self.inner.purge_memory(expired_by=expired_by + 10, namespace=namespace)
