"""The model cards are the published figures, cell by cell, and a faulty card is refused by file and field."""

import configparser
import json
from pathlib import Path

import pytest
import yaml

from yanami_dataset.errors import DataError, SpecError
from yanami_metric.presets import preset_names
from yanami_metric.published import COLUMNS, TEMPLATE, cards, folder, parse, rows

ROOT = Path(__file__).parent.parent
PUBLISHED = json.loads((Path(__file__).parent / "published.json").read_text(encoding="utf-8"))
BY_SCENARIO = {"reasoning": 12, "editing": 14, "modeling": 16, "fusion": 18}


def expected():
    """Every published cell as {(table, model, column): figure}."""
    tables = {
        2: PUBLISHED["overall"],
        4: PUBLISHED["understanding_and_geneval"],
        5: PUBLISHED["gedit_en_full"],
        20: PUBLISHED["first_last"],
        21: PUBLISHED["gap"],
        "figure 6b": PUBLISHED["first_last_drop"],
        "figure 6c": PUBLISHED["history_drop"],
        "fine-tuning": PUBLISHED["fine_tuning"],
        "best unified model": PUBLISHED["best_unified"],
    }
    averages = {row["model"]: row for row in PUBLISHED["dsu_average"]}
    tables |= {int(n): [averages[name] for name in names] for n, names in PUBLISHED["rows_of_table"].items()}
    for scenario, number in BY_SCENARIO.items():
        tables[number] = PUBLISHED["dimensions"][scenario]
        tables[number + 1] = [{**row, "dsu": None} for row in PUBLISHED["realization"][scenario]]
    return tables


@pytest.mark.parametrize("table", COLUMNS, ids=str)
def test_cards_hold_the_published_figures_and_nothing_else(table):
    found = [{"model": row.model, **row.values} for row in rows(table)]
    assert found == expected()[table]  # rows, their order, names, and every figure
    assert all(tuple(row.values) == COLUMNS[table] for row in rows(table))


def test_sizes_are_the_printed_ones():
    sizes = {row.model: row.size for table in (2, *range(12, 20)) for row in rows(table)}
    assert sizes == PUBLISHED["sizes"]


def test_every_row_says_where_it_is_from_and_who_judged():
    for table in COLUMNS:
        for row in rows(table):
            assert row.source.startswith("arXiv 2611.05280, ")
            assert row.source.endswith(
                f"Table {table}" if isinstance(table, int) else ("Figure " + table[-2:], "summary")
            )
            assert row.judge == (None if table in (4, 5) else "the authors' (Qwen-3.8-Flash-Next)")


def test_names_taken_for_one_model_are_marked_as_ours():
    merged = {card.name for card in cards() if len({result.printed_as for result in card.results}) > 1}
    assert merged == {"flux.2-dev", "janus-pro", "step1x-v1p2"}
    for card in cards():
        if card.name in merged:
            assert any("ours" in note for note in card.notes)


def test_every_preset_has_a_card():
    # but for the one whose model the paper doesn't name
    assert {card.preset for card in cards()} - {None} == set(preset_names()) - {"qwen-image-edit-plus"}


def test_only_what_has_a_dsu_counts_as_having_one():
    assert {row.model for row in rows(2) if row.has_dsu} == set()
    assert all(row.has_dsu for table in (3, 11, 12) for row in rows(table))


def test_a_table_may_be_named_by_a_text_and_has_to_exist():
    assert rows("20") == rows(20)
    with pytest.raises(SpecError, match=r"among 2, 3, .*, got 6"):
        rows(6)


def test_cards_are_listed_anew():
    cards().clear()
    assert len(cards()) == 21


def faulty(**changes):
    card = yaml.safe_load((folder() / "bagel.yaml").read_text(encoding="utf-8"))
    for path, value in changes.items():
        place = card
        *way, last = [int(key) if key.isdecimal() else key for key in path.split("__")]
        for key in way:
            place = place[key]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return yaml.safe_dump(card)


@pytest.mark.parametrize(
    ("changes", "field", "got"),
    [
        ({"model": ""}, "model: expected a text", "''"),
        ({"size": 7}, "size: expected a text or null", "7"),
        ({"preset": "begal"}, "preset: expected one of bagel, ", "'begal'"),
        ({"preset": ["bagel"]}, "preset: expected a text or null", "bagel"),
        ({"judge": ...}, "card: expected model, size, preset, source, judge, notes, results", "model, "),
        ({"licence": "x"}, "card: expected", "licence"),
        ({"notes": "ours"}, "notes: expected a list of texts", "'ours'"),
        ({"results": []}, "results: expected a list", r"\[\]"),
        ({"results__0": 3}, r"results\[0\]: expected table, source, printed_as, row, values", "3"),
        ({"results__0__table": 6}, r"results\[0\]\.table: expected one of 2, 3", "6"),
        ({"results__0__table": True}, r"results\[0\]\.table: expected one of 2, 3", "True"),
        ({"results__1__table": 3}, r"results\[1\]\.values: expected fusion", "first"),
        ({"results__0__row": 0}, r"results\[0\]\.row: expected its place", "0"),
        ({"results__0__source": None}, r"results\[0\]\.source: expected a text", "None"),
        ({"results__0__values__fusion": "85"}, r"results\[0\]\.values\.fusion: expected a number", "'85'"),
        ({"results__0__values__fusion": float("nan")}, r"results\[0\]\.values\.fusion: expected a number", "nan"),
        ({"results__0__values__fusion": True}, r"results\[0\]\.values\.fusion: expected a number", "True"),
        ({"results__0__values__average": ...}, r"results\[0\]\.values: expected fusion", "fusion"),
    ],
)
def test_a_faulty_card_is_refused_by_file_and_field(changes, field, got):
    with pytest.raises(DataError, match=rf"model card mine\.yaml:\n  (?s:.*){field}.*, got .*{got}"):
        parse("mine.yaml", faulty(**changes))


def test_a_table_given_twice_is_refused():
    card = yaml.safe_load(faulty())
    card["results"].append(card["results"][0])
    with pytest.raises(DataError, match=r"results\[6\]\.table: expected each table once, got 3 again"):
        parse("mine.yaml", yaml.safe_dump(card))


@pytest.mark.parametrize("text", ["a: [", "- 1", "", "!!python/object/apply:os.getcwd []"])
def test_what_is_no_card_is_refused(text):
    with pytest.raises(DataError, match=r"model card mine\.yaml"):
        parse("mine.yaml", text)


def test_the_template_is_a_card_once_it_is_copied_but_none_itself():
    card = parse("mine.yaml", (folder() / TEMPLATE).read_text(encoding="utf-8"))
    assert (card.name, card.model) == ("mine", "NAME")
    assert all(one.model != "NAME" for one in cards())


def test_cards_ship_with_the_package():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert "yanami_metric.model_cards" in setup["options"]["packages"].split()
    assert "yanami_metric.model_cards = model_cards" in setup["options"]["package_dir"]
    assert "*.yaml" in setup["options.package_data"]["yanami_metric.model_cards"].split()
    assert (ROOT / "model_cards" / "README.md").is_file()
