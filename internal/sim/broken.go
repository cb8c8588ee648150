package sim

// breakRuntime switches a mutant of the runtime's source on; false: none is built in. An overlay replaces this file.
func breakRuntime(string) bool { return false }
