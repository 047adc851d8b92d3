"""Pure: a run's result and the job's facts as a pull request, a status comment, a commit message and a check run."""

from app.report.check import CheckRun, acknowledged, check_run
from app.report.facts import JobFacts, LeftOut, Remark, Review
from app.report.judged import acknowledgeable
from app.report.lines import line_answer, line_marker
from app.report.names import branch_name, commit_message, pr_title, undo_message
from app.report.pull_request import account, pr_body, with_undone
from app.report.status import Closing, Progress, StageState, status_comment

__all__ = [
    "CheckRun",
    "Closing",
    "JobFacts",
    "LeftOut",
    "Progress",
    "Remark",
    "Review",
    "StageState",
    "account",
    "acknowledgeable",
    "acknowledged",
    "branch_name",
    "check_run",
    "commit_message",
    "line_answer",
    "line_marker",
    "pr_body",
    "pr_title",
    "status_comment",
    "undo_message",
    "with_undone",
]
