"""Stores with one bug each in mail and due threads, like `planted` for claims and commits."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from tests.stores.planted import Around, Changed

from graphrt.errors import GraphrtError
from graphrt.stores.filters import DueFilter, MailFilter, ThreadFilter


class LettersStay(Changed):
    """Does not delete the messages that a commit takes."""

    killer = "mail.a_commit_takes_letters"

    def change(self, claim, commit):
        return commit._replace(taken=())


class TakenIdsForgotten(Around):
    """Stores a letter again whose id was already taken."""

    killer = "mail.an_id_is_kept_once"

    def post(self, thread, id, body):
        if self.inner.post(thread, id, body):
            return True
        if any(letter.id == id for letter in self.inner.query(MailFilter(thread=thread))):
            return False
        return self.inner.post(thread, f"{id} again", body)


class TakenBeforeTheCommit(Around):
    """Takes letters in a separate commit, which stays if the other one is refused."""

    killer = "mail.a_refused_commit_takes_nothing"

    def commit(self, claim, commit):
        if commit.taken:
            seq = self.inner.head(claim.thread).seq
            self.inner.commit(claim, type(commit)(seq, commit.at, taken=commit.taken))
        self.inner.commit(claim, commit)


class PostsAreLost(Changed):
    """Loses the letters of a commit to other threads."""

    killer = "posting.a_commit_posts_although_it_writes_nothing_else"

    def change(self, claim, commit):
        return commit._replace(posts=())


class PostedBeforeTheCommit(Around):
    """Posts letters in separate calls, which stay if the commit is refused."""

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
            self.inner.query(MailFilter(thread=thread))
        self.inner.commit(claim, commit)


class Lists(Around):
    """A store that changes the list of due threads."""

    def select(self, wanted, *, after, limit):
        if isinstance(wanted, DueFilter):
            return self.due(wanted, after=after, limit=limit)
        return super().select(wanted, after=after, limit=limit)


class HeldIsDue(Lists):
    """Lists threads of a live owner."""

    killer = "mail.what_is_running_is_due"

    def due(self, wanted, **page):
        held = [head for head in self.inner.query(ThreadFilter(status="running")) if head.owned]
        return [*self.inner.query(wanted, **page), *held]


class OldestIsDueFirst(Lists):
    """Lists due threads in the order of their creation, regardless of priority."""

    killer = "mail.threads_of_a_higher_priority_are_due_first"

    def due(self, wanted, **page):
        return sorted(self.inner.query(wanted, **page), key=lambda head: head.thread)


class FailedIsDue(Lists):
    """Lists failed threads with mail, which no worker may drive."""

    killer = "mail.mail_makes_a_thread_due"

    def due(self, wanted, **page):
        failed = self.inner.query(ThreadFilter(status="failed", has_mail=True))
        return [*failed, *self.inner.query(wanted, **page)]


class QueuedIsCompleted(Around):
    """Lists a completed thread by the status of its last commit, although the next run waits for it."""

    killer = "mail.inputs_that_wait_are_seen_in_listings"

    def select(self, wanted, *, after, limit):
        found = super().select(wanted, after=after, limit=limit)
        return [self.inner.head(head.thread) for head in found] if isinstance(wanted, ThreadFilter) else found


class PagesBeginAnew(Lists):
    killer = "mail.due_threads_are_filtered_and_paged"

    def due(self, wanted, *, after, limit):
        return self.inner.query(wanted, limit=limit)


class TimesForgotten(Lists):
    killer = "mail.time_makes_a_paused_thread_due"

    def due(self, wanted, **page):
        return self.inner.query(replace(wanted, now=0.0), **page)
