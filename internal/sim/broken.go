package sim

// breakRuntime switches on a mutant of the runtime's source, and reports whether it could. In this version it never can. A build with mutants
// replaces this file (Overlay).
func breakRuntime(string) bool { return false }
