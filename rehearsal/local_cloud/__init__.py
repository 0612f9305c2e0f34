"""An account on this machine that the real CDK CLI deploys to, with the rehearsal as SageMaker."""
