"""The resident registry: which Sessions keep a runtime between Turns, and for how long."""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from services.common.clock import Clock
from services.common.errors import FleetError
from services.common.logging import get_logger
from services.session.running.background import BackgroundTasks
from services.session.running.residents.resident import Health, R, Resident, SessionKey

_log = get_logger(__name__)

_GONE = frozenset({"LEASE_LOST", "LEASE_NOT_FOUND", "LEASE_NOT_READY", "STALE_EPOCH"})
_CLOSE_ATTEMPTS = 3
_REASONS_KEPT = 1024


@dataclass(frozen=True)
class RegistryLimits:
    """How many residents there may be and how long they live.

    Attributes:
        max_resident: residents kept at a time; running Turns may exceed it, idle residents never.
        idle_seconds: how long a resident is kept without a Turn.
        heartbeat_seconds: how often leases are renewed and idle residents looked for.
        lease_seconds: how long a lease lasts without renewal.
        close_pause_seconds: pause after a first attempt to close that could not be confirmed; later ones are longer.
    """

    max_resident: int
    idle_seconds: float
    heartbeat_seconds: float
    lease_seconds: float
    close_pause_seconds: float = 0.2


@dataclass(frozen=True)
class Checkout(Generic[R]):
    """A resident lent to one Turn; give it back with `commit` or `abandon`, exactly once.

    Attributes:
        resident: what the Turn runs in.
        reused: whether the Session's former interpreter goes on, globals included.
        rotation_reason: why a former one was replaced; empty when there was none or it is reused.
        duration_ms: how long getting it took.
    """

    resident: Resident[R]
    reused: bool
    rotation_reason: str
    duration_ms: int


class _Slot(Generic[R]):
    """A Session's place: its lock, its resident if any, and the end of a former one."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
        self.resident: Resident[R] | None = None
        self.closing: asyncio.Task[bool] | None = None


class ResidentRegistry(Generic[R]):
    """Residents of one process, keyed by workspace and Session.

    A Session's lock is held from `checkout` until its Turn is given back, so a resident serves one Turn at a time.
    Nothing holds two Sessions' locks: eviction only takes residents whose lock is free, and doesn't wait for them.
    """

    def __init__(self, limits: RegistryLimits, clock: Clock) -> None:
        """An empty registry; `start` begins its housekeeping."""
        self._limits = limits
        self._clock = clock
        self._slots: dict[SessionKey, _Slot[R]] = {}
        self._reasons: OrderedDict[SessionKey, str] = OrderedDict()
        self._generations = itertools.count(1)
        self._background = BackgroundTasks("resident registry")
        self._stopping = asyncio.Event()

    def start(self) -> None:
        """Begin renewing leases and evicting idle residents."""
        self._background.spawn(self._keep_house(), "housekeeping")

    def residents(self) -> list[Resident[R]]:
        """All residents that aren't closed, draining ones included."""
        return [slot.resident for slot in self._slots.values() if slot.resident is not None]

    async def checkout(self, key: SessionKey, turn: str, fingerprint: str, make: Callable[[], R]) -> Checkout[R]:
        """Lend the Session's resident to a Turn, or a fresh one.

        Args:
            key: the Session.
            turn: the Turn's id.
            fingerprint: of the RLM that the Turn needs.
            make: makes a runtime that is not open yet; called only when a fresh one is needed.

        Raises:
            FleetError: no sandbox could be had, or the former one is not confirmed gone (PREPARATION_FAILED).
        """
        started = self._clock.monotonic()
        slot = self._slots.setdefault(key, _Slot())
        slot.users += 1
        try:
            await slot.lock.acquire()
            try:
                reason = await self._reuse(key, slot, turn, fingerprint)
                if reason is not None:
                    await self._create(slot, key, turn, fingerprint, make)
            except BaseException:
                slot.lock.release()
                raise
        finally:
            slot.users -= 1
            self._drop_if_empty(key, slot)
        if slot.resident is None:
            raise FleetError("INTERNAL", "the runtime is gone right after its start")
        duration_ms = round((self._clock.monotonic() - started) * 1000)
        return Checkout(slot.resident, reason is None, reason or "", duration_ms)

    def commit(self, checkout: Checkout[R]) -> None:
        """The Turn was committed: the resident may serve the next one."""
        checkout.resident.commit(self._clock.monotonic())
        self._give_back(checkout.resident)

    def abandon(self, checkout: Checkout[R], reason: str) -> None:
        """The Turn ended otherwise: the resident is closed and its lease released in the background."""
        checkout.resident.abandon(reason, self._clock.monotonic())
        self._give_back(checkout.resident)

    async def forget(self, key: SessionKey, reason: str) -> None:
        """Close a Session's idle resident, as when the Session is deleted; a running one is left alone."""
        slot = self._slots.get(key)
        if slot is not None and self._is_idle(slot):
            self._retire(key, slot, reason)
            if slot.closing is not None:
                await asyncio.shield(slot.closing)

    def sweep(self) -> None:
        """Close residents that were idle for too long or are too many."""
        due = self._clock.monotonic() - self._limits.idle_seconds
        for key, slot in list(self._slots.items()):
            if self._is_idle(slot) and slot.resident is not None and slot.resident.last_used <= due:
                self._retire(key, slot, "the Session was idle")
        self._make_room(self._limits.max_resident)
        for key, slot in list(self._slots.items()):
            self._retry_close(key, slot)

    async def beat(self) -> None:
        """Renew every resident's lease once; what is lost is tainted, and closed when no Turn runs in it."""
        live = [(key, slot, slot.resident) for key, slot in list(self._slots.items()) if slot.resident is not None]
        await asyncio.gather(*(self._renew(key, slot, resident) for key, slot, resident in live))

    async def close(self, seconds: float) -> bool:
        """End housekeeping, close every resident and release its lease.

        Args:
            seconds: how long to wait for the releases.

        Returns:
            Whether every sandbox is confirmed gone; what isn't ends with its lease.
        """
        self._stopping.set()
        for key, slot in list(self._slots.items()):
            self._retire(key, slot, "the server shuts down")
        await self._background.join(seconds)
        await self._background.close()
        return not self.residents()

    async def _reuse(self, key: SessionKey, slot: _Slot[R], turn: str, fingerprint: str) -> str | None:
        """Take the slot's resident for the Turn and return None, or return why a fresh one is needed."""
        resident = slot.resident
        if resident is None:
            return self._reasons.pop(key, "")
        reason = resident.rotation_reason(fingerprint)
        if reason:
            return reason
        resident.begin(turn)
        if await self._renewed(resident):
            return None
        resident.abandon("the lease could not be renewed", self._clock.monotonic())
        return resident.reason

    async def _create(
        self, slot: _Slot[R], key: SessionKey, turn: str, fingerprint: str, make: Callable[[], R]
    ) -> None:
        """Fill the slot with a fresh resident once the former one is confirmed gone."""
        if slot.resident is not None:
            self._retire(key, slot, slot.resident.rotation_reason(fingerprint))
            await self._confirm_gone(key, slot)
        self._make_room(self._limits.max_resident - 1)
        resident = Resident(key, next(self._generations), fingerprint, make())
        resident.begin(turn)
        resident.renewed = self._clock.monotonic()
        slot.resident = resident
        try:
            await resident.runtime.open()
        except BaseException:
            resident.abandon("the runtime could not be started", self._clock.monotonic())
            self._retire(key, slot, resident.reason)
            raise

    async def _confirm_gone(self, key: SessionKey, slot: _Slot[R]) -> None:
        """Wait until the retired resident of the slot is gone; once more if it wasn't."""
        for _ in range(2):
            if slot.closing is None or await asyncio.shield(slot.closing):
                return
            self._retry_close(key, slot)
        raise FleetError(
            "PREPARATION_FAILED", "the Session's former sandbox is not confirmed gone yet; try again later"
        )

    def _give_back(self, resident: Resident[R]) -> None:
        slot = self._slots[resident.key]
        slot.lock.release()
        if resident.health is not Health.HEALTHY:
            self._retire(resident.key, slot, resident.reason)
            return
        self._background.spawn(self._renew(resident.key, slot, resident), "mark idle")
        self._make_room(self._limits.max_resident)

    def _is_idle(self, slot: _Slot[R]) -> bool:
        resident = slot.resident
        live = resident is not None and resident.health in (Health.HEALTHY, Health.TAINTED)
        return live and not slot.lock.locked() and not slot.users

    def _make_room(self, places: int) -> None:
        """Retire the least recently used idle residents until at most `places` are left, as far as idle ones go."""
        live = [r for r in self.residents() if r.health in (Health.HEALTHY, Health.TAINTED)]
        idle = [(r.last_used, r.generation, r.key) for r in live if self._is_idle(self._slots[r.key])]
        for _, _, key in sorted(idle, key=lambda item: item[:2])[: max(0, len(live) - places)]:
            self._retire(key, self._slots[key], "other Sessions needed the place")

    def _retire(self, key: SessionKey, slot: _Slot[R], reason: str) -> None:
        """Begin to close the slot's resident, if it isn't being closed already."""
        resident = slot.resident
        if resident is None or resident.health in (Health.DRAINING, Health.CLOSED):
            return
        resident.drain(reason)
        self._reasons[key] = reason
        self._reasons.move_to_end(key)
        while len(self._reasons) > _REASONS_KEPT:
            self._reasons.popitem(last=False)
        slot.closing = self._background.spawn(self._end(key, slot, resident), f"close resident of {key.session}")

    def _retry_close(self, key: SessionKey, slot: _Slot[R]) -> None:
        """Try again to end a resident whose end could not be confirmed."""
        resident = slot.resident
        stuck = resident is not None and resident.health is Health.DRAINING
        if resident is not None and stuck and (slot.closing is None or slot.closing.done()):
            slot.closing = self._background.spawn(self._end(key, slot, resident), f"close resident of {key.session}")

    async def _end(self, key: SessionKey, slot: _Slot[R], resident: Resident[R]) -> bool:
        """Close a draining resident, a few times if need be; whether its sandbox is confirmed gone."""
        for attempt in range(_CLOSE_ATTEMPTS):
            try:
                if await resident.runtime.close():
                    break
            except Exception:  # noqa: BLE001  Whatever its parts say, the lease is to be released.
                _log.warning("resident not closed", session=key.session, exc_info=True)
            await asyncio.sleep(self._limits.close_pause_seconds * (attempt + 1))
        else:
            _log.error("sandbox not confirmed gone", session=key.session, generation=resident.generation)
            return False
        resident.closed()
        slot.resident = None
        slot.closing = None
        self._drop_if_empty(key, slot)
        return True

    def _drop_if_empty(self, key: SessionKey, slot: _Slot[R]) -> None:
        if slot.resident is None and not slot.users and not slot.lock.locked():
            self._slots.pop(key, None)

    async def _renew(self, key: SessionKey, slot: _Slot[R], resident: Resident[R]) -> None:
        """Renew one lease; close the resident when the lease is lost and no Turn runs in it."""
        if resident.health in (Health.DRAINING, Health.CLOSED):
            return
        if not await self._renewed(resident) and self._is_idle(slot) and slot.resident is resident:
            self._retire(key, slot, resident.reason)

    async def _renewed(self, resident: Resident[R]) -> bool:
        """Renew one lease; whether it may still be counted on."""
        try:
            async with asyncio.timeout(self._limits.lease_seconds), resident.renewal:
                await resident.runtime.renew(idle=not resident.turn, turn=resident.turn)
        except FleetError as error:
            if error.reason in _GONE:
                resident.lose("the sandbox's lease was lost")
        except TimeoutError:
            pass
        else:
            resident.renewed = self._clock.monotonic()
            return True
        if self._clock.monotonic() - resident.renewed > self._limits.lease_seconds:
            resident.lose("the sandbox's lease could not be renewed in time")
        return False

    async def _keep_house(self) -> None:
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(self._limits.heartbeat_seconds):
                    await self._stopping.wait()
            except TimeoutError:
                await self._beat_safely()

    async def _beat_safely(self) -> None:
        """One round of housekeeping; a fault in it must not end the renewal of everybody's lease."""
        try:
            self.sweep()
            await self.beat()
        except Exception:  # noqa: BLE001
            _log.exception("housekeeping of residents failed")
