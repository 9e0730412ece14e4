"""The `[storage]` and `[database]` sections: files, blobs and databases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from config.section import Bytes, EnvName, Section


class Storage(Section):
    """Where bytes are kept.

    Attributes:
        data_root: folder of everything that is kept on this machine; a relative one starts at the working folder.
        blob_url: `file:///…`, `s3://…`, `gs://…` or `az://…` for attachments and artifacts; a folder below
            `data_root` when empty.
        max_upload_bytes: largest attachment.
        max_artifact_bytes: largest artifact.
    """

    data_root: Annotated[str, Field(min_length=1)]
    blob_url: Annotated[str, Field(pattern=r"^(|(file|s3|gs|az|memory)://\S*)$")]
    max_upload_bytes: Bytes
    max_artifact_bytes: Bytes

    @property
    def root(self) -> Path:
        """`data_root` as an absolute path."""
        return Path(self.data_root).expanduser().absolute()

    @property
    def blobs(self) -> str:
        """The blob store's URL with the default filled in."""
        return self.blob_url or (self.root / "blobs").as_uri()


class Database(Section):
    """One database a service.

    Attributes:
        session_url_env: holds the URL of the session service's database; a SQLite file below `storage.data_root`
            when the variable is unset, as for the others.
        sandbox_url_env: the same for the sandbox broker.
        recursion_url_env: the same for the recursion service.
        reasoning_url_env: the same for the reasoning service.
        auto_upgrade: whether a service migrates its database when it starts, or refuses to start behind head.
    """

    session_url_env: EnvName
    sandbox_url_env: EnvName
    recursion_url_env: EnvName
    reasoning_url_env: EnvName
    auto_upgrade: bool
