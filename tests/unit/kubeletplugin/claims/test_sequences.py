"""Any sequence of calls, kills, reboots and losses, against a model that is a few sets."""

from __future__ import annotations

import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from driver.api.claim_reference import ClaimReference
from kubeletplugin.claims.recovery import recover
from kubeletplugin.service import ClaimPrepared
from kubeletplugin.state.store import STEPS
from tests.support.preparer.machine import Machine, gpu_claim, in_child, kill_at, uid
from tests.support.preparer.sharing import mig_claim, share_claim

# Number → how it uses which GPU. Some compete: two uses of a GPU go together where they are another share, or another
# place, of the same mode.
CLAIMS = {
    1: {0: ("whole", 0)},
    2: {0: ("whole", 0), 1: ("whole", 0)},
    3: {1: ("whole", 0), 2: ("whole", 0)},
    4: {0: ("mig", 0), 2: ("mig", 3)},
    5: {0: ("mig", 4)},
    6: {1: ("mps", 1)},
    7: {1: ("mps", 2)},
    8: {1: ("slices", 0)},
}
OBJECTS = {
    1: gpu_claim(1, 0),
    2: gpu_claim(2, 0, 1),
    3: gpu_claim(3, 1, 2),
    4: mig_claim(4, (0, 0), (2, 3)),
    5: mig_claim(5, (0, 4)),
    6: share_claim(6, 1, strategy="mps"),
    7: share_claim(7, 1),
    8: share_claim(8, 1, strategy="timeSlicing", timeSlicing={"interval": "Long"}),
}
NUMBERS = st.sampled_from(sorted(CLAIMS))
EFFECTS = ("prepare: journal written", "prepare: effect done")


class Sequences(RuleBasedStateMachine):
    """The model: which claims are prepared, since which boot, and which of these were rebuilt from their CDI specs."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.machine = Machine(self.root)
        self.machine.offer(*OBJECTS.values())
        self.held: dict[int, str] = {}
        self.rebuilt: set[int] = set()
        self.answers: dict[int, ClaimPrepared] = {}
        self.boot = 1
        self.away = False
        recover(self.machine.store(boot_id=self.boot_id))
        self.start()

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    def start(self) -> None:
        self.preparer = self.machine.preparer(self.machine.store(boot_id=self.boot_id))

    @property
    def boot_id(self) -> str:
        return f"boot-{self.boot}"

    def expected(self, number: int) -> bool:
        """Whether a prepare of this claim must work."""
        if self.answered(number):
            return True
        others = [other for other, boot in self.held.items() if other != number and boot == self.boot_id]
        uses = [
            (use, CLAIMS[other][gpu]) for other in others for gpu, use in CLAIMS[number].items() if gpu in CLAIMS[other]
        ]
        return not self.away and all(one[0] == other[0] and one != other for one, other in uses)

    def answered(self, number: int) -> bool:
        """Whether a prepare is answered from the checkpoint alone."""
        return self.held.get(number) == self.boot_id and number not in self.rebuilt

    @rule(number=NUMBERS)
    def prepare(self, number: int) -> None:
        works = self.expected(number)
        answer = self.preparer.prepare([reference(number)])[uid(number)]
        assert isinstance(answer, ClaimPrepared) == works, answer
        if isinstance(answer, ClaimPrepared):
            self.held[number] = self.boot_id
            self.rebuilt.discard(number)
            assert self.answers.setdefault(number, answer) == answer

    @rule(number=NUMBERS)
    def unprepare(self, number: int) -> None:
        assert self.preparer.unprepare([reference(number)]) == {uid(number): None}
        self.held.pop(number, None)

    @rule(number=NUMBERS, step=st.sampled_from(STEPS))
    def killed(self, number: int, step: str) -> None:
        preparing = step.startswith("prepare")
        works = self.expected(number) and not self.answered(number)
        store = self.machine.store(step=kill_at(step), boot_id=self.boot_id)
        preparer = self.machine.preparer(store)
        act = preparer.prepare if preparing else preparer.unprepare
        code = in_child(lambda: act([reference(number)]))
        killed = code == -signal.SIGKILL
        assert killed or code == 0
        if preparing:
            has = number >= 4 or step not in EFFECTS
            assert killed == ((works and has) or (step == STEPS[0] and not self.answered(number)))
            if works and (not killed or step == "prepare: checkpoint written"):
                self.held[number] = self.boot_id
                self.rebuilt.discard(number)
        else:
            # Whether there is an effect to be undone depends on what was killed before, and on who needs it too.
            assert killed or step in STEPS[STEPS.index("unprepare: checkpoint written") :]
            if STEPS.index(step) >= STEPS.index("unprepare: checkpoint written"):
                self.held.pop(number, None)
        recover(self.machine.store(boot_id=self.boot_id))
        self.start()

    @rule()
    def restarted(self) -> None:
        recover(self.machine.store(boot_id=self.boot_id))
        self.start()

    @rule()
    def mended(self) -> None:
        """What the reconciler does."""
        mended = self.preparer.mend()
        assert mended.failed == ()
        self.machine.check_gpus(self.boot_id)

    @rule()
    def rebooted(self) -> None:
        self.boot += 1
        shutil.rmtree(self.machine.gpus.folder, ignore_errors=True)
        shutil.rmtree(self.machine.cdi_dir, ignore_errors=True)
        recover(self.machine.store(boot_id=self.boot_id))
        self.start()

    @precondition(lambda self: self.machine.checkpoint.exists())
    @rule(length=st.integers(0, 400))
    def spoilt(self, length: int) -> None:
        """The checkpoint is cut; what is rebuilt from the CDI specs holds devices, and is planned anew when asked."""
        content = self.machine.checkpoint.read_bytes()
        if length < len(content) - 1:
            self.machine.checkpoint.write_bytes(content[:length])
            self.rebuilt = set(self.held)

    @rule()
    def api_goes_and_comes(self) -> None:
        self.away = not self.away
        self.machine.api_is_away = self.away

    @invariant()
    def disk_says_what_the_model_says(self) -> None:
        assert self.machine.check() == {uid(number) for number in self.held}

    @invariant()
    def what_is_prepared_has_its_effects(self) -> None:
        now = [entry for entry in self.machine.entries().values() if entry.boot_id == self.boot_id]
        assert {effect for entry in now for effect in entry.effects} <= set(self.machine.gpus.there())


def reference(number: int) -> ClaimReference:
    return OBJECTS[number].reference


TestSequences = pytest.mark.slow(Sequences.TestCase)
TestSequences.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
