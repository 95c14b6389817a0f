"""The colour words of the reward.

The benchmark defines its reward by this list and its order; a word may hide inside another ("tan"
in "standard"), with the same effect as there.
"""

_COLOURS = (
    "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze "
    "brown burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas "
    "coffee cognac copper coral cranberry cream crystal dark denim eggplant elephant espresso "
    "fuchsia gold granite grape graphite grass gray green grey heather indigo ivory ivy khaki "
    "lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha "
    "multicolor mushroom mustard natural navy nude olive orange peach pewter pink plum purple "
    "rainbow red rose royal rust sand sapphire seashell silver skull slate steel stone stonewash "
    "sunflower tan taupe teal tiger turquoise violet walnut wheat white wine yellow"
)
COLOUR_WORDS = tuple(_COLOURS.split())


def colour_or_self(option: str | tuple[str, str]) -> str | tuple[str, str]:
    """The first colour word in an option, or the option: a value, or a (name, value) pair.

    A pair holds a colour only if its name or value *is* one, not if it contains one.
    """
    return next((word for word in COLOUR_WORDS if word in option), option)
