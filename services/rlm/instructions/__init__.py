"""What the Root and a child are told, composed from fragments: one short text per concern."""

from services.rlm.instructions.compose import compose_child, compose_root

__all__ = ["compose_child", "compose_root"]
