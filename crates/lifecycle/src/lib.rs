//! What to do next with a pod: desired, observed, memory and now in, actions out
