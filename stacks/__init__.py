"""What gets provisioned: settings, one module a stack, and the constructs and handlers they use."""
