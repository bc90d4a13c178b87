"""Records for a registry of deployments: against the rules that its schema and its checker have."""

import copy
import datetime
import re

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.errors import ParameterError
from dpstats.privacy.guarantee import KINDS, Guarantee, Spend
from dpstats.results.parts import Declared, Origin
from dpstats.results.registry import Deployment
from dpstats.results.results import SAMPLING_AND_PRIVACY, Results
from dpstats.results.typed import CHOICES, REQUIRED, Facts
from dpstats.results.yaml import to_yaml

FACTS = {
    "name": "Income by age", "data_curators": ["Statistics Office"], "intended_use": "Research.",
    "data_product_region": "Utopia", "publication_date": "2026-01-31", "registry_authors": ["A. Author"],
    "actors": "- The office, which is trusted.\n- The public.",
}  # fmt: skip

# the sections and fields of a record, in the order that the registry wants; * where it cannot do without
FIELDS = {
    "basic": (
        "name* data_curators* intended_use* data_product_type* data_product_region* description* "
        "publication_date* data_product_sector"
    ),
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details privacy_parameters privacy_parameters_details",
    "deployment_model": (
        "model_name model_name_details actors release_type release_type_details data_source_type "
        "data_source_type_details access_type access_type_details"
    ),
    "accounting": "post_processing composition",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms justification",
    "administrative": "sources notes registry_authors*",
}
WORDS = {
    "variant_name": {"Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"},
    "model_name": {"Local", "Central", "Shuffle", "Federated"},
    "data_product_type": {
        "Summary statistics", "Machine learning model", "Dataset", "Synthetic data", "Interactive API",
        "SQL queries",
    },
    "data_product_sector": {"Technology", "Healthcare", "Education", "Government", "Energy", "Finance"},
    "release_type": {"One release", "Many releases"}, "data_source_type": {"Static", "Dynamic"},
    "access_type": {"Interactive", "Non-interactive"},
}  # fmt: skip


def mistakes(record):
    """What the registry would object to."""
    if list(record) != ["url_slug", "status", "tier", "deployment"]:
        yield "the fields of the record"
    if record["status"] not in ("Draft", "Pending") or record["tier"] not in (1, 2, 3):
        yield "status or tier"
    sections = record["deployment"]
    if list(sections) != [name for name in FIELDS if name in sections] or "basic" not in sections:
        yield "the sections"
    for name, section in sections.items():
        allowed = FIELDS[name].replace("*", "").split()
        if list(section) != [field for field in allowed if field in section]:
            yield f"the fields of {name}: {list(section)}"
        for field in re.findall(r"(\w+)\*", FIELDS[name]):
            if field not in section:
                yield f"no {field}"
        for field, value in section.items():
            if field in ("data_curators", "registry_authors"):
                if not (isinstance(value, list) and value and all(type(v) is str for v in value)):
                    yield f"{field} is no list"
            elif field == "privacy_parameters":
                if not set(value) <= {"epsilon", "delta", "rho"} or not all(
                    type(v) is float for v in value.values()
                ):
                    yield "the parameters"
            elif type(value) is not str or not value:
                yield f"{field} is no text"
            elif field in WORDS and value not in WORDS[field]:
                yield f"{field} is {value}"
            elif re.search(r"\\\\[^()]", value):
                yield f"{field} has an escape too many"
    basic = sections["basic"]
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", basic["publication_date"]):
        yield "the date"
    parts = basic["name"], "-".join(basic["data_curators"]), basic["publication_date"][:4]
    slug = "_".join(re.sub(r"\W+", "_", part.lower()) for part in parts).replace("_", "-")
    if record["url_slug"] != slug:
        yield f"the slug is not {slug}"


def make(guarantee=None, **changes):
    parts = {
        "method": "OLS", "formula": "y ~ x", "response": "y", "names": ("Intercept", "x"),
        "estimates": [1.0, -0.5], "cov": np.eye(2), "covers": SAMPLING_AND_PRIVACY,
        "guarantee": guarantee or Guarantee(1.0, 1e-6, "add-remove", "approximate"),
    }  # fmt: skip
    return Results(**(parts | changes))


def record(fit, **facts):
    return fit.to_registry(**(FACTS | facts)).to_dict()


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 3000
    frame = pd.DataFrame({"x": rng.normal(size=n), "g": rng.choice(["a", "b"], n), "id": np.arange(n) // 2})
    return frame.assign(y=frame["x"] + rng.normal(size=n))


CALLS = {
    "ols": ("ols", "y ~ x + g", {"levels": {"g": ["a", "b"]}, "bounds": {"x": (-4, 4)}}),
    "unit": ("ols", "y ~ x", {"unit": "id"}),
    "groups": ("median", "y ~ 1", {"by": "g", "levels": {"g": ["a", "b"]}}),
    "mixed steps": ("tukey_em", "y ~ x", {}),
    "zcdp": ("deepest_regression", "y ~ x", {"delta": 1e-6}),
}


@pytest.fixture(scope="module", params=CALLS)
def release(request, frame):
    name, formula, more = CALLS[request.param]
    fit = getattr(dpstats, name)(formula, frame, eps=8, **more)
    return request.param, fit, fit.to_registry(**FACTS)


@pytest.mark.slow
def test_a_record_keeps_the_rules(release):
    _, fit, made = release
    found = made.to_dict()
    assert list(mistakes(found)) == []
    loss = found["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"]["epsilon"] == fit.guarantee.eps
    assert loss["privacy_parameters"].get("delta", 0.0) == fit.guarantee.delta
    variant = found["deployment"]["dp_variant"]["variant_name"]
    assert variant == {"pure": "Pure DP", "approximate": "Approximate DP"}[fit.guarantee.kind]
    steps = found["deployment"]["accounting"]["composition"]
    assert all(spend.step in steps for spend in fit.guarantee.spends)
    mechanisms = found["deployment"]["implementation"]["mechanisms"]
    assert all(spend.step in mechanisms for spend in fit.guarantee.spends)
    assert f"version {dpstats.__version__}" in mechanisms and fit.origin.released_at in mechanisms
    assert "Floating point" in mechanisms and "Timing" in mechanisms


def test_the_file_is_read_as_what_it_says(release):
    yaml = pytest.importorskip("yaml")
    _, _, made = release
    assert yaml.safe_load(str(made)) == made.to_dict()
    assert str(made).startswith("url_slug: income-by-age-statistics-office-2026\n")
    styles = {token.style for token in yaml.scan(str(made)) if hasattr(token, "style")}
    assert styles <= {None, "|", '"'}
    assert re.fullmatch(r"[a-z0-9_]+\.yaml", made.file_name)


def test_what_is_public_is_said(frame):
    name, formula, more = CALLS["ols"]
    public = record(dpstats.ols(formula, frame, eps=8, **more))["deployment"]["dp_variant"]
    assert "`a`, `b`" in public["unprotected_quantities"] and "-4 to 4" in public["unprotected_quantities"]
    assert "`g`: one of its declared levels" in public["data_domain"]
    median = record(dpstats.median("y ~ 1", frame, eps=8, bounds={"y": (-9, 9)}))["deployment"]["dp_variant"]
    assert "bounds of `y`: -9 to 9" in median["unprotected_quantities"]
    assert "`y`: a number, moved into its declared bounds" in median["data_domain"]
    assert "where they were declared" in str(record(make()))
    counts = frame.assign(k=np.arange(len(frame)) % 3.0, t=2.0)
    for by in ({}, {"by": "g", "levels": {"g": ["a", "b"]}}):
        rates = dpstats.poisson("k ~ x", counts, eps=40, exposure="t", **by)
        assert "np.log(t)" in str(rates) and rates.formula == "k ~ x"
        for part in ("data_domain", "unprotected_quantities"):
            said = record(rates)["deployment"]["dp_variant"][part]
            assert "`k ~ x` (and the offset `np.log(t)`)" in said
    groups = record(dpstats.median("y ~ 1", frame, eps=8, by="g", levels={"g": ["a", "b"]}))["deployment"]
    assert "groups by `g`: `a`, `b`" in groups["dp_variant"]["unprotected_quantities"]
    assert "sizes" not in str(groups) and "disjoint" in groups["accounting"]["composition"]


def test_what_is_declared_of_an_offset_is_public(frame):
    counts = frame.assign(k=np.arange(len(frame)) % 3.0, t=1.5)
    for by in ({}, {"by": "g", "levels": {"g": ["a", "b"]}}):
        bounds = {"t": (1, 2), "x": (-4, 4)}
        rates = dpstats.poisson("k ~ x", counts, eps=40, exposure="t", bounds=bounds, **by)
        for fit in (rates, dpstats.from_dict(rates.to_dict())):
            public = record(fit)["deployment"]["dp_variant"]
            assert public["unprotected_quantities"].count("bounds of `t`: 1 to 2.") == 1
            assert public["unprotected_quantities"].count("bounds of `x`: -4 to 4.") == 1
            assert public["data_domain"].count("- `t`: a number, moved into its declared bounds.") == 1


def test_groups_have_the_notes_and_the_method_of_their_fits():
    fits = {
        "a": make(notes=("Of all.", "x is limited.")),
        "b": make(notes=("Of all.",)),
    }
    guarantee = fits["a"].guarantee
    groups = dpstats.results.grouped.GroupedResults("ols", "y ~ x", "g", ("a", "b"), fits, {}, guarantee)
    found = record(groups)["deployment"]
    assert found["accounting"]["post_processing"].splitlines()[1:] == ["- Of all.", "- a: x is limited."]
    assert found["basic"]["description"] == "Estimates of `y ~ x` by OLS, with their errors."
    assert "(OLS)" in found["implementation"]["mechanisms"]
    failed = dpstats.results.grouped.GroupedResults("ols", "y ~ x", "g", ("a",), {}, {"a": "few"}, guarantee)
    assert "by ols" in record(failed)["deployment"]["basic"]["description"]


def test_nothing_of_a_name_is_markup():
    names = ("`t`", "<script>", "*a*", "new\nline", "a`b")
    columns = tuple(Declared(name, bounds=(0, 1)) for name in names) + (Declared("f", levels=names),)
    guarantee = Guarantee(
        1.0, 0.0, "add-remove", "pure", (Spend("sum of *a*", "<b> noise", 1.0),), unit="`t`", scope="of `t`."
    )
    fit = make(guarantee, formula="y ~ `t`", declared=columns, notes=("`t` *a* is <limited>.",))
    found = record(fit)["deployment"]
    public = found["dp_variant"]
    shown = ["`` `t` ``", "`<script>`", "`*a*`", "`new line`", "``a`b``"]
    for code in shown:
        assert f"- {code}: a number" in public["data_domain"]
        assert f"bounds of {code}: 0 to 1." in public["unprotected_quantities"]
    assert f"levels of `f`: {', '.join(shown)}." in public["unprotected_quantities"]
    assert "formula `` y ~ `t` ``," in public["unprotected_quantities"]
    assert found["privacy_loss"]["privacy_unit"] == "All rows of one `` `t` ``"
    assert r"\`t\` \*a\* is \<limited\>." in found["accounting"]["post_processing"]
    for text in (found["accounting"]["composition"], found["implementation"]["mechanisms"]):
        assert r"sum of \*a\*" in text and r"\<b\> noise" in text.lower()
    assert r"Scope: of \`t\`." in found["privacy_loss"]["privacy_unit_details"]


def test_substitution_makes_sizes_public(frame):
    replaced = Guarantee(1.0, 0.0, "substitution", "pure")
    found = record(make(replaced))["deployment"]
    assert "The number of rows handed in." in found["dp_variant"]["unprotected_quantities"]
    assert "one record replaced" in found["privacy_loss"]["privacy_unit_details"]
    groups = dpstats.results.grouped.GroupedResults(
        "OLS", "y ~ x", "g", ("a",), {"a": make(replaced)}, {}, replaced
    )
    found = record(groups)["deployment"]["dp_variant"]["unprotected_quantities"]
    assert "of each group, and the group of each record" in found
    assert "handed in" not in str(record(make()))


def test_a_unit_is_named():
    found = record(make(Guarantee(1.0, 0.0, "add-remove", "pure", unit="patient")))["deployment"][
        "privacy_loss"
    ]
    assert found["privacy_unit"] == "All rows of one `patient`" and "patient" in found["privacy_unit_details"]
    assert (
        record(make(), privacy_unit="A household")["deployment"]["privacy_loss"]["privacy_unit"]
        == "A household"
    )


def test_variants():
    steps = tuple(Spend("a sum", "Gaussian noise", mu, 1e-6, mu=mu) for mu in (0.3, 0.4))
    loss = record(make(Guarantee(2.0, 1e-6, "add-remove", "approximate", steps)))["deployment"][
        "privacy_loss"
    ]
    assert "mu = 0.5" in loss["privacy_parameters_details"]
    steps = tuple(Spend("a draw", "exponential mechanism", 1.0, rho=0.125) for _ in range(2))
    found = record(make(Guarantee(1.5, 1e-6, "add-remove", "approximate", steps)))["deployment"]
    assert found["privacy_loss"]["privacy_parameters"]["rho"] == 0.25
    assert (
        "a draw (exponential mechanism, 2 times): 100.0 % of the budget" in found["accounting"]["composition"]
    )
    found = record(make(Guarantee(1.0, 1e-6, "add-remove", KINDS[2], gamma=0.1)))["deployment"]
    assert found["dp_variant"]["variant_name"] == "Custom"
    assert "gamma = 0.1" in found["privacy_loss"]["privacy_parameters_details"]


def test_all_that_can_be_typed_is_there_and_in_its_place():
    typed = {name: f"Some {name}." for name in Facts.__annotations__ if name not in CHOICES} | FACTS
    typed |= {name: words[-1] for name, words in CHOICES.items()}
    found = record(make(origin=Origin("9.9", None)), **typed)
    assert list(mistakes(found)) == []
    text = str(found)
    assert all(str(value) in text or repr(value)[1:-1] in text for value in typed.values())
    assert "version 9.9" in text
    assert record(make(), publication_date=datetime.date(2026, 1, 31)) == record(make())


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_fact_is_named(name):
    facts = {key: value for key, value in FACTS.items() if key != name}
    with pytest.raises(ParameterError, match=f"^{name} must be given"):
        make().to_registry(**facts)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("publication_date", "31 January 2026"), ("publication_date", "20260131"), ("publication_date", 2026),
        ("name", ""), ("name", 3), ("data_curators", "Office"), ("data_curators", []),
        ("registry_authors", [""]), ("access_type", "Closed"), ("status", "Approved"), ("notes", " "),
    ],
)  # fmt: skip
def test_a_fact_of_another_kind_is_refused(name, value):
    with pytest.raises(ParameterError, match=f"^{name} must be"):
        make().to_registry(**(FACTS | {name: value}))


def test_an_unknown_fact_and_a_seeded_release_are_refused():
    with pytest.raises(ParameterError, match="'colour' is no fact"):
        make().to_registry(**FACTS, colour="blue")
    seeded = make(Guarantee(1.0, 0.0, "add-remove", "pure", seeded=True))
    with pytest.raises(ParameterError, match="protects nobody"):
        seeded.to_registry(**FACTS)


def test_the_rules_find_mistakes():
    good = record(make())
    changes = [
        (("status",), "Done"), (("url_slug",), "other"),
        (("deployment", "basic", "publication_date"), "2026"),
        (("deployment", "privacy_loss", "privacy_parameters"), {"eps": 1.0}),
        (("deployment", "dp_variant", "variant_name"), "DP"), (("deployment", "basic", "colour"), "blue"),
        (("deployment", "accounting", "composition"), "a \\\\b"), (("deployment", "basic", "name"), ""),
    ]  # fmt: skip
    assert list(mistakes(good)) == []
    for path, value in changes:
        bad = copy.deepcopy(good)
        inner = bad
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        assert list(mistakes(bad)), path


# -- YAML ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "a", "2026-01-31", "1-2-2026", "1e-6", "true", "null", "~", "- a", "a: b", "#", "'", '"', "a\\b", "",
        "x\n y\nz", " a\nb", "a\n\nb", "a\nb\n", "tab\there", "a\r\nb", "\x07", "\x85\u2028\ufeff", "é 漢 😀",
        "\U000e0001", "income-2026-01", "a-b-c", 1e-6, 1e16, 0.1, 5e-324, 3, True, None, ["a", "1"], [],
    ],
)  # fmt: skip
def test_every_value_comes_back(value):
    yaml = pytest.importorskip("yaml")
    for text in (to_yaml({"k": value}), to_yaml({"outer": {"k": value}})):
        back = yaml.safe_load(text)
        back = back.get("outer", back)["k"]
        assert back == value and type(back) is type(value)


def test_a_file_has_a_name_whatever_the_slug():
    assert Deployment({"url_slug": "Größe--2026"}).file_name == "gr_e_2026.yaml"
    assert Deployment({"url_slug": "-"}).file_name == "deployment.yaml"
