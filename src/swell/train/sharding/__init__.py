"""Training state of which each worker of a gang holds a part."""
