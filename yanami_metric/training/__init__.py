"""In training: scores of a model while it learns, as curves; the checks of one image as a reward.

inloop.py     `InLoop`: called from any training loop, also under several processes
callback.py   `YanamiCallback`: the same for the Trainer of transformers (the only module that imports it)
reward.py     `reward`, `rewards`: the checks of one slot as a number for reinforcement learning
trackers.py   `Trackio`, `Wandb`, `TensorBoard`: where curves and pictures go
watching.py   `yanami watch`: each checkpoint that appears in a folder, in a process of its own

They are imported from their modules; nothing heavy is imported before it is used.
"""
