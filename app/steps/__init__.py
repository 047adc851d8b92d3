"""What a job does to the world: GitHub, git, the runner, the publisher. Each step may run more than once.

A repeated step finds its own traces: ids in the job's row, the brief and the result in the job's folder, and on GitHub
itself the marker, the branch and the commit that names its job.
"""

from app.steps.files import Files
from app.steps.github import GitHubSteps
from app.steps.running import Runs
from app.steps.site import Site

__all__ = ["Files", "GitHubSteps", "Runs", "Site"]
