"""SQL only by parameters: no statement is put together from values, in any package that keeps records."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEDGER = ROOT / "ledger" / "src" / "onward_ledger"
# What runs statements by name. Elsewhere a statement is written out where it is executed.
LAYERS = (LEDGER / "database", LEDGER / "langgraph" / "fence.py")
# Procrastinate's own schema, as its package ships it.
THEIRS = "SchemaManager.get_schema()"
# The analyst's queries are not about records: they run in a child process, under rules of their own.
QUERIES = {ROOT / "tools" / name for name in ("query_run.py", "query_rules.py")}
EXECUTES = {"execute", "executemany", "executescript", "mogrify"}


def sources():
    for folder in (LEDGER, ROOT / "runs", ROOT / "graph", ROOT / "tools"):
        yield from (path for path in sorted(folder.rglob("*.py")) if path not in QUERIES)


def violations(source, *, layer=False):
    """Line and text of what is executed and may hold a value."""
    tree = ast.parse(source)
    built = {target.id for target, value in _assignments(tree) if _is_built(value)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in EXECUTES:
            given = node.args[0] if node.args else None
            if given is not None and not _is_fixed(given) and not (layer and _is_named(given, built)):
                yield given.lineno, ast.unparse(given)


def _assignments(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from ((target, node.value) for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and isinstance(node.target, ast.Name) and node.value:
            yield node.target, node.value


def _is_fixed(node):
    return (isinstance(node, ast.Constant) and isinstance(node.value, str)) or ast.unparse(node) == THEIRS


def _is_built(node):
    """Whether this is an f-string, a concatenation, a %, or a format."""
    return any(
        isinstance(part, ast.JoinedStr)
        or (isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add | ast.Mod))
        or (
            isinstance(part, ast.Call)
            and isinstance(part.func, ast.Attribute)
            and part.func.attr in ("format", "replace")
        )
        for part in ast.walk(node)
    )


def _is_named(node, built):
    """What the layer may execute: a named statement, a quoted identifier, a number."""
    if isinstance(node, ast.Name):
        return node.id not in built
    if isinstance(node, ast.Subscript):
        return True
    if ast.unparse(node) == "self._preparing":  # `prepare name as …` of the named statements; see prepared.py
        return True
    if isinstance(node, ast.JoinedStr):
        values = [part for part in node.values if isinstance(part, ast.FormattedValue)]
        return all(part.format_spec is not None and ast.unparse(part.format_spec) == "f'd'" for part in values)
    return _is_composed(node)


def _is_composed(node):
    """`sql.SQL("… {}").format(sql.Identifier(name))`: psycopg quotes it."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format"):
        return False
    text = node.func.value
    fixed = isinstance(text, ast.Call) and ast.unparse(text.func) == "sql.SQL" and _is_fixed(text.args[0])
    quoted = (isinstance(part, ast.Call) and ast.unparse(part.func) == "sql.Identifier" for part in node.args)
    return fixed and not node.keywords and all(quoted)


def test_no_statement_holds_a_value():
    found, executed = {}, 0
    for path in sources():
        text = path.read_text(encoding="utf-8")
        executed += text.count(".execute(")
        if bad := list(violations(text, layer=any(path.is_relative_to(layer) for layer in LAYERS))):
            found[str(path.relative_to(ROOT))] = bad
    assert executed > 25, "the control: there are statements to look at"
    assert found == {}


@pytest.mark.parametrize(
    "statement",
    [
        'c.execute(f"select {x}")',
        'c.execute("select " + x)',
        'c.execute("select %s" % x)',
        'c.execute("select {}".format(x))',
        'c.execute(" ".join(["select", x]))',
        "c.execute(x)",
        'c.cursor().executemany(f"insert {x}", rows)',
        'c.executescript("drop " + x)',
        'text = f"select {x}"\nc.execute(text)',
    ],
)
def test_statements_with_values_are_found(statement):
    assert len(list(violations(statement))) == 1


@pytest.mark.parametrize(
    "statement",
    [
        'c.execute(f"select {x}")',
        'c.execute(f"select {x:s}")',
        'c.execute("select " + x)',
        'c.execute(sql.SQL("select {}").format(sql.SQL(x)))',
        "c.execute(sql.SQL(x).format(sql.Identifier(y)))",
        'c.execute("select {}".format(x))',
        'text = "select " + x\nc.execute(text)',
    ],
)
def test_the_layer_is_not_free_to_do_as_it_likes(statement):
    assert len(list(violations(statement, layer=True))) == 1


@pytest.mark.parametrize(
    ("statement", "layer"),
    [
        ('c.execute("select %s", (x,))', False),
        ('c.execute("select " "1")', False),
        ("c.execute(self._statements[name], params)", True),
        ("c.execute(schema_sql)", True),
        ('c.execute(f"pragma user_version = {version:d}")', True),
        ('c.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))', True),
    ],
)
def test_what_is_as_it_should_be_is_not_found(statement, layer):
    assert list(violations(statement, layer=layer)) == []
