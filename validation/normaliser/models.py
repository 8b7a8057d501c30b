# SPDX-License-Identifier: Apache-2.0
"""The model that a row means: by its name, with what it prints of its shape; else built from the shape, or from its number of parameters."""
import copy
import math
import re

from . import library
from .cells import Unreadable, number_after

LONG = {"L": "num_layers", "h": "hidden_size", "a": "num_attention_heads", "kv": "num_query_groups", "f": "ffn_hidden_size", "V": "vocabulary_size", "d": "kv_channels"}
FAMILY_KEYS = ("activation", "normalization", "position_embedding", "tied_embeddings", "biases")


def pieces_of(spelling):
    """Words, numbers and sizes in small letters: "Qwen3_30B_a3B" is qwen 3 30b a 3b. A number is a size if b, m or t follows and no letter after that."""
    found = re.findall(r"\d+(?:\.\d+)*(?:[bmt](?![a-z]))?|[a-z]+(?:\+\+)?", spelling.lower())
    return [piece for piece in found]


def fits(pieces, wanted):
    at = 0
    for piece in wanted.split():
        try:
            at = pieces.index(piece, at) + 1
        except ValueError:
            return False
    return True


def family_of(pieces):
    for family in library.rules("models")["family"]:
        if any(fits(pieces, words) for words in family["words"]):
            return family
    raise AssertionError("the last family is for everybody")


def family_named(name):
    return next(family for family in library.rules("models")["family"] if family["name"] == name)


class Model:
    """`base`: library name, or None. `shape`: all keys of the model. `given`: those that a job must write beside the base."""

    def __init__(self, base, shape):
        self.base, self.shape, self.given = base, copy.deepcopy(shape), {}
        if base is None:
            self.given = flat(self.shape)

    def set(self, key, value):
        at, parts = self.shape, key.split(".")
        for part in parts[:-1]:
            at = at.setdefault(part, {})
        if at.get(parts[-1]) != value:
            at[parts[-1]] = value
            self.given[key] = value

    def get(self, key, default=None):
        at = self.shape
        for part in key.split("."):
            if not isinstance(at, dict) or part not in at:
                return default
            at = at[part]
        return at

    @property
    def experts(self):
        return self.shape.get("moe")


def flat(table, prefix=""):
    out = {}
    for key, value in table.items():
        if isinstance(value, dict):
            out.update(flat(value, f"{prefix}{key}."))
        else:
            out[prefix + key] = value
    return out


def from_rule(rule):
    if "base" in rule:
        model = Model(rule["base"], library.model(rule["base"]))
        if "V" in rule:
            model.set("vocabulary_size", rule["V"])
        return model
    family = family_named(rule["like"])
    shape = {LONG[key]: rule[key] for key in LONG if key in rule}
    shape.setdefault("num_query_groups", shape["num_attention_heads"])
    shape.setdefault("kv_channels", shape["hidden_size"] // shape["num_attention_heads"])
    shape["sequence_length"] = family["sequence"]
    shape.update({key: family[key] for key in FAMILY_KEYS})
    if "E" in rule:
        shape["moe"] = {"num_experts": rule["E"], "router_topk": rule["top"], "ffn_hidden_size": rule["fe"]}
        if rule.get("fs"):
            shape["moe"]["shared_expert_ffn_hidden_size"] = rule["fs"]
        if rule.get("dense"):
            shape["moe"]["num_dense_layers"] = rule["dense"]
    return Model(None, shape)


def named(spelling):
    """The model of this spelling; a reason why there can be none; or nothing."""
    pieces, rules = pieces_of(spelling), library.rules("models")
    for words, why in rules["unsupported"]:
        if fits(pieces, words):
            raise Unreadable(f"model \"{spelling}\" cannot be expressed ({why})")
    if spelling.lower() in library.models():
        return Model(spelling.lower(), library.model(spelling.lower()))
    for named_rules in ([*rules["names"], *rules["shapes"]], rules["general_names"]):
        fitting = [rule for rule in named_rules if fits(pieces, rule[0])]
        if fitting:  # the one that says most; the first of those
            _, meant = max(fitting, key=lambda rule: len(rule[0].split()))
            return from_rule(meant) if isinstance(meant, dict) else Model(meant, library.model(meant))
    return None


# Shapes of GPT-3 (Brown et al. 2020, table 2.1) and of larger models of Megatron's papers: parameters in billions, layers, hidden size. Between them a model of so many
# parameters is looked for.
WIDTHS = [(0.06, 8, 512), (0.125, 12, 768), (0.35, 24, 1024), (0.76, 24, 1536), (1.3, 24, 2048), (2.7, 32, 2560), (6.7, 32, 4096), (13, 40, 5120), (30, 48, 7168),
          (70, 80, 8192), (175, 96, 12288), (405, 126, 16384), (530, 105, 20480), (1008, 128, 25600)]


def width_of(billions):
    """A hidden size for so many parameters: of 128-dimensional heads, as many as tensor ranks can share."""
    if billions <= WIDTHS[0][0]:
        return WIDTHS[0][2]
    for (small, _, narrow), (large, _, wide) in zip(WIDTHS, WIDTHS[1:]):
        if billions <= large:
            share = math.log(billions / small) / math.log(large / small)
            step = 1024 if narrow >= 4096 else 512 if narrow >= 2048 else 256
            return round(narrow * (wide / narrow) ** share / step) * step
    return WIDTHS[-1][2]


def heads_of(hidden, ranks):
    """Heads as near to 128 dimensions as can be dealt out to this many ranks."""
    best, distance = 1, 1 << 20
    for size in range(32, 257):
        if hidden % size == 0 and hidden // size % max(1, ranks) == 0 and abs(size - 128) < distance:
            best, distance = hidden // size, abs(size - 128)
    return best


def layer_parameters(shape, dense=True):
    """Of one layer: attention and, of a dense layer, its MLP."""
    h, heads, groups, head = (shape[key] for key in ("hidden_size", "num_attention_heads", "num_query_groups", "kv_channels"))
    latent = shape.get("latent_attention")
    if latent:
        head_in = head + latent["rope_head_dim"]
        attention = (h * (latent["query_rank"] or h) + latent["query_rank"] * heads * head_in if latent["query_rank"] else h * heads * head_in)
        attention += h * (latent["key_value_rank"] + latent["rope_head_dim"]) + latent["key_value_rank"] * heads * (head + latent["value_head_dim"])
        attention += heads * latent["value_head_dim"] * h
    else:
        attention = h * heads * head * 2 + h * groups * head * 2
    return attention + (matrices(shape) * h * shape["ffn_hidden_size"] if dense else 0)


def matrices(shape):
    return 3 if shape["activation"] == "swiglu" else 2


def parameters(shape):
    """Dense and expert parameters of the whole, near enough to decide what fits."""
    h, layers = shape["hidden_size"], shape["num_layers"]
    ends = shape["vocabulary_size"] * h * (1 if shape.get("tied_embeddings") else 2)
    pattern, moe = shape.get("layer_pattern"), shape.get("moe")
    if pattern:
        width = shape.get("state_space", {}).get("num_heads", 0) * shape.get("state_space", {}).get("head_dim", 0)
        attention = layer_parameters(shape, dense=False)
        dense = pattern.count("*") * attention + pattern.count("M") * 3 * h * width + pattern.count("-") * matrices(shape) * h * shape["ffn_hidden_size"]
        expert_layers = pattern.count("E")
    else:
        first = moe.get("num_dense_layers", 0) if moe else 0
        expert_layers = (layers - first) // (moe.get("layer_period") or 1) if moe else 0
        dense = (layers - expert_layers) * layer_parameters(shape) + expert_layers * layer_parameters(shape, dense=False)
    if not moe:
        return ends + dense, 0
    inner = moe.get("latent_size") or h
    dense += expert_layers * (matrices(shape) * h * moe.get("shared_expert_ffn_hidden_size", 0) + h * moe["num_experts"])
    return ends + dense, expert_layers * moe["num_experts"] * matrices(shape) * inner * moe["ffn_hidden_size"]


def experts_in(row):
    """What the row's words say of experts: how many, how many a token, parameters used by one token in billions."""
    text = f"{row.text('model')}; {row.text('extra')}; {row.text('ffn')}"
    found = {}
    width = number_after(row.text("extra"), r"moe[-_ ]ffn[-_ ](?:hidden[-_ ]size)?")
    if width:
        found["width"] = width
    per = re.search(r"\b(\d{1,3}) ?[x×] ?(\d+(?:\.\d+)?) ?b\b", text, re.I)
    if per:
        found.update(count=int(per[1]), each=float(per[2]))
    active = re.search(r"\bA(\d+(?:\.\d+)?) ?B\b|(\d+(?:\.\d+)?) ?B[- ]?(?:active|activated)|active[^;,]{0,12}?(\d+(?:\.\d+)?) ?B\b", text, re.I)
    if active:
        found["active"] = float(next(filter(None, active.groups())))
    count = re.search(r"\b(\d{1,4})[- ]?(?:routed )?experts?\b|\bexperts? ?[=:] ?(\d{1,4})|\bE(\d{1,4})\b|\b(\d{1,4})E\b|num_experts ?[=:]? ?(\d{1,4})", text)
    if count and "count" not in found:
        found["count"] = int(next(filter(None, count.groups())))
    top = re.search(r"top[-_ ]?k? ?[=:]? ?(\d{1,2})\b", text, re.I)
    if top:
        found["top"] = int(top[1])
    if "count" in found and found["count"] < 2:
        del found["count"]
    moe = re.search(r"\bmoe\b|mixture of experts|switch|gshard", text, re.I)
    return found if found.keys() & {"count", "active"} or moe else None


def size_in(row):
    """Billions of parameters, as printed or as the name says."""
    billions = row.amount("params_b")
    if billions:
        return billions
    sizes = [(float(number), unit) for number, unit in re.findall(r"(?<![a-z\d.])(\d+(?:\.\d+)?) ?([bmt])(?![a-z])", row.text("model").lower())]
    if not sizes:
        return None
    number, unit = sizes[0]
    return number * {"b": 1, "m": 1e-3, "t": 1e3}[unit]


def built(row, assume):
    """A model of the shape printed; of so many parameters where no shape is."""
    pieces = pieces_of(row.text("model"))
    family = family_of(pieces)
    if family["name"] == "gpt" and not named_like_gpt(row, pieces):
        family = family_named("llama")
    billions, hidden, layers = size_in(row), row.count("hidden"), row.count("layers")
    moe = experts_in(row)
    if not hidden and not billions and not (moe or {}).get("each"):
        raise Unreadable(f"no model is called \"{row.text('model')}\", and neither its hidden size nor its parameters are printed")
    dense_size = billions
    if moe and not billions and "each" in moe:
        dense_size = moe["each"]
    elif moe and billions:
        dense_size = moe.get("each") or moe.get("active") or billions / 4
    if not hidden and not layers:
        assume(f"a {family['name']}-like model of {dense_size if moe else billions:g}B parameters" + (" a token" if moe else ""))
    if not hidden:
        hidden = width_of(dense_size)
        if layers:  # as wide as its layers leave
            hidden = max(128, round(math.sqrt(dense_size * 1e9 / layers / (4 + 3 * family["wide"] if family["activation"] == "swiglu" else 4 + 2 * family["wide"])) / 128) * 128)
    heads = row.count("heads") or heads_of(hidden, row.count("tp") or 1)
    groups = groups_in(row) or family.get("groups") or heads
    if heads % groups:
        groups = heads
    ffn = row.count("ffn")
    gated = family["activation"] == "swiglu"
    wide = ffn or max(128, round(family["wide"] * hidden / 128) * 128)
    shape = {"num_layers": layers or 1, "hidden_size": hidden, "ffn_hidden_size": wide, "num_attention_heads": heads, "num_query_groups": groups,
             "kv_channels": max(1, hidden // heads), "vocabulary_size": row.count("vocab") or family["vocabulary"], "sequence_length": family["sequence"]}
    shape.update({key: family[key] for key in FAMILY_KEYS})
    if not layers:
        shape["num_layers"] = layers_for(shape, dense_size)
        assume(f"{shape['num_layers']} layers")
    if moe:
        add_experts(shape, moe, billions, ffn, gated)
    assume(f"{'gated' if gated else 'plain'} MLP of {shape['ffn_hidden_size']}, {heads} heads and {groups} of keys and values, vocabulary {shape['vocabulary_size']}"
           if not (row.count("ffn") and row.count("heads") and row.count("vocab")) else f"a {family['name']}-like model of the shape printed")
    return Model(None, shape)


def named_like_gpt(row, pieces):
    """A name that says nothing is a GPT's where its MLP is four times as wide, or on chips and at dates before Llama's shape became the usual one (2023)."""
    hidden, ffn = row.count("hidden"), row.count("ffn")
    if any(fits(pieces, word) for word in ("gpt", "opt", "megatron", "palm", "gopher", "chinchilla", "turing", "glam", "lamda")):
        return True
    if hidden and ffn:
        return ffn >= 3.6 * hidden and not experts_in(row)
    if experts_in(row):
        return False
    return not (row.is_since("2023-07") or re.search(r"H[128]00|H20\b|B[123]00|GB[23]00|MI3", row.text("gpu"), re.I))


def groups_in(row):
    text = f"{row.text('heads')}; {row.text('model')}; {row.text('extra')}"
    return number_after(text, r"kv[-_ ]?heads|num_key_value_heads|query[-_ ]groups|num_query_groups|gqa|kv_channels_groups") or next(
        (int(n) for n in re.findall(r"\b(\d{1,3}) (?:kv|key.?value) heads", text, re.I)), None)


def add_experts(shape, moe, billions, ffn, gated):
    """Experts as printed; their width from all and active parameters where it is not."""
    count = moe.get("count") or (128 if moe.get("active") else 8)
    top = min(count, moe.get("top") or (2 if count <= 16 else 8))
    width = moe.get("width") or ffn
    if billions and shape["num_layers"] > 1 and not width:
        dense = parameters({**shape, "ffn_hidden_size": 1})[0]
        width = max(128, round((billions * 1e9 - dense) / (shape["num_layers"] * count * (3 if gated else 2) * shape["hidden_size"]) / 64) * 64)
    elif not width:
        width = shape["ffn_hidden_size"] if count <= 16 else max(128, shape["hidden_size"] * 3 // 8 // 64 * 64)
    shape["moe"] = {"num_experts": count, "router_topk": top, "ffn_hidden_size": width}


def layers_for(shape, billions):
    """As many as make up the parameters."""
    one = {**shape, "num_layers": 1}
    ends = shape["vocabulary_size"] * shape["hidden_size"] * (1 if shape["tied_embeddings"] else 2)
    each = sum(parameters(one)) - ends
    layers = round((billions * 1e9 - ends) / each)
    if not 1 <= layers <= 4096:
        return max(1, min(4096, layers))
    return layers


def reshape(model, row, assume):
    """What a row prints of a model that has a name: its layers, and all that goes with another width."""
    layers, hidden, heads, ffn, vocabulary = (row.count(key) for key in ("layers", "hidden", "heads", "ffn", "vocab"))
    old_hidden, old_heads, old_groups = model.get("hidden_size"), model.get("num_attention_heads"), model.get("num_query_groups")
    if layers:
        model.set("num_layers", layers)
    other_width = hidden is not None and hidden != old_hidden
    other_heads = heads is not None and heads != old_heads
    hidden = hidden or old_hidden
    if other_width:
        wide = model.get("ffn_hidden_size") / old_hidden
        model.set("hidden_size", hidden)
        if not ffn:
            model.set("ffn_hidden_size", 4 * hidden if wide == 4 else max(128, round(wide * hidden / 128) * 128))
    if "latent_attention" not in model.shape and (other_width or other_heads):
        if heads:
            model.set("num_attention_heads", heads)
        elif hidden % old_heads:
            model.set("num_attention_heads", heads_of(hidden, row.count("tp") or 1))
        heads = model.get("num_attention_heads")
        groups = groups_in(row) or (heads if old_groups == old_heads else old_groups)
        model.set("num_query_groups", groups if heads % groups == 0 else heads)
        model.set("kv_channels", max(1, model.get("hidden_size") // heads))
    if ffn and model.experts and ffn != model.get("ffn_hidden_size") and not model.experts.get("num_dense_layers"):
        model.set("moe.ffn_hidden_size", ffn)
        model.set("ffn_hidden_size", ffn)
    elif ffn and not (model.experts and ffn == model.experts["ffn_hidden_size"]):
        model.set("ffn_hidden_size", ffn)
    if vocabulary:
        model.set("vocabulary_size", vocabulary)
    pattern = model.get("layer_pattern")
    if layers and pattern and layers < len(pattern):
        model.set("layer_pattern", pattern[:layers])
    # A model cut to a few layers keeps one of its leading dense layers.
    dense = model.get("moe.num_dense_layers", 0)
    if layers and dense and layers < 2 * dense + 2:
        model.set("moe.num_dense_layers", min(1, dense))
    if model.experts:
        said = experts_in(row) or {}
        if said.get("count") and "each" not in said and row.says(r"experts"):
            model.set("moe.num_experts", said["count"])


def model_of(row, assume):
    spelling = row.text("model")
    model = named(re.sub(r"\(.*?\)", " ", spelling)) or named(spelling)  # first without what is said in brackets of it
    printed = row.count("hidden") and row.count("layers")
    if model and printed and disagrees(model, row):
        model = None
    model = model or relative(row, assume)
    if model is None:
        model = built(row, assume)
        assume_name = f"model \"{spelling}\"" if spelling else "an unnamed model"
        assume(f"{assume_name} by its shape")
    else:
        reshape(model, row, assume)
    sequence = row.count("seq")
    if not sequence:
        sequence = number_after(f"{row.text('notes')}; {row.text('extra')}", r"\bseq(?:[_ ]?len(?:gth)?)?") or (384 if re.search("SQuAD", row.text("workload"), re.I) else model.get("sequence_length"))  # max_seq_length of BERT's run_squad.py
        assume(f"sequences of {sequence}")
    model.set("sequence_length", sequence)
    factor = re.search(r"capacity[ _]factor ?[=:]? ?(\d+(?:\.\d+)?)", row.words, re.I)
    if factor and model.experts:
        model.set("moe.capacity_factor", float(factor[1]))
        model.set("moe.pad_to_capacity", True)
    elif model.experts and row.says(r"dropless|no token drop"):
        model.shape["moe"].pop("capacity_factor", None)
    take_prediction(model, row, assume)
    return model


def relative(row, assume):
    """The library's one model of the same first word, depth, width, heads and experts."""
    printed, experts = [row.count(title) for title in ("layers", "hidden", "heads")], (experts_in(row) or {}).get("count")
    found = []
    for name in library.models() if all(printed) and experts else ():
        shape = library.model(name)
        if (pieces_of(name)[:1] == pieces_of(row.text("model"))[:1] and [shape[LONG[key]] for key in "Lha"] == printed
                and shape.get("moe", {}).get("num_experts") == experts):
            found.append(name)
    if len(found) != 1:
        return None
    assume(f"{found[0]}, which has its shape")
    return Model(found[0], library.model(found[0]))


def disagrees(model, row):
    """A name of the library for a model that prints both another depth and another width is no name for it; neither for one whose experts are not its own."""
    return row.count("layers") != model.get("num_layers") and row.count("hidden") != model.get("hidden_size") and "latent_attention" not in model.shape


def take_prediction(model, row, assume):
    """Tokens predicted beside the next: as the words say; else as many as TFLOP/s over tokens/s speak of (Megatron's count of FLOPs a token, within 2 %)."""
    if "multi_token_prediction" not in model.shape:
        return
    off = re.search(r"(no|without|w/o|disable[sd]?) ?(mtp|multi.token)|mtp ?[=:]? ?(0|off|no|false)\b", row.words, re.I)
    said = re.search(r"mtp(?: (?:depth|layers?))? ?[=:]? ?([12])\b|\bmtp\b|multi.token prediction", row.words, re.I)
    if off or said:
        model.set("multi_token_prediction.depths", 0 if off else int(said[1] or 1))
        return
    tflops, tokens = row.amount("tflops_per_gpu"), row.amount("tokens_per_s_per_gpu")
    if not tflops or not tokens:
        return
    printed, best, nearest = tflops * 1e12 / tokens, None, 0.02
    for depths in range(3):
        away = abs(printed / megatron_flop_of_token(model.shape, depths) - 1)
        if away < nearest:
            best, nearest = depths, away
    if best is not None and best != model.get("multi_token_prediction.depths"):
        model.set("multi_token_prediction.depths", best)
        assume(f"{best} tokens predicted beside the next, as its FLOPs count")


def megatron_flop_of_token(shape, depths):
    """Model FLOPs of a token in all passes, half the square of attention: 6 for each parameter that it uses, and what attention and scans do."""
    h, moe, space, latent = shape["hidden_size"], shape.get("moe"), shape.get("state_space"), shape.get("latent_attention")
    heads = shape["num_attention_heads"]
    width = (shape["kv_channels"] + latent["rope_head_dim"] + latent["value_head_dim"]) / 2 if latent else shape["kv_channels"]
    parts = {"*": 6 * layer_parameters(shape, dense=False) + 6 * shape["sequence_length"] * heads * width, "-": 6 * matrices(shape) * h * shape["ffn_hidden_size"]}
    if moe:
        inner = moe.get("latent_size") or h
        used = matrices(shape) * (moe["router_topk"] * inner * moe["ffn_hidden_size"] + h * moe.get("shared_expert_ffn_hidden_size", 0)) + h * moe["num_experts"]
        parts["E"] = 6 * (used + (2 * h * inner if "latent_size" in moe else 0))
    if space:
        inner = space["num_heads"] * space["head_dim"]
        parts["M"] = 6 * h * (3 * inner + 2 * space["num_groups"] * space["state_size"] + space["num_heads"]) + 21 * inner * space["state_size"]
    dense = (moe.get("num_dense_layers", 0) if moe else shape["num_layers"])
    pattern = shape.get("layer_pattern") or "*-" * dense + "*E" * (shape["num_layers"] - dense)
    further = shape["multi_token_prediction"].get("layer_pattern") or pattern[-2:]
    head = 6 * h * shape["vocabulary_size"]
    return head + sum(parts[part] for part in pattern) + depths * (head + 12 * h * h + sum(parts[part] for part in further))
