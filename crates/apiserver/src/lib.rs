//! HTTP to store: authenticate, authorise, admit, act, render
