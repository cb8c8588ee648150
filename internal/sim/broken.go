package sim

// breakRuntime switches on a mutant of the runtime's source, and reports whether it could. This version has no mutants; an overlay
// replaces the file in a build that has them.
func breakRuntime(string) bool { return false }
