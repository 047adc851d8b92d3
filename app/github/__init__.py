"""The one door to GitHub: the App's identity, one repository at a time, and its refusals as our errors."""

from app.github.app import Access, GitAccess, GitHubApp
from app.github.errors import AnswerLost, CredentialsRefused, NotFound, PermissionMissing, Rejected
from app.github.models import Comment, Commit, Issue, Permission, Pull, RepositoryFacts
from app.github.repository import Repository, TreeChange, blob_id

__all__ = [
    "Access",
    "AnswerLost",
    "Comment",
    "Commit",
    "CredentialsRefused",
    "GitAccess",
    "GitHubApp",
    "Issue",
    "NotFound",
    "Permission",
    "PermissionMissing",
    "Pull",
    "Rejected",
    "Repository",
    "RepositoryFacts",
    "TreeChange",
    "blob_id",
]
