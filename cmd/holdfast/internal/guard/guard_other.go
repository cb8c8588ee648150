//go:build !unix

// Package guard runs the guardian. There is none on this system.
package guard

// IsGuardian reports whether this process was started as one.
func IsGuardian() bool { return false }

// Main is what a guardian does.
func Main() {}
