package sim

// breakRuntime switches on a mutant of the runtime's source, and reports whether this build has such mutants. An ordinary build has none. A build
// with mutants replaces this file (Overlay).
func breakRuntime(string) bool { return false }
