"""Who may enter the engine, and when its weights change."""

from jopd.engines.admission import Admission


class _Room:
    """Records what an Admission does, in order."""

    def __init__(self, capacity):
        self.events = []
        self.admission = Admission(
            capacity,
            enter=self.events.append,
            swap=lambda weights: self.events.append(f"swap {weights}"),
        )


def test_requests_enter_in_order_up_to_the_capacity():
    room = _Room(2)
    for name in "abc":
        room.admission.submit(name)
    assert room.events == ["a", "b"]
    room.admission.leave()
    assert room.events == ["a", "b", "c"]
    assert (room.admission.inside, room.admission.waiting) == (2, 0)


def test_weights_change_at_once_when_nobody_is_inside():
    room = _Room(1)
    room.admission.offer("v1")
    assert room.events == ["swap v1"]


def test_weights_change_between_the_running_and_the_waiting():
    room = _Room(2)
    for name in "abc":
        room.admission.submit(name)
    room.admission.offer("v1")
    room.admission.leave()
    assert room.events == ["a", "b"]  # c waits although there is room
    room.admission.leave()
    assert room.events == ["a", "b", "swap v1", "c"]


def test_the_newest_offer_wins():
    room = _Room(1)
    room.admission.submit("a")
    room.admission.offer("v1")
    room.admission.offer("v2")
    room.admission.leave()
    assert room.events == ["a", "swap v2"]


def test_a_waiting_request_can_be_withdrawn():
    room = _Room(1)
    room.admission.submit("a")
    room.admission.submit("b")
    assert room.admission.holds("b")
    assert room.admission.withdraw("b")
    assert not room.admission.holds("b")
    room.admission.leave()
    assert room.events == ["a"]


def test_a_request_inside_cannot_be_withdrawn():
    room = _Room(1)
    room.admission.submit("a")
    assert not room.admission.withdraw("a")
