"""The values that cross the engine's borders: what goes into a run and what comes out.

All are frozen and carry their own JSON form (``model_dump_json`` / ``model_validate_json``), because a run
may happen in another process or on another machine. Bytes travel as base64.
"""

from agent.types.base import Value
from agent.types.change import ChangeSet, FileChange, FileMode
from agent.types.evidence import (
    HUNK_CHARS,
    MISSED_PLACES,
    Caller,
    Check,
    Comparison,
    Coverage,
    Evidence,
    Finding,
    Impact,
    IntegrityFinding,
    Partial,
    Place,
    Proof,
    SuiteStatus,
    TestOutcome,
    TestRun,
)
from agent.types.plan import Plan, PlanStep
from agent.types.result import BROKEN_OFF, START, CallUsage, FileReason, Outcome, ReviewFinding, RunResult, Stage, Usage
from agent.types.spec import Budget, Commands, Mode, ModelEndpoint, Price, RunSpec, Task

__all__ = [
    "BROKEN_OFF",
    "HUNK_CHARS",
    "MISSED_PLACES",
    "START",
    "Budget",
    "CallUsage",
    "Caller",
    "ChangeSet",
    "Check",
    "Commands",
    "Comparison",
    "Coverage",
    "Evidence",
    "FileChange",
    "FileMode",
    "FileReason",
    "Finding",
    "Impact",
    "IntegrityFinding",
    "Mode",
    "ModelEndpoint",
    "Outcome",
    "Partial",
    "Place",
    "Plan",
    "PlanStep",
    "Price",
    "Proof",
    "ReviewFinding",
    "RunResult",
    "RunSpec",
    "Stage",
    "SuiteStatus",
    "Task",
    "TestOutcome",
    "TestRun",
    "Usage",
    "Value",
]
