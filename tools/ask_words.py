"""The words that a question may be made of without a language model: English and Chinese.

Each table is read in order, longer phrases first where one holds another. English words match whole words, Chinese ones
match anywhere. What is not here is not understood, and a question with such a word is handed back.
"""

from __future__ import annotations

from typing import Final

# Asked with these, a number is computed in this way.
AGGREGATES: Final[dict[str, tuple[str, ...]]] = {
    "count_distinct": (
        "how many different|how many distinct|how many unique|number of different|number of distinct|number of unique",
        "有多少个不同的|有多少不同的|多少个不同的|不同的|去重",
    ),
    "count": (
        "how many|number of|count of|count",
        "一共有多少|总共有多少|有多少|多少个|多少条|多少笔|多少|有几个|几个|个数|笔数|条数|总数|数目",
    ),
    "median": ("the median|median", "中位数"),
    "mean": ("on average|average|averages|avg|mean", "平均值|平均|均值"),
    "outliers": ("outliers|outlier|anomalies|anomaly|unusual values|unusual", "异常值|异常|离群值|离群"),
    "missing": (
        "missing values|missing|empty cells|blank cells|null values|nulls|blanks",
        "缺失值|缺失|空值|空白",
    ),
    "sum": (
        "sum of|sum|total of|total|totals|in total|overall|altogether|how much",
        "合计|总计|总和|求和|总共|一共|总的|总",
    ),
    "max": ("highest|largest|biggest|greatest|maximum|max|latest|most expensive", "最高|最大|最多|最晚|最新"),
    "min": ("lowest|smallest|minimum|min|earliest|cheapest|least", "最低|最小|最少|最早"),
}

# A time word after one of GROUP_MARKS, or an adjective of its own.
PERIODS: Final[dict[str, tuple[str, str]]] = {
    "year": ("year|years", "年"),
    "quarter": ("quarter|quarters", "季度|季"),
    "month": ("month|months", "个月|月份|月"),
    "week": ("week|weeks", "周|星期"),
    "day": ("day|days", "天|日"),
}
PERIODIC: Final[dict[str, str]] = {
    "year": "yearly|annually|annual|年度",
    "quarter": "quarterly|季度",
    "month": "monthly|月度",
    "week": "weekly|周度",
    "day": "daily|日度",
}
MOST: Final = "highest|largest|biggest|greatest|best|most|最高的|最高|最大的|最大|最多的|最多|最好"
LEAST: Final = "lowest|smallest|worst|least|fewest|最低的|最低|最小的|最小|最少的|最少|最差"
# With these, an average or a maximum of what is added up may be one of totals: "average revenue per customer".
PER: Final = "per|each|every|每"
OF_MOST: Final = "most|fewest|least|最多的|最多|最少的|最少"  # "which month had the most orders" counts
OVER_TIME: Final = "over time|trend of|trend in|trend|趋势|走势"

GROUP_MARKS: Final = "grouped by|group by|broken down by|split by|for each|for every|in each|by|per|each|every|across"
GROUP_MARKS_CJK: Final = "每一个|每个|每一|每|各个|各|按照|按|分"
TOP: Final = "top|best|largest|highest|biggest"
BOTTOM: Final = "bottom|worst|smallest|lowest|least"
TOP_CJK: Final = "前"
BOTTOM_CJK: Final = "后|倒数"
WHICH: Final = "which|哪一个|哪个|哪些|哪种|哪位|哪"

# What a row is called when nothing else is meant by it.
ROW_WORDS: Final = "rows|row|records|record|entries|entry|lines|line|条记录|记录|行"

COMPARISONS: Final[dict[str, str]] = {
    ">=": ">=|at least|no less than|不低于|不少于|至少",
    "<=": "<=|at most|no more than|不超过|不高于|至多",
    ">": ">|greater than|more than|larger than|higher than|above|over|大于|高于|超过|多于",
    "<": "<|less than|smaller than|lower than|fewer than|below|under|小于|低于|少于",
}

# Words without weight of their own. Nothing that negates, excludes or compares may stand here.
FILLERS: Final = (
    "please|show me|show|give me|give|list|tell me|tell|display|compute|calculate|find|what's|whats|what|is|are|was"
    "|were|where|did|do|does|we|our|us|i|you|the|a|an|of|in|for|from|to|at|on|with|have|has|had|there|and|their|its|it|this|that"
    "|sold|made|placed|value|values|figure|figures|as|be|all|during|within|column|columns|sheet|table|data|get|got"
)
FILLERS_CJK: Final = (
    "请问|请|列出|显示|给出|告诉我|给我|计算|统计|查询|查看|看看|一下|是多少|是|的|了|在|中|里面|里|内|有|吗|呢|什么|我们"
    "|我|和|与|及|以及|分别|情况|数据|所有|全部|个|位|名|家|种|年份|这|那|为|由|从|到|于|上|列|表|值|啊|下"
)

NUMBER_WORDS: Final[dict[str, int]] = {
    **{w: n for n, w in enumerate("one two three four five six seven eight nine ten".split(), 1)},  # noqa: SIM905
    "twelve": 12,
    "fifteen": 15,
    "twenty": 20,
}
NUMBER_WORDS_CJK: Final[dict[str, int]] = {w: n for n, w in enumerate("一二三四五六七八九十", 1)} | {"两": 2}
MONTH_NAMES: Final = (
    *("january|jan", "february|feb", "march|mar", "april|apr", "may", "june|jun", "july|jul", "august|aug"),
    *("september|sept|sep", "october|oct", "november|nov", "december|dec"),
)

# Words that mean the same column, when the workbook has just one of them.
SYNONYMS: Final[tuple[str, ...]] = (
    "revenue|sales|turnover|amount|sales amount|销售额|销售金额|营业额|营收|收入|金额",
    "units|quantity|qty|pieces|units sold|数量|销量|销售量|件数",
    "price|unit price|单价|价格|售价",
    "cost|costs|成本|费用",
    "profit|利润",
    "discount|折扣",
    "region|area|territory|地区|区域|大区",
    "country|国家",
    "city|城市",
    "product|item|article|产品|商品|品名",
    "category|类别|品类|分类",
    "customer|client|buyer|客户|顾客",
    "supplier|vendor|供应商",
    "channel|渠道",
    "department|部门",
    "employee|staff|员工",
    "salesperson|sales person|seller|销售员|业务员",
    "date|日期|时间",
    "order date|下单日期|订单日期",
    "order id|order|order no|order number|订单编号|订单号|订单",
    "reason|原因",
    "target|目标",
    "return|returns|退货",
    "status|状态",
)

# Measures that are added up, and measures whose sum says nothing.
ADDED_UP: Final = (
    "revenue|sales|amount|turnover|total|cost|costs|profit|income|value|units|quantity|qty|pieces|count|hours|target|spend"
    "|budget|expense|expenses|refund|refunds|payment|payments|fee|fees|tax|salary|退款|运费|税额|工资|销售额|金额|收入|营收|营业额|总额|利润|成本|费用|数量|销量|件数|目标|预算|支出"
)
NOT_ADDED_UP: Final = (
    "price|rate|ratio|share|percent|percentage|pct|average|avg|mean|score|rating|temperature|age|margin|discount|index"
    "|level|latitude|longitude|lat|lon|单价|价格|率|比例|占比|百分比|平均|评分|得分|温度|年龄|折扣|指数|等级"
)
COUNTED_UP: Final = "units|unit|quantity|qty|pieces|items|数量|销量|件数"  # measures that "how many" asks the sum of
