"""Math problems: one reply each, judged by its boxed answer."""
