"""Pictures: the steps of a session over time, and sessions by hour."""

from typing import Any

import altair as alt
import polars as pl

from dashboard.wording import cost, duration, status_word

KIND_COLOURS = {
    "agent": "#64748b",
    "model": "#8b5cf6",
    "tool": "#0ea5e9",
    "sandbox": "#d97706",
    "router": "#10b981",
    "policy": "#ec4899",
    "other": "#a8a29e",
}
FAILED = "#e5484d"
NOTE_COLOUR = "#8b93a3"
OUTCOMES = {"completed": "#10b981", "failed": FAILED, "unknown": "#a8a29e"}

ACTIVITY_PIXELS = 850
MOST_BARS = 300
ROW_PIXELS = 24
LABEL_LENGTH = 40
INDENT = "\u2003"
LABEL_PIXELS = 230
CHOSEN = "#f59e0b"
PICK = "step"
"""Name of the chart's selection."""

UNITS = ((86_400_000.0, "d"), (3_600_000.0, "h"), (60_000.0, "min"), (1000.0, "s"), (1.0, "ms"))


def bars(steps: pl.DataFrame) -> pl.DataFrame:
    """What the picture draws: one bar per step, times counted from the first start."""
    begin = steps["started"].min()
    rows = [
        {
            "event_id": row["event_id"],
            "row": f"{_apart(at)}{INDENT * min(row['depth'], 8)}{_short(row['label'])}",
            "from_ms": (row["started"] - begin).total_seconds() * 1000,
            "kind": row["family"],
            "status": status_word(row["status"]),
            "duration": duration(row["duration_ms"]),
            "cost": cost(row["cost_usd"], row["cost_state"]),
            "lasted_ms": _drawn_ms(row["duration_ms"]),
            "note": _note(row),
        }
        for at, row in enumerate(steps.head(MOST_BARS).iter_rows(named=True), start=1)
    ]
    return pl.DataFrame(rows).with_columns(to_ms=pl.col("from_ms") + pl.col("lasted_ms"))


def waterfall(steps: pl.DataFrame, chosen: str | None) -> alt.LayerChart:
    """A bar per step, coloured by kind, with a red outline where it failed and a dark one where it is chosen."""
    data = bars(steps)
    longest = data["to_ms"].cast(pl.Float64).max()
    longest_ms = float(longest) if isinstance(longest, float) else 0.0
    size, unit = next((each for each in UNITS if longest_ms >= 2 * each[0]), UNITS[-1])
    kinds = [kind for kind in KIND_COLOURS if kind in data["kind"].unique()]
    data = data.with_columns(begin=pl.col("from_ms") / size, end=pl.col("to_ms") / size, outline=_outline(chosen))
    labels = alt.Axis(
        labelAlign="left",
        labelLimit=LABEL_PIXELS,
        labelPadding=LABEL_PIXELS + 5,
        minExtent=LABEL_PIXELS + 5,
        labelFontSize=12,
        ticks=False,
        domain=False,
    )
    rows = alt.Y("row:N", sort=None, title=None, axis=labels)
    # Room on the right for the last duration.
    scale = alt.Scale(domain=[0, max(longest_ms / size * 1.12, 1e-9)], nice=False)
    drawn = (
        alt.Chart(data)
        .mark_bar(cornerRadius=2, strokeWidth=1.5, height={"band": 0.6}, cursor="pointer")
        .encode(
            y=rows,
            x=alt.X("begin:Q", title=None, scale=scale, axis=_time_axis(unit)),
            x2="end:Q",
            color=alt.Color(
                "kind:N",
                scale=alt.Scale(domain=kinds, range=[KIND_COLOURS[kind] for kind in kinds]),
                legend=alt.Legend(orient="top", title=None, symbolType="square"),
            ),
            # A stroke also keeps the shortest step visible.
            stroke=alt.Stroke("outline:N", scale=None),
            tooltip=[alt.Tooltip(f"{name}:N") for name in ("kind", "status", "duration", "cost")],
        )
        .add_params(alt.selection_point(name=PICK, fields=["event_id"], on="click", empty=False))
    )
    told = (
        alt.Chart(data)
        .mark_text(align="left", dx=6, fontSize=11, color=NOTE_COLOUR)
        .encode(y=rows, x=alt.X("end:Q", scale=scale), text="note:N")
    )
    picture: alt.LayerChart = (drawn + told).properties(height=alt.Step(ROW_PIXELS))
    return picture


def _time_axis(unit: str) -> alt.Axis:
    return alt.Axis(orient="top", tickCount=8, labelExpr=f"datum.label + ' {unit}'")


def _apart(number: int) -> str:
    """Invisible marks before a name: rows of the same name stay apart, and the indent is not trimmed away."""
    return f"{number:b}".translate({ord("0"): "\u200b", ord("1"): "\u200c"})


def _outline(chosen: str | None) -> pl.Expr:
    own = pl.col("kind").replace_strict(KIND_COLOURS, default=KIND_COLOURS["other"])
    failed = pl.when(pl.col("status") == "failed").then(pl.lit(FAILED)).otherwise(own)
    return pl.when(pl.col("event_id") == (chosen or "")).then(pl.lit(CHOSEN)).otherwise(failed)


def _drawn_ms(duration_ms: float | None) -> float:
    """What is unknown or impossible is drawn as a moment."""
    return duration_ms if duration_ms is not None and 0 <= duration_ms < 1e13 else 0.0


def _note(row: dict[str, Any]) -> str:
    word = status_word(row["status"]) if row["status"] else ""
    if row["duration_ms"] is None:  # a moment, unless it is a call whose end is missing
        return "no end recorded" if row["status"] == "unknown" else word
    lasted = duration(row["duration_ms"])
    return lasted if word in ("ok", "") else f"{lasted} · {word}"


def _short(label: str | None) -> str:
    text = " ".join((label or "?").split())
    return text if len(text) <= LABEL_LENGTH else text[: LABEL_LENGTH - 1] + "…"


def activity_chart(activity: pl.DataFrame, width_seconds: int) -> alt.Chart:
    """Sessions begun, stacked by outcome."""
    words = {"completed": "ok", "failed": "failed", "unknown": "unknown"}
    data = activity.with_columns(
        bucket=pl.col("bucket").dt.replace_time_zone("UTC"),
        middle=pl.col("bucket").dt.replace_time_zone("UTC") + pl.duration(milliseconds=width_seconds * 500),
        outcome=pl.col("status").replace_strict(words, default="unknown"),
    )
    times = data["bucket"].to_list()
    buckets = (max(times) - min(times)).total_seconds() / width_seconds + 1
    shown = "%H:%M:%S" if width_seconds < 60 else "%H:%M" if width_seconds < 86_400 else "%b %d"
    times_axis = alt.Axis(grid=False, format=shown, tickCount=8, labelOverlap=True)
    chart: alt.Chart = (
        alt.Chart(data)
        .mark_bar(size=max(2.0, min(40.0, ACTIVITY_PIXELS / buckets * 0.8)))
        .encode(
            x=alt.X("middle:T", title=None, scale=alt.Scale(type="utc", padding=24), axis=times_axis),
            y=alt.Y("sum(sessions):Q", title=None, axis=alt.Axis(tickMinStep=1, tickCount=4)),
            color=alt.Color(
                "outcome:N",
                scale=alt.Scale(domain=list(words.values()), range=list(OUTCOMES.values())),
                legend=alt.Legend(orient="top", title=None, symbolType="square"),
            ),
            tooltip=[
                alt.Tooltip("bucket:T", format="%Y-%m-%d %H:%M:%S", title="from (UTC)"),
                alt.Tooltip("outcome:N"),
                alt.Tooltip("sum(sessions):Q", title="sessions"),
            ],
        )
        .properties(height=200)
    )
    return chart
