"""The turn loop: asks the model, carries out the Actions it wants, and tells every step as a fact."""
