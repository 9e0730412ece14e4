"""`python -m services.recursion`: the recursion service as a process."""

from services.common.process import main
from services.recursion.main import NAME, build_service

if __name__ == "__main__":
    main(NAME, build_service)
