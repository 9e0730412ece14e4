"""Services of the contract that have no behaviour in this release; every method answers UNIMPLEMENTED."""

from __future__ import annotations

from fleet.session.v1 import skill_service_pb2_grpc, workspace_service_pb2_grpc


class SkillServicer(skill_service_pb2_grpc.SkillServiceServicer):
    """Skills; see docs/unimplemented.md."""


class WorkspaceServicer(workspace_service_pb2_grpc.WorkspaceServiceServicer):
    """Files and memories of a workspace; see docs/unimplemented.md."""
