"""Which SQL may run: one reading statement, over our tables, with functions that only compute.

DuckDB itself parses the text, and its own syntax tree is checked node by node against lists of what is allowed, so what
a new version adds is refused until somebody has looked at it. The statement type alone would not do: a SELECT may hold
an INSERT in its WITH clause, and functions may run SQL given as text.
"""

import difflib
import re
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import duckdb
import orjson

from collector.problems import Problem
from collector.query_request import MAX_SQL_BYTES
from store.database import CATALOG, without_paths

STATEMENTS = "SELECT, EXPLAIN, DESCRIBE, SHOW TABLES and SUMMARIZE"

NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
TABLES = frozenset(
    {"BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "EMPTY", "PIVOT", "SHOW_REF", "CTE"}
)
MODIFIERS = frozenset(
    {
        "LIMIT_MODIFIER",
        "LIMIT_PERCENT_MODIFIER",
        "ORDER_MODIFIER",
        "DISTINCT_MODIFIER",
        "ORDER_DEFAULT",
        "ASCENDING",
        "DESCENDING",
    }
)
EXPRESSIONS = frozenset(
    {
        "BETWEEN",
        "CASE",
        "CAST",
        "COLLATE",
        "COLUMN_REF",
        "COMPARISON",
        "CONJUNCTION",
        "CONSTANT",
        "DEFAULT",
        "FUNCTION",
        "LAMBDA",
        "LAMBDA_REF",
        "OPERATOR",
        "PARAMETER",
        "POSITIONAL_REFERENCE",
        "STAR",
        "SUBQUERY",
        "TYPE",
        "WINDOW",
    }
)
TABLE_FUNCTIONS = frozenset({"generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest"})
"""The only functions that may stand in FROM; the others read files, settings or catalogs, run SQL, or act."""

FORBIDDEN_FUNCTIONS = frozenset(
    {
        "assert_true",  # fails with a text of the asker's choice, as `error` does
        "error",
        "current_setting",  # tells paths
        "getenv",
        "getvariable",
        "currval",
        "nextval",
        "setval",
        "setseed",
        "sleep_ms",
        "pg_sleep",
        "write_log",
        "get_block_size",
        "json_execute_serialized_sql",
        "json_serialize_plan",
        "query",
        "query_table",
        "which_secret",
        "which_secrets",
    }
)
FORBIDDEN_PREFIXES = ("__internal", "duckdb_", "pragma_", "read_", "python_")
INFORMATION_SCHEMA = frozenset({"tables", "columns", "views", "schemata"})
SHOWN = frozenset({'"tables"', "__show_tables_expanded"})

KEPT_TEXTS = 256
KEPT_CHARS = 4096
"""Dashboards ask the same again and again: so many texts, of that length at most, are checked once."""

EXPLAIN = re.compile(r"\s*explain\b(\s+analyze\b|\s*\([a-z_,\s]*\))?\s*(?=[\w(])", re.IGNORECASE)


class Guard:
    """Checks SQL before it runs; knows the tables and columns there are, to name the one that was meant."""

    def __init__(self, columns: dict[str, list[str]]) -> None:
        self.columns = columns
        # A database of its own that holds nothing: parsing cannot disturb the index.
        self._parser = duckdb.connect(":memory:", config={"autoload_known_extensions": "false", "threads": "1"})
        self._lock = threading.Lock()
        self._passed: dict[str, str] = {}
        """By the text asked: the statement to run. What is allowed depends on the text and on `columns` alone."""

        self._internal = {row[0] for row in self._parser.execute("select view_name from duckdb_views()").fetchall()}

    def close(self) -> None:
        """Let go of the parser."""
        with self._lock:
            self._parser.close()

    def checked(self, sql: str) -> str:
        """The statement to run; raises Problem if it may not."""
        known = self._passed.get(sql)
        if known is not None:
            return known
        statement = self._examined(sql)
        if len(sql) <= KEPT_CHARS:
            if len(self._passed) >= KEPT_TEXTS:
                self._passed.clear()
            self._passed[sql] = statement
        return statement

    def _examined(self, sql: str) -> str:
        if len(sql.encode(errors="surrogatepass")) > MAX_SQL_BYTES:
            raise Problem("limit", f"the SQL text is longer than {MAX_SQL_BYTES} bytes", limit="text", status=413)
        with self._lock:
            prefix, statement = self._statement(sql)
            tree = self._tree(statement)
        names = {str(key).lower() for key in _ctes(tree)}
        for name in names & self._internal:
            raise Problem("refused", f"a CTE may not be named {name!r}, which is a system view")
        for node in _walk(tree):
            self._check(node, names)
        return prefix + statement

    def _statement(self, sql: str) -> tuple[str, str]:
        statements = self._parsed(sql)
        if len(statements) != 1:
            what = "more than one statement" if statements else "no statement"
            raise Problem("sql", f"the text holds {what}", "send one statement at a time")
        kind, prefix = statements[0].type.name, ""
        if kind == "EXPLAIN":
            found = EXPLAIN.match(statements[0].query)
            if not found:
                raise Problem("sql", "EXPLAIN must be followed by the query at once, without a comment between")
            prefix = f"explain{found[1] or ''} "
            statements = self._parsed(statements[0].query[found.end() :])
            kind = statements[0].type.name if len(statements) == 1 else "MULTI"
        if kind != "SELECT":
            hint = "write the values of PIVOT out: ON column IN (…)" if kind == "MULTI" else f"use {STATEMENTS}"
            raise Problem("refused", f"this endpoint only reads: {_word(kind)} is refused", hint)
        return prefix, statements[0].query

    def _parsed(self, sql: str) -> list[Any]:
        try:
            return list(self._parser.extract_statements(sql))
        except duckdb.Error as error:
            raise Problem("sql", plain(error)) from None
        except (UnicodeError, ValueError) as error:
            raise Problem("sql", f"the text is not SQL: {error}") from None

    def _tree(self, statement: str) -> Any:
        found = self._parser.execute("select json_serialize_sql(?)", [statement]).fetchall()[0][0]
        try:
            tree = orjson.loads(found)
        except orjson.JSONDecodeError:
            raise Problem("limit", "the query is nested too deeply", limit="depth") from None
        if tree["error"]:
            raise Problem("sql", str(tree["error_message"]))
        return tree["statements"]

    def _check(self, node: dict[str, Any], ctes: set[str]) -> None:
        kind = node.get("type")
        if "class" in node:
            if node["class"] not in EXPRESSIONS:
                raise Problem("refused", f"{_word(str(node['class']))} is not served here")
            if "function_name" in node:
                self._check_function(str(node["function_name"]).lower())
        elif isinstance(kind, str):
            if kind not in NODES and kind not in TABLES and kind not in MODIFIERS:
                raise Problem("refused", f"this endpoint only reads: {_word(kind)} is refused", f"use {STATEMENTS}")
            if kind == "TABLE_FUNCTION":
                self._check_table_function(node)
            elif kind == "BASE_TABLE":
                self._check_table(node, ctes)
            elif kind == "SHOW_REF" and node.get("query") is None and node.get("table_name") not in SHOWN:
                raise Problem("refused", "only SHOW TABLES and SHOW ALL TABLES are served", "DESCRIBE a table instead")

    @staticmethod
    def _check_function(name: str) -> None:
        if name in FORBIDDEN_FUNCTIONS or name.startswith(FORBIDDEN_PREFIXES):
            raise Problem("refused", f"the function {name} is not served here")

    @staticmethod
    def _check_table_function(node: dict[str, Any]) -> None:
        name = str((node.get("function") or {}).get("function_name", "")).lower()
        if name not in TABLE_FUNCTIONS:
            raise Problem(
                "refused",
                f"the table function {name} is not served here",
                f"only {', '.join(sorted(TABLE_FUNCTIONS))} may stand in FROM",
            )

    def _check_table(self, node: dict[str, Any], ctes: set[str]) -> None:
        catalog, schema, name = (
            str(node.get(key, "")).lower() for key in ("catalog_name", "schema_name", "table_name")
        )
        if schema == "information_schema" and catalog in ("", CATALOG, "system") and name in INFORMATION_SCHEMA:
            return
        # `tachograph.events` names the catalog where a schema may stand.
        ours = (catalog, schema) in {("", ""), ("", "main"), ("", CATALOG), (CATALOG, "main")}
        if ours and (name in self.columns or (not schema and name in ctes)):
            return
        near = difflib.get_close_matches(name, self.columns, n=1)
        hint = f'did you mean "{near[0]}"?' if near else "SHOW TABLES names the tables there are"
        if not ours or name in self._internal:
            raise Problem("refused", f"{'.'.join(filter(None, (catalog, schema, name)))} is not served here", hint)
        raise Problem("sql", f'there is no table "{name}"', hint)

    def failed(self, error: duckdb.Error) -> Problem:
        """What DuckDB said about a statement, with the name that was probably meant."""
        text = str(error)
        if found := re.search(r'Did you mean "([^"]+)"|Candidate bindings:[\s:]*"([^"]+)"', text):
            return Problem("sql", plain(error), f'did you mean "{found[1] or found[2]}"?')
        hint = None
        if missing := re.search(r'[Cc]olumn "([^"]+)"', text):
            known = {column for columns in self.columns.values() for column in columns}
            near = difflib.get_close_matches(missing[1].lower(), known - {missing[1]}, n=1)
            hint = f'did you mean "{near[0]}"?' if near else None
        return Problem("sql", plain(error), hint)


def plain(error: duckdb.Error) -> str:
    """DuckDB's sentence, without the repeated query, the candidates (they become the hint) and folders."""
    text = re.split(r"\n\s*(?:LINE \d+:|Did you mean|Candidate bindings)", str(error))[0]
    return without_paths(duckdb.Error(text))[:1000]


def columns_of(cursor: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    """The tables and relations users may ask, with their columns."""
    rows = cursor.execute(
        "select table_name, list(column_name order by ordinal_position) from information_schema.columns "
        "where table_catalog = ? and table_schema = 'main' group by all",
        [CATALOG],
    ).fetchall()
    return {str(name): list(columns) for name, columns in rows}


def _walk(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of the tree; without recursion, because the text decides how deep it is."""
    waiting = [tree]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield found
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)


def _ctes(tree: Any) -> Iterable[str]:
    for node in _walk(tree):
        for entry in (node.get("cte_map") or {}).get("map", ()):
            yield entry["key"]


def _word(kind: str) -> str:
    return kind.removesuffix("_QUERY_NODE").removesuffix("_NODE").replace("_", " ")
