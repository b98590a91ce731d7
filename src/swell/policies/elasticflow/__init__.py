"""ElasticFlow: which newcomers are refused, what promises need, who gets what is left over."""
