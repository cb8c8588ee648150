package sim

// breakRuntime switches on a mutant of the runtime's source. It returns false when none is built in. An overlay replaces this file.
func breakRuntime(string) bool { return false }
