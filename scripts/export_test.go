package scripts

// All returns every script of the package.
func All() []*Script { return all }
