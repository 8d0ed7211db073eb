"""The step viewer in the terminal: source, registers, memory and matrices of one warp, forward and back."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, ScrollableContainer, Vertical, VerticalScroll
from textual.widgets import DataTable, Footer, Header, Input, Static

from tcsim.errors import TcsimError
from tcsim.execute.faults import lanes_text
from tcsim.step.cursor import Cursor, natural, touched_text
from tcsim.step.fragments import tile_text
from tcsim.step.registers import lane_text

__all__ = ["StepApp"]

_STYLES = ("", "hex", "dec", "f32", "f16x2")


class StepApp(App[None]):
    """Shows a :class:`~tcsim.step.cursor.Cursor`. ``source``: the lines of the PTX, or the instructions."""

    CSS = """
    #source { width: 3fr; border: round $primary; }
    #right { width: 4fr; }
    #registers { height: 3fr; border: round $primary; }
    #details { height: 2fr; border: round $primary; padding: 0 1; }
    #state { width: auto; }
    #watch { display: none; }
    #watch.shown { display: block; }
    """
    AUTO_FOCUS = ""  # keys are for the viewer, not for one of its parts
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,n,space", "move(1)", "forward"),
        Binding("left,p", "move(-1)", "back"),
        Binding("pagedown", "move(20)", "20 on", show=False),
        Binding("pageup", "move(-20)", "20 back", show=False),
        Binding("c", "run(1)", "continue"),
        Binding("r", "run(-1)", "reverse"),
        Binding("b", "breakpoint", "break"),
        Binding("w", "watch", "watch"),
        Binding("f", "style", "format"),
        Binding("l", "lanes", "lanes"),
        Binding("ctrl+left", "look(-1, 0)", "scroll matrices", show=False),
        Binding("ctrl+right", "look(1, 0)", "scroll matrices", show=False),
        Binding("ctrl+up", "look(0, -1)", "scroll matrices", show=False),
        Binding("ctrl+down", "look(0, 1)", "scroll matrices", show=False),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, cursor: Cursor, source: list[str]) -> None:
        super().__init__()
        self.cursor, self.source = cursor, source
        self.style_number, self.first_lane = 0, 0
        self.said = ""

    def compose(self) -> ComposeResult:
        """Source at the left; registers above memory and matrices at the right."""
        yield Header()
        with Horizontal():
            yield VerticalScroll(Static(id="lines"), id="source")
            with Vertical(id="right"):
                yield DataTable(id="registers", cursor_type="none")
                yield ScrollableContainer(Static(id="state"), id="details")
        yield Input(placeholder="register to watch, such as %r3 or R3", id="watch")
        yield Footer()

    def on_mount(self) -> None:
        """Show the first step."""
        recording = self.cursor.recording
        for part in self.query("#source, #details, #registers"):
            part.can_focus = False
        self.title = f"{recording.program.name}  CTA {recording.cta} warp {recording.warp}"
        self.show()

    def action_move(self, count: int) -> None:
        """Steps forward or back."""
        self.said = ""
        self.cursor.move(count)
        self.show()

    def action_run(self, direction: int) -> None:
        """To the next breakpoint or change of a watched register, or the one before."""
        self.said = self.cursor.run(direction)
        self.show()

    def action_breakpoint(self) -> None:
        """Set or clear a breakpoint at this line."""
        self.cursor.breakpoints ^= {self.cursor.line}
        self.show()

    def action_watch(self) -> None:
        """Ask for a register to watch."""
        field = self.query_one("#watch", Input)
        field.add_class("shown")
        field.focus()

    def action_style(self) -> None:
        """The next way to show values."""
        self.style_number = (self.style_number + 1) % len(_STYLES)
        self.show()

    def action_lanes(self) -> None:
        """The next eight lanes."""
        self.first_lane = (self.first_lane + 8) % 32
        self.show()

    def action_look(self, right: int, down: int) -> None:
        """Scroll what is below the registers."""
        self.query_one("#details").scroll_relative(x=20 * right, y=8 * down, animate=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """A register to watch has been named."""
        try:
            self.cursor.watch(event.value.strip())
            self.said = f"watching {', '.join(self.cursor.watched) or 'nothing'}"
        except TcsimError as problem:
            self.said = str(problem)
        event.input.value = ""
        event.input.remove_class("shown")
        self.set_focus(None)
        self.show()

    def show(self) -> None:
        """Everything as it is now."""
        self.sub_title = f"step {self.cursor.at:,} of {len(self.cursor.recording.steps):,}"
        self._show_source()
        self._show_registers()
        self._show_state()

    def _show_source(self) -> None:
        here = self.cursor.line
        first = max(1, here - 400)
        text = Text(no_wrap=True, overflow="ellipsis")
        for number in range(first, min(len(self.source), here + 400) + 1):
            mark = "●" if number in self.cursor.breakpoints else "▶" if number == here else " "
            style = "bold reverse" if number == here else "dim" if self.source[number - 1].lstrip().startswith(".loc") else ""
            text.append(f"{mark}{number:5} {self.source[number - 1]}\n", style)
        self.query_one("#lines", Static).update(text)
        self.query_one("#source", VerticalScroll).scroll_to(y=max(0, here - first - 8), animate=False)

    def _show_registers(self) -> None:
        table = self.query_one("#registers", DataTable)
        table.clear(columns=True)
        lanes = range(self.first_lane, self.first_lane + 8)
        table.add_columns("register", "type", *(f"lane {lane}" for lane in lanes))
        step, style = self.cursor.step, _STYLES[self.style_number]
        used = {register.name: role for role, register in self.cursor.operands()}
        written = {register.name: values for register, values in self.cursor.results()} if step is not None else {}
        rows = self.cursor.registers() | {register.name: register for _, register in self.cursor.operands()}
        block = self.cursor.block.copy()

        def order(name: str) -> tuple[int, tuple[str, int, str]]:
            return (0 if name in used else 1 if name in self.cursor.watched else 2, natural(name))

        for name in sorted(rows, key=order):
            register = rows[name]
            look = {"writes": "bold green", "reads": "bold"}.get(used.get(name, ""), "")
            values = register.read(block)
            cells = []
            for lane in lanes:
                now = lane_text(int(values[lane]), register.type, style)
                after = lane_text(int(written[name][lane]), register.type, style) if name in written else now
                cells.append(Text(now if after == now else f"{now}→{after}", look))
            mark = "◆" if name in self.cursor.watched else ""
            table.add_row(Text(f"{mark}{name}", look), register.type, *cells)

    def _show_state(self) -> None:
        step, recording = self.cursor.step, self.cursor.recording
        lines = [self.said] if self.said else []
        if step is None:
            lines.append(f"end: {recording.ended}")
        else:
            lines.append(f"{recording.program.where(step.pc)}  {recording.program.opcodes[step.pc]}")
            off = step.active & ~step.executing
            lines.append(f"active lanes {lanes_text(step.active)}" + (f"; predicated off {lanes_text(off)}" if off else ""))
            lines += touched_text(step.touched)
            for tile in self.cursor.tiles():
                lines += ["", *tile_text(tile).splitlines()]
        self.query_one("#state", Static).update(Text("\n".join(lines), no_wrap=True))
