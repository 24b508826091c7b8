"""Sessions with a process for each turn (the drive `print`), on the scripted agent."""

from tests.sessions.place import Place, wait


def test_a_conversation(place: Place) -> None:
    host = place.host()
    record = place.start("- text: one\n- text: two\n- text: three\n", drive="print")
    assert host.driver(record).record.state == "ready"
    host.send(record, "first")
    report = host.idle(record)
    assert (report.turn, report.text, report.status) == (1, "one", "completed"), (report, place.run_file(record,"journal").read_text())
    host.send(record, "second")
    report = host.idle(record)
    assert (report.turn, report.text, report.status) == (2, "two", "completed")
    host.stop(record)
    for e in place.events(record):
        print(e)
    wait(lambda: False, 0.1)
