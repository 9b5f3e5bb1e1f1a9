"""Stores with one bug each in reads or removals, like `planted` for claims and commits."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from tests.stores.planted import Around

from graphrt.stores.filters import ThreadFilter


class Loads(Around):
    """A store that changes loaded records."""

    def load(self, thread, *, upto=None, after=0):
        return self.seen(self.inner.load(thread, upto=upto, after=after), thread, upto)


class NewestSnapshotAlways(Loads):
    killer = "parts.the_snapshot_is_not_after_the_moment"

    def seen(self, loaded, thread, upto):
        return loaded._replace(snapshot=self.inner.load(thread).snapshot)


class CutRecordDropped(Loads):
    killer = "records.loaded_upto_is_cut"

    def seen(self, loaded, thread, upto):
        return loaded._replace(records=[each for each in loaded.records if upto is None or each.seq <= upto])


class SnapshotBeforeAfter(Loads):
    killer = "records.loaded_after_an_entry"

    def load(self, thread, *, upto=None, after=0):
        return self.inner.load(thread, upto=upto)


class StagedByKey(Loads):
    killer = "parts.staged_bodies_are_in_order"

    def seen(self, loaded, thread, upto):
        return loaded._replace(staged=sorted(loaded.staged))


class StagedAlways(Loads):
    killer = "parts.staged_bodies_are_not_of_older_moments"

    def seen(self, loaded, thread, upto):
        return loaded._replace(staged=self.inner.load(thread).staged)


class AllRecordsLoaded(Loads):
    killer = "records.loaded_records_follow_the_snapshot"

    def seen(self, loaded, thread, upto):
        return loaded._replace(records=list(self.inner.records(thread, upto=upto)))


class AfterIsOneOff(Around):
    killer = "records.records_after_a_number"

    def records(self, thread, *, after=0, upto=None):
        return self.inner.records(thread, after=after + 1 if after else 0, upto=upto)


class UptoIsExclusive(Around):
    killer = "records.records_upto_a_number"

    def records(self, thread, *, after=0, upto=None):
        return self.inner.records(thread, after=after, upto=None if upto is None else upto - 1)


class OnePageOnly(Around):
    killer = "records.pages_do_not_cut_short"

    def records(self, thread, *, after=0, upto=None):
        return iter(list(self.inner.records(thread, after=after, upto=upto))[:256])


class PageBoundaryTwice(Around):
    killer = "records.one_commit_may_hold_many_records"

    def records(self, thread, *, after=0, upto=None):
        found = list(self.inner.records(thread, after=after, upto=upto))
        return iter([*found[:256], *found[255:]])


class Heads(Around):
    """A store that changes listed threads."""

    def select(self, wanted, **page):
        if isinstance(wanted, ThreadFilter):
            return self.listed(wanted, **page)
        return super().select(wanted, **page)


class HeadsById(Heads):
    killer = "listing.heads_are_in_order_of_making"

    def listed(self, wanted, **page):
        return sorted(self.inner.query(wanted, **page))


class HeadsByTime(Heads):
    killer = "listing.work_does_not_change_the_order"

    def listed(self, wanted, **page):
        return sorted(self.inner.query(wanted, **page), key=lambda head: head.updated_at)


class PrefixIsLike(Heads):
    killer = "listing.a_prefix_is_no_pattern"

    def listed(self, wanted, **page):
        pattern = re.escape(wanted.prefix or "").replace("_", ".").replace("%", ".*")
        found = self.inner.query(replace(wanted, prefix=None), **page)
        return [head for head in found if re.match(pattern, head.thread, re.IGNORECASE)]


class AfterIncluded(Heads):
    killer = "listing.heads_after_a_thread"

    def listed(self, wanted, *, after, limit):
        first = [] if after is None else [self.inner.head(after)]
        return first + self.inner.query(wanted, after=after, limit=limit)


class BeforeIncluded(Heads):
    killer = "listing.heads_updated_before"

    def listed(self, wanted, **page):
        before = wanted.updated_before
        later = None if before is None else math.nextafter(before, math.inf)
        return self.inner.query(replace(wanted, updated_before=later), **page)


class LimitBeforeFilter(Heads):
    killer = "listing.a_limit_counts_matches"

    def listed(self, wanted, **page):
        found = self.inner.query(replace(wanted, status=None), **page)
        return [head for head in found if wanted.status in {None, head.status}]


class BlobsReplaced(Around):
    killer = "parts.a_blob_that_is_there_stays"

    def commit(self, claim, commit):
        self.inner.commit(claim, commit)
        self.__dict__.setdefault("seen", {}).setdefault(claim.thread, {}).update(commit.blobs)

    def blobs(self, thread, names):
        seen = self.__dict__.get("seen", {}).get(thread, {})
        return {name: seen.get(name, body) for name, body in self.inner.blobs(thread, names).items()}


class BlobsShared(Around):
    killer = "parts.blobs_are_of_their_thread"

    def blobs(self, thread, names):
        wanted = list(names)
        found: dict[str, bytes] = {}
        for head in self.inner.query(ThreadFilter()):
            found = self.inner.blobs(head.thread, wanted) | found
        return found


class DeleteLeavesBlobs(Around):
    killer = "whole.delete_forgets_everything"

    def delete(self, thread):
        blobs = self.inner.blobs(thread, "abcxyz")
        self.inner.delete(thread)
        self.__dict__.setdefault("left", {})[thread] = blobs

    def blobs(self, thread, names):
        wanted = list(names)
        left = self.__dict__.get("left", {}).get(thread, {})
        return {name: left[name] for name in wanted if name in left} | self.inner.blobs(thread, wanted)


class DeleteTakesThePrefix(Around):
    killer = "whole.delete_leaves_other_threads"

    def delete(self, thread):
        for head in self.inner.query(ThreadFilter(prefix=thread)):
            self.inner.delete(head.thread)


class PrunesTooFar(Around):
    killer = "whole.prune_forgets_old_records"

    def prune(self, claim, upto, **rest):
        self.beyond = upto + 1
        return self.inner.prune(claim, upto, **rest)

    def records(self, thread, *, after=0, upto=None):
        return self.inner.records(thread, after=max(after, self.__dict__.get("beyond", 0)), upto=upto)


class PruneForgetsAllBlobs(Around):
    killer = "whole.prune_keeps_named_blobs"

    def prune(self, claim, upto, *, keep_blobs=None):
        return self.inner.prune(claim, upto, keep_blobs=keep_blobs or ())


class ReleaseIgnoresEpoch(Around):
    killer = "claims.an_older_epoch_cannot_release"

    def release(self, claim):
        self.inner.release(self.newest.get(claim.thread, claim))


class EmptyThreadsStay(Around):
    killer = "claims.a_thread_without_entries_vanishes"

    def release(self, claim):
        if self.inner.head(claim.thread).seq:
            self.inner.release(claim)


class CloseKeepsClaims(Around):
    killer = "leases.close_frees_at_once"

    def close(self):
        pass


class CaseFolded(Around):
    killer = "life.ids_are_case_sensitive"

    def claim(self, thread, **rest):
        return super().claim(thread.lower() if isinstance(thread, str) else thread, **rest)

    def head(self, thread):
        return self.inner.head(thread.lower())


class EpochStandsStill(Around):
    killer = "claims.each_claim_has_the_next_epoch"

    def claim(self, thread, **rest):
        claim = super().claim(thread, **rest)
        claim.epoch = 1
        return claim
