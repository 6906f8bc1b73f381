"""Trajectories where people train: ``ulpack.hooks.transformers``, ``.lightning``, ``.accelerate``.

Each module needs the library of its name. A plain PyTorch loop needs no hook:

    trajectory = ulpack.Trajectory("run")
    if trajectory.exists():
        state = trajectory.load("latest")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
    for step in range(state["step"] + 1 if trajectory.exists() else 0, steps):
        train(step)
        weights, moments = model.state_dict(), optimizer.state_dict()
        trajectory.save(step, {"model": weights, "optimizer": moments, "rng": torch.get_rng_state(), "step": step})
    trajectory.close()
"""
