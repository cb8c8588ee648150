//go:build !unix

// Package guard runs the guardian, which does not exist on this system.
package guard

// IsGuardian reports whether this process is a guardian.
func IsGuardian() bool { return false }

// Main does nothing.
func Main() {}
