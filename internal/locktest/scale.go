package locktest

import (
	"testing"
	"time"
)

// Scaled is how often to try: the full number, a twentieth of it with the race detector, which makes everything ten times
// slower, and a hundredth with -short; never fewer than least.
func Scaled(full, least int) int {
	switch {
	case testing.Short():
		return max(full/100, least)
	case raceDetector:
		return max(full/20, least)
	}
	return full
}

// Raced tells whether the race detector looks on.
func Raced() bool { return raceDetector }

// anywhere tells that the run is for any machine, however busy with something else. Times mean something in a full run alone.
func anywhere() bool { return raceDetector || testing.Short() }

// Slack is added to what a time is asserted to be at most: nothing in a full run, a second in a short one or with the race detector.
func Slack() time.Duration {
	if anywhere() {
		return time.Second
	}
	return 0
}

// Unhurried is a lease that the watchdog must keep: short in a full run, four times as long in a short one or with the race detector,
// where a process may not be run for half a second.
func Unhurried(lease time.Duration) time.Duration {
	if anywhere() {
		return 4 * lease
	}
	return lease
}
