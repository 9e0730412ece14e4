"""`python -m services.sandbox`: the sandbox broker as a process."""

from services.common.process import main
from services.sandbox.main import NAME, build_service

if __name__ == "__main__":
    main(NAME, build_service)
