# SPDX-License-Identifier: Apache-2.0
"""Formulas as docs/ writes them (plain text) -> MathML, which browsers set without a script.

    q_i = (T_last,i - T_air,i) / R_i        heat that leaves the sink

A gap of three spaces ends a formula; what follows without a relation is a remark. " / " divides the whole product before it, "a/b" only its
neighbours. One letter is a variable; words are names, whose underscores are spaces, and so is what follows a variable's underscore.
"""
import html
import re

TOKEN = re.compile(r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[A-Za-z]+\d*(?:_[A-Za-z0-9]+)*(?:,[a-z](?!\w)|(?<=_k)[+-]1)?'?)"
                   r"|(?P<sign><=|>=|[-+*/^=<>:,;()\[\]{}%]))")
RELATION = re.compile(r"[^<>]=|<=|>=| < ")
SENTENCE = re.compile(r"(?:\b[a-z]{2,} ){3}")
SIGNS = {"<=": "≤", ">=": "≥", "-": "−", "*": "·", "x": "×", "<": "&lt;", ">": "&gt;"}
GREEK = {"rho": "ρ"}
CLOSING = {"(": ")", "[": "]", "{": "}"}
JOINING = {"+", "-", "=", "<=", ">=", "<", ">", ":", ",", ";", "*", "x", "%"}


class FormulaError(ValueError):
    pass


def tokens_of(text):
    """[(kind, text, is there a space before)]"""
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise FormulaError(f"cannot read {text[at:]!r}")
        kind = match.lastgroup
        spaced = match.start(kind) > at
        word = match[kind]
        is_times = word == "x" and spaced and text[match.end():match.end() + 1] == " "
        found.append(("sign" if is_times else kind, word, spaced))
        at = match.end()
    return found


def row(parts):
    return parts[0] if len(parts) == 1 else f"<mrow>{''.join(parts)}</mrow>"


def sign(text):
    return f"<mo>{SIGNS.get(text, text)}</mo>"


def word(text):
    if text in GREEK:
        return f"<mi>{GREEK[text]}</mi>"
    return f"<mi>{text}</mi>" if len(text) == 1 else f"<mtext>{html.escape(text.replace('_', ' '))}</mtext>"


def subscripted(text):
    """(base, subscript) of T_air,i, L0, dT_0; a name of several letters has none."""
    found = re.fullmatch(r"(d?[A-Za-z]|sum)_(.+?)('?)", text) or re.fullmatch(r"([A-Za-z]+)_([a-z])('?)", text) or re.fullmatch(r"([A-Za-z])(\d+)('?)", text)
    return (found[1] + found[3], found[2]) if found else (text, None)


def name(text):
    base, subscript = subscripted(text)
    prime = base.endswith("'")
    base = base.rstrip("'")
    body = sign("∑") if base == "sum" and subscript else word(base)
    if prime:
        body = f"<msup>{body}<mo>′</mo></msup>"
    if subscript is None:
        return body
    shape = "munder" if base == "sum" else "msub"
    return f"<{shape}>{body}{word(subscript.replace('-', '−'))}</{shape}>"


class Parser:
    def __init__(self, text):
        self.tokens = tokens_of(text)
        self.at = 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "", False)

    def take(self):
        token = self.peek()
        self.at += 1
        return token

    def tight(self, text):
        """The next token is this sign, and no space surrounds it."""
        after = self.tokens[self.at + 1:self.at + 2]
        return self.peek() == ("sign", text, False) and bool(after) and not after[0][2]

    def group(self, opening):
        inside = self.row_until(CLOSING[opening])
        if self.take()[1] != CLOSING[opening]:
            raise FormulaError(f"no {CLOSING[opening]} for {opening}")
        return inside

    def base(self):
        """(markup, the markup inside its parentheses or None)"""
        kind, text, _ = self.take()
        if kind == "number":
            return f"<mn>{text}</mn>", None
        if kind == "name" and self.peek() == ("sign", "(", False):
            self.take()
            return self.call(text, self.group("(")), None
        if kind == "name":
            return name(text), None
        if text in CLOSING:
            inside = self.group(text)
            return row([sign(text), inside, sign(CLOSING[text])]), inside if text == "(" else None
        raise FormulaError(f"unexpected {text!r}")

    @staticmethod
    def call(text, inside):
        if text == "sqrt":
            return f"<msqrt>{inside}</msqrt>"
        left, right = ("⌈", "⌉") if text == "ceil" else ("(", ")")
        return row(([] if text == "ceil" else [name(text)]) + [sign(left), inside, sign(right)])

    def power(self):
        body, bare = self.base()
        while self.peek()[1] == "^":
            self.take()
            exponent, inside = self.power()
            body, bare = f"<msup>{body}{inside or exponent}</msup>", None
        return body, bare

    def factor(self):
        """(markup, bare) with a/b of neighbours, where 6h is one neighbour."""
        body, bare = self.power()
        while self.tight("/"):
            self.take()
            below, inside = self.power()
            if below.startswith("<mn>") and self.peek()[0] == "name" and not self.peek()[2]:
                below, inside = row([below, self.power()[0]]), None
            body, bare = f"<mfrac>{row([bare or body])}{row([inside or below])}</mfrac>", None
        return body, bare

    def product(self):
        """Factors side by side, divided where " / " follows."""
        done, parts = [], [self.factor()]
        while True:
            kind, text, _ = self.peek()
            if text == "/":
                self.take()
                above = parts[0][1] if len(parts) == 1 and parts[0][1] else row(spaced([part[0] for part in parts]))
                below, inside = self.factor()
                done.append(f"<mfrac>{above}{inside or below}</mfrac>")
                parts = []
            elif kind in ("number", "name") or text in CLOSING:
                parts.append(self.factor())
            else:
                return row(spaced(done + [part[0] for part in parts]))

    def row_until(self, closing=None):
        parts = []
        while self.peek()[0] != "end" and self.peek()[1] != closing:
            if self.peek()[1] in JOINING:
                parts.append(sign(self.take()[1]))
            else:
                parts.append(self.product())
        return row(parts or ["<mrow></mrow>"])


def spaced(parts):
    gap = '<mspace width="0.22em"/>'
    return [piece for part in parts for piece in (gap, part)][1:]


def math(text):
    parser = Parser(text)
    body = parser.row_until()
    if parser.peek()[0] != "end":
        raise FormulaError(f"unexpected {parser.peek()[1]!r} in {text!r}")
    return f'<math display="inline"><mstyle displaystyle="true">{body}</mstyle></math>'


def segments(line):
    """A line's formulas and remarks; the first segment of a line that continues one begins with a sign."""
    text = re.sub(r"(?<=\S) +(?==)", " ", line.strip())  # aligned relations
    text = re.sub(r"(?<==) +", " ", text)
    return [part for part in re.split(r" {3,}", text) if part]


def is_formula(segment):
    return bool(RELATION.search(segment)) or segment[0] in "+-"


def is_formula_block(text):
    """A block of formulas; sentences with an equals sign between them are not."""
    lines = [line for line in text.splitlines() if line.strip()]
    if any(is_formula(part) and SENTENCE.search(part) for line in lines for part in segments(line)):
        return False
    return sum(bool(RELATION.search(line)) or line.strip()[0] in "+-" for line in lines) * 2 > len(lines)


def line_html(line):
    cells = [math(part.rstrip(",")) if is_formula(part) else f"<span>{html.escape(part)}</span>" for part in segments(line)]
    indent = ' class="continued"' if line.startswith(" ") else ""
    return f"<div{indent}>{' '.join(cells)}</div>"


def block_html(text):
    lines = "".join(line_html(line) for line in text.splitlines() if line.strip())
    return f'<div class="formulas">{lines}</div>'
