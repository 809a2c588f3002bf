"""Questions to a workbook: what they mean, exactly.

A question is either typed (`TypedQuestion`), and then it is compiled to SQL here and computed a second time in
`tools.recompute`, or free SQL (`SqlQuestion`). Both computations follow this text; neither follows the other.

**The table.** A question looks at one sheet. Its rows are the sheet's data rows in file order, numbered from 1
(the first row under the header). Columns are integer (BIGINT), number (DOUBLE, never NaN or infinite, never
-0.0), date, datetime (microseconds, no zone), boolean, text, mixed (text) or empty (text, all null). An empty
cell is null; a cell holding an empty string is null too. Comparison, equality and order of text are by code
point, so case matters and nothing is trimmed.

**Filter.** All conditions must hold (AND). On a null cell every condition is false except `is_null` and `!=`: a
missing cell is not equal to "North", so `!=` keeps it. `=`, `!=`, `in`: exact equality, any type. `<`, `<=`,
`>`, `>=`: integer, number, date and datetime columns only. `contains`: text and mixed columns only; the value
is a literal piece of text, without wildcards, case matters. Values: a JSON integer or float for integer and
number columns (an integer column may be compared with 2.5), "YYYY-MM-DD" for a date column, "YYYY-MM-DD"
(midnight) or "YYYY-MM-DDTHH:MM:SS" with optional fraction for a datetime column, true/false, or a string. `in`
takes a list of 1 to 1,000 such values.

**Group.** At most three keys. By "value": the column as it is. The others need a date or datetime column and
give "year" text "2025", "quarter" text "2025-Q1", "month" text "2025-01", "week" text "2025-W03" (ISO year and
ISO week), "day" a date. Years have four digits. Null keys form a group of their own, whose key is null. A group
exists when at least one row passes the filter; periods without rows do not appear. Without group keys the
answer is exactly one row, even over no rows.

**Aggregates** (over the rows of a group that pass the filter; nulls of the measure are left out):

    sum             integer or number. Integer: the exact integer, of any size. Number: the exact decimal sum of
                    the values, each as its shortest decimal (what the cell shows), rounded once to a double. Null when
                    the group has no value (not 0).
    mean            integer or number: sum / number of values, one division of doubles. Null without values.
    median          integer or number, as a double; the mean of the two middle values. Null without values.
    min, max        integer, number, date, datetime; the type of the measure. Null without values.
    count           measure null: rows. Otherwise: non-null values of the measure, any type. 0 without any.
    count_distinct  distinct non-null values of the measure, any type. 0 without any.

The sum of a number column is exact in SQL when the profile gives its `decimals` (every value has at most so
many, and value x 10^decimals is an integer below 10^15). Otherwise SQL uses a compensated sum, whose absolute
error is below 1e-15 times the sum of absolute values: compare with that tolerance.

**Order and limit.** By "value": the aggregate in the given direction, nulls last, ties by the group keys from
left to right, ascending, nulls last. By "group": the keys from left to right, each in the given direction,
nulls last. Keys are unique, so the order is total. `limit` (1 to 10,000, or null for all) cuts after ordering.

**Columns of the answer.** One per group key, in order, then the value. A key is named as its column when by
"value", else "<column> (<by>)". The value is named "<aggregate> of <measure>" with the aggregate in words: "sum
of revenue", "mean of …", "median of …", "minimum of …", "maximum of …", "count of …", "distinct count of …",
and "count of rows" when count has no measure. A name that is taken (case aside) gets " (2)", " (3)" … Types:
key by value, min and max have the column's type, with mixed and empty given as text; "day" is date and the
other parts are text; sum is integer for an integer column, else number; mean and median are number; counts are
integer.

**missing** (no group keys; any or no measure): one row per column of the sheet, or only the measure when given,
over the rows that pass the filter. Columns: "column" text, "missing" integer (null cells), "rows" integer,
"share" number (missing / rows, null over no rows). By "value": missing in the given direction, ties in sheet
order. By "group": sheet order, or its reverse when "desc".

**outliers** (measure integer or number; group keys, all by "value", do not group here: they name columns to
show with each listed row, such as an order number). Let x be the sorted non-null values that pass the filter,
as doubles, n their number, and q(p) = a + (b - a) * f with h = (n - 1) * p, f = h - floor(h), a = x[floor(h)],
b = x[ceil(h)] (from 0), calculated in doubles in this order. spread = q(0.75) - q(0.25); lower = q(0.25) - 1.5
* spread; upper = q(0.75) + 1.5 * spread. An outlier is a row whose value is < lower or > upper. The answer has
one row per outlier, the most extreme first (by max(lower - value, value - upper), largest first, ties by row
number, ascending; `order` is not used), at most `limit` rows (5 when null). Columns: "outliers" integer (how
many in all), "share" number (outliers / n), "lower bound" number, "upper bound" number (these four are the same
in every row), "row" integer (number of the data row), then one per group key and at last the measure, both with
their column's name and type. Without outliers there is one row with outliers 0, share 0.0 and the bounds, the
rest null; without values share and bounds are null too. Named "… (2)" when taken, as above.

**Chart.** "line" and "bar" need a group key; otherwise `validate` sets "none". "missing" and "outliers" have
none.
"""

from __future__ import annotations

from tools.question_check import validate
from tools.question_sql import columns_of, compile_sql, output_columns, value_name
from tools.question_types import Filter, GroupKey, Order, OutputColumn, Question, SqlQuestion, TypedQuestion

__all__ = [
    "Filter",
    "GroupKey",
    "Order",
    "OutputColumn",
    "Question",
    "SqlQuestion",
    "TypedQuestion",
    "columns_of",
    "compile_sql",
    "output_columns",
    "validate",
    "value_name",
]
