# SPDX-License-Identifier: Apache-2.0
"""A run in a notebook: the top of its page, where the step's time goes, and power and temperature over time."""
from html import escape

# Colours that can be told apart on light and dark ground, also by the colour-blind (Okabe and Ito).
_PARTS = (("computing", "#0072b2"), ("copying", "#56b4e9"), ("exposed_communication", "#e69f00"), ("waiting", "#d55e00"),
          ("bubble", "#cc79a7"), ("gaps", "#999999"))
_CURVES = (("power_w", "power of a GPU", "W", "#d55e00"), ("die_c", "die temperature", "°C", "#cc79a7"),
           ("sm_clock_mhz", "SM clock", "MHz", "#0072b2"))
_MOST_CURVES, _MOST_POINTS = 8, 400
_WIDTH, _HEIGHT = 260, 60


def run_html(run):
    head = run._core.head()
    parts = [f"<b>{escape(head['title'])}</b>", f"<div style='opacity:.75;max-width:60em'>{escape(head['facts'])}</div>",
             _tiles(head["tiles"]), _step_bar(run.results.get("step_parts_s"), run.step_time_s), _curves(run),
             _findings(head["findings"][:3])]
    return f"<div style='font-size:90%'>{''.join(parts)}</div>"


def _tiles(tiles):
    cells = "".join(f"<div><div style='opacity:.75'>{escape(name)}</div><div style='font-size:130%;font-weight:600'>{escape(value)}</div>"
                    f"<div style='opacity:.75;font-size:85%'>{escape(more)}</div></div>" for name, value, more in tiles)
    return f"<div style='display:flex;flex-wrap:wrap;gap:.6em 2em;margin:.8em 0'>{cells}</div>" if cells else ""


def _step_bar(parts, step_time_s):
    """The disjoint parts of a step as one bar, each with its share."""
    if not parts or not step_time_s:
        return ""
    shares = [(name.replace("_", " "), parts[name] / step_time_s, colour) for name, colour in _PARTS if parts.get(name)]
    bar = "".join(f"<span title='{name} {share:.1%}' style='width:{share:.2%};background:{colour}'></span>" for name, share, colour in shares)
    words = "".join(f"<span style='margin-right:1.2em'><span style='color:{colour}'>■</span> {name} {share:.1%}</span>"
                    for name, share, colour in shares if share >= 0.0005)
    return (f"<div style='display:flex;height:1em;max-width:50em' role='img' aria-label='parts of the step'>{bar}</div>"
            f"<div style='font-size:90%;margin:.2em 0 .8em'>{words}</div>")


def _points(series, begin, end, low, high):
    times, values = series.times_ns, series.values
    every = max(1, len(values) // _MOST_POINTS)
    across, up = _WIDTH / max(1, end - begin), (_HEIGHT - 4) / ((high - low) or 1)
    return " ".join(f"{(times[i] - begin) * across:.1f},{_HEIGHT - 2 - (values[i] - low) * up:.1f}" for i in range(0, len(values), every))


def _curve(all_series, title, unit, colour):
    """The devices' curves on one axis."""
    low, high = min(min(one.values) for one in all_series), max(max(one.values) for one in all_series)
    begin, end = min(one.times_ns[0] for one in all_series), max(one.times_ns[-1] for one in all_series)
    lines = "".join(f"<polyline points='{_points(one, begin, end, low, high)}' fill='none' stroke='{colour}' stroke-opacity='.6'/>"
                    for one in all_series)
    return (f"<figure style='margin:0 1.5em .5em 0;display:inline-block'><figcaption style='font-size:90%'>{title}: {low:.4g} to {high:.4g} "
            f"{unit}, {(end - begin) * 1e-9:.3g} s</figcaption><svg width='{_WIDTH}' height='{_HEIGHT}' viewBox='0 0 {_WIDTH} {_HEIGHT}' "
            f"role='img' aria-label='{title} over time'>{lines}</svg></figure>")


def _curves(run):
    drawings = []
    for signal, title, unit, colour in _CURVES:
        devices = [device for name, device, of_node in run.signals if name == signal and not of_node][:_MOST_CURVES]
        all_series = [one for one in (run.series(signal, device) for device in devices) if len(one) > 1]
        if all_series:
            drawings.append(_curve(all_series, title, unit, colour))
    return f"<div>{''.join(drawings)}</div>"


def _findings(sentences):
    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>" if sentences else ""
