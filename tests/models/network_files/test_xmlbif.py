"""XMLBIF: the forms in circulation, entities, and every way of being broken, with line, column and cause."""

from __future__ import annotations

import gzip

import pytest
from network_texts import LAWN, XMLBIF, assert_refused, assert_same, read, refusal


def around(inside):
    return f"<BIF><NETWORK>{inside}</NETWORK></BIF>"


def variable(name, *states):
    return f"<VARIABLE><NAME>{name}</NAME>{''.join(f'<OUTCOME>{state}</OUTCOME>' for state in states)}</VARIABLE>"


def definition(child, table, *parents):
    given = "".join(f"<GIVEN>{parent}</GIVEN>" for parent in parents)
    return f"<DEFINITION><FOR>{child}</FOR>{given}<TABLE>{table}</TABLE></DEFINITION>"


COIN = variable("a", "heads", "tails")
FAIR = definition("a", "0.5 0.5")


@pytest.mark.parametrize("end", ["xml", "xmlbif", "bifxml", "XML"])
def test_the_lawn_is_read(tmp_path, end):
    assert_same(read(tmp_path, f"lawn.{end}", XMLBIF), LAWN)
    assert_same(read(tmp_path, f"lawn.{end}.gz", gzip.compress(XMLBIF.encode())), LAWN)


@pytest.mark.parametrize(
    "doctype",
    [
        "<!DOCTYPE BIF>",
        '<!DOCTYPE BIF SYSTEM "http://nowhere.invalid/bif.dtd">',
        "<!DOCTYPE BIF PUBLIC 'a' \"b[<>]\" [ <?x ?> ] >",
        "<!DOCTYPE BIF [<!ELEMENT NAME (#PCDATA)><!-- <!ENTITY > --><!NOTATION n SYSTEM 'x>'>]>",
    ],
)
def test_document_types_that_declare_no_entities_are_passed_over(tmp_path, doctype):
    assert_same(read(tmp_path, "lawn.xml", doctype + XMLBIF[XMLBIF.index("<BIF") :]), LAWN)


@pytest.mark.parametrize(
    ("encoding", "codec"),
    [
        ("UTF-8", "utf-8"),
        ("utf-8", "utf-8-sig"),
        ("ISO-8859-1", "latin-1"),
        ("windows-1252", "cp1252"),
        ("UTF-16", "utf-16"),
    ],
)
def test_declared_encodings_are_obeyed(tmp_path, encoding, codec):
    text = f"<?xml version='1.0' encoding='{encoding}'?>" + around(variable("é", "à", "ß") + definition("é", "0 1"))
    network = read(tmp_path, "e.xml", text.encode(codec))
    assert (network.names, network.states) == (("é",), (("à", "ß"),))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Asy/Patch", "Asy/Patch"),
        ("a b", "a b"),
        ("\n  a  b\r\n", "a  b"),
        ("&lt;5 &amp;&gt;&quot;&apos;", "<5 &>\"'"),
        ("&#233;&#x65E5;&#10;x", "é日\nx"),
        ("<![CDATA[<&lt;]]>", "<&lt;"),
        ("a<!-- b -->c<? d ?>", "ac"),
        ("&amp;lt;", "&lt;"),
    ],
)
def test_names_are_what_xml_says(tmp_path, text, name):
    network = read(tmp_path, "a.xml", around(variable(text, text) + definition(text, "1")))
    assert (network.names, network.states) == ((name,), ((name,),))


BAD = {
    "empty": ("", "the file is empty"),
    "no XML": ("variable a {", "1:1: there is text outside of the elements; is it an XML file?"),
    "another XML": ("<html></html>", "1:1: the element 'html' is not expected here, and XMLBIF begins with BIF"),
    "no network": ("<BIF></BIF>", "1:1: there is no element NETWORK; is it a file of another format?"),
    "an empty network": (around(""), "1:1: it declares no variable; has the file been cut off?"),
    "two networks": ("<BIF><NETWORK/><NETWORK/></BIF>", "1:16: there is a second NETWORK; keep one of the two"),
    "two files": ("<BIF/>\n<BIF/>", "2:1: there is a second element behind the one that holds the network"),
    "an end too many": ("<BIF/></BIF>", "1:7: the element 'BIF' ends here, but is not the last that began"),
    "not nested": ("<BIF><NETWORK></BIF>", "1:15: the element 'BIF' ends here, but is not the last that began"),
    "cut off": ("<BIF>\n<NETWORK>", "2:10: the element 'NETWORK' does not end: the file has been cut off"),
    "cut in an element": ("<BIF><NETW", "1:6: '<NETW' is no element; has the file been cut off?"),
    "cut in a comment": ("<BIF><!-- x", "1:6: a comment is not closed; has the file been cut off?"),
    "cut in CDATA": ("<BIF><![CDATA[ x", "1:6: a CDATA section is not closed; has the file been cut off?"),
    "text in between": (around("x"), "1:15: there is text in NETWORK outside of its elements"),
    "an unknown element": (around("<XPOS/>"), "1:15: the element 'XPOS' is not expected here in NETWORK"),
    "a decision": (
        around('<VARIABLE TYPE="decision"><NAME>a</NAME></VARIABLE>'),
        "1:15: a variable is of the type 'decision'; only networks of type 'nature' are read",
    ),
    "no name": (around("<VARIABLE></VARIABLE>"), "1:15: this VARIABLE has 0 elements NAME; it has one"),
    "an empty name": (around(variable(" ", "x")), "1:25: the element NAME is empty; it holds a name"),
    "no states": (around(variable("a")), "1:15: the variable 'a' has no OUTCOME; give its states"),
    "a state twice": (
        around(variable("a", "x", "y", "x")),
        "1:79: 'a' has the state 'x' more than once; states must differ",
    ),
    "a variable twice": (around(COIN + COIN), "1:108: the variable 'a' is declared twice; take one of the two away"),
    "a table missing": (around(COIN), "1:25: the variable 'a' has no table; has the file been cut off?"),
    "no table": (
        around(COIN + "<DEFINITION><FOR>a</FOR></DEFINITION>"),
        "1:98: the definition of 'a' has 0 elements TABLE; it has one",
    ),
    "a definition twice": (around(COIN + FAIR + FAIR), "1:157: there is a second table of 'a'..."),
    "two children": (
        around(COIN + "<DEFINITION><FOR>a</FOR><FOR>b</FOR></DEFINITION>"),
        "1:98: this DEFINITION has 2 elements FOR; it has one",
    ),
    "an unknown parent": (around(COIN + definition("a", "1", "b")), "1:98: 'b' is not declared as a variable"),
    "a cycle": (
        around(COIN + definition("a", "1 0 0 1", "a")),
        "1:98: there is the cycle 'a' -> 'a'; take one of its edges away",
    ),
    "too few": (around(COIN + definition("a", "1")), "1:98: there are 1 numbers for 'a', and there should be 2"),
    "no number": (around(COIN + definition("a", "1 x")), "1:131: 'x' stands where a number should"),
    "not a number": (around(COIN + definition("a", "NaN 1")), "1:129: 'NaN' stands where a number should"),
    "1.7 and -0.7": (
        around(COIN + definition("a", "<!-- -->-0.7<!-- --> 1.7")),
        "1:137: the probability of 'a' = 'heads' is -0.7; probabilities are numbers from 0 to 1",
    ),
    "a sum": (
        around(COIN + variable("b", "x") + definition("b", "1") + definition("a", "0.5\n0.4", "b")),
        "1:253: the probabilities of 'a' given 'b' = 'x' sum to 0.9; they must sum to 1",
    ),
    "an entity": (around(variable("&x;", "y")), "1:31: '&x;' begins with no reference that XML knows"),
    "a bare ampersand": (around(variable("a & b", "y")), "1:31: '& b' begins with no reference that XML knows"),
    "a surrogate": (around(variable("&#xD800;", "y")), "1:31: '&#xD800;' begins with no reference that XML knows"),
    "a control character": (around(variable("&#27;", "y")), "1:31: '&#27;' begins with no reference that XML knows"),
    "a raw control character": ("<BIF>\x1b", "1:6: the character '\\x1b' does not belong in XML"),
    "a nest": (around("<PROPERTY>" * 2), "1:25: the element 'PROPERTY' is not expected here in PROPERTY"),
    "a document type cut off": ("<!DOCTYPE BIF [ <!ELEMENT", "1:17: the document type is not of XML, or cut off"),
    "an unknown encoding": (
        '<?xml version="1.0" encoding="EBCDIC"?><BIF/>',
        "its encoding 'EBCDIC' is not read; convert the file, and what it declares, to UTF-8",
    ),
    "not of its encoding": (
        '<?xml version="1.0" encoding="US-ASCII"?>\n<BIF>é'.encode(),
        "2:6: the byte 0xc3 shows that it is not ASCII, as it declares; convert it to UTF-8",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_xmlbif_files_that_cannot_be_read_are_refused(tmp_path, name):
    text, message = BAD[name]
    assert_refused(tmp_path, "network.xml", text, message)


LAUGHS = "".join(f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(9))


@pytest.mark.parametrize(
    "inside",
    [
        f'<!ENTITY a "aaaaaaaaaa">{LAUGHS}',
        '<!ENTITY x SYSTEM "file:///etc/hostname">',
        '<!ENTITY % x SYSTEM "http://nowhere.invalid/x"> %x;',
        "%x;",
    ],
)
def test_entities_are_refused_where_they_are_declared(tmp_path, inside):
    text = f"<!DOCTYPE BIF [\n{inside}]>" + around(variable("&j;", "x"))
    assert refusal(tmp_path, "bomb.xml", text) == (
        "2:1: entities are declared here; they are not read, write the text itself"
    )


def test_truncations_are_refused(tmp_path):
    text = XMLBIF.rstrip()
    for length in range(0, len(text), 3):
        refusal(tmp_path, "lawn.xml", text[:length])
