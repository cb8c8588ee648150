package locktest

import (
	"testing"
	"time"
)

// Scaled returns how often a test repeats something: `full` times in a full run, full/100 times with -short, and full/20 times with the race
// detector, which makes everything ten times slower. Scaled never returns less than `least`.
func Scaled(full, least int) int {
	switch {
	case testing.Short():
		return max(full/100, least)
	case raceDetector:
		return max(full/20, least)
	}
	return full
}

// Raced reports whether the race detector is on.
func Raced() bool { return raceDetector }

// anywhere reports whether the run must pass on any machine, however busy. Only a full run can check times.
func anywhere() bool { return raceDetector || testing.Short() }

// Slack is what a test adds to the upper limit of a time: nothing in a full run, a second in a short one or with the race detector.
func Slack() time.Duration {
	if anywhere() {
		return time.Second
	}
	return 0
}

// Unhurried returns a lease that the watchdog can renew in time. In a full run it returns the given lease. With -short or the race detector it
// returns four times the lease, because in these runs the machine may suspend a process for half a second.
func Unhurried(lease time.Duration) time.Duration {
	if anywhere() {
		return 4 * lease
	}
	return lease
}
