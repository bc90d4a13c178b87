"""What is written twice about the package is the same: versions, and what the conda recipe asks for."""

import re
import tomllib
from pathlib import Path

import pytest

import dpstats

ROOT = Path(dpstats.__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "packaging").is_dir(), reason="not installed with the package")


def text(*parts):
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


def project():
    return tomllib.loads(text("pyproject.toml"))


def listed(recipe, name):
    """The entries of a list of the recipe, without blanks."""
    found = re.search(rf"^ +{name}:\n((?: +- .*\n)+)", recipe, re.MULTILINE)
    return [line.strip().removeprefix("- ").replace(" ", "") for line in found[1].splitlines()]


def test_the_recipe_asks_for_what_the_package_needs():
    recipe, needed = text("packaging", "conda", "meta.yaml"), project()["project"]
    assert f'version: "{needed["version"]}"' in recipe
    python = f"python{needed['requires-python']}"
    assert listed(recipe, "run") == [python, *needed["dependencies"]]
    assert listed(recipe, "host") == [python, "pip", *project()["build-system"]["requires"]]


def test_versions_are_the_same_everywhere():
    version = project()["project"]["version"]
    assert dpstats.__version__ == version
    assert f"\nversion: {version}\n" in text("CITATION.cff")
    assert f"\nVersion: {version}\n" in text("r_bridge", "DESCRIPTION")


def test_the_timed_commands_are_in_the_pages():
    """Those that tools/first_table.sh reads from there."""
    script, readme, bridge = text("tools", "first_table.sh"), text("README.md"), text("r_bridge", "README.md")
    wanted = re.findall(r'command_of "\$(\w+)" \'([^\']+)\'', script)
    assert len(wanted) == 3
    for page, command in wanted:
        assert command in {"readme": readme, "bridge": bridge}[page]
