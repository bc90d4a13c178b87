"""What relations of duckdb read is judged by their query, and never by rows or the names of folders."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from dpstats.data.guessed import check_duckdb
from dpstats.errors import SchemaError

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.filterwarnings("error")

UNSEEN = "its text does not show whether columns are made"
FOLDERS = "column 'g' is made from the names of folders"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """``a.parquet``, ``a.csv``, and ``codes`` with folders named after a column."""
    folder = tmp_path_factory.mktemp("files")
    table = pa.table({"y": np.arange(4.0), "g": ["100", "101", "102", "100"]})
    pq.write_to_dataset(table, folder / "codes", partition_cols=["g"])
    pq.write_table(table.select(["y"]), folder / "a.parquet")
    (folder / "a.csv").write_text("k,w\n1,2\n2,3\n")
    return folder


@pytest.fixture
def connection(folder):
    """Views and macros over files of codes, and a table of duckdb."""
    connection = duckdb.connect()
    connection.execute("create table t as select i::double as y, i as k from range(9) r(i)")
    connection.execute("create view over_table as from t")
    connection.execute(f"create view seen as from read_parquet('{folder}/codes/*/*.parquet')")
    connection.execute('create view "seen.parquet" as from seen')
    connection.execute(f"create macro made() as table from read_parquet('{folder}/codes/*/*.parquet')")
    connection.execute(f"create macro one() as (select max(g) from '{folder}/codes/*/*.parquet')")
    connection.execute(f"create macro range(a) as table from '{folder}/codes/*/*.parquet'")
    connection.execute(f"set variable files = '{folder}/codes/*/*.parquet'")
    return connection


HIDDEN = {
    "view": "from seen",
    "table macro": "from made()",
    "variable": "from read_parquet(getvariable('files'))",
    "joined text": "from read_parquet('{0}' || '/codes/*/*.parquet')",
    "list with a variable": "from read_parquet(['{0}/a.parquet', getvariable('files')])",
    "view beside a reader": "with u as (from '{0}/a.parquet') select y from seen",
    "macro beside a reader": "with u as (from '{0}/a.parquet') select y, one() as g from t",
    "macro of a known name": "with u as (from '{0}/a.parquet') from range(3)",
    "query beside a reader": "with u as (from '{0}/a.parquet') from query('from seen')",
    "view of the name of a file": "with u as (from '{0}/a.parquet') from \"seen.parquet\"",
    "table of another relation": "with u as (from '{0}/a.parquet') from relation",
    "view of the name of a part": "select * from (with seen as (from '{0}/a.parquet') from seen), seen",
}


@pytest.mark.parametrize("how", HIDDEN)
def test_readers_that_the_text_does_not_show_are_refused(how, connection, folder):
    relation = connection.sql("from seen")  # (duckdb finds it by its name)
    with pytest.raises(SchemaError, match=UNSEEN) as refused:
        check_duckdb(connection.sql(HIDDEN[how].format(folder)))
    assert len(str(refused.value)) <= 320 and relation.columns == ["y", "g"]


SHOWN = {
    "another reader without": "from read_parquet('{0}/codes/*/*.parquet'), "
    "(select y as z from read_parquet('{0}/a.parquet', hive_partitioning = false))",
    "a comment": "from read_parquet('{0}/codes/*/*.parquet') -- hive_partitioning = false",
    "a folder": "from read_parquet('{0}/codes')",
    "all below": "from read_parquet('{0}/codes/**')",
    "a list": "from read_parquet(['{0}/codes/g=100/*.parquet'])",
    "a quoted path": 'from "{0}/codes/*/*.parquet"',
    "a path in two parts": 'from "{0}/codes/*/*".parquet',
    "a subquery": "from t where y in (select y from '{0}/codes/*/*.parquet')",
    "types for texts": "from read_parquet('{0}/codes/*/*.parquet', hive_types_autocast = false, "
    "hive_types = {{'g': int}})",
}


@pytest.mark.parametrize("how", SHOWN)
def test_each_reader_has_its_own_options_and_paths(how, connection, folder):
    with pytest.raises(SchemaError, match=FOLDERS):
        check_duckdb(connection.sql(SHOWN[how].format(folder)))


def test_paths_are_those_that_duckdb_finds(connection, folder, monkeypatch):
    monkeypatch.chdir(folder / "codes")
    with pytest.raises(SchemaError, match=FOLDERS):
        check_duckdb(connection.sql("from read_parquet('g=*/*.parquet')"))
    monkeypatch.chdir("/")
    connection.execute(f"set file_search_path = '{folder}'")
    with pytest.raises(SchemaError, match=FOLDERS):
        check_duckdb(connection.sql("from read_parquet('codes/*/*.parquet')"))


@pytest.mark.parametrize("name", ["o'k", "a[b", "a b"])
def test_folders_of_any_name_are_seen(name, connection, tmp_path):
    (tmp_path / f"{name}=1").mkdir()
    pq.write_table(pa.table({"y": [1.0]}), tmp_path / f"{name}=1" / "a.parquet")
    with pytest.raises(SchemaError, match="from the names of folders"):
        check_duckdb(connection.sql(f"from read_parquet('{tmp_path}/*/*.parquet')"))


READ = {
    "view over a table": "from over_table",
    "plain path": "from read_parquet('{0}/a.parquet')",
    "quoted path": "from '{0}/*.parquet'",
    "path beside a table": "select t.y from t join '{0}/a.parquet' using (y)",
    "without": "from read_parquet('{0}/codes/*/*.parquet', hive_partitioning := false)",
    "variable without": "from read_parquet(getvariable('files'), HIVE_PARTITIONING = 0)",
    "texts": "from parquet_scan('{0}/codes/*/*.parquet', hive_types_autocast => false)",
    "part read twice": "with u as not materialized (from '{0}/a.parquet') from u a, u b",
    "pivot": "pivot t on k using sum(y)",
    "text like a parameter": "select y, '?$1''' as q from '{0}/a.parquet'",
    "no rows": "from t where false",
    "subquery for each row": "select y, (select max(k) from t b where b.y < t.y) as m from t",
    "recursion": "with recursive r as (select 1 as a union all select a + 1 from r where a < 5) from r",
}


@pytest.mark.parametrize("how", READ)
def test_what_the_text_shows_is_read(how, connection, folder):
    check_duckdb(connection.sql(READ[how].format(folder)))


def test_relations_that_are_made_by_methods_are_read(connection, folder):
    files = connection.read_parquet(f"{folder}/codes/*/*.parquet")
    check_duckdb(files.filter("y > 1").join(files.set_alias("other"), "y"))
    check_duckdb(connection.sql(f"from '{folder}/codes/*/*.parquet'").materialize())
    check_duckdb(connection.table("t"))


def test_files_of_another_machine_are_in_one_folder(connection):
    (leaf,) = json.loads(connection.sql("from t").explain(format="json"))
    leaf["name"] = "READ_PARQUET"

    def reading(path):
        query = f"from read_parquet('{path}')"
        plan = json.dumps([leaf]) * 3
        return SimpleNamespace(
            sql_query=lambda: query, explain=lambda format: plan, query=connection.sql("from t").query
        )

    for path in ("s3://a/b/*.parquet", "https://a/b.parquet?c=1"):
        check_duckdb(reading(path))
    for path in ("s3://a/*/b.parquet", "s3://a/b", "s3://a/**", "s3://a/b?/c.parquet"):
        with pytest.raises(SchemaError, match="of another machine"):
            check_duckdb(reading(path))
    with pytest.raises(SchemaError, match=FOLDERS):
        check_duckdb(reading("s3://a/g=1/b.parquet"))


@pytest.mark.parametrize("setting", ["physical_only", "optimized_only", "all"])
@pytest.mark.parametrize("more", [[], [(150.0, 3)]], ids=str)
def test_what_is_read_does_not_depend_on_the_values_of_a_column(more, setting, connection, folder):
    """By the largest value of y duckdb sees that the second part has no rows."""
    connection.executemany("insert into t values (?, ?)", more) if more else None
    connection.execute(f"set explain_output = '{setting}'")
    query = (
        "select y from t where y <= 100 union all "
        f"select y + w from (select t.y, w from t join read_csv('{folder}/a.csv') using (k) limit 9) "
        "where y > 100"
    )
    with pytest.raises(SchemaError, match="reads more than tables of duckdb"):
        check_duckdb(connection.sql(query))
    check_duckdb(connection.sql("from t"))
    assert connection.sql("select current_setting('explain_output')").fetchall() == [(setting,)]


def test_the_setting_is_restored_after_an_error(connection, monkeypatch):
    relation = connection.sql("from t")
    plans = iter([relation.explain(format="json"), None])

    def explain(format):
        return next(plans) or pytest.fail("as if by duckdb")

    odd = SimpleNamespace(explain=explain, query=relation.query)
    with pytest.raises(pytest.fail.Exception, match="as if by duckdb"):
        check_duckdb(odd)
    ((setting,),) = connection.sql("select current_setting('explain_output')").fetchall()
    assert setting.lower() == "physical_only"


def test_a_plan_that_cannot_be_had_in_full_is_refused(connection):
    relation = connection.sql("from t")
    one = SimpleNamespace(explain=lambda format: "[]", query=relation.query)
    with pytest.raises(SchemaError, match="not of a form that can be checked"):
        check_duckdb(one)
    connection.execute("set lock_configuration = true")
    with pytest.raises(SchemaError, match="lock_configuration") as refused:
        check_duckdb(relation)
    assert len(str(refused.value)) <= 320
