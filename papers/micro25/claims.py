# SPDX-License-Identifier: Apache-2.0
"""What the paper says of its jobs, held against the results of the studies: claims.toml, which explains its keys."""
import collections
import re
import statistics
import tomllib

from jobs import HERE

VERDICTS = ("agree", "weaker", "opposite", "not asked")
Checked = collections.namedtuple("Checked", "claim verdict results within missing")


def read():
    return tomllib.loads((HERE / "claims.toml").read_text())["claim"]


def match(pattern, name):
    """The text for each * of a pattern, the shortest first; None if the name does not match."""
    found = re.fullmatch("(.*?)".join(map(re.escape, pattern.split("*"))), name)
    return None if found is None else found.groups()


def fill_in(pattern, texts):
    """The pattern with these texts for its *, as far as they go."""
    for text in texts:
        pattern = pattern.replace("*", text, 1)
    return pattern


def value_at(results, key):
    """The number under a dotted key of a job's object in results.json; None if it has none."""
    of, _, last = key.rpartition(".")
    at = results
    for part in of.split(".") if of else ():
        at = at.get(part) if isinstance(at, dict) else None
    if not isinstance(at, dict):
        return None
    # Reasons for throttling that never occurred are left out.
    return at.get(last, 0.0 if of == "throttle" and results.get("throttled_per_gpu") else None)


def number_of(results, number):
    """A key, or a quotient of two: "a / b"."""
    above, *below = (value_at(results, key) for key in number.split(" / "))
    if above is None or not below:
        return above
    return above / below[0] if below[0] else None


def numbers_of(study, claim, pattern):
    found = {name: number_of(results, claim["number"]) for name, results in sorted(study.items()) if match(pattern, name) is not None}
    return {name: number for name, number in found.items() if number is not None}


def compare_pairs(study, claim):
    """The number of each job beside that of its counterpart, which has the same text for each *."""
    pattern, other = claim["jobs"], claim.get("against", "")
    jobs, against = numbers_of(study, claim, pattern), numbers_of(study, claim, other)
    if claim.get("pick"):  # the highest or lowest of each pattern
        pick = {"highest": max, "lowest": min}[claim["pick"]]
        pairs = [(pick(jobs.values()), pick(against.values()) if other else None)] if jobs and (against or not other) else []
    else:
        pairs = [(number, against.get(fill_in(other, match(pattern, name))) if other else None) for name, number in jobs.items()]
        pairs = [pair for pair in pairs if not other or pair[1] is not None]
    if not other:
        return [number for number, _ in pairs]
    return [a - b if claim.get("comparison") == "difference" else a / b for a, b in pairs]


def is_on_claimed_side(claim, result):
    """Whether it differs from equality in the direction that the bounds mean; no number of one job alone is opposite."""
    if not claim.get("against"):
        return True
    equal = 0 if claim.get("comparison") == "difference" else 1
    if claim.get("least", equal - 1) >= equal:
        return result > equal
    return claim.get("most", equal + 1) <= equal and result < equal


def why_missing(study, claim):
    for key in claim["number"].split(" / "):
        if all(value_at(results, key) is None for results in study.values()):
            return f'results have no number "{key}"'
    for pattern in filter(None, (claim["jobs"], claim.get("against"))):
        if all(match(pattern, name) is None for name in study):
            return f"no job is named {pattern}"
    return "no pair of these jobs has the number"


def check(study, claim):
    """study: the objects of results.json by the names of jobs.

    A claim agrees if `share` of the pairs lie within its bounds; else it is weaker if half of them differ in the claimed direction,
    else opposite. It is not asked if it names no number, or no pair of jobs has it.
    """
    if not claim.get("number"):
        return Checked(claim, "not asked", [], 0, "")
    results = sorted(compare_pairs(study, claim))
    if not results:
        return Checked(claim, "not asked", [], 0, why_missing(study, claim))
    within = sum(claim.get("least", result) <= result <= claim.get("most", result) for result in results)
    sides = sum(is_on_claimed_side(claim, result) for result in results)
    verdict = ("agree" if within >= claim.get("share", 1) * len(results) - 1e-9 else
               "weaker" if 2 * sides >= len(results) else "opposite")
    return Checked(claim, verdict, results, within, "")


def check_all(studies):
    """studies: by name, as check() takes them."""
    return [check(studies[claim["study"]], claim) for claim in read()]


def summary(checked):
    count = collections.Counter(each.verdict for each in checked)
    return f"{len(checked)} claims: " + ", ".join(f"{count[verdict]} {verdict}" for verdict in VERDICTS)


def comparison_of(claim):
    if not claim.get("number"):
        return ""
    pick = claim["pick"] + " " if claim.get("pick") else ""
    if not claim.get("against"):
        return f"{pick}{claim['number']} of {claim['jobs']}"
    kind = claim.get("comparison", "ratio")
    return f"{kind} of {pick}{claim['number']}: {claim['jobs']} {'to' if kind == 'ratio' else 'minus'} {claim['against']}"


def bounds_of(claim):
    least, most = claim.get("least"), claim.get("most")
    if least is not None and most is not None:
        return f"{least:g} to {most:g}"
    return f"at least {least:g}" if least is not None else f"at most {most:g}" if most is not None else ""


def results_of(checked):
    if len(checked.results) < 2:
        return "".join(f"{result:.4g}" for result in checked.results)
    return f"{statistics.median(checked.results):.4g} ({checked.results[0]:.4g} to {checked.results[-1]:.4g})"


def table(checked):
    """All claims as a table of Markdown."""
    lines = [f"# Claims of the MICRO'25 paper\n\n{summary(checked)}.\n",
             "| study | claim | place | here | claimed | result: median (range) | within | remark | comparison |", "|" + "---|" * 9]
    for each in checked:
        claim, pairs = each.claim, len(each.results)
        share = f" ({100 * claim['share']:.0f} % needed)" if pairs and claim.get("share", 1) < 1 else ""
        cells = (claim["study"], claim["text"], claim["place"], each.verdict, bounds_of(claim), results_of(each),
                 f"{each.within} of {pairs}{share}" if pairs else "", each.missing or claim.get("remark", ""), f"`{comparison_of(claim)}`")
        lines.append("| " + " | ".join("" if cell == "``" else cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
