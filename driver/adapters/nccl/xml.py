"""Reads the XML of an NCCL topology file, from any author, into a flat list of elements.

Size, depth and number of elements are bounded while parsing, and no tree is built: a parent is an index into the list.
So neither an entity bomb nor a 10,000-deep nesting reaches the code that follows, which walks the list and never
recurses.
"""

from __future__ import annotations

import re
import xml.sax
import xml.sax.handler
import xml.sax.xmlreader
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from defusedxml import DefusedXmlException
from defusedxml.expatreader import DefusedExpatParser

from driver.adapters.files.input_file import read_input
from driver.errors import InputError
from driver.model.pci import PciAddress, parse_pci_address

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_ELEMENTS", "Element", "TopologyDocument", "read_document"]

# A machine with 16 GPUs and 16 NICs makes 25 kB, 200 elements and a depth of 13.
MAX_BYTES: Final = 4 * 1024**2
MAX_ELEMENTS: Final = 20_000
MAX_DEPTH: Final = 64

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,12}", re.ASCII)
_HEXADECIMAL: Final = re.compile(r"0[xX]([0-9a-fA-F]{1,8})", re.ASCII)

_HOW_TO_MAKE_ONE: Final = "any NCCL program writes a topology file with NCCL_TOPO_DUMP_FILE=topo.xml"


@dataclass(frozen=True, slots=True)
class Element:
    """An XML element.

    Attributes:
        tag: The element's name.
        attributes: The attributes as written.
        line: The line where it begins, from 1.
        parent: The index of the element around it; None for the root.
    """

    tag: str
    attributes: Mapping[str, str]
    line: int
    parent: int | None


@dataclass(frozen=True, slots=True)
class TopologyDocument:
    """The elements of an XML file, or of another file that was converted to them.

    Attributes:
        path: The file, for messages.
        elements: The elements in document order, so that a parent comes before its children; at least one.
        subject: What messages call the elements; the names of their tags by default.
    """

    path: Path
    elements: tuple[Element, ...]
    subject: str = ""

    def error(self, element: Element, message: str, *, hint: str | None = None) -> InputError:
        """Return an error that names the file, the line and the element."""
        subject = self.subject or f"<{element.tag[:40]}>"
        return InputError(f"{self.path}:{element.line}: {subject}: {message}", hint=hint)

    def integer(self, element: Element, name: str, *, least: int, most: int) -> int | None:
        """Return the decimal number in an attribute; None if the attribute is missing.

        Raises:
            InputError: The value is no number, or out of bounds.
        """
        text = element.attributes.get(name)
        if text is None:
            return None
        value = int(text) if _INTEGER.fullmatch(text) else None
        if value is None or not least <= value <= most:
            raise self.error(element, f"{name}={_shown(text)} is not a number from {least} to {most}")
        return value

    def address(self, element: Element, name: str) -> PciAddress:
        """Return the PCI address in an attribute.

        Raises:
            InputError: The attribute is missing or no PCI address.
        """
        text = element.attributes.get(name)
        if text is None:
            raise self.error(element, f"{name} is missing")
        try:
            return parse_pci_address(text)
        except ValueError as error:
            raise self.error(element, f"{name}: {error}") from error

    def hexadecimal(self, element: Element, name: str) -> str | None:
        """Return an attribute such as ``class="0x030200"`` as lower-case digits; None if missing or empty.

        Raises:
            InputError: The value is no hexadecimal number with a leading 0x.
        """
        text = element.attributes.get(name)
        if not text:
            return None
        match = _HEXADECIMAL.fullmatch(text)
        if match is None:
            raise self.error(element, f"{name}={_shown(text)} is not a number such as 0x030200")
        return match[1].lower()


def read_document(path: Path) -> TopologyDocument:
    """Read an XML file.

    Raises:
        InputError: The file cannot be read, is no XML, ends in the middle, has a document type or entities, or is
            larger or deeper than any topology file; the message names the file and, where there is one, the line.
    """
    data = read_input(
        path, MAX_BYTES, "an NCCL topology file (XML), or a machine description (.yaml)", too_large=_HOW_TO_MAKE_ONE
    )
    collector = _Collector(path)
    # A document type is of no use in a topology file, and entities, which make bombs, need one.
    parser = DefusedExpatParser(forbid_dtd=True)
    parser.setContentHandler(collector)
    parser.setErrorHandler(collector)
    collector.setDocumentLocator(parser)  # feed() does not, other than parse()
    try:
        parser.feed(data)
        parser.close()
    except DefusedXmlException as error:
        raise InputError(
            f"{path}:{collector.line}: a document type or entities are not allowed in a topology file",
            hint="remove the <!DOCTYPE ...> part",
        ) from error
    except (ValueError, LookupError) as error:  # an encoding that Python or expat does not know
        raise InputError(f"{path}:{collector.line}: cannot be decoded: {error}", hint="save it as UTF-8") from error
    return TopologyDocument(path, tuple(collector.elements))


class _Collector(xml.sax.handler.ContentHandler, xml.sax.handler.ErrorHandler):
    """Collects elements within the limits, and turns the parser's errors into InputError."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._path = path
        self._open: list[int] = []
        self._locator: xml.sax.xmlreader.Locator | None = None

    @property
    def line(self) -> int:
        """The line that the parser has reached."""
        return (self._locator.getLineNumber() if self._locator else None) or 1

    def setDocumentLocator(self, locator: xml.sax.xmlreader.Locator) -> None:  # noqa: N802 - SAX's name
        self._locator = locator

    def startElement(self, name: str, attrs: xml.sax.xmlreader.AttributesImpl) -> None:  # noqa: N802 - SAX's name
        if len(self._open) >= MAX_DEPTH:
            self._refuse(f"elements are nested deeper than {MAX_DEPTH}, the most that is read")
        if len(self.elements) >= MAX_ELEMENTS:
            self._refuse(f"more than {MAX_ELEMENTS} elements, the most that is read")
        parent = self._open[-1] if self._open else None
        self._open.append(len(self.elements))
        self.elements.append(Element(name, dict(attrs.items()), self.line, parent))

    def endElement(self, name: str) -> None:  # noqa: ARG002, N802 - SAX's signature
        self._open.pop()

    def fatalError(self, exception: BaseException) -> NoReturn:  # noqa: N802 - SAX's name
        line, reason = self.line, str(exception)
        if isinstance(exception, xml.sax.SAXParseException):
            line, reason = exception.getLineNumber() or line, exception.getMessage()
        if self._open:
            tag = self.elements[self._open[-1]].tag[:40]
            reason = f"{reason} inside <{tag}>: the file is damaged, or ends in the middle"
        raise InputError(f"{self._path}:{line}: not a topology file: {reason}", hint=_HOW_TO_MAKE_ONE) from exception

    error = fatalError

    def _refuse(self, reason: str) -> NoReturn:
        raise InputError(f"{self._path}:{self.line}: not a topology file: {reason}", hint=_HOW_TO_MAKE_ONE)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
