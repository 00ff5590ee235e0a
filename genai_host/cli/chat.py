"""`genai-host chat`: an interactive conversation."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from attrs import define, field

from genai_host.cli.app import App, pass_app
from genai_host.cli.ask import answered, resumed, show_details
from genai_host.cli.log import show_error
from genai_host.cli.options import (
    attach_option,
    chosen_template,
    conversation_options,
    fragment_option,
    template_options,
)
from genai_host.cli.reactions import images_option, show_reactions_of
from genai_host.cli.session import (
    calls_of,
    described,
    give_in_chat,
    leave_out,
    next_steps,
    selected_conversation,
    session_options,
    show_call,
    show_end,
)
from genai_host.cli.terminal import is_terminal, note, piped_lines
from genai_host.errors import ConfigurationError, Conflict, GenaiError, TurnPaused
from genai_host.util.text import docstring

if TYPE_CHECKING:
    from prompt_toolkit.history import History

    from genai_host.api import Answer, Message, Part
    from genai_host.conversations.conversation import Conversation, UserInput
    from genai_host.prompts.templates import Template


@click.command(name="chat")
@template_options
@conversation_options
@session_options
@fragment_option("FILE|URL", "Prepend text from a file or URL to the first message.")
@attach_option("FILE|URL", "Attach a file or URL to the first message.")
@images_option
@pass_app
def command(
    app: App,
    /,
    template: str | None,
    variables: tuple[str, ...],
    fragments: tuple[str, ...],
    attach: tuple[str, ...],
    save_images: str | None,
    **chosen: Any,
) -> None:
    """Start an interactive chat. It ends with /quit or at the end of the input.

    Enter sends a message, Alt-Enter starts a new line, and the arrow keys recall earlier
    messages. Ctrl-C stops an answer, not the chat. /help lists the commands. Each line of
    piped input is a message. The conversation is saved; `chat -c` continues it.
    """
    for option, sources in {"--attach": attach, "--fragment": fragments}.items():
        if "-" in sources:
            raise click.BadParameter(
                "standard input contains the messages of the chat", param_hint=option
            )
    using = chosen_template(template, variables)
    if using is not None:
        _must_be_for_chats(using)
        fragments = (*using.fragments, *fragments)
        attach = (*using.attachments, *attach)
    with (
        selected_conversation(app, template=using, **chosen) as conversation,
        next_steps(conversation),
    ):
        is_new = not (chosen["last"] or chosen["cid"])
        chat = Chat(conversation, using, lambda each: show_reactions_of(app, each, save_images))
        with _kept(app, conversation, is_new):
            chat.begin_with(fragments)
            for source in attach:
                chat.attach(source)
            for line in _lines(chat, conversation):
                if not chat.take(line):
                    break


def _lines(chat: Chat, conversation: Conversation) -> Iterator[str]:
    """Lines of input; on a terminal, after the end of the previous conversation is shown."""
    if not is_terminal(sys.stdin):
        yield from piped_lines()
        return
    note(f"{described(conversation)}. /help lists the commands.", dim=True)
    show_end(conversation)
    yield from typed_lines(sorted(chat.commands))


@contextlib.contextmanager
def _kept(app: App, conversation: Conversation, is_new: bool) -> Iterator[None]:
    """Print at the end how to continue the conversation. A new conversation without messages is
    deleted."""
    is_empty = False
    try:
        yield
    finally:
        if conversation.id and conversation.record_error is None:
            with contextlib.suppress(GenaiError):  # the main error was already reported
                is_empty = is_new and app.store.summary(conversation.id).turns == 0
                if is_empty:
                    app.store.delete(conversation.id)
    if conversation.id and not is_empty and conversation.record_error is None:
        note(f"continue: genai-host chat --conversation {conversation.id}", dim=True)


def _must_be_for_chats(template: Template) -> None:
    if template.schema is not None:
        raise ConfigurationError(
            f"{template.file}: chat does not support templates with a schema",
            file=template.file,
            hint="use it with: genai-host ask -t NAME",
        )


def typed_lines(commands: list[str]) -> Iterator[str]:
    """Lines typed at the terminal, with a persistent history."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    session: PromptSession[str] = PromptSession(
        history=_typed_before(),
        key_bindings=keys,
        multiline=True,
        completer=WordCompleter(commands, sentence=True),
        complete_while_typing=False,
    )
    while True:
        try:
            yield session.prompt("> ")
        except KeyboardInterrupt:
            continue  # the typed line is discarded
        except EOFError:
            return


def _typed_before() -> History:
    """History of earlier chats, readable only by the user; in memory if it cannot be stored."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    from genai_host.util import paths

    folder = paths.state_dir()
    file = os.path.join(folder, "chat.history")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(file)


@define(eq=False, repr=False, slots=False)
class Chat:
    """Processes the user's input: commands, which begin with a slash, and messages.

    Args:
        conversation: Conversation of the chat.
        template: Template whose prompt each message is inserted into; a prompt without a place for
            input precedes the first message.
        show: Shows an answer's content other than text.
    """

    _conversation: Conversation
    _template: Template | None = None
    _show: Callable[[Answer], None] | None = None
    _fragments: list[str] = field(factory=list, init=False)
    _attached: list[Part] = field(factory=list, init=False)
    _last: Answer | None = field(default=None, init=False)
    _is_over: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.commands: dict[str, Callable[[str], object]] = {
            "/help": self._help,
            "/model": self._model,
            "/system": self._system,
            "/attach": self.attach,
            "/edit": self._edit,
            "/retry": self._retry,
            "/undo": self._undo,
            "/resume": self._resume,
            "/reset": self._reset,
            "/details": self._details,
            "/save": self._save,
            "/quit": self._quit,
        }

    def take(self, line: str) -> bool:
        """Process a line. Errors do not end the chat. Returns False at the end of the chat."""
        name, _, rest = line.strip().partition(" ")
        try:
            if name in self.commands:
                self.commands[name](rest.strip())
            elif name.startswith("/") and name[1:].isalpha():
                note(f"unknown command {name}; list commands: /help")
            elif line.strip():
                self._send(line)
        except Conflict:
            raise  # the conversation cannot continue
        except GenaiError as error:
            if isinstance(error, TurnPaused):
                for call in calls_of(self._conversation.current_pause) or ():
                    show_call(call)
                error.hint = give_in_chat(self._conversation)
            show_error(error)
        except KeyboardInterrupt:
            note("\nstopped")
        return not self._is_over

    def begin_with(self, fragments: Sequence[str]) -> None:
        """Prepend these files and URLs to the next message."""
        from genai_host.prompts.attachments import read_fragments

        self._fragments = read_fragments(fragments)

    def attach(self, source: str) -> None:
        """attach a file or URL to the next message"""
        from genai_host.prompts.attachments import attachment, shown

        if not source:
            note("/attach FILE or /attach URL")
            return
        part = attachment(source)
        if part not in self._attached:
            self._attached.append(part)
        note(f"attached to the next message: {shown(source)}")

    def _send(self, text: str) -> None:
        from genai_host.prompts.attachments import with_fragments

        leave_out(self._conversation, give_in_chat(self._conversation), again="/retry")
        template = self._template
        if template is not None:
            text = template.prompt_text(text)
        self._answer([with_fragments(self._fragments, text), *self._attached])
        self._fragments = []
        if template is not None and not template.takes_input:
            self._template = None  # it was sent

    def _answer(self, message: UserInput | None, *, regenerate: bool = False) -> None:
        """Send a message; to regenerate, in place of the last one, or that one again if None. It
        remains if the new answer fails."""
        self._keep(answered(self._conversation, message, regenerate=regenerate))

    def _keep(self, answer: Answer) -> None:
        self._last = answer
        sent = self._conversation.last_message
        assert sent is not None  # it has just been answered
        self._attached = [part for part in self._attached if part not in sent.content]
        if self._show is not None:
            self._show(answer)

    def _help(self, _: str) -> None:
        """list the commands"""
        for name, function in self.commands.items():
            note(f"{name:<10}{docstring(function)}")

    def _model(self, name: str) -> None:
        """switch to another model, or show the current one"""
        if name:
            self._conversation.use(name)
        note(described(self._conversation))

    def _system(self, text: str) -> None:
        """change the system prompt, or show the current one"""
        if not text:
            current = getattr(self._conversation.settings, "system_prompt", "")
            note(current or "no system prompt")
            return
        self._conversation.configure(system_prompt=text)
        note("system prompt changed")

    def _edit(self, _: str) -> None:
        """edit your last message and send it again"""
        message = self._conversation.last_message
        if message is None:
            note("nothing to edit")
            return
        try:
            text = click.edit(_typed_text(message))
        except click.ClickException as error:
            note(f"nothing was sent: {error.format_message()}")
            return
        if text is None or not text.strip():
            note("nothing was sent")
            return
        self._answer(_with_typed_text(message, text.strip()), regenerate=True)

    def _retry(self, _: str) -> None:
        """send your last message again"""
        if self._conversation.last_message is None:
            note("nothing to retry")
            return
        self._answer(None, regenerate=True)

    def _undo(self, _: str) -> None:
        """remove your last message and its answer"""
        message = self._conversation.undo()
        note("nothing to undo" if message is None else "removed the last message and its answer")

    def _resume(self, value: str) -> None:
        """resume an interrupted or paused turn"""
        give = give_in_chat(self._conversation)
        self._keep(resumed(self._conversation, value or None, give=give))

    def _reset(self, _: str) -> None:
        """clear the history"""
        self._conversation.reset()
        note("history cleared")

    def _details(self, _: str) -> None:
        """show the steps, tokens and cost of the last answer"""
        if self._last is None:
            note("no answer yet")
            return
        show_details(self._last)

    def _save(self, file: str) -> None:
        """write the conversation to a file: JSON if its name ends in .json, else Markdown"""
        from genai_host.conversations.transcript import write_transcript

        option, _, rest = file.partition(" ")
        overwrite = option == "--overwrite"
        file = rest.strip() if overwrite else file
        if not file:
            note("/save FILE.md or /save FILE.json; /save --overwrite FILE replaces a file")
            return
        write_transcript(self._conversation.history, file, overwrite=overwrite)
        note(f"saved: {file}")

    def _quit(self, _: str) -> None:
        """end the chat"""
        self._is_over = True


def _typed_text(message: Message) -> str:
    """The typed text of a message: its first text; other texts are attached files."""
    from genai_host.api import Text

    return next((part.text for part in message.content if isinstance(part, Text)), "")


def _with_typed_text(message: Message, text: str) -> Message:
    """A copy of a message with another typed text and the same attachments."""
    from attrs import evolve

    from genai_host.api import Text

    parts = list(message.content)
    typed = next((place for place, part in enumerate(parts) if isinstance(part, Text)), None)
    if typed is None:
        parts.insert(0, Text(text))
    else:
        parts[typed] = Text(text)
    return evolve(message, content=parts)
