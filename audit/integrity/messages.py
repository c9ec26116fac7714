"""Problems that a verification of the audit log finds: a subject, a code and parameters.

`verifycalls` and the log print them in English, pages show them in the language of the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from django.utils.translation import gettext, gettext_noop

from audit.models import Verification
from audit.types import Reason

PREFIX: Final = "log."
"""Prefix of the codes in reasons."""
_SENTENCES: Final = {
    "deleted_before": gettext_noop("missing: deleted before %s"),
    "entry_changed": gettext_noop("its hash chain entry, or an earlier one, was changed, replaced or moved"),
    "entry_renumbered": gettext_noop("its hash chain entry was renumbered"),
    "unknown_type": gettext_noop("has an unknown type: %s"),
    "call_deleted": gettext_noop("the call was deleted"),
    "body_state": gettext_noop("body_state was changed to %s"),
    "bodies_removed": gettext_noop("arguments and result were removed, but not by a logged prune"),
    "start_moved": gettext_noop("link was changed: a different call, or none, points to this start entry"),
    "writer_changed": gettext_noop("writer was changed: its hash chain belongs to a different one"),
    "not_authentic": gettext_noop(
        "added outside the log: it has no valid keyed digest. If TOOLHUB_RECORD_KEY changed, list the earlier key in "
        "TOOLHUB_RECORD_OLD_KEYS"
    ),
    "older_than_checkpoint": gettext_noop("added outside the log: it is older than %s, which does not cover it"),
    "end_moved": gettext_noop("end_link was changed: the call points to a different end entry, or to none"),
    "start_edited": gettext_noop("its start was edited after it was logged"),
    "end_before_end": gettext_noop("its end was edited before the call ended"),
    "end_edited": gettext_noop("its end was edited after it was logged"),
    "edited": gettext_noop("edited after it was logged"),
    "change_deleted": gettext_noop("the change was deleted"),
    "link_changed": gettext_noop("link was changed"),
    "writer_deleted": gettext_noop("its writer was deleted"),
    "writer_edited": gettext_noop("its writer was edited"),
    "call_added": gettext_noop("Added outside the log: the hash chain has no entry for this call"),
    "change_added": gettext_noop("Added outside the log: the hash chain has no entry for this change"),
    "end_not_logged": gettext_noop("its status was never logged: the hash chain has no entry for its end"),
    "status_edited": gettext_noop("its status was edited: the hash chain has an entry for its end"),
    "odd_id": gettext_noop("Added outside the log: no entry has an id like this"),
    "chain_deleted": gettext_noop("missing: the hash chain of this writer was deleted from its start"),
    "coverage_edited": gettext_noop("covered or sealed of its writer was edited: no checkpoint says the same"),
    "checkpoint_of_entry_deleted": gettext_noop("the checkpoint that covered it was deleted"),
    "checkpoint_deleted": gettext_noop("missing: deleted"),
    "checkpoint_order": gettext_noop("does not follow the previous checkpoint"),
    "checkpoint_changed": gettext_noop("was changed"),
    "checkpoint_key": gettext_noop("is signed with key %s, which is not among the trusted keys: %s"),
    "checkpoint_old_key": gettext_noop("is signed with the earlier key %s, although a newer key was in use"),
    "checkpoint_signature": gettext_noop("its signature is not valid"),
    "checkpoint_outside_only": gettext_noop("missing: only the external checkpoint has it, not the database"),
    "checkpoint_differs": gettext_noop("differs from the external checkpoint"),
    "newest_deleted": gettext_noop("missing: the newest entries were deleted, but %s names it"),
    "unreadable": gettext_noop("a row was changed, and cannot be read: %s"),
    "hash_differs": gettext_noop("does not match the hash in %s"),
    "file_unreadable": gettext_noop("is not a case file that can be read: %s"),
    "file_names": gettext_noop("the archive has too many files, or two with one name"),
    "file_missing": gettext_noop("missing from the archive"),
    "file_added": gettext_noop("was added: the manifest does not name it"),
    "file_changed": gettext_noop("was changed after the case file was made"),
    "file_signature": gettext_noop("was changed: its signature is not valid"),
    "archive_changed": gettext_noop("the bytes around the files were changed after the case file was made"),
    "line_unreadable": gettext_noop("line %s cannot be read"),
    "not_covered": gettext_noop("no checkpoint covers it: it was added outside the log, or its checkpoint was deleted"),
    "part_differs": gettext_noop("this part of the hash chain does not lead to checkpoint %s"),
}
"""Sentence of each code; each %s takes the next parameter."""
CODES: Final = frozenset(_SENTENCES)
_SUBJECTS: Final = {
    "call": gettext_noop("call %s"),
    "action": gettext_noop("change %s"),
    "checkpoint": gettext_noop("checkpoint %s"),
    "outside": gettext_noop("external checkpoint %s"),
    "link": gettext_noop("hash chain entry %s"),
    "log": gettext_noop("audit log"),
    "file": gettext_noop("file %s"),
}
"""Subjects as pages name them."""
_ENGLISH_SUBJECTS: Final = {
    "call": "call %s",
    "action": "action %s",
    "checkpoint": "checkpoint %s",
    "outside": "external checkpoint %s",
    "link": "link %s",
    "log": "audit log",
    "file": "file %s",
}
"""Subjects as `verifycalls` names them."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A call, a change (`action`), a checkpoint, an external one (`outside`), an entry (`link`), or the whole `log`."""

    kind: str
    name: str
    """Id, number of a checkpoint, or writer:sequence."""
    entry: str = ""
    """Hash chain entry that revealed the problem of a call or a change: writer:sequence."""
    entry_kind: str = ""
    upto: str = ""
    """Last sequence of a range of entries; empty for one entry."""

    def __str__(self) -> str:
        return _subject(self, _ENGLISH_SUBJECTS, str)


Param = str | Subject


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem without its subject."""

    code: str
    """One of CODES."""
    params: Mapping[str, Param] = field(default_factory=dict, hash=False)
    """Parameters in the order of the sentence."""

    def format_english(self) -> str:
        return _SENTENCES[self.code] % tuple(map(str, self.params.values()))

    def translate(self) -> str:
        """Return the sentence in the language of the page."""
        texts = (translate_subject(one) if isinstance(one, Subject) else one for one in self.params.values())
        return gettext(_SENTENCES[self.code]) % tuple(texts)


@dataclass(frozen=True, slots=True)
class Problem:
    """A subject and its problem."""

    subject: Subject
    finding: Finding

    def __str__(self) -> str:
        return f"{self.subject}: {self.finding.format_english()}"

    @property
    def reason(self) -> Reason:
        """Reason that the log stores with the sentence; it holds subjects as JSON objects."""
        named = {
            name: asdict(value) if isinstance(value, Subject) else value for name, value in self.finding.params.items()
        }
        # A list keeps the order, which sorted JSON objects do not.
        return Reason(PREFIX + self.finding.code, {"subject": asdict(self.subject), "found": list(named.items())})

    @classmethod
    def from_reason(cls, reason: Reason | None) -> Problem | None:
        """Return the problem of a stored reason; None for any other reason or an edited one."""
        if reason is None or reason.code.removeprefix(PREFIX) not in CODES:
            return None
        try:
            found = {
                str(name): Subject(**value) if isinstance(value, dict) else str(value)
                for name, value in reason.params["found"]
            }
            problem = cls(Subject(**reason.params["subject"]), Finding(reason.code.removeprefix(PREFIX), found))
            translate(problem)
        except (KeyError, TypeError, ValueError):
            return None
        return problem


def problem(kind: str, name: object, code: str, **params: Param) -> Problem:
    return Problem(Subject(kind, str(name)), Finding(code, params))


def translate(problem: Problem) -> str:
    """Return the sentence in the language of the page."""
    texts = {"record": translate_subject(problem.subject), "found": problem.finding.translate()}
    return gettext(gettext_noop("%(record)s: %(found)s")) % texts


def translate_subject(subject: Subject) -> str:
    return _subject(subject, _SUBJECTS, gettext)


def problem_of(verification: Verification) -> Problem | None:
    """Return the first problem that a verification found."""
    return Problem.from_reason(Reason.read(verification.problem_reason))


def sentence_of(verification: Verification) -> str:
    """Return the first problem of a verification in the language of the page; empty when nothing was found."""
    found = problem_of(verification)
    return verification.problem if found is None else translate(found)


def _subject(subject: Subject, names: Mapping[str, str], to_text: Callable[[str], str]) -> str:
    text = to_text(names[subject.kind])
    if subject.name:
        text %= subject.name
    if subject.entry:
        text += f" (link {subject.entry}, {subject.entry_kind})"
    return to_text(gettext_noop("%s to %s")) % (text, subject.upto) if subject.upto else text
