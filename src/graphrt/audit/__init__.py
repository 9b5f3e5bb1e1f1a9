"""Audit logs: the journal of a thread, authenticated with a key, mirrored to a file, and provable without graphrt.

See `docs/how-to/audit.md`. `import graphrt` does not import it.
"""

from __future__ import annotations

from graphrt._secret import Secret
from graphrt._sensitive_texts import TextPattern
from graphrt.audit._export import export, head
from graphrt.audit._heads import Anchor, heads_in
from graphrt.audit._keys import generate_key
from graphrt.audit._log import AuditLog
from graphrt.audit._redaction import Redaction
from graphrt.audit._reexecution import Reexecution, UnansweredCall
from graphrt.audit._report import report
from graphrt.audit._restore import reexecute, restore
from graphrt.audit.offline import Finding, Report, TreeHead, Verdict, check_consistency, check_inclusion, verify
from graphrt.audit.proofs import consistency_proof, inclusion_proof

__all__ = [
    "Anchor",
    "AuditLog",
    "Finding",
    "Redaction",
    "Reexecution",
    "Report",
    "Secret",
    "TextPattern",
    "TreeHead",
    "UnansweredCall",
    "Verdict",
    "check_consistency",
    "check_inclusion",
    "consistency_proof",
    "export",
    "generate_key",
    "head",
    "heads_in",
    "inclusion_proof",
    "reexecute",
    "report",
    "restore",
    "verify",
]
