#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The documentation site's sources: every page is in its menu, formulas are set, and links name files that are there (`make docs` builds it).

    site_test.py TRIPLEPOINT ROOT
"""
import pathlib
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, str(ROOT / "tools"))
import formulas  # noqa: E402
import make_site  # noqa: E402
import reference_pages  # noqa: E402

FORMULA_PAGES = {"clock", "collectives", "kernels", "power", "simulation", "thermal"}


def plain(text):
    """A formula's markup without gaps and rows, for comparison."""
    return re.sub(r"</?mrow>|<mspace[^>]*>|</?mstyle[^>]*>|</?math[^>]*>", "", formulas.math(text))


class Formulas(unittest.TestCase):
    def test_a_spaced_slash_divides_the_product_before_it(self):
        self.assertEqual(plain("2 n / m"), "<mfrac><mn>2</mn><mi>n</mi><mi>m</mi></mfrac>")
        self.assertIn("<mfrac><mrow><mn>2</mn>", formulas.math("2 n / m"))

    def test_a_tight_slash_divides_neighbours(self):
        self.assertEqual(plain("2 n/m"), "<mn>2</mn><mfrac><mi>n</mi><mi>m</mi></mfrac>")
        self.assertEqual(plain("s/6h"), "<mfrac><mi>s</mi><mn>6</mn><mi>h</mi></mfrac>")

    def test_variables_have_subscripts_and_words_are_names(self):
        self.assertEqual(plain("T_air,i"), "<msub><mi>T</mi><mtext>air,i</mtext></msub>")
        self.assertEqual(plain("r_k-1"), "<msub><mi>r</mi><mtext>k−1</mtext></msub>")
        self.assertEqual(plain("flow_share"), "<mtext>flow share</mtext>")

    def test_parentheses_of_a_fraction_are_dropped(self):
        self.assertEqual(plain("(a + b)/c"), "<mfrac><mi>a</mi><mo>+</mo><mi>b</mi><mi>c</mi></mfrac>")

    def test_what_cannot_be_read_is_refused(self):
        for text in ("a = (b", "a = $b", "a = / b"):
            with self.assertRaises(formulas.FormulaError):
                formulas.math(text)


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.pages = pathlib.Path(cls.folder.name)
        make_site.copy_docs(cls.pages)
        make_site.write_commands(PROGRAM, cls.pages)
        reference_pages.write_files(PROGRAM, cls.pages)
        reference_pages.write_python(cls.pages)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_page_is_in_the_menu(self):
        menu = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text().split("\nnav:")[1])) - {"gallery/index.md"}
        self.assertEqual(menu, {page.relative_to(self.pages).as_posix() for page in self.pages.rglob("*.md")})

    def test_the_formulas_of_these_models_are_set_and_well_formed(self):
        found = set()
        for page in (self.pages / "models").glob("*.md"):
            for block in re.findall(r'<div class="formulas">.*?</div></div>', page.read_text()):
                xml.etree.ElementTree.fromstring(block)
                found.add(page.stem)
        self.assertEqual(found, FORMULA_PAGES)

    def test_the_keys_of_files_have_a_page_with_type_words_and_need(self):
        job, model = ((self.pages / "files" / f"{kind}.md").read_text() for kind in ("job", "model"))
        self.assertIn("| `recompute` | one of `none`, `selective`, `full` | `\"none\"` |", job)
        self.assertIn("| `power_limit` | number and unit, in quotes |  | of each device; default: its TDP; power in mW, W, kW, MW, GW |", job)
        self.assertIn("| `kind` | one of `power`,", job.split("## [[environment.faults]]")[1])
        self.assertIn("| `num_layers` | whole number | **required** |", model)
        self.assertIn("## [model.moe]", model)

    def test_the_python_package_has_a_page_with_every_public_name(self):
        page = (self.pages / "python-reference.md").read_text()
        names = re.findall(r"^(?:class|def) ([a-zA-Z]\w*)", (ROOT / "python/triplepoint/__init__.pyi").read_text(), re.M)
        self.assertEqual([name for name in names if f"\n## {name}\n" not in page], [])

    def test_links_lead_to_pages_and_pictures(self):
        for page in self.pages.rglob("*.md"):
            for _, _, target in make_site.LINK.findall(re.sub(r"^```.*?^```|`[^`]*`", "", page.read_text(), flags=re.M | re.S)):
                path = target.partition("#")[0]
                if path and not re.match(r"[a-z]+:", target):
                    self.assertTrue((page.parent / path).exists(), f"{page.relative_to(self.pages)}: {target}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
