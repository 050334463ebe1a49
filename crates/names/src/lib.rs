//! Every string with a grammar is a type: environment variable names, DNS labels and subdomains, config keys
