//go:build !unix

// Package guard has no guardian on this system.
package guard

// IsGuardian reports whether this process is a guardian.
func IsGuardian() bool { return false }

// Main does nothing.
func Main() {}
