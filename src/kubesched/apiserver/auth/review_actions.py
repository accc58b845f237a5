"""Reviews behind the contract of actions.

Owns nothing but the fitting together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kubesched.apiserver.auth.reviews import Reviews
from kubesched.apiserver.documents import Document
from kubesched.apiserver.resources import Action, Writer
from kubesched.apiserver.strategy import Request

_KINDS = {
    "tokenreviews": "TokenReview",
    "selfsubjectreviews": "SelfSubjectReview",
    "subjectaccessreviews": "SubjectAccessReview",
    "localsubjectaccessreviews": "LocalSubjectAccessReview",
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "selfsubjectrulesreviews": "SelfSubjectRulesReview",
}


@dataclass(slots=True)
class _Review:
    group: str
    kind: str
    answer: Callable[[Document, Request], Document]
    name: str = ""
    version: str = "v1"

    def create(self, body: Document, request: Request, writer: Writer) -> Document:
        """Return the review with its answer."""
        del writer
        return self.answer(body, request)


def review_actions(reviews: Reviews) -> dict[tuple[str, str, str], Action]:
    """Return the action of each review, by group, resource and (no) subresource."""
    return {
        (group, resource, ""): _Review(group, _KINDS[resource], answer)
        for (group, resource), answer in reviews.answers().items()
    }
