package scripts

// All is every script of the package.
func All() []*Script { return all }
