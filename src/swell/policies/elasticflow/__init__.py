"""ElasticFlow: admission, promises, the plan that keeps them, and what is left over."""
