"""What is written is read again, by us and by others: the reference networks, odd names, and whole files or none."""

from __future__ import annotations

import gzip
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from network_texts import LAWN, MODELS, REFERENCES, assert_same

from doxa.errors import ArgumentError, ArgumentTypeError, FileError
from doxa.models.categorical import CategoricalNetwork
from doxa.models.dag import Dag
from doxa.models.markov import MarkovNetwork
from doxa.models.network_files import read_network, write_network

ENDS = (".bif", ".xml", ".net", ".dsc", ".xdsl", ".uai", ".json")
ISING = MarkovNetwork({"a b": ["-", "+"], "c": ["-", "+"]}, [(["c", "a b"], [[1, -np.inf], [0, 2]]), ([], 0.5)])


def coin(name, *labels):
    return CategoricalNetwork(Dag([[0]], [name]), {name: np.full(len(labels), 1 / len(labels))}, {name: labels})


@pytest.mark.parametrize("name", REFERENCES)
def test_reference_networks_survive_every_format(tmp_path, name):
    network = read_network(MODELS / f"{name}.bif.gz")
    for end in ENDS:
        write_network(network, tmp_path / f"network{end}")
        assert_same(read_network(tmp_path / f"network{end}"), network)


@pytest.mark.parametrize("end", [*ENDS, ".xmlbif", ".bifxml", ".bif.gz", ".XML.GZ", ".uai.gz"])
def test_the_lawn_survives_every_name(tmp_path, end):
    write_network(LAWN, tmp_path / f"lawn{end}")
    assert_same(read_network(tmp_path / f"lawn{end}"), LAWN)
    content = (tmp_path / f"lawn{end}").read_bytes()
    assert content.startswith(b"\x1f\x8b") == end.lower().endswith(".gz")
    write_network(read_network(tmp_path / f"lawn{end}"), tmp_path / f"again{end}")
    if not content.startswith(b"\x1f\x8b"):
        assert (tmp_path / f"again{end}").read_bytes() == content


def test_a_format_may_be_named(tmp_path):
    write_network(LAWN, tmp_path / "lawn", format="uai")
    assert_same(read_network(tmp_path / "lawn", format="uai"), LAWN)


def test_markov_networks_survive_uai_alone(tmp_path):
    write_network(ISING, tmp_path / "i.uai.gz")
    network = read_network(tmp_path / "i.uai.gz")
    assert (network.names, network.states) == (ISING.names, ISING.states)
    for ours, theirs in zip(network.factors, ISING.factors, strict=True):
        assert ours.variables == theirs.variables
        np.testing.assert_allclose(ours.log_values, theirs.log_values, rtol=1e-15)
    for end, kind in (
        (".bif", "bif"),
        (".xml", "xmlbif"),
        (".net", "net"),
        (".dsc", "dsc"),
        (".xdsl", "xdsl"),
        (".json", "json"),
    ):
        with pytest.raises(ArgumentError, match=rf"which the format '{kind}' cannot hold; write UAI \(.uai\)$"):
            write_network(ISING, tmp_path / f"i{end}")


def test_names_of_uai_are_left_out_where_they_are_its_own(tmp_path):
    write_network(MarkovNetwork({"X0": ["0", "1"]}, []), tmp_path / "x.uai")
    assert (tmp_path / "x.uai").read_text() == "MARKOV\n1\n2\n0\n"
    write_network(MarkovNetwork({"X0": ["1", "0"]}, []), tmp_path / "x.uai")
    assert (tmp_path / "x.uai").read_text() == 'MARKOV\n1\n2\n0\n\n# variable 0: ["X0", "1", "0"]\n'


def test_small_numbers_keep_their_digits(tmp_path):
    values = [5e-324, 1.2345678901234567e-17, 1e-5, 1 - 1e-5]
    network = CategoricalNetwork(Dag([[0]], ["a"]), {"a": values}, {"a": list("wxyz")})
    for end in ENDS:
        write_network(network, tmp_path / f"a{end}")
        assert_same(read_network(tmp_path / f"a{end}"), network)
    assert "e" not in (tmp_path / "a.uai").read_text().partition("#")[0]  # some readers know no exponents


ODD = ["Asy/Patch", "a b", " a", "\t", "(", "a)b", "{;}", "a,b", "x|y", "<5", "&amp;", "'", "//", "/* */", "#", "table",
       "default", "é", "日本", "\x85", "]]>", "5e-3", "-", "%", "\\", "$"]  # fmt: skip
QUOTES = ['"', 'a"b', '""', "a\nb", "\r", "\n"]


@pytest.mark.parametrize("name", ODD + QUOTES)
def test_odd_names_survive_or_are_refused_by_name(tmp_path, name):
    for network in (coin(name, "yes", "no"), coin("a", name, "no"), coin(name, name)):
        for end in ENDS:
            path = tmp_path / f"odd{end}"
            refused = name in QUOTES if end == ".bif" else name != name.strip() if end == ".xml" else False
            if refused:
                with pytest.raises(ArgumentError) as error:
                    write_network(network, path)
                assert str(error.value).startswith(f"the name {name!r} has ")
                assert not path.exists()
            else:
                write_network(network, path)
                assert_same(read_network(path), network)
                path.unlink()


NAMES = st.text(max_size=5, min_size=1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NAMES, min_size=3, max_size=5, unique=True), st.lists(NAMES, min_size=2, max_size=2, unique=True))
def test_any_name_survives_or_is_refused(tmp_path, names, labels):
    dag = Dag.from_edges([(names[0], names[1]), (names[2], names[1])], names)
    tables = {name: [0.25, 0.75] for name in names} | {names[1]: [[[0.5, 0.5], [0, 1]], [[1, 0], [1 / 3, 2 / 3]]]}
    network = CategoricalNetwork(dag, tables, dict.fromkeys(names, labels))
    for end in ENDS:
        try:
            write_network(network, tmp_path / f"any{end}")
        except (ArgumentError, FileError) as error:
            assert any(repr(name) in str(error) for name in (*names, *labels)) or "half a character" in str(error)  # noqa: PT017
            assert end in (".bif", ".xml")
        else:
            assert_same(read_network(tmp_path / f"any{end}"), network)


def test_names_that_no_file_can_hold_are_refused(tmp_path):
    with pytest.raises(ArgumentError, match=r"^the name '\\x1b' has a control character in it, which XML has no way"):
        write_network(coin("\x1b", "x"), tmp_path / "a.xml")
    with pytest.raises(FileError, match=r"a name contains '\\ud800', half a character$"):
        write_network(coin("\ud800", "x"), tmp_path / "a.bif")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("log_value", [1000.0, -1000.0])
def test_potentials_beyond_numbers_are_refused(tmp_path, log_value):
    network = MarkovNetwork({"a": ["x", "y"], "b": ["x"]}, [([], 1.0), (["a", "b"], [[0], [log_value]])])
    with pytest.raises(ArgumentError, match=rf"^the potential over a, b has the log value {log_value:g}; what other"):
        write_network(network, tmp_path / "a.uai")
    assert list(tmp_path.iterdir()) == []


# --- files ------------------------------------------------------------------------------------------------------------


def test_files_are_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.bif"
    write_network(LAWN, path)
    path.chmod(0o640)
    before = path.read_bytes()
    with pytest.raises(ArgumentError):
        write_network(coin("a", '"'), path)
    assert path.read_bytes() == before
    (tmp_path / "link.bif").symlink_to(path)
    write_network(coin("a", "x"), tmp_path / "link.bif")
    assert (tmp_path / "link.bif").is_symlink()
    assert path.read_bytes() != before
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.bif", "link.bif"]


def test_the_same_network_makes_the_same_packed_bytes(tmp_path):
    for name in ("a.bif.gz", "b.bif.gz"):
        write_network(LAWN, tmp_path / name)
    assert (tmp_path / "a.bif.gz").read_bytes() == (tmp_path / "b.bif.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.bif.gz").read_bytes()).startswith(b"network unknown {")


def test_files_that_cannot_be_written_are_refused(tmp_path):
    (tmp_path / "folder.bif").mkdir()
    with pytest.raises(FileError, match=r"folder.bif' is a folder; give the name of a file in it$"):
        write_network(LAWN, tmp_path / "folder.bif")
    with pytest.raises(FileError, match=r"no/a.bif': the folder '.*no' does not exist; create it first$"):
        write_network(LAWN, tmp_path / "no" / "a.bif")
    with pytest.raises(FileError, match=r"cannot be written: "):
        write_network(LAWN, tmp_path / "a\0.bif")
    with pytest.raises(FileError, match=r"^network '/dev/null' is no regular file; give another name$"):
        write_network(LAWN, "/dev/null", format="bif")


def test_arguments_are_checked(tmp_path):
    ends = r"its end must be one of .bif, .xml, .xmlbif, .bifxml, .net, .dsc, .xdsl, .uai, .json, also with .gz, "
    ends += "or format must be given$"
    for name in ("a.txt", "a", "a.gz", ".bif/a"):
        with pytest.raises(ArgumentError, match=ends):
            read_network(name)
        with pytest.raises(ArgumentError, match=ends):
            write_network(LAWN, name)
    with pytest.raises(ArgumentError, match=r"which is evidence by its name; read it by read_evidence_file$"):
        read_network("a.uai.evid.gz")
    with pytest.raises(ArgumentError, match=r"^format is 'hugin'; it must be one of 'bif', 'xmlbif', 'net', 'dsc',"):
        read_network("a.bif", format="hugin")
    with pytest.raises(ArgumentTypeError, match=r"^path is 3; it must be the name of a file$"):
        read_network(3)
    with pytest.raises(
        ArgumentTypeError, match=r"^path is b'a.bif'; it must be text, not bytes$|must be the name of a"
    ):
        read_network(b"a.bif")
    with pytest.raises(ArgumentError, match=r"^path is empty; it must be the name of a file$"):
        read_network("")
    with pytest.raises(ArgumentTypeError, match=r"^limits is 3; give a Limits, such as Limits\(max_numbers=2\*\*28\)$"):
        read_network(MODELS / "asia.bif.gz", limits=3)
    with pytest.raises(ArgumentTypeError, match=r"^network is of type Dag; give a CategoricalNetwork, a Gaussian"):
        write_network(LAWN.dag, tmp_path / "a.bif")


# --- other programs ---------------------------------------------------------------------------------------------------


def table_of(network, gum_network, node):
    """Table of a node of pyAgrum's, with our axes."""
    i = network.names.index(node)
    family = [*(network.names[p] for p in network.parents[i]), node]
    cpt = gum_network.cpt(node)
    return np.array(cpt.toarray()).transpose([list(cpt.names)[::-1].index(name) for name in family])


# munin and its kind have nothing that these lack, and take seconds
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["asia", "alarm", "child", "hailfinder", "pathfinder", "win95pts", "water"])
def test_pyagrum_reads_what_we_write(tmp_path, gum, name):
    network = read_network(MODELS / f"{name}.bif.gz")
    ends = [".bifxml"] if name == "child" else [".bif", ".bifxml"]  # its BIF reader knows no quotes and no slashes
    for end in ends:
        write_network(network, tmp_path / f"network{end}")
        other = gum.loadBN(str(tmp_path / f"network{end}"))
        assert set(other.names()) == set(network.names)
        assert other.sizeArcs() == network.dag.n_edges
        for node, states in zip(network.names, network.states, strict=True):
            assert other.variable(node).labels() == states
            table = table_of(network, other, node)
            # its BIF reader holds numbers in single precision
            np.testing.assert_allclose(table, network.tables[node], rtol=1e-6 if end == ".bif" else 1e-14, atol=1e-30)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pyagrum_reads_uai_of_one_parent(tmp_path, gum):
    """Beyond one parent its axes are not those of the format, where the last variable varies fastest."""
    dag = Dag.from_edges([("c", "a"), ("b", "c")], ["a", "b", "c"])
    tables = {"b": [0.25, 0.75], "c": [[0.5, 0.25, 0.25], [0, 1, 0]], "a": [[0.125, 0.875], [1, 0], [0.5, 0.5]]}
    network = CategoricalNetwork(dag, tables, {"a": list("xy"), "b": list("xy"), "c": list("xyz")})
    write_network(network, tmp_path / "a.uai")
    other = gum.loadBN(str(tmp_path / "a.uai"))
    for node, table in zip("012", ("a", "b", "c"), strict=True):
        np.testing.assert_array_equal(np.array(other.cpt(node).toarray()), network.tables[table])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_we_read_what_pyagrum_writes(tmp_path, gum):
    other = gum.fastBN("a[3]->c<-b->d", 2)
    for end, digits in ((".bif", 1e-9), (".bifxml", 1e-5)):
        gum.saveBN(other, str(tmp_path / f"b{end}"))
        network = read_network(tmp_path / f"b{end}")
        assert set(network.dag.edges) == {("a", "c"), ("b", "c"), ("b", "d")}
        for node in network.names:
            np.testing.assert_allclose(network.tables[node], table_of(network, other, node), atol=digits)


@pytest.fixture(scope="module")
def pgmpy_readers():
    """Its three readers; requirements/networks.txt has what their import needs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pgmpy.readwrite import BIFReader, UAIReader, XMLBIFReader
    return {".bif": BIFReader, ".xml": XMLBIFReader, ".uai": UAIReader}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("end", [".bif", ".xml"])
@pytest.mark.parametrize("name", ["asia", "child", "sachs"])
def test_pgmpy_reads_what_we_write(tmp_path, pgmpy_readers, name, end):
    network = read_network(MODELS / f"{name}.bif.gz")
    write_network(network, tmp_path / f"network{end}")
    other = pgmpy_readers[end](str(tmp_path / f"network{end}")).get_model()
    assert set(other.edges()) == set(network.dag.edges)
    for i, node in enumerate(network.names):
        cpd = other.get_cpds(node)
        assert tuple(cpd.state_names[node]) == network.states[i]
        axes = [cpd.variables.index(network.names[p]) for p in (*network.parents[i], i)]
        np.testing.assert_array_equal(cpd.values.transpose(axes), network.tables[node])


@pytest.mark.filterwarnings("ignore")
def test_pgmpy_reads_our_uai(tmp_path, pgmpy_readers):
    """Of directed networks, graph and numbers: its axes of their tables are not those of the format, child first."""
    network = read_network(MODELS / "cancer.bif.gz")
    write_network(network, tmp_path / "a.uai")
    reader = pgmpy_readers[".uai"](path=str(tmp_path / "a.uai"))
    names = dict(zip(reader.variables, network.names, strict=True))
    assert {(names[a], names[b]) for a, b in reader.get_model().edges()} == set(network.dag.edges)
    for child, numbers in reader.tables:
        np.testing.assert_array_equal(np.array(numbers, dtype=float), network.tables[names[child]].ravel())


@pytest.mark.filterwarnings("ignore")
def test_pgmpy_reads_our_markov_networks(tmp_path, pgmpy_readers):
    network = MarkovNetwork(
        {"a": ["x", "y"], "b": ["x", "y", "z"], "c": ["x", "y"]},
        [(["c", "b"], np.arange(6).reshape(2, 3) / 3), (["a", "b"], [[1, -np.inf, 2], [0, 0.5, -1]]), (["a"], [0, 1])],
    )
    write_network(network, tmp_path / "a.uai")
    other = pgmpy_readers[".uai"](path=str(tmp_path / "a.uai")).get_model()
    assert len(other.get_factors()) == len(network.factors)
    for theirs, (variables, log_values) in zip(other.get_factors(), network.factors, strict=True):
        assert theirs.variables == [f"var_{v}" for v in variables]
        np.testing.assert_array_equal(theirs.values, np.exp(log_values))
