"""The answer from the actions so far, by the RLM's own `extract` predictor."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import dspy
from dspy.primitives.repl_types import REPLHistory, REPLVariable
from dspy.primitives.sandbox_serializable import SandboxSerializable, build_repl_variable
from pydantic import JsonValue

from services.common.errors import FleetError
from services.rlm.contract.outputs import OutputContract, OutputError
from services.rlm.invocation.steps import StepRecord

_LOG = logging.getLogger(__name__)


class Extraction:
    """Takes the outputs of one invocation with one re-ask when they break the contract."""

    def __init__(self, rlm: dspy.RLM, contract: OutputContract, inputs: Mapping[str, Any]) -> None:
        self._rlm = rlm
        self._contract = contract
        self._inputs = inputs

    async def outputs(self, steps: list[StepRecord], given: Mapping[str, Any] | None = None) -> dict[str, JsonValue]:
        """Return the checked outputs.

        Args:
            steps: the actions so far.
            given: outputs that were extracted already and only need the check.

        Raises:
            FleetError: OUTPUT_INVALID, the outputs break the contract after the re-ask too.
        """
        history = REPLHistory(max_output_chars=self._rlm.max_output_chars)
        for step in steps:
            history = history.append(reasoning=step.reasoning, code=step.code, output=step.output)
        outputs = given if given is not None else await self._ask(history)
        try:
            return self._contract.check(outputs)
        except OutputError as error:
            _LOG.info("extracted outputs break the contract; asking again")
            history = history.append(code="", output=f"[Error] The extracted outputs were refused: {error}")
        try:
            return self._contract.check(await self._ask(history))
        except OutputError as error:
            message = "The extracted answer breaks the output contract, also after the re-ask."
            raise FleetError("OUTPUT_INVALID", message) from error

    async def _ask(self, history: REPLHistory) -> dict[str, Any]:
        prediction = await self._rlm.extract.acall(variables_info=self._variables(), repl_history=history)
        return picked(prediction, self._contract)

    def _variables(self) -> list[str]:
        """Return the inputs as native RLM describes them."""
        fields = self._rlm.signature.input_fields
        described = []
        for name, value in self._inputs.items():
            build = build_repl_variable if isinstance(value, SandboxSerializable) else None
            if build is not None:
                variable = build(value, name, field_info=fields.get(name))
            else:
                variable = REPLVariable.from_value(name, value, field_info=fields.get(name))
            described.append(variable.format())
        return described


def picked(prediction: dspy.Prediction, contract: OutputContract) -> dict[str, Any]:
    """Return the contract's outputs from a prediction; absent ones are left out."""
    return {name: prediction[name] for name in contract.names if name in prediction}
