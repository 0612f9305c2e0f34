"""`mtrl report`: one self-contained page about a job, a rehearsal or an evaluation."""
