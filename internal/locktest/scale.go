package locktest

import "testing"

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
