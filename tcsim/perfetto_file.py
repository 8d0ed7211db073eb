"""Tracks as a Perfetto trace: TrackEvents in protocol buffers, written by Perfetto's own package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackDescriptor, TrackEvent
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

if TYPE_CHECKING:
    from tcsim.timeline import Track

__all__ = ["write_tracks"]

SEQUENCE = 1
STATE_CLEARED = 1  # SEQ_INCREMENTAL_STATE_CLEARED: nothing before this packet matters

_BEGIN, _END, _INSTANT = TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END, TrackEvent.TYPE_INSTANT


def write_tracks(path: str, title: str, tracks: Sequence[Track]) -> None:
    """Write a trace: a track for each group under one with the title, its own tracks below. Slices of a track must not
    overlap."""
    with open(path, "wb") as file:
        builder = StreamingTraceProtoBuilder(file)

        def send(packet: Any) -> None:
            packet.trusted_packet_sequence_id = SEQUENCE
            builder.write_packet(packet)

        numbers: dict[tuple[str, str], int] = {}

        def describe(name: str, parent: int, rank: int) -> int:
            packet = builder.create_packet()
            if not numbers:
                packet.sequence_flags = STATE_CLEARED
            number = len(numbers) + 1
            track = packet.track_descriptor
            track.uuid, track.name, track.sibling_order_rank = number, name, rank
            track.child_ordering = TrackDescriptor.EXPLICIT
            track.sibling_merge_behavior = TrackDescriptor.SIBLING_MERGE_BEHAVIOR_NONE
            if parent:
                track.parent_uuid = parent
            send(packet)
            return number

        numbers["", ""] = root = describe(title, 0, 0)
        for rank, track in enumerate(tracks):
            if (track.group, "") not in numbers:
                numbers[track.group, ""] = describe(track.group, root, rank)
            numbers[track.group, track.name] = describe(track.name, numbers[track.group, ""], rank)
        for cycle, _, kind, number, name, out, into in sorted(_events(tracks, numbers)):
            packet = builder.create_packet()
            packet.timestamp = cycle
            event = packet.track_event
            event.type, event.track_uuid = kind, number
            if name:
                event.name = name
            event.flow_ids.extend(out)
            event.terminating_flow_ids.extend(into)
            send(packet)


def _events(
    tracks: Sequence[Track], numbers: dict[tuple[str, str], int]
) -> Iterator[tuple[int, int, int, int, str, tuple[int, ...], tuple[int, ...]]]:
    """(cycle, order in it, type, track, name, arrows that start here, arrows that end here)."""
    for track in tracks:
        number = numbers[track.group, track.name]
        for one in track.slices:
            if one.end == one.start:
                yield one.start, 1, _INSTANT, number, one.name, one.out, one.into
                continue
            yield one.start, 2, _BEGIN, number, one.name, one.out, one.into
            yield one.end, 0, _END, number, "", (), ()
