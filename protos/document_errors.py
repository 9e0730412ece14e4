"""Writes `docs/errors.md` from the catalogue of error reasons; a test compares it with the committed page."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = "fleet/common/v1/error_reason.proto"

HEAD = """# Error reasons

Every error carries exactly one of these reasons: over gRPC in its `google.rpc.ErrorInfo` (domain `fleet`), over REST as
`code` of the problem document. Turns that end without an answer carry one too.

This page is written by `python protos/document_errors.py` from the contract.

| reason | gRPC code | what it means |
|---|---|---|
"""


def errors_page(work: Path) -> str:
    """The page's text.

    Args:
        work: a folder for the compiled catalogue.
    """
    from fleet.common.v1 import error_reason_pb2

    compiled = work / "catalogue.pb"
    well_known = resources.files("grpc_tools") / "_proto"
    includes = [f"-I{ROOT / 'protos'}", f"-I{well_known}"]
    arguments = ["protoc", *includes, "--include_source_info", f"--descriptor_set_out={compiled}", CATALOGUE]
    if protoc.main(arguments) != 0:
        raise RuntimeError("protoc refused the catalogue")
    file = FileDescriptorSet.FromString(compiled.read_bytes()).file[0]
    index = next(number for number, enum in enumerate(file.enum_type) if enum.name == "ErrorReason")
    comments = {tuple(place.path): " ".join(place.leading_comments.split()) for place in file.source_code_info.location}
    rows = []
    for number, value in enumerate(file.enum_type[index].value):
        if value.number:
            code = value.options.Extensions[error_reason_pb2.code]
            name = value.name.removeprefix("ERROR_REASON_")
            rows.append(f"| `{name}` | {code} | {comments[(5, index, 2, number)]} |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    import sys
    import tempfile

    sys.path.insert(0, str(ROOT / "gen"))
    with tempfile.TemporaryDirectory() as folder:
        (ROOT / "docs" / "errors.md").write_text(errors_page(Path(folder)))
