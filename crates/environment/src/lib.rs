//! Which sources a container needs, and the ordered environment that they give, each variable with its origin
