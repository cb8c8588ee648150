//go:build unix && !linux

package kin

// Strays returns none, because systems other than Linux have no files with the environments of processes.
func (Run) Strays(bool) []int { return nil }

// All returns none, because systems other than Linux have no files with the environments of processes.
func (Run) All() []int { return nil }

// Dead returns false, because it cannot see which processes are zombies.
func (Run) Dead() bool { return false }
