"""fleet.session.v1.SkillService: part of the contract, without behaviour in this release."""

# ruff: noqa: N802  The contract names the methods.

from __future__ import annotations

from typing import Any, TypeAlias

import grpc
from fleet.session.v1 import skill_service_pb2 as pb
from fleet.session.v1 import skill_service_pb2_grpc

from services.session.refusals import unimplemented

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class SkillServicer(skill_service_pb2_grpc.SkillServiceServicer):
    """Every method answers UNIMPLEMENTED."""

    async def ListSkills(self, request: pb.ListSkillsRequest, context: Context) -> pb.ListSkillsResponse:
        """Not in this release."""
        raise unimplemented("SkillService.ListSkills")

    async def GetSkill(self, request: pb.GetSkillRequest, context: Context) -> pb.Skill:
        """Not in this release."""
        raise unimplemented("SkillService.GetSkill")
