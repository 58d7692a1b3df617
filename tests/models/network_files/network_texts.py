"""Texts of network files that the tests share, and how they are read and refused."""

from __future__ import annotations

import re
import time
import tracemalloc
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from doxa.models.categorical import CategoricalNetwork
from doxa.models.dag import Dag
from doxa.models.network_files import NetworkFileError, read_network

MAX_SECONDS = 1.0  # of CPU
MAX_TIMES = 20
FLOOR = 2**16  # bytes: the error and its words, a dictionary of 256 names, what a small file takes

MODELS = Path(next(iter(find_spec("pgmpy").submodule_search_locations)), "utils", "example_models")
LARGE = {"barley", "diabetes", "mildew", "munin2", "munin3", "munin4", "pathfinder"}  # munin stands for them
REFERENCES = [
    pytest.param(name, marks=pytest.mark.slow if name in LARGE else ())
    for name in sorted(path.name.removesuffix(".bif.gz") for path in MODELS.glob("*.bif.gz"))
]

BIF = """\
network lawn {
  property "author nobody" ;
}
variable rain {  // a comment
  type discrete [ 2 ] { no, yes };
}
variable "wet grass" {
  type discrete [ 3 ] { "dry", "a bit", soaked };
  property position = (0, 1) ;
}
variable sprinkler { type discrete[2]{off,on}; }
probability ( rain ) { table 0.8, 0.2; }
probability ( sprinkler | rain ) {
  (no) 0.6, 0.4;
  (yes) 0.99, 0.01;
}
probability ( "wet grass" | sprinkler, rain ) {
  (off, no) 1.0, 0.0, 0.0; /* dry */
  (on, no) 0.2, 0.3, 0.5;
  default 0.1, 0.2, 0.7;
}
"""

XMLBIF = """\
<?xml version="1.0" encoding="US-ASCII"?>
<!-- a lawn -->
<!DOCTYPE BIF [
  <!ELEMENT BIF ( NETWORK )*> <!-- declared -->
  <!ATTLIST BIF VERSION CDATA #REQUIRED>
  <!ELEMENT NETWORK ( NAME, ( PROPERTY | VARIABLE | DEFINITION )* )>
]>
<BIF VERSION="0.3">
<NETWORK>
<NAME>lawn</NAME>
<PROPERTY>author nobody &#38; nothing</PROPERTY>
<VARIABLE TYPE="nature"><NAME>rain</NAME><OUTCOME>no</OUTCOME><OUTCOME>yes</OUTCOME><PROPERTY/></VARIABLE>
<VARIABLE TYPE='nature'>
  <NAME> wet grass </NAME><OUTCOME>dry</OUTCOME><OUTCOME>a bit</OUTCOME><OUTCOME><![CDATA[soaked]]></OUTCOME>
</VARIABLE>
<VARIABLE><NAME>sprinkler</NAME><OUTCOME>off</OUTCOME><OUTCOME>on</OUTCOME></VARIABLE>
<DEFINITION><FOR>rain</FOR><TABLE>0.8 0.2</TABLE></DEFINITION>
<DEFINITION><FOR>sprinkler</FOR><GIVEN>rain</GIVEN><TABLE>0.6 0.4 <!-- yes --> 0.99 0.01</TABLE></DEFINITION>
<DEFINITION>
  <FOR>wet grass</FOR><GIVEN>sprinkler</GIVEN><GIVEN>rain</GIVEN>
  <TABLE>
    1 0 0
    .1 .2 .7
    0.2 0.3 0.5
    1e-1 0.2 7E-1
  </TABLE>
</DEFINITION>
</NETWORK>
</BIF>
"""

NET = """\
% a lawn
net
{
    node_size = (80 40);
    name = "a lawn {with} brackets; % and signs";
}
node rain
{
    label = "";
    states = ("no" "yes");  % in this order
    position = (10 20);
}
discrete node wet_grass
{
    states=( "dry" "a bit" "soaked" );
}
discrete chance node sprinkler { states = ("off" "on"); subtype = boolean; }
potential (rain | ) { data = ( 0.8 0.2 ); }
potential (sprinkler | rain)
{
    data = (( 0.6   0.4 )    % rain = no
            ( 0.99  0.01 )); % (yes
    experience = ( 10 20 );
}
potential ( wet_grass | sprinkler rain )
{
    data = (((1 0 0) (.1 .2 .7)) % off
            ((0.2 0.3 0.5) (1e-1 0.2 7E-1)));
}
"""

DSC = """\
belief network "a lawn"
// written by hand
node rain
{
  name: "Rain; {or not}";
  type : discrete [ 2 ] = { "no", "yes" };
  position: (10, 20);
}
node wet_grass { type: discrete[3] = { "dry", "a bit", soaked }; }
node sprinkler { type:discrete[2]={"off","on"}; }
probability(rain) { 0.8, 0.2; }
probability ( sprinkler | rain )
{
  (0): 0.6, 0.4;
  (1) : 0.99, /* a lot */ 0.01;
}
probability(wet_grass | sprinkler, rain)
{
  (0, 0): 1, 0, 0;
  (1, 0):0.2, 0.3, 0.5;
  default: .1, .2, 7E-1;
}
"""

XDSL = """\
<?xml version="1.0" encoding="UTF-8"?>
<!-- a lawn -->
<smile version="1.0" id="lawn" numsamples="10000">
  <properties><property id="p">text</property></properties>
  <nodes>
    <cpt id="rain"><state id="no" /><state id="yes" />
      <probabilities>0.8 0.2</probabilities><property id="kind">sky &lt; earth</property></cpt>
    <cpt id='wet_grass' diagtype="observation">
      <state id="dry"/>
      <state id="a&#32;bit" fault="true"/>
      <state id="soaked"/>
      <parents>sprinkler rain</parents>
      <probabilities>1 0 0  .1 .2 .7  0.2 0.3 0.5 <!-- on, yes --> 1e-1 0.2 7E-1</probabilities>
    </cpt>
    <cpt id="sprinkler">
      <state id="off"></state><state id="on"></state>
      <parents> rain </parents><probabilities>
        0.6 0.4
        0.99 0.01
      </probabilities>
    </cpt>
  </nodes>
  <extensions><genie version="1.0"><node id="rain"><name>Rain</name><interior color="e5f6f7"/></node></genie>
  </extensions>
</smile>
"""

UAI = """\
c a lawn
BAYES
3
2 3 2   # rain, wet grass, sprinkler
3
1 0
2 0 2
3 2 0 1

2
 0.8 0.2

4
 0.6 0.4
 0.99 0.01

12
 1 0 0
 .1 .2 .7
 0.2 0.3 0.5
 1e-1 0.2 7E-1
"""

MARKOV = """\
MARKOV
3
2 2 3
3
2 0 1
2 2 1
0
4 1.0 0.0 0.25 3.5
6 1 2 3 4 5 6
1 2.5
"""

JSON = """\
{
"format": "doxa network",
"version": 1,
"kind": "Gaussian",
"nodes": [
{"name": "pressure", "parents": ["age", "sex", "smokes"],
 "regression": {"intercept": [[80, 88.0], [81, 89], [8.2e1, 90]],
                "coefficients": [[[0.7], [0.8]], [[0.75], [0.85]], [[-0.0], [0.9]]],
                "sd": [[8, 8], [8, 9], [0, 1e1]]}},
{"name": "smokes", "states": ["no", "yes"], "parents": ["sex"], "table": [[0.6, 0.4], [0.5, 0.5], [0.25, 0.75]]},
{"name": "ill", "states": ["not", "a bit", "very"], "parents": ["age", "smokes", "pressure"],
 "log_odds": {"coefficients": [[[0.1, 0.01], [0.2, 0.02]], [[0.3, 0.03], [0.4, 0.04]]],
              "intercept": [[-1, -2], [-3, -4.5]]}},
{"name": "age", "parents": [], "regression": {"intercept": 50.0, "coefficients": [], "sd": 10.0}},
{"name": "sex", "states": ["f", "m", "\\u00e9 \\"d\\""], "parents": [], "table": [0.5, 0.25, 0.25]},
{"name": "weight", "parents": ["age", "pressure"], "regression": {"sd": 3, "intercept": 1, "coefficients": [5, 7]}}
]
}
"""

CPDS = """\
{"cpds": {"b": {"variance": [2.25], "parents": ["c", "a"],
                "coefficients": {"c": [3], "(Intercept)": [-1.5], "a": [2e0]}},
          "a": {"coefficients": {"(Intercept)": [1]}, "variance": [0], "parents": []},
          "c": {"coefficients": {"(Intercept)": [0], "a": [0.1]}, "variance": [4], "parents": ["a"]}},
 "nodes": ["a", "b", "c"], "arcs": [["a", "b"], ["c", "b"], ["a", "c"]]}
"""

LAWN = CategoricalNetwork(
    Dag.from_edges(
        [("rain", "sprinkler"), ("rain", "wet grass"), ("sprinkler", "wet grass")], ["rain", "wet grass", "sprinkler"]
    ),
    {
        "rain": [0.8, 0.2],
        "sprinkler": [[0.6, 0.4], [0.99, 0.01]],
        "wet grass": [[[1, 0, 0], [0.2, 0.3, 0.5]], [[0.1, 0.2, 0.7], [0.1, 0.2, 0.7]]],  # rain, then sprinkler
    },
    {"rain": ["no", "yes"], "wet grass": ["dry", "a bit", "soaked"], "sprinkler": ["off", "on"]},
)


def lawn_of_words():
    """The lawn without a blank in a variable's name."""
    names = ["rain", "wet_grass", "sprinkler"]
    tables = dict(zip(names, LAWN.tables.values(), strict=True))
    return CategoricalNetwork(Dag(LAWN.dag.adjacency, names), tables, dict(zip(names, LAWN.states, strict=True)))


def read(folder, name, text):
    path = Path(folder, name)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_network(path)


def refusal(folder, name, text):
    """Where and why a text is refused: 'LINE:COLUMN: CAUSE', or the cause alone where the whole file is meant."""
    with pytest.raises(NetworkFileError) as refused:
        read(folder, name, text)
    error = refused.value
    assert error.path == str(Path(folder, name))
    where = "" if error.line is None else f", line {error.line}, column {error.column}"
    assert str(error) == f"network {error.path!r}{where}: {error.cause}"
    return error.cause if error.line is None else f"{error.line}:{error.column}: {error.cause}"


def assert_refused(folder, name, text, message):
    """A message with '...' stands for every message that begins and ends so."""
    said = refusal(folder, name, text)
    pattern = ".*".join(map(re.escape, message.split("...")))
    assert re.fullmatch(pattern, said, re.DOTALL), said


def assert_same(network, other):
    """The same graph, names and states, and tables to the last bit."""
    assert network.dag == other.dag
    assert network.states == other.states
    for name, table in network.tables.items():
        np.testing.assert_array_equal(table, other.tables[name])


def assert_cheap_refusal(path, text, read=read_network):
    """At most a second of CPU, and 20 times the file's size in memory, beyond a floor that files of 1 kB need.

    Returns why it is refused.
    """
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    begun = time.process_time()
    with pytest.raises(NetworkFileError) as refused:
        read(path)
    assert time.process_time() - begun < MAX_SECONDS
    assert len(refused.value.cause) < 500
    tracemalloc.start()
    try:
        with pytest.raises(NetworkFileError):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < MAX_TIMES * path.stat().st_size + FLOOR
    finally:
        tracemalloc.stop()
    return refused.value.cause
