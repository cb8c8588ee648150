//go:build unix && !linux

package kin

// Strays finds none: other systems do not show environments in files.
func (Run) Strays(bool) []int { return nil }

// All finds none.
func (Run) All() []int { return nil }
