"""Stores with one bug each in mail and due threads, as `planted` has them for claims and commits."""

from __future__ import annotations

import contextlib

from tests.stores.planted import Around, Changed

from graphrt.errors import GraphrtError


class LettersStay(Changed):
    """Forgets to delete what a commit takes."""

    killer = "mail.a_commit_takes_letters"

    def change(self, claim, commit):
        return commit._replace(taken=())


class TakenIdsForgotten(Around):
    """Keeps a letter again whose id was taken."""

    killer = "mail.an_id_is_kept_once"

    def post(self, thread, id, body):
        if self.inner.post(thread, id, body):
            return True
        if any(letter.id == id for letter in self.inner.mail(thread)):
            return False
        return self.inner.post(thread, f"{id} again", body)


class TakenBeforeTheCommit(Around):
    """Takes letters in a commit of its own, which stays if the other one is refused."""

    killer = "mail.a_refused_commit_takes_nothing"

    def commit(self, claim, commit):
        if commit.taken:
            seq = self.inner.head(claim.thread).seq
            self.inner.commit(claim, type(commit)(seq, commit.at, taken=commit.taken))
        self.inner.commit(claim, commit)


class PostsAreLost(Changed):
    """Forgets the letters of a commit to other threads."""

    killer = "posting.a_commit_posts_although_it_writes_nothing_else"

    def change(self, claim, commit):
        return commit._replace(posts=())


class PostedBeforeTheCommit(Around):
    """Posts letters in calls of their own, which stay if the commit is refused."""

    killer = "posting.a_refused_commit_posts_nothing"

    def commit(self, claim, commit):
        for letter in commit.posts:
            with contextlib.suppress(GraphrtError):
                self.inner.post(*letter)
        self.inner.commit(claim, commit._replace(posts=()))


class UnknownThreadsRefuseTheCommit(Around):
    """Refuses a commit with a letter to a thread that does not exist."""

    killer = "posting.a_commit_posts_letters_to_other_threads"

    def commit(self, claim, commit):
        for thread, _, _ in commit.posts:
            self.inner.mail(thread)
        self.inner.commit(claim, commit)


class HeldIsDue(Around):
    """Lists threads that a living owner drives."""

    killer = "mail.what_is_running_is_due"

    def due(self, *, now, **rest):
        held = [head for head in self.inner.heads(status="running") if head.owned]
        return [*self.inner.due(now=now, **rest), *held]


class OldestIsDueFirst(Around):
    """Lists due threads in the order of their creation, whatever their priority."""

    killer = "mail.threads_of_a_higher_priority_are_due_first"

    def due(self, *, now, **rest):
        return sorted(self.inner.due(now=now, **rest), key=lambda head: head.thread)


class FailedIsDue(Around):
    """Lists failed threads with mail, which no worker may drive."""

    killer = "mail.mail_makes_a_thread_due"

    def due(self, *, now, **rest):
        failed = [head for head in self.inner.heads(status="failed") if self.inner.mailed([head.thread])]
        return [*failed, *self.inner.due(now=now, **rest)]


class QueuedIsCompleted(Around):
    """Lists a completed thread by the status of its last commit, although the next run waits for it."""

    killer = "mail.inputs_that_wait_are_seen_in_listings"

    def heads(self, **rest):
        return [self.inner.head(head.thread) for head in self.inner.heads(**rest)]


class PagesBeginAnew(Around):
    killer = "mail.due_threads_are_filtered_and_paged"

    def due(self, *, now, after=None, **rest):
        return self.inner.due(now=now, **rest)


class TimesForgotten(Around):
    killer = "mail.time_makes_a_paused_thread_due"

    def due(self, *, now, **rest):
        return self.inner.due(now=0.0, **rest)
