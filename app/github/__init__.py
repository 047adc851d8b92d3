"""The one door to GitHub: the App's identity, one repository at a time, and its refusals as our errors."""

from app.github.app import Access, GitHubApp
from app.github.errors import AnswerLost, CredentialsRefused, NotFound, PermissionMissing, Rejected
from app.github.gitdata import TreeChange
from app.github.models import Comment, Commit, Issue, LineComment, Pull
from app.github.oidc import IdentityRefused, WorkflowRun, WorkflowTokens
from app.github.repository import Repository

__all__ = [
    "Access",
    "AnswerLost",
    "Comment",
    "Commit",
    "CredentialsRefused",
    "GitHubApp",
    "IdentityRefused",
    "Issue",
    "LineComment",
    "NotFound",
    "PermissionMissing",
    "Pull",
    "Rejected",
    "Repository",
    "TreeChange",
    "WorkflowRun",
    "WorkflowTokens",
]
